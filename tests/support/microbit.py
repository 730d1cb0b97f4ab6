"""The micro:bit for tests. Where there can be none, a test that needs one is reported as skipped
with the reason; it never passes.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from hil.boards.microbit.board import FIRMWARE, MicrobitBoard, why_not

DETAILS = """# DAPLink Firmware - see https://mbed.com/daplink\r
Unique ID: {unique_id}000051114e45004b001a000d000000000097969901\r
HIC ID: 97969901\r
Auto Reset: 1\r
Interface Version: 0243\r
"""
END_OF_HEX = b":00000001FF"
LOOK_S = 0.01


def require_microbit() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(f"not run, no micro:bit: {reason}")


def released_firmware() -> Path:
    return FIRMWARE


class DrivePlayer:
    """Plays the drive that a micro:bit's programmer is: takes a whole HEX file away, and the board
    has it. With `refusal` it writes that to FAIL.TXT and takes nothing else.
    """

    def __init__(
        self,
        folder: Path,
        board: MicrobitBoard | None = None,
        *,
        refusal: str | None = None,
        unique_id: str = "9900",
    ) -> None:
        folder.mkdir()
        (folder / "DETAILS.TXT").write_text(DETAILS.format(unique_id=unique_id))
        self.folder = folder
        self.taken: list[bytes] = []
        self._board = board
        self._refusal = refusal
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._play)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()

    def _play(self) -> None:
        while not self._ends.wait(LOOK_S):
            for path in self.folder.glob("*.hex"):
                octets = path.read_bytes()
                if END_OF_HEX in octets:
                    self._take(path, octets)

    def _take(self, path: Path, octets: bytes) -> None:
        self.taken.append(octets)
        if self._refusal is not None:
            (self.folder / "FAIL.TXT").write_text(self._refusal)
        elif self._board is not None:
            kept = self.folder.parent / f"programmed{len(self.taken)}.hex"
            kept.write_bytes(octets)
            self._board.erase(kept)
            self._board.start()
        path.unlink()

"""MicroPython's raw REPL at the other end of a serial port: it stops what runs there, runs
snippets, and writes small files.

Bytes go out in small bursts, because boards have rings of 64 for what comes. Ctrl-C is sent again
and again: the sensors stop at two within half a second, of which those that come together are one,
and a board in deep sleep hears none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Self

import serial  # type: ignore[import-untyped]

from hil.boards.errors import BoardError

BURST_BYTES = 16
BURST_PAUSE_S = 0.004
STOP_S_MAX = 10.0
INTERRUPT_S = 0.1  # between two Ctrl-C
STOP_AGAIN_S = 0.2
LONGER_EACH_TIME = 1.25  # a busy host, or a slow board, answers later than that
ANSWER_S_MAX = 10.0
POLL_S = 0.02
PART_BYTES = 48  # of a file, in a snippet
_RAW = b"raw REPL; CTRL-B to exit\r\n>"


class RawRepl:
    def __init__(self, port: str, baud: int = 115_200, timeout_s: float = STOP_S_MAX) -> None:
        """`timeout_s`: for a board that may be asleep."""
        self._port = port
        self._timeout_s = timeout_s
        try:
            self._serial = serial.serial_for_url(port, baud, timeout=POLL_S)
        except (OSError, ValueError) as error:
            raise BoardError(f"{port}: {error}") from None

    def __enter__(self) -> Self:
        try:
            self._stop()
        except BaseException:
            self._serial.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._serial.close()

    def run(self, code: str) -> str:
        """What it printed; raises BoardError with its traceback."""
        self._write(code.encode() + b"\x04")
        answer = self._until(b"\x04>", ANSWER_S_MAX)
        if not answer.startswith(b"OK"):
            raise BoardError(f"{self._port}: the REPL answered {answer[:40]!r}")
        printed, _, raised = answer[2:-2].partition(b"\x04")
        if raised.strip():
            raise BoardError(raised.decode(errors="replace").strip())
        return printed.decode(errors="replace").replace("\r\n", "\n")

    def heap(self) -> str:
        """`heap`, used and free bytes, as nodes print it; nothing if there is not even room to ask.

        In small steps, because a board of 16 KiB that was stopped anywhere has no more room.
        """
        try:
            self.run("import gc")
            self.run("gc.collect()")
            return self.run("print('heap',gc.mem_alloc(),gc.mem_free())")
        except BoardError:
            return ""

    def soft_reset(self) -> None:
        """The interpreter restarts, with main.py."""
        self._write(b"\x02\x04")

    def put(self, files: Mapping[str, bytes]) -> None:
        """In the board's own folder; what is written is read again."""
        for name, chunk in files.items():
            self.run(f"f = open({name!r}, 'wb')")
            for at in range(0, len(chunk), PART_BYTES):
                self.run(f"f.write({chunk[at : at + PART_BYTES]!r})")
            self.run("f.close()")
            output = self.run(
                f"f = open({name!r}, 'rb')\nn = 0\nwhile f.read(1):\n n += 1\nprint(n)"
            )
            if int(output) != len(chunk):
                raise BoardError(
                    f"{name}: wrote {len(chunk)} bytes, the board has {output.strip()}"
                )

    def _stop(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        again_s = STOP_AGAIN_S
        while time.monotonic() < deadline:
            self._write(b"\r\x03")
            if self._received(b">>> ", INTERRUPT_S) is None:
                self._write(b"\r\x03")
                self._received(b">>> ", INTERRUPT_S)
            self._write(b"\r\x01")
            if self._received(_RAW, again_s) is not None:
                self._make_room()
                return
            again_s *= LONGER_EACH_TIME
        raise BoardError(
            f"no MicroPython answers on {self._port}: is it there, awake, and the right port?"
        )

    def _make_room(self) -> None:
        """What was stopped may have left none to read even one snippet: a soft reset here gives it
        back, and starts no program.
        """
        try:
            self.run("0")
        except BoardError as error:
            if "MemoryError" in str(error):
                self._write(b"\x04")
                self._until(_RAW, ANSWER_S_MAX)

    def _until(self, end: bytes, timeout_s: float) -> bytes:
        received = self._received(end, timeout_s)
        if received is None:
            raise BoardError(f"{self._port}: the REPL did not answer within {timeout_s:.0f} s")
        return received

    def _received(self, end: bytes, timeout_s: float) -> bytes | None:
        deadline = time.monotonic() + timeout_s
        held = bytearray()
        while time.monotonic() < deadline:
            held += self._serial.read(max(1, self._serial.in_waiting))
            if held.endswith(end):
                return bytes(held)
        return None

    def _write(self, chunk: bytes) -> None:
        for at in range(0, len(chunk), BURST_BYTES):
            self._serial.write(chunk[at : at + BURST_BYTES])
            self._serial.flush()
            time.sleep(BURST_PAUSE_S)

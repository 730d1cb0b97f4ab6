"""MicroPython's REPL at the other end of a serial port: it stops what runs there and runs snippets.

Raw REPL (Ctrl-A): a snippet, Ctrl-D, `OK`, what it prints, Ctrl-D, its traceback, Ctrl-D, `>`.

Rules
- Bytes go out in small bursts, because boards have rings of 64 or 128 for what comes.
- Ctrl-C is said again and again: our own programs stop at two within half a second, and those that
  come together are one to a board. One that sleeps deeply and hears none is reset on the way.
- What runs there may print without a pause: to stop it takes no longer for that.
"""

from __future__ import annotations

import re
import termios
import time
from contextlib import suppress
from typing import Self

import serial  # type: ignore[import-untyped]

from gateway.flashing.errors import Failure, FlashError, busy
from gateway.transports.serial.faults import why_not_opened
from gateway.transports.serial.line import LineFailure, PortOptions

BAUD = 115_200
BURST_OCTETS = 16
BURST_PAUSE_S = 0.004
STOP_S_MAX = 8.0
INTERRUPT_S = 0.1  # between two Ctrl-C
STOP_AGAIN_S = 0.2
LONGER_EACH_TIME = 1.25  # a busy host, or a slow board, answers later than that
BEGUN_S_MAX = 1.0  # until the raw REPL is back after a soft reset
ATTEMPTS_MAX = 3
ANSWER_S_MAX = 5.0
LOOK_S = 0.05
RESET_S = 0.1
STARTED_S = 0.3  # by then it has looked at the pins that would keep it in its loader
HELD_OCTETS_MAX = 1 << 20

_GONE = (OSError, termios.error)  # the second is none of the first
_RAW = b"raw REPL; CTRL-B to exit\r\n>"
_FAILURES = {LineFailure.PERMISSION: Failure.PERMISSION}


class SnippetError(Exception):
    """The snippet raised on the board; the text is the last line of its traceback."""


class Console:
    def __init__(self, port: str, baud: int = BAUD) -> None:
        """Raises FlashError."""
        self.port = port
        self._held = b""
        try:
            self._serial = serial.Serial(port, baud, timeout=LOOK_S, exclusive=True)
        except (*_GONE, ValueError) as error:
            why = why_not_opened(PortOptions(port, baud), error)
            if why.failure is LineFailure.BUSY:
                raise busy(str(why), port) from None
            raise FlashError(_FAILURES.get(why.failure, Failure.ABSENT), str(why)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(*_GONE):
            self._serial.close()

    def stop(self, patience_s: float = STOP_S_MAX) -> None:
        """End what runs there, and be at the raw REPL. Raises FlashError."""
        deadline = time.monotonic() + patience_s
        reset_at: float | None = deadline - patience_s / 2
        again_s = STOP_AGAIN_S
        while time.monotonic() < deadline:
            if reset_at is not None and time.monotonic() > reset_at:
                self._reset()
                reset_at = None
            self._interrupt()
            self._held = b""
            self._write(b"\r\x01")
            if self._comes(_RAW, again_s) and self._obeys(again_s):
                return
            again_s *= LONGER_EACH_TIME
        text = (
            f"no MicroPython answers on {self.port}: if it is there and asleep, press RESET and "
            "try again; else  tidegate flash install  puts it there"
        )
        raise FlashError(Failure.ABSENT, text)

    def _interrupt(self) -> None:
        """Twice, unless the prompt is there after the first."""
        for _ in range(2):
            self._held = b""
            self._write(b"\r\x03")
            if self._comes(b">>> ", INTERRUPT_S):
                return

    def _obeys(self, patience_s: float) -> bool:
        """A Ctrl-C that came too late for the program would end the next snippet instead. And what
        was stopped may have left no room to read even one: a soft reset here gives it back, and
        starts no program.
        """
        for _ in range(ATTEMPTS_MAX):
            try:
                self.run("0", patience_s)
            except SnippetError as error:
                if "MemoryError" in str(error):
                    self._held = b""
                    self._write(b"\x04")
                    self._comes(_RAW, BEGUN_S_MAX)
                continue
            except FlashError:
                return False
            return True
        return False

    def _reset(self) -> None:
        """As esptool does, by RTS with DTR off; on boards without those wires it does nothing."""
        with suppress(*_GONE):
            self._serial.dtr = False
            self._serial.rts = True
            time.sleep(RESET_S)
            self._serial.rts = False
            time.sleep(STARTED_S)
            # Both on again: with DTR off boards with USB of their own say nothing.
            self._serial.dtr = True
            self._serial.rts = True

    def run(self, snippet: str, patience_s: float = ANSWER_S_MAX) -> str:
        """What it printed. Raises SnippetError, or FlashError if nothing came back."""
        self._held = b""
        self._write(snippet.encode() + b"\x04")
        if self._read_until(b"OK", patience_s) is None:
            raise self._cut()
        printed = self._read_until(b"\x04", patience_s)
        raised = self._read_until(b"\x04", patience_s)
        if printed is None or raised is None or self._read_until(b">", patience_s) is None:
            raise self._cut()
        if raised.strip():
            raise SnippetError(raised.decode(errors="replace").strip().splitlines()[-1])
        return printed.decode(errors="replace").replace("\r\n", "\n")

    def ask(self, snippet: str) -> str:
        """The same for what may be run more than once: again when the line has damaged it."""
        for left in reversed(range(ATTEMPTS_MAX)):
            try:
                return self.run(snippet)
            except (SnippetError, FlashError):
                if not left:
                    raise
                self.stop()
        raise AssertionError("the last attempt returns or raises")

    def leave(self) -> None:
        """Start its program, as after power on."""
        self._write(b"\x02")
        self._read_until(b">>> ", 1.0)
        self._write(b"\x04")

    def read(self) -> bytes:
        """What comes within a moment. Raises FlashError when the port is gone."""
        try:
            octets: bytes = self._serial.read(max(1, self._serial.in_waiting))
        except _GONE:
            raise self._cut() from None
        return octets

    def write(self, octets: bytes) -> None:
        self._write(octets)

    def _write(self, octets: bytes) -> None:
        try:
            for at in range(0, len(octets), BURST_OCTETS):
                self._serial.write(octets[at : at + BURST_OCTETS])
                self._serial.flush()
                time.sleep(BURST_PAUSE_S)
        except _GONE:
            raise self._cut() from None

    def _read_until(self, end: bytes, patience_s: float, *, strictly: bool = False) -> bytes | None:
        """What came before it; None when it did not come in time, and nothing else comes.
        `strictly`: whatever else does.
        """
        deadline = time.monotonic() + patience_s
        while end not in self._held:
            octets = self.read()
            self._held = (self._held + octets)[-HELD_OCTETS_MAX:]
            if (strictly or not octets) and time.monotonic() > deadline:
                return None
        before, _, self._held = self._held.partition(end)
        return before

    def _comes(self, end: bytes, patience_s: float) -> bool:
        return self._read_until(end, patience_s, strictly=True) is not None

    def _cut(self) -> FlashError:
        text = f"{self.port}: the board does not answer any more; plug it in again, and begin again"
        return FlashError(Failure.CUT, text)


# What a board says of itself: name of the port, machine, version, id. Old ones have only uname.
WHO = """
import os, sys
try:
 m = sys.implementation._machine
except AttributeError:
 m = os.uname().machine
try:
 v = sys.implementation.version
except AttributeError:
 v = ()
try:
 from machine import unique_id
 u = unique_id()
except ImportError:
 u = b""
print(sys.platform, m, ".".join(str(i) for i in v[:3]), "".join("%02x" % i for i in u), sep="|")
"""


class Identity:
    """Of MicroPython on a board."""

    def __init__(self, answer: str) -> None:
        fields = [*answer.strip().split("|"), "", "", "", ""]
        self.platform, self.machine, version, self.unique_id = fields[:4]
        self.version = tuple(int(part) for part in re.findall(r"\d+", version))

    def __str__(self) -> str:
        return f"MicroPython {'.'.join(map(str, self.version))} on {self.machine}"


def who(console: Console) -> Identity:
    """Of one at its raw REPL."""
    return Identity(console.ask(WHO))

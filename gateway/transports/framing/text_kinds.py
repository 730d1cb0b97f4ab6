"""What prints the text on a serial line, recognized by a few of its words."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from gateway.transports.framing.chatter import LINE_BYTES_MAX, is_text, shown

LINES_KEPT_MAX = 5
# A board that starts so often while we listen crashes; no person presses a button so often.
STARTS_MANY = 3


@dataclass(frozen=True, slots=True)
class TextKind:
    looks_like: str
    pattern: re.Pattern[bytes]
    advice: str


_NO_PROGRAM = (
    "no MQTT-SN program runs on it, or it has ended: install one, or press the board's reset "
    "button and listen again"
)
BOOT_ROM = TextKind(
    "ESP32 boot ROM messages",
    re.compile(rb"rst:0x[0-9a-f]+ \((\w+)\)|^ets [A-Z][a-z]{2} +\d+ \d{4}|^ESP-ROM:"),
    "the board starts; listen longer to hear what it does then",
)
# The first that is found at all names the text.
_KINDS = (
    TextKind(
        "a CircuitPython console",
        re.compile(rb"Adafruit CircuitPython|^Auto-reload is "),
        _NO_PROGRAM,
    ),
    TextKind(
        "a MicroPython REPL",
        re.compile(
            rb"^MicroPython v|^MPY: |^raw REPL|^>>> |^Type \"help\(\)\"|^Traceback \(most recent"
        ),
        _NO_PROGRAM,
    ),
    TextKind(
        "a Zephyr shell",
        re.compile(rb"uart:~\$|^\*\*\* Booting Zephyr"),
        "give the shell another port than MQTT-SN",
    ),
    TextKind(
        "a log of ESP-IDF",
        re.compile(rb"[EWIDV] \(\d+\) [\w.]+: "),
        "it may share the line with hdlc frames; nothing but text was heard so far",
    ),
    TextKind(
        "a GPS receiver (NMEA 0183)",
        re.compile(rb"^\$G[A-Z]{4},.*\*[0-9A-F]{2}"),
        "this is not the port of a sensor: see the others by their names in /dev/serial/by-id",
    ),
    TextKind(
        "a Linux console",
        re.compile(rb" login: ?$|^\[ *\d+\.\d{6}\] |^U-Boot "),
        "this is the console of another computer, not a sensor",
    ),
    TextKind(
        "a modem",
        re.compile(rb"^(?:OK|ERROR|\+C[A-Z]+: .*)$"),
        "this is not the port of a sensor: see the others by their names in /dev/serial/by-id",
    ),
    BOOT_ROM,
)
_UNKNOWN = TextKind(
    "nothing known here",
    re.compile(rb""),
    "the board prints on the line; MQTT-SN needs a program on it that speaks one of the framings",
)


class TextLines:
    """The last lines of a stream, and which kinds were found in all of them."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_KEPT_MAX)
        self._kinds: set[str] = set()
        self._starts = 0
        self._reason = ""  # of the last start
        self._rest = b""  # of a line whose end is not there yet

    def feed(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-LINE_BYTES_MAX:]
        for line in lines:
            self.add_line(line[:LINE_BYTES_MAX])

    def add_line(self, line: bytes) -> None:
        text = shown(line)
        if not text or not is_text(line):
            return
        self.lines.append(text)
        self._kinds.update(kind.looks_like for kind in _KINDS if kind.pattern.search(line))
        start = BOOT_ROM.pattern.search(line)
        if start is not None and start[1] is not None:
            self._starts += 1
            self._reason = start[1].decode()

    def finish(self) -> None:
        """A prompt has no end of line."""
        self.add_line(self._rest)
        self._rest = b""

    def kind(self) -> TextKind:
        return next((kind for kind in _KINDS if kind.looks_like in self._kinds), _UNKNOWN)

    def restarts(self) -> str | None:
        """In words, if the board does hardly anything else."""
        if self._starts < STARTS_MANY:
            return None
        return f"the board started {self._starts} times, the last time for {self._reason}"

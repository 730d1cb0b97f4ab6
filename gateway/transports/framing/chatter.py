"""Text on a line that carries frames: what a MicroPython console or a boot ROM prints.

It is no error, and it is worth reading: a traceback shows why a board sends nothing. So it is told
apart from damage, and handed out in lines for the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LINE_BYTES_MAX = 200  # a longer line is handed out in parts of this length

# Printable ASCII and what moves a cursor; the rest of UTF-8 is looked at by itself.
ASCII_TEXT = bytes((0x08, 0x09, 0x0A, 0x0D, 0x1B, *range(0x20, 0x7F)))
_MAYBE_TEXT = ASCII_TEXT + bytes(range(0x80, 0xF5))

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

OnLine = Callable[[bytes], None]


def may_become_text(chunk: bytes) -> bool:
    """Whether this could be a part of a text, in which a character may be cut."""
    return not chunk.translate(None, _MAYBE_TEXT)


def is_text(chunk: bytes) -> bool:
    if not chunk.translate(None, ASCII_TEXT):
        return True
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return False
    return may_become_text(chunk)


def emit_lines(text: bytes, on_line: OnLine) -> None:
    """Without their ends, and without those that are empty."""
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        for at in range(0, len(line), LINE_BYTES_MAX):
            on_line(line[at : at + LINE_BYTES_MAX])


def shown(line: bytes) -> str:
    """As it may stand in a log or on a terminal: nothing moves a cursor or gives a command."""
    text = _COLOUR.sub("", line.decode(errors="replace"))
    return "".join(character for character in text if character.isprintable()).strip()

"""Text on a line that carries frames: what a MicroPython console or a boot ROM prints.

It is no error, and it is worth reading: a traceback says why a board is silent. So it is told from
damage, and handed out in lines to whoever wants to log them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LINE_OCTETS_MAX = 200  # a longer line is handed out in parts of so many

# Printable ASCII and what moves a cursor; the rest of UTF-8 is looked at by itself.
ASCII_TEXT = bytes((0x08, 0x09, 0x0A, 0x0D, 0x1B, *range(0x20, 0x7F)))
_MAYBE_TEXT = ASCII_TEXT + bytes(range(0x80, 0xF5))

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Tell = Callable[[bytes], None]


def may_become_text(octets: bytes) -> bool:
    """Whether this could be a part of a text, in which a character may be cut."""
    return not octets.translate(None, _MAYBE_TEXT)


def is_text(octets: bytes) -> bool:
    if not octets.translate(None, ASCII_TEXT):
        return True
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return may_become_text(octets)


def tell_lines(text: bytes, tell: Tell) -> None:
    """Without their ends, and without those that are empty."""
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        for at in range(0, len(line), LINE_OCTETS_MAX):
            tell(line[at : at + LINE_OCTETS_MAX])


def shown(line: bytes) -> str:
    """As it may stand in a log or on a terminal: nothing moves a cursor or gives a command."""
    text = _COLOUR.sub("", line.decode(errors="replace"))
    return "".join(character for character in text if character.isprintable()).strip()

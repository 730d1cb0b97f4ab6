"""Reads `tests/golden/frames.txt`, whose head explains its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, get_args

from gateway.frames import Frame, TopicIdType

FRAME_TYPES: tuple[Any, ...] = get_args(Frame)

_FILE = Path(__file__).parent.parent / "golden" / "frames.txt"
_TYPE_NAMED = {frame_type.__name__.upper(): frame_type for frame_type in FRAME_TYPES}


class Row(NamedTuple):
    name: str
    octets: bytes
    frame: Frame
    is_sent: bool


def octets_of(hex_words: str) -> bytes:
    octets = b""
    for word in hex_words.split():
        digits, _, times = word.partition("*")
        octets += bytes.fromhex(digits) * int(times or 1)
    return octets


def _value_of(word: str) -> int | bool | bytes:
    if word.startswith('"'):
        return word[1:-1].encode()
    if word.startswith("hex:"):
        return octets_of(word.removeprefix("hex:"))
    return word == "true" if word in ("true", "false") else int(word)


def _frame_of(words: str) -> Frame:
    name, *pairs = words.split()
    fields: dict[str, Any] = {}
    for pair in pairs:
        field, _, word = pair.partition("=")
        fields[field] = _value_of(word)
    if "topic_id_type" in fields:
        fields["topic_id_type"] = TopicIdType(fields["topic_id_type"])
    frame: Frame = _TYPE_NAMED[name](**fields)
    return frame


def _row_of(line: str) -> Row:
    name, octets, words, *received_only = (part.strip() for part in line.split("|"))
    assert received_only in ([], ["received only"]), line
    return Row(name, octets_of(octets), _frame_of(words), is_sent=not received_only)


ROWS = [
    _row_of(line)
    for line in _FILE.read_text(encoding="ascii").splitlines()
    if line and not line.startswith("#")
]

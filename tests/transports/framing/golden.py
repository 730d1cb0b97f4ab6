"""Reads `tests/golden/serial.txt`, whose head explains its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, cast

from gateway.transports.serial.framing_choice import Framing, framing

MESSAGE_BYTES_MAX = 302
SILENCE_S = 1.0

_FILE = Path(__file__).parents[2] / "golden" / "serial.txt"


class Row(NamedTuple):
    name: str
    kind: Literal["hdlc", "slip", "raw"]
    reads: list[tuple[float, bytes]]  # what was read, and the seconds of silence before it
    messages: list[bytes]
    is_sent: bool
    counted: dict[str, int]

    def framing(self) -> Framing:
        return framing(self.kind, message_bytes_max=MESSAGE_BYTES_MAX)

    @property
    def octets(self) -> bytes:
        return b"".join(octets for _, octets in self.reads)


def octets_of(words: str) -> bytes:
    octets = b""
    for word in words.split():
        digits, _, times = word.partition("*")
        octets += bytes.fromhex(digits) * int(times or 1)
    return octets


def _reads_of(words: str) -> list[tuple[float, bytes]]:
    return [
        (SILENCE_S if at else 0.0, octets_of(read))
        for part in words.split("/")
        for at, read in enumerate(part.split("~"))
    ]


def _row_of(line: str) -> Row:
    name, kind, reads, messages, direction, *counted = (part.strip() for part in line.split("|"))
    assert kind in ("hdlc", "slip", "raw"), line
    assert direction in ("sent", "received"), line
    return Row(
        f"{kind}: {name}",
        cast(Literal["hdlc", "slip", "raw"], kind),
        _reads_of(reads),
        [] if messages == "-" else [octets_of(message) for message in messages.split(",")],
        direction == "sent",
        {counter: int(count) for counter, count in map(_pair, " ".join(counted).split())},
    )


def _pair(word: str) -> tuple[str, str]:
    counter, _, count = word.partition("=")
    return counter, count


ROWS = [
    _row_of(line)
    for line in _FILE.read_text(encoding="ascii").splitlines()
    if line and not line.startswith("#")
]

"""Reads `tests/golden/properties.txt`, whose head explains its rows, and has packets whose lengths
do not fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FILE = Path(__file__).parents[1] / "golden" / "properties.txt"
_FIRST = {
    "CONNACK": 0x20,
    "PUBLISH": 0x30,
    "PUBACK": 0x40,
    "PUBREC": 0x50,
    "PUBREL": 0x62,
    "PUBCOMP": 0x70,
    "SUBACK": 0x90,
    "UNSUBACK": 0xB0,
    "DISCONNECT": 0xE0,
}

# Lengths that run out of what they are in: what the rest is cannot be known.
MALFORMED = {
    "properties longer than the packet": "40 04 0001 00 05",
    "a length of properties without its end": "40 04 0001 00 80",
    "a text longer than the properties": "40 07 0001 00 03 1f 0005",
    "a text of which one length byte is left": "40 06 0001 00 02 1f 00",
    "a user property without its value": "40 08 0001 00 04 26 0001 61",
    "a number that runs out of the properties": "30 07 0001 61 02 02 00 78",
    "a subscription identifier that does not end": "30 06 0001 61 02 0b 80",
    "a subscription identifier of five bytes": "30 0a 0001 61 06 0b 8080808001",
    "properties that run over the end of a message": "30 05 0001 61 05 00",
    "a topic longer than the packet": "30 04 0009 61 00",
    "an empty topic without an alias": "30 03 0000 00",
    "a topic alias alone": "30 06 0000 03 23 0001",
    "a CONNACK without its properties' end": "20 04 00 00 02 21",
}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    kind: str
    packet: bytes  # as it comes
    allowed: bytes  # what counts of it
    ignored: str

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name}"


def _bytes_of(field: str) -> bytes:
    found = b""
    for word in re.findall(r'"[^"]*"|\S+', field):
        text = word.strip('"').encode()
        found += len(text).to_bytes(2, "big") + text if word[0] == '"' else bytes.fromhex(word)
    return found


def _packet(kind: str, head: str, properties: str, rest: str) -> bytes:
    section = _bytes_of(properties)
    body = _bytes_of(head) + bytes((len(section),)) + section + _bytes_of(rest)
    assert len(body) < 0x80
    return bytes((_FIRST[kind], len(body))) + body


def _row(line: str) -> Row:
    name, kind, head, properties, rest, counts, ignored = (
        field.strip() for field in line.split("|")
    )
    packet = _packet(kind, head, properties, rest)
    allowed = packet if counts == "=" else _packet(kind, head, counts, rest)
    return Row(name=name, kind=kind, packet=packet, allowed=allowed, ignored=ignored)


ROWS = [_row(line) for line in _FILE.read_text().splitlines() if line and not line.startswith("#")]

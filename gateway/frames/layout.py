"""Bytes at fixed places, and the length and type in front of every message (5.2)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Any

U8 = "B"
U16 = "H"

SHORT_OCTETS_MAX = 255  # of a message whose length fits one byte
LONG_OCTETS_MAX = 65_535  # of any message (5.2.1)

OCTETS = tuple(bytes((octet,)) for octet in range(256))


class Layout:
    """The bytes at fixed places of a message, big-endian, in order, each with its name."""

    __slots__ = ("ends", "names", "pack", "pack_framed", "size", "unpack_from")

    names: tuple[str, ...]
    ends: tuple[int, ...]  # of each field, in bytes from the layout's start
    size: int
    pack: Callable[..., bytes]
    pack_framed: Callable[..., bytes]  # with length and type in front, for the hot path
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]

    def __init__(self, **formats: str) -> None:
        fields = "".join(formats.values())
        octets = struct.Struct(">" + fields)
        self.names = tuple(formats)
        self.ends = tuple(accumulate(map(struct.calcsize, formats.values())))
        self.size, self.pack, self.unpack_from = octets.size, octets.pack, octets.unpack_from
        self.pack_framed = struct.Struct(">BB" + fields).pack

    def missing_after(self, octets: int) -> str:
        """Where a message of too few bytes ends: "before its topic id", "inside its topic id"."""
        where = "before" if not octets or octets in self.ends else "inside"
        return f"{where} its {in_words(self.names[bisect_right(self.ends, octets)])}"


def in_words(field: str) -> str:
    """A field's name as an operator reads it: "message id", "duration" (its unit is code's)."""
    return field.removesuffix("_s").replace("_", " ")


def framed(kind: int, body: bytes) -> bytes:
    """The message with its length and type in front, in the shortest form (5.2.1)."""
    octets = len(body) + 2
    if octets <= SHORT_OCTETS_MAX:
        return bytes((octets, kind)) + body
    octets += 2
    if octets > LONG_OCTETS_MAX:
        raise ValueError(f"a message of {octets} bytes is over the {LONG_OCTETS_MAX} of MQTT-SN")
    return struct.pack(">BHB", 0x01, octets, kind) + body

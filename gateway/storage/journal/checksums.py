"""The two checksums of segments: CRC32C where the machine has it in C, else zlib's CRC-32.

A segment's header names its algorithm, and both can always be read: a card may move from a 64-bit
board to a 32-bit one. `extend(crc, octets)` goes on from `crc`; that is where the salt goes in,
and because either checksum maps different beginnings to different ends, bytes that are valid
under one salt are never valid under another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum

Extend = Callable[[int, bytes], int]


class Algorithm(IntEnum):
    CRC32 = 1
    CRC32C = 2


def _table() -> tuple[int, ...]:
    table = []
    for octet in range(256):
        crc = octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC32C_TABLE = _table()


def extend_crc32c(crc: int, octets: bytes) -> int:
    """CRC32C (RFC 3720, 12.1) in Python: 200 times slower, for reading what another board wrote."""
    table = _CRC32C_TABLE
    crc ^= 0xFFFFFFFF
    for octet in octets:
        crc = table[(crc ^ octet) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def extend_crc32(crc: int, octets: bytes) -> int:
    return zlib.crc32(octets, crc)


def _fastest() -> tuple[Algorithm, Extend]:
    try:
        import google_crc32c
    except ImportError:
        return Algorithm.CRC32, extend_crc32c
    if google_crc32c.implementation != "c":
        return Algorithm.CRC32, extend_crc32c
    return Algorithm.CRC32C, google_crc32c.extend


PREFERRED, _CRC32C = _fastest()

CHECKSUMS: dict[int, Extend] = {Algorithm.CRC32: extend_crc32, Algorithm.CRC32C: _CRC32C}

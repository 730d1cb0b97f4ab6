"""UF2: is a file whole, and for this chip? https://github.com/microsoft/uf2

Blocks of 512 bytes, each with two magic numbers, its address, its number of so many, and the
family of chips that it is for.
"""

from __future__ import annotations

import struct

from gateway.flashing.errors import Failure, FlashError

BLOCK_OCTETS = 512
_HEAD = struct.Struct("<8I")
_BEGIN, _SECOND, _END = 0x0A324655, 0x9E5D5157, 0x0AB16F30
_IS_FAMILY = 0x2000
_ABSOLUTE = 0xE48BFF57  # a block that RP2350 files have in front, for all of its kinds
_NAMES = {0xE48BFF56: "RP2040", 0xE48BFF59: "RP2350", 0xE48BFF5A: "RP2350 RISC-V"}


def check_uf2(octets: bytes, family: int, name: str) -> None:
    """Raises FlashError that says why it cannot be for this chip."""
    if not octets or len(octets) % BLOCK_OCTETS:
        raise _wrong(name, f"has {len(octets)} bytes, no whole number of blocks: is it cut off?")
    families: dict[int, int] = {}
    for number in range(len(octets) // BLOCK_OCTETS):
        found = _family_of(octets, number, name)
        if found != _ABSOLUTE:
            families[found] = families.get(found, 0) + 1
    if set(families) != {family}:
        others = ", ".join(_NAMES.get(each, f"family {each:08x}") for each in families)
        raise _wrong(
            name, f"is for {others or 'no chip'}, not for {_NAMES.get(family, 'this one')}"
        )
    _check_count(octets, families[family], name)


def _family_of(octets: bytes, number: int, name: str) -> int:
    at = number * BLOCK_OCTETS
    begin, second, flags, _, size, _, _, family = _HEAD.unpack_from(octets, at)
    (end,) = struct.unpack_from("<I", octets, at + BLOCK_OCTETS - 4)
    if (begin, second, end) != (_BEGIN, _SECOND, _END) or size > BLOCK_OCTETS - 36:
        raise _wrong(name, f"is no UF2, or damaged: block {number}")
    return family if flags & _IS_FAMILY else 0


def _check_count(octets: bytes, count: int, name: str) -> None:
    """The last block says how many there are of its kind."""
    *_, number, total, _ = _HEAD.unpack_from(octets, len(octets) - BLOCK_OCTETS)
    if number + 1 != total or total != count:
        raise _wrong(name, f"has {count} blocks of {total}: load it down again")


def _wrong(name: str, what: str) -> FlashError:
    return FlashError(Failure.WRONG, f"{name} {what}")

"""Files as MicroPython comes in, of the least size that is one."""

from __future__ import annotations

import struct

RP2040, RP2350, ABSOLUTE = 0xE48BFF56, 0xE48BFF59, 0xE48BFF57
CHIPS = {"esp32": 0, "esp32s3": 9}


def uf2(octets: bytes, family: int = RP2040, *, count: int | None = None) -> bytes:
    """Blocks of 256 bytes each."""
    parts = [octets[at : at + 256] for at in range(0, len(octets), 256)]
    return b"".join(
        uf2_block(part, number, count or len(parts), family) for number, part in enumerate(parts)
    )


def uf2_block(part: bytes, number: int, count: int, family: int) -> bytes:
    head = struct.pack(
        "<8I", 0x0A324655, 0x9E5D5157, 0x2000, 0x10000000 + 256 * number, 256, number, count, family
    )
    return head + part.ljust(476, b"\0") + struct.pack("<I", 0x0AB16F30)


def esp(octets: bytes, chip: str = "esp32") -> bytes:
    """The head of an ESP image, and anything."""
    return b"\xe9" + bytes(11) + CHIPS[chip].to_bytes(2, "little") + bytes(10) + octets

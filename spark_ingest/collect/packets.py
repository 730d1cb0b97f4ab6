"""MQTT 5 packets on a stream: where each ends, and its content, by the `mqtt5` package."""

from __future__ import annotations

from collections.abc import Iterable

import mqtt5

PUBACK = 0x40
REMAINING_LENGTH_BYTES_MAX = 4


class BadPacketError(Exception):
    """The broker sent bytes that are no MQTT 5 packet, or what it may not send."""


def packet_end(data: bytes, start: int, packet_bytes_max: int) -> int | None:
    """Where the packet that begins at `start` ends, or None if it has not all come yet."""
    length = 0
    for number in range(REMAINING_LENGTH_BYTES_MAX):
        position = start + 1 + number
        if position >= len(data):
            return None
        byte = data[position]
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            break
    else:
        raise BadPacketError("a packet length of more than four octets")
    end = position + 1 + length
    if end - start > packet_bytes_max:
        raise BadPacketError(
            f"a packet of {end - start} octets, more than the {packet_bytes_max} we take"
        )
    return end if end <= len(data) else None


def read_packet(chunk: memoryview) -> object:
    """The packet in these bytes, all of them. Raises BadPacketError if there is none."""
    try:
        packet, size = mqtt5.read(chunk)
    except (ValueError, IndexError) as error:
        raise BadPacketError(str(error)) from error
    except BaseException as error:
        # Text that is no UTF-8 makes the codec's native code panic, which arrives as a
        # BaseException that cannot be imported; not every broker checks what its clients send.
        if type(error).__name__ != "PanicException":
            raise
        raise BadPacketError("text that is not UTF-8") from None
    if size != len(chunk):
        raise BadPacketError(f"a packet of {size} octets that says it has {len(chunk)}")
    return packet


def pubacks(packet_ids: Iterable[int]) -> bytes:
    """All of them at once: a packet without reason code has four bytes (MQTT 5, 3.4.2.1)."""
    return b"".join(b"\x40\x02" + each.to_bytes(2, "big") for each in packet_ids)

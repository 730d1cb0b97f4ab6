"""MQTT 5 packets on a stream: where each ends, and its content, by the `mqtt5` package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import mqtt5

from spark_ingest.collect.properties import may_have_bad_text, with_allowed_properties

PUBLISH = 0x30
PUBACK = 0x40
QUOTA_EXCEEDED = 0x97
REMAINING_LENGTH_BYTES_MAX = 4


class BadPacketError(Exception):
    """The broker sent bytes that are no MQTT 5 packet, or what it may not send."""


def packet_extent(data: bytes, start: int) -> tuple[int, int] | None:
    """Where the packet that begins at `start` has its content, and where it ends, whether or not
    that has come yet; None if its length has not.
    """
    length = 0
    for number in range(REMAINING_LENGTH_BYTES_MAX):
        position = start + 1 + number
        if position >= len(data):
            return None
        byte = data[position]
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return position + 1, position + 1 + length
    raise BadPacketError("a packet length of more than four bytes")


@dataclass(frozen=True, slots=True)
class PublishHead:
    """What of a PUBLISH that is too large to be read is needed to acknowledge it."""

    topic: str  # for the log: what is no UTF-8 in it is replaced
    packet_id: int  # 0 at QoS 0


def publish_head(data: bytes, first: int, body_at: int, end: int) -> PublishHead | None:
    """None if it has not all come. Raises BadPacketError if the packet is none, or is QoS 2."""
    qos = first >> 1 & 3
    if first >> 4 != PUBLISH >> 4 or qos > 1:
        raise BadPacketError(f"a packet of {end - body_at} bytes that is no message of ours")
    topic_at = body_at + 2
    topic_end = topic_at + int.from_bytes(data[body_at:topic_at], "big")
    head_end = topic_end + 2 * qos
    if len(data) < topic_at or len(data) < head_end <= end:
        return None
    if head_end > end:
        raise BadPacketError("a topic longer than its packet")
    topic = data[topic_at:topic_end].decode(errors="replace")
    return PublishHead(topic, int.from_bytes(data[topic_end:head_end], "big"))


def read_packet(chunk: memoryview, *, check_text: bool = False) -> tuple[object, list[str]]:
    """The packet in these bytes, all of them, and which of its properties were left out, as they
    may not be there (properties.py). Raises BadPacketError if there is no packet.

    `check_text`: look for text that is not UTF-8 before the codec does, which panics at it and
    writes that to stderr.
    """
    ignored: list[str] = []
    if check_text and may_have_bad_text(bytes(chunk)):
        changed, ignored = with_allowed_properties(bytes(chunk))
        chunk = memoryview(changed)
    try:
        return _read(chunk), ignored
    except BadPacketError:
        changed, more = with_allowed_properties(bytes(chunk))
        if not more:
            raise
    return _read(memoryview(changed)), ignored + more


def _read(chunk: memoryview) -> object:
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
        raise BadPacketError(f"a packet of {size} bytes that says it has {len(chunk)}")
    return packet


def pubacks(packet_ids: Iterable[int]) -> bytes:
    """All of them at once: a packet without reason code has four bytes (MQTT 5, 3.4.2.1)."""
    return b"".join(b"\x40\x02" + each.to_bytes(2, "big") for each in packet_ids)


def refusing_puback(packet_id: int) -> bytes:
    """For a message that is more than we take: with this code a broker has to discard it, and may
    not offer it to another of the group (MQTT 5, 4.8.2).
    """
    return b"\x40\x03" + packet_id.to_bytes(2, "big") + bytes((QUOTA_EXCEEDED,))

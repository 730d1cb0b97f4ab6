"""MQTT 5 packets in a stream of bytes: where each ends, and its content, by the `mqtt5` package.

Rules
- A packet that is none is a BadPacketError, and nothing else is raised, on any bytes.
- What MQTT 5 does not allow and brokers send all the same is repaired first (repair.py).
- What the codec package would be slow at is read here: acknowledgements without a reason, many of
  which come at once, and a PUBLISH without properties but the identifiers of our subscriptions and
  the Message Expiry Interval. Tests hold that against the codec package byte by byte.
- What a packet means is left to the session that reads it: the gateway's (core/mqtt/), that of
  `tidegate watch`, the collector's (spark_ingest/collect/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

import mqtt5

from gateway.packets.repair import may_have_bad_text, with_allowed_properties, with_known_codes

CONNACK = 0x20
PUBLISH = 0x30
PUBACK = 0x40
PUBREC = 0x50
PUBCOMP = 0x70
PLAIN_BYTES = 4  # of an answer with its packet id alone: no reason code is success
PLAIN_LENGTH = 2
RUN_MAX = 64  # looked at in one go
LENGTH_BYTES = 2  # before a text (MQTT 5, 1.5.4)
REMAINING_LENGTH_BYTES = 4  # at most (MQTT 5, 2.1.4)
NO_PACKET_ID = 0
REFUSED_BY_311 = 1  # "unacceptable protocol version" (MQTT 3.1.1, 3.2.2.3)
CONNACK_311_BYTES = 4  # MQTT 3.1.1, 3.2; that of MQTT 5 has properties behind it
ANSWER_SHOWN = 16  # bytes of an answer that is none
NO_MQTT_5 = (
    "the broker does not speak MQTT 5 (it answered CONNECT as MQTT 3.1.1 does, code {code}); use a "
    "broker that does (mosquitto 1.6 or newer)"
)
REPLACEMENT = "\ufffd"  # of what is not UTF-8; it may be part of a topic

_QOS_MAX = 2
_MORE = 0x80  # bytes of a variable byte integer follow (MQTT 5, 1.5.5)


class BadPacketError(Exception):
    """The broker sent bytes that are no MQTT 5 packet."""


_two_bytes = Struct(">H").pack


def no_connack_but(answer: bytes) -> str:
    """Of an answer to CONNECT that is no packet: what has its port, as far as that can be seen."""
    return f"{answer[:ANSWER_SHOWN]!r} in place of CONNACK; is it an MQTT 5 broker?"


def plain_answers(data: bytes, start: int) -> list[int]:
    """The packet ids of the packets that begin there, one behind the other, of one kind and without
    a reason; at most `RUN_MAX`. Nearly all PUBACKs, PUBRECs and PUBCOMPs are such; any other packet
    ends the run.
    """
    kind, at = data[start], start
    end = start + min(RUN_MAX, (len(data) - start) // PLAIN_BYTES) * PLAIN_BYTES
    packet_ids: list[int] = []
    while at < end and data[at] == kind and data[at + 1] == PLAIN_LENGTH:
        packet_ids.append(data[at + 2] << 8 | data[at + 3])
        at += PLAIN_BYTES
    return packet_ids


def packet_end(data: bytes, start: int, packet_bytes_max: int) -> int | None:
    """Where the packet that begins at `start` ends, or None if it has not all come yet. Of one that
    is larger than `packet_bytes_max` its size with a minus sign, as soon as that is known.

    Raises BadPacketError for a length that is none.
    """
    length = 0
    for number in range(REMAINING_LENGTH_BYTES):
        position = start + 1 + number
        if position >= len(data):
            return None
        byte = data[position]
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            break
    else:
        raise BadPacketError("a packet length of more than four bytes")
    end = position + 1 + length
    if end - start > packet_bytes_max:
        return start - end
    return end if end <= len(data) else None


@dataclass(slots=True)
class SkippedPublish:
    """A PUBLISH that is read over: one larger than we announced to take (Maximum Packet Size), or
    one whose topic is not UTF-8. `left_bytes` of its `size` are still to come.
    """

    topic: str
    qos: int
    packet_id: int
    size: int
    left_bytes: int


def publish_head(data: bytes, start: int, size: int) -> SkippedPublish | None:
    """What is known of a PUBLISH from its head; None as long as that has not all come.

    Raises BadPacketError for another packet, and for one whose topic goes beyond its end.
    """
    if data[start] >> 4 != PUBLISH >> 4:
        raise BadPacketError(f"a packet of {size} bytes, more than we take")
    qos = data[start] >> 1 & 3
    at = start + 1
    while data[at] & _MORE:
        at += 1
    at += 1
    if at + LENGTH_BYTES > len(data):
        return None
    topic_end = at + LENGTH_BYTES + (data[at] << 8 | data[at + 1])
    head_end = topic_end + LENGTH_BYTES if qos else topic_end
    if qos > _QOS_MAX or head_end > start + size:
        raise BadPacketError("a PUBLISH whose topic goes beyond its end")
    if head_end > len(data):
        return None
    packet_id = data[topic_end] << 8 | data[topic_end + 1] if qos else NO_PACKET_ID
    topic = data[at + LENGTH_BYTES : topic_end].decode(errors="replace")
    return SkippedPublish(topic, qos, packet_id, size, size)


def unreadable_publish(data: bytes, start: int, end: int) -> SkippedPublish | None:
    """A whole PUBLISH whose topic is not UTF-8; None for any other PUBLISH. A broker that does not
    check what its clients send would send it again in each connection. Raises as `publish_head`.
    """
    head = publish_head(data, start, end - start)
    if head is None or REPLACEMENT not in head.topic:
        return None
    return None if head.topic.encode() in data[start:end] else head


def read_packet(
    data: memoryview, *, check_text: bool = False
) -> tuple[object, list[int], list[str]]:
    """The packet in these bytes, all of them; its reason codes if one of them is none of MQTT 5's;
    and which properties were left out, as they may not be there (repair.py). Raises
    BadPacketError if there is no packet.

    `check_text`: look for text that is not UTF-8 before the codec does, which panics at it and
    writes that to stderr.
    """
    ignored: list[str] = []
    if check_text and may_have_bad_text(bytes(data)):
        changed, ignored = with_allowed_properties(bytes(data))
        data = memoryview(changed)
    try:
        return _read(data), [], ignored
    except BadPacketError:
        changed, more = with_allowed_properties(bytes(data))
        changed, codes = with_known_codes(changed)
        if changed == data:
            raise
    return _read(memoryview(changed)), codes, ignored + more


def _read(data: memoryview) -> object:
    try:
        packet, size = mqtt5.read(data)
    except (ValueError, IndexError) as error:
        raise BadPacketError(str(error)) from error
    except BaseException as error:
        # Text that is no UTF-8 makes the codec's native code panic, which arrives as a
        # BaseException that cannot be imported; not every broker checks what its clients send.
        if type(error).__name__ != "PanicException":
            raise
        raise BadPacketError("text that is not UTF-8") from None
    if size != len(data):
        raise BadPacketError(f"a packet of {size} bytes that says it has {len(data)}")
    return packet


@dataclass(slots=True)
class ReceivedPublish:
    """What of a PUBLISH counts for us; `packet_id` is NO_PACKET_ID at QoS 0."""

    topic: str  # as the broker has it
    payload: bytes
    qos: int
    retain: bool
    is_dup: bool
    packet_id: int
    identifiers: Sequence[int]
    expiry_s: int | None = None


def publication_of(packet: mqtt5.PublishPacket) -> ReceivedPublish:
    """Raises BadPacketError for a topic alias alone, of which we allow none; beside a topic it says
    nothing.
    """
    if packet.topic_alias is not None and not packet.topic:
        raise BadPacketError("a topic alias, of which we allow none")
    return ReceivedPublish(
        topic=packet.topic,
        payload=packet.payload,
        qos=int(packet.qos),
        retain=packet.retain,
        is_dup=packet.duplicate,
        packet_id=packet.packet_id or NO_PACKET_ID,
        identifiers=packet.subscription_ids,
        expiry_s=packet.message_expiry_interval,
    )

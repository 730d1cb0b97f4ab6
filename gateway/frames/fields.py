"""What the fields of MQTT-SN 1.2 messages are made of: ids, codes and the flags byte (5.3).

Frames carry ids and codes as plain integers, because that is all the air knows: any value decodes,
and the session gives it one of these types once it has judged it. Only flags are taken apart here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NewType

TopicId = NewType("TopicId", int)
MessageId = NewType("MessageId", int)


class MalformedFrame(Exception):  # noqa: N818 - what the peer sent, not what we did wrong
    """A peer sent bytes that are no MQTT-SN message. Never our bug, never fatal."""


class TopicIdType(IntEnum):
    """How a topic is named (5.3.4)."""

    NORMAL = 0  # a registered id; in SUBSCRIBE and UNSUBSCRIBE a topic name
    PREDEFINED = 1  # an id both sides knew before they met
    SHORT = 2  # a name of exactly two bytes, in the place of the id
    RESERVED = 3


class ReturnCode(IntEnum):
    """5.3.10. 0x04 to 0xFF are reserved: peers send them, we never do."""

    ACCEPTED = 0
    CONGESTION = 1
    INVALID_TOPIC_ID = 2
    NOT_SUPPORTED = 3


# The flags byte (5.3.4), highest bit first. QoS bits 11 mean -1.
DUP = 0x80
QOS_MASK = 0x60
QOS_SHIFT = 5
RETAIN = 0x10
WILL = 0x08
CLEAN_SESSION = 0x04
TOPIC_ID_TYPE_MASK = 0x03

_QOS_OF_BITS = (0, 1, 2, -1)

FlagsMeaning = tuple[int, bool, bool, TopicIdType]

# (qos, retain, dup, topic id type) of every flags byte: a look-up of 0.01 us, where calling the
# enum alone costs half a PUBLISH. WILL and CLEAN_SESSION are CONNECT's and change nothing here.
FLAGS_MEANING: tuple[FlagsMeaning, ...] = tuple(
    (
        _QOS_OF_BITS[(flags & QOS_MASK) >> QOS_SHIFT],
        bool(flags & RETAIN),
        bool(flags & DUP),
        TopicIdType(flags & TOPIC_ID_TYPE_MASK),
    )
    for flags in range(256)
)

# The way back, reserved bits clear. A QoS that does not exist is a KeyError, not other bits.
FLAGS_OCTET: dict[FlagsMeaning, int] = {
    FLAGS_MEANING[flags]: flags for flags in range(256) if not flags & (WILL | CLEAN_SESSION)
}

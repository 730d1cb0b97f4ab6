"""Every message of MQTT-SN 1.2 as a value, in the order of the spec (5.4), layout beside fields.

Layout only, no meaning: names and payloads stay raw bytes, ids and codes plain integers, so that
what is no UTF-8, no known id or not protocol 1 still decodes and the session can answer it. Who may
send a message to whom is for the session to decide as well. Reserved flag bits are ignored; QoS
bits 11 are -1 wherever they stand.

PUBLISH and its acknowledgements, the hot path, are not frozen: a frozen dataclass sets each field
through object.__setattr__, 0.54 us for the seven of a PUBLISH against 0.12 us. No one changes
them all the same, and they hash by their fields as the frozen ones do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from gateway.frames.fields import (
    CLEAN_SESSION,
    DUP,
    FLAGS_MEANING,
    FLAGS_OCTET,
    QOS_SHIFT,
    RETAIN,
    WILL,
    TopicIdType,
)
from gateway.frames.layout import OCTETS, SHORT_OCTETS_MAX, U8, U16, Layout, framed
from gateway.frames.shapes import MessageIdOnly, NamesTopic, OnAir, ReplacesWillTopic, WithTail

# Finding a gateway (5.4.1 to 5.4.3)


@dataclass(frozen=True, slots=True)
class Advertise(OnAir):
    """5.4.1: a gateway is there; the next ADVERTISE comes after `duration_s`."""

    KIND: ClassVar[int] = 0x00
    LAYOUT: ClassVar[Layout] = Layout(gateway_id=U8, duration_s=U16)

    gateway_id: int
    duration_s: int


@dataclass(frozen=True, slots=True)
class SearchGw(OnAir):
    """5.4.2: who is a gateway? `radius` in hops, 0 for the whole network."""

    KIND: ClassVar[int] = 0x01
    LAYOUT: ClassVar[Layout] = Layout(radius=U8)

    radius: int


@dataclass(frozen=True, slots=True)
class GwInfo(WithTail):
    """5.4.3. `address` is there only when a client answers for a gateway it knows."""

    KIND: ClassVar[int] = 0x02
    LAYOUT: ClassVar[Layout] = Layout(gateway_id=U8)
    TAIL: ClassVar[str] = "address"

    gateway_id: int
    address: bytes = b""


# Connection set-up (5.4.4, 5.4.5)


@dataclass(frozen=True, slots=True)
class Connect(WithTail):
    """5.4.4. An empty client id decodes: it is the session that refuses it, or finds one."""

    KIND: ClassVar[int] = 0x04
    LAYOUT: ClassVar[Layout] = Layout(flags=U8, protocol_id=U8, duration_s=U16)
    TAIL: ClassVar[str] = "client_id"

    client_id: bytes
    duration_s: int
    will: bool = False
    clean_session: bool = False
    protocol_id: int = 1

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        tail = cls.tail_start(start, end)
        flags, protocol_id, duration_s = cls.LAYOUT.unpack_from(datagram, start)
        will, clean_session = bool(flags & WILL), bool(flags & CLEAN_SESSION)
        return cls(datagram[tail:end], duration_s, will, clean_session, protocol_id)

    def body(self) -> bytes:
        flags = (WILL if self.will else 0) | (CLEAN_SESSION if self.clean_session else 0)
        return self.LAYOUT.pack(flags, self.protocol_id, self.duration_s) + self.client_id


@dataclass(frozen=True, slots=True)
class Connack(OnAir):
    """5.4.5, the answer to CONNECT. `return_code`: `ReturnCode` (5.3.10)."""

    KIND: ClassVar[int] = 0x05
    LAYOUT: ClassVar[Layout] = Layout(return_code=U8)

    return_code: int


# The will (5.4.6 to 5.4.9)


@dataclass(frozen=True, slots=True)
class WillTopicReq(OnAir):
    """5.4.6: the gateway asks for the topic of the will."""

    KIND: ClassVar[int] = 0x06


@dataclass(frozen=True, slots=True)
class WillTopic(ReplacesWillTopic):
    """5.4.7. Without a topic and flags there is no will."""

    KIND: ClassVar[int] = 0x07

    topic: bytes = b""
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class WillMsgReq(OnAir):
    """5.4.8: the gateway asks for the payload of the will."""

    KIND: ClassVar[int] = 0x08


@dataclass(frozen=True, slots=True)
class WillMsg(WithTail):
    """5.4.9: the payload of the will."""

    KIND: ClassVar[int] = 0x09
    TAIL: ClassVar[str] = "payload"

    payload: bytes


# Topic registration (5.4.10, 5.4.11)


@dataclass(frozen=True, slots=True)
class Register(WithTail):
    """5.4.10. One that is read may have no topic name: it is answered all the same."""

    KIND: ClassVar[int] = 0x0A
    LAYOUT: ClassVar[Layout] = Layout(topic_id=U16, message_id=U16)
    TAIL: ClassVar[str] = "topic_name"

    topic_id: int
    message_id: int
    topic_name: bytes


@dataclass(frozen=True, slots=True)
class Regack(OnAir):
    """5.4.11, the answer to REGISTER."""

    KIND: ClassVar[int] = 0x0B
    LAYOUT: ClassVar[Layout] = Layout(topic_id=U16, message_id=U16, return_code=U8)

    topic_id: int
    message_id: int
    return_code: int


# Publishing (5.4.12 to 5.4.14)


@dataclass(slots=True, unsafe_hash=True)
class Publish(WithTail):
    """5.4.12. A short topic name is its two bytes as a big-endian number in `topic_id`."""

    KIND: ClassVar[int] = 0x0C
    LAYOUT: ClassVar[Layout] = Layout(flags=U8, topic_id=U16, message_id=U16)
    TAIL: ClassVar[str] = "payload"

    topic_id: int
    message_id: int
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    topic_id_type: TopicIdType = TopicIdType.NORMAL

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        if end - start < 5:
            cls.require_layout(start, end)
        flags, topic_id, message_id = cls.LAYOUT.unpack_from(datagram, start)
        qos, retain, dup, topic_id_type = FLAGS_MEANING[flags]
        payload = datagram[start + 5 : end]
        return cls(topic_id, message_id, payload, qos, retain, dup, topic_id_type)

    def to_octets(self) -> bytes:
        topic_id, message_id = self.topic_id, self.message_id
        octets = 7 + len(self.payload)
        if octets > SHORT_OCTETS_MAX or (topic_id | message_id) >> 16:  # the latter fits nowhere
            return framed(self.KIND, self.body())
        return b"%b\x0c%b%b%b%b%b%b" % (
            OCTETS[octets],
            OCTETS[self._flags()],
            OCTETS[topic_id >> 8],
            OCTETS[topic_id & 0xFF],
            OCTETS[message_id >> 8],
            OCTETS[message_id & 0xFF],
            self.payload,
        )

    def _flags(self) -> int:
        qos = self.qos
        if self.topic_id_type is TopicIdType.NORMAL and 0 <= qos <= 2:  # nearly always
            return qos << QOS_SHIFT | (DUP if self.dup else 0) | (RETAIN if self.retain else 0)
        return FLAGS_OCTET[qos, self.retain, self.dup, self.topic_id_type]

    def body(self) -> bytes:
        return self.LAYOUT.pack(self._flags(), self.topic_id, self.message_id) + self.payload


@dataclass(slots=True, unsafe_hash=True)
class Puback(OnAir):
    """5.4.13, the answer to PUBLISH at QoS 1, and a refusal at any."""

    KIND: ClassVar[int] = 0x0D
    LAYOUT: ClassVar[Layout] = Layout(topic_id=U16, message_id=U16, return_code=U8)

    topic_id: int
    message_id: int
    return_code: int

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        if end - start != 5:
            return cls(*cls.fixed_fields(datagram, start, end))  # says what is wrong with it
        topic_id = datagram[start] << 8 | datagram[start + 1]
        message_id = datagram[start + 2] << 8 | datagram[start + 3]
        return cls(topic_id, message_id, datagram[start + 4])

    def to_octets(self) -> bytes:
        topic_id, message_id, return_code = self.topic_id, self.message_id, self.return_code
        if (topic_id | message_id) >> 16 or return_code >> 8:  # what does not fit is named there
            return self.LAYOUT.pack_framed(7, self.KIND, topic_id, message_id, return_code)
        # Piece by piece it takes a third of the time.
        return b"\x07\x0d%b%b%b%b%b" % (
            OCTETS[topic_id >> 8],
            OCTETS[topic_id & 0xFF],
            OCTETS[message_id >> 8],
            OCTETS[message_id & 0xFF],
            OCTETS[return_code],
        )


# Not in the order of MQTT: PUBCOMP, then PUBREC, then PUBREL.


@dataclass(slots=True, unsafe_hash=True)
class Pubcomp(MessageIdOnly):
    """5.4.14, the end of QoS 2."""

    KIND: ClassVar[int] = 0x0E

    message_id: int


@dataclass(slots=True, unsafe_hash=True)
class Pubrec(MessageIdOnly):
    """5.4.14, the answer to PUBLISH at QoS 2."""

    KIND: ClassVar[int] = 0x0F

    message_id: int


@dataclass(slots=True, unsafe_hash=True)
class Pubrel(MessageIdOnly):
    """5.4.14, the answer to PUBREC."""

    KIND: ClassVar[int] = 0x10

    message_id: int


# Subscribing (5.4.15 to 5.4.18)


@dataclass(frozen=True, slots=True)
class Subscribe(NamesTopic):
    """5.4.15. `topic` is a name or filter, or by `topic_id_type` the two bytes of an id."""

    KIND: ClassVar[int] = 0x12

    message_id: int
    topic: bytes
    qos: int = 0
    dup: bool = False
    topic_id_type: TopicIdType = TopicIdType.NORMAL

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        (qos, _, dup, topic_id_type), message_id, topic = cls.read_topic(datagram, start, end)
        return cls(message_id, topic, qos, dup, topic_id_type)

    def body(self) -> bytes:
        meaning = (self.qos, False, self.dup, self.topic_id_type)
        return self.write_topic(meaning, self.message_id, self.topic)


@dataclass(frozen=True, slots=True)
class Suback(OnAir):
    """5.4.16. `qos` is the granted one."""

    KIND: ClassVar[int] = 0x13
    LAYOUT: ClassVar[Layout] = Layout(flags=U8, topic_id=U16, message_id=U16, return_code=U8)

    topic_id: int
    message_id: int
    return_code: int
    qos: int = 0

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        flags, topic_id, message_id, return_code = cls.fixed_fields(datagram, start, end)
        return cls(topic_id, message_id, return_code, FLAGS_MEANING[flags][0])

    def body(self) -> bytes:
        flags = FLAGS_OCTET[self.qos, False, False, TopicIdType.NORMAL]
        return self.LAYOUT.pack(flags, self.topic_id, self.message_id, self.return_code)


@dataclass(frozen=True, slots=True)
class Unsubscribe(NamesTopic):
    """5.4.17. The topic as in SUBSCRIBE."""

    KIND: ClassVar[int] = 0x14

    message_id: int
    topic: bytes
    topic_id_type: TopicIdType = TopicIdType.NORMAL

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        (_, _, _, topic_id_type), message_id, topic = cls.read_topic(datagram, start, end)
        return cls(message_id, topic, topic_id_type)

    def body(self) -> bytes:
        meaning = (0, False, False, self.topic_id_type)
        return self.write_topic(meaning, self.message_id, self.topic)


@dataclass(frozen=True, slots=True)
class Unsuback(MessageIdOnly):
    """5.4.18, the answer to UNSUBSCRIBE."""

    KIND: ClassVar[int] = 0x15

    message_id: int


# Being there, sleeping, leaving (5.4.19 to 5.4.21)


@dataclass(frozen=True, slots=True)
class Pingreq(WithTail):
    """5.4.19. With a client id it is a sleeper's "I am awake, what do you have for me?"."""

    KIND: ClassVar[int] = 0x16
    TAIL: ClassVar[str] = "client_id"

    client_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Pingresp(OnAir):
    """5.4.20, the answer to PINGREQ; to a sleeper, after all that waited for it."""

    KIND: ClassVar[int] = 0x17


@dataclass(frozen=True, slots=True)
class Disconnect(OnAir):
    """5.4.21. With a duration the client goes to sleep; what 0 means is for the session to say.

    Bytes behind the duration are not read: sketches for Arduino send two more.
    """

    KIND: ClassVar[int] = 0x18
    LAYOUT: ClassVar[Layout] = Layout(duration_s=U16)

    duration_s: int | None = None

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        if start == end:
            return cls()
        cls.require_layout(start, end)
        return cls(*cls.LAYOUT.unpack_from(datagram, start))

    def body(self) -> bytes:
        return b"" if self.duration_s is None else self.LAYOUT.pack(self.duration_s)


# Changing the will (5.4.22 to 5.4.25)


@dataclass(frozen=True, slots=True)
class WillTopicUpd(ReplacesWillTopic):
    """5.4.22. Without a topic and flags the will is deleted."""

    KIND: ClassVar[int] = 0x1A

    topic: bytes = b""
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class WillTopicResp(OnAir):
    """5.4.24, the answer to WILLTOPICUPD."""

    KIND: ClassVar[int] = 0x1B
    LAYOUT: ClassVar[Layout] = Layout(return_code=U8)
    EXTRA_OCTETS_MAX: ClassVar[int] = 1  # RSMB sends a 0x00 more

    return_code: int


@dataclass(frozen=True, slots=True)
class WillMsgUpd(WithTail):
    """5.4.23: another payload of the will."""

    KIND: ClassVar[int] = 0x1C
    TAIL: ClassVar[str] = "payload"

    payload: bytes


@dataclass(frozen=True, slots=True)
class WillMsgResp(OnAir):
    """5.4.25, the answer to WILLMSGUPD."""

    KIND: ClassVar[int] = 0x1D
    LAYOUT: ClassVar[Layout] = Layout(return_code=U8)
    EXTRA_OCTETS_MAX: ClassVar[int] = 1  # RSMB, as in WILLTOPICRESP

    return_code: int

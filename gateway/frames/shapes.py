"""The shapes that messages have in common: a layout, a layout and a tail, and three narrower ones.

A reader is given the whole datagram and the bounds in it: `start`, the message's first field, and
`end`. Nothing is copied before a field is cut out. Numbers in the texts of MalformedFrame are
bytes as on the air, with length and type.

A fixed-size message longer than its layout is malformed, though its front could be read: an
acknowledgement in a layout that we do not know (MQTT-SN 2.0 has other ones) acknowledges nothing,
and a guess could release a message that never arrived. Messages that a peer is known to send too
long have their EXTRA_OCTETS_MAX. Bytes after the declared length are another matter, see codec.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from gateway.frames.fields import (
    FLAGS_MEANING,
    FLAGS_OCTET,
    FlagsMeaning,
    MalformedFrame,
    TopicIdType,
)
from gateway.frames.layout import OCTETS, U8, U16, Layout, framed

TOPIC_ID_OCTETS = 2


class OnAir:
    """What every frame can do: be read out of a datagram, and become one. Here for fixed layouts.

    A plain base class, no ABC: with one, each `case` of a `match` over frames that does not
    fit takes four times as long (0.08 us against 0.02).
    """

    __slots__ = ()

    KIND: ClassVar[int]
    LAYOUT: ClassVar[Layout] = Layout()
    EXTRA_OCTETS_MAX: ClassVar[int] = 0

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        made_of: Callable[..., Self] = cls  # each message has its own fields
        return made_of(*cls.fixed_fields(datagram, start, end))

    def to_octets(self) -> bytes:
        return framed(self.KIND, self.body())

    def body(self) -> bytes:
        return self.LAYOUT.pack(*[getattr(self, name) for name in self.LAYOUT.names])

    @classmethod
    def spec_name(cls) -> str:
        return cls.__name__.upper()

    @classmethod
    def fixed_fields(cls, datagram: bytes, start: int, end: int) -> tuple[Any, ...]:
        """The fields of a message that ends with its layout."""
        layout = cls.LAYOUT
        if not layout.size <= end - start <= layout.size + cls.EXTRA_OCTETS_MAX:
            cls.require_layout(start, end)
            whole = start + layout.size
            raise MalformedFrame(f"{cls.spec_name()} has {end} bytes instead of {whole}")
        return layout.unpack_from(datagram, start)

    @classmethod
    def require_layout(cls, start: int, end: int) -> None:
        octets, needed = end - start, cls.LAYOUT.size
        if octets < needed:
            where = cls.LAYOUT.missing_after(octets)
            whole = start + needed
            raise MalformedFrame(f"{cls.spec_name()} ends {where}: {end} of {whole} bytes")


class WithTail(OnAir):
    """A layout, then one field that runs to the end of the message and has no length of its own."""

    __slots__ = ()

    TAIL: ClassVar[str]

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        made_of: Callable[..., Self] = cls
        tail = cls.tail_start(start, end)
        return made_of(*cls.LAYOUT.unpack_from(datagram, start), datagram[tail:end])

    def body(self) -> bytes:
        tail: bytes = getattr(self, self.TAIL)
        return super().body() + tail

    @classmethod
    def tail_start(cls, start: int, end: int) -> int:
        cls.require_layout(start, end)
        return start + cls.LAYOUT.size


class MessageIdOnly(OnAir):
    __slots__ = ()

    LAYOUT: ClassVar[Layout] = Layout(message_id=U16)

    message_id: int

    def to_octets(self) -> bytes:
        message_id = self.message_id
        if message_id >> 16:  # what does not fit is named there
            return self.LAYOUT.pack_framed(4, self.KIND, message_id)
        kind, high, low = OCTETS[self.KIND], OCTETS[message_id >> 8], OCTETS[message_id & 0xFF]
        return b"\x04%b%b%b" % (kind, high, low)


class ReplacesWillTopic(OnAir):
    """No topic means "delete the will", and then QoS and retain mean nothing.

    It is sent as the two bytes of the spec; the three of clients that send flags all the same
    (Paho's WILLTOPICUPD) decode to the same value.
    """

    __slots__ = ()

    LAYOUT: ClassVar[Layout] = Layout(flags=U8)

    topic: bytes
    qos: int
    retain: bool

    @classmethod
    def from_octets(cls, datagram: bytes, start: int, end: int) -> Self:
        made_of: Callable[..., Self] = cls
        if end - start < 2:
            return made_of()
        qos, retain, _, _ = FLAGS_MEANING[datagram[start]]
        return made_of(datagram[start + 1 : end], qos, retain)

    def body(self) -> bytes:
        if not self.topic:
            return b""
        flags = FLAGS_OCTET[self.qos, self.retain, False, TopicIdType.NORMAL]
        return self.LAYOUT.pack(flags) + self.topic


class NamesTopic(WithTail):
    """`topic` is a name, or the two bytes of a predefined id or of a short name.

    Of one that is read only the message id is sure to be there, so that it can be answered: the
    topic may be empty, or a predefined id of another length. What says that it is a short name and
    has not two bytes is read as a name, as EMQX's suite sends it.
    """

    __slots__ = ()

    LAYOUT: ClassVar[Layout] = Layout(flags=U8, message_id=U16)
    TAIL: ClassVar[str] = "topic"

    @classmethod
    def read_topic(cls, datagram: bytes, start: int, end: int) -> tuple[FlagsMeaning, int, bytes]:
        tail = cls.tail_start(start, end)
        flags, message_id = cls.LAYOUT.unpack_from(datagram, start)
        meaning, topic = FLAGS_MEANING[flags], datagram[tail:end]
        if meaning[3] is TopicIdType.SHORT and len(topic) != TOPIC_ID_OCTETS:
            meaning = (*meaning[:3], TopicIdType.NORMAL)
        return meaning, message_id, topic

    @classmethod
    def write_topic(cls, meaning: FlagsMeaning, message_id: int, topic: bytes) -> bytes:
        if meaning[3] is TopicIdType.SHORT and len(topic) != TOPIC_ID_OCTETS:
            raise ValueError(f"{cls.spec_name()} has a short topic of {len(topic)} bytes")
        return cls.LAYOUT.pack(FLAGS_OCTET[meaning], message_id) + topic

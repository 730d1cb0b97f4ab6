"""A client that talks with a gateway as it should, octets in and out, and what a bad network or a
bad program makes of its datagrams.

A talker answers what it hears, and else goes on with what it feels like: it connects, with a will
or without, registers, subscribes, publishes at every QoS, sleeps, wakes and leaves. What it
believes may be wrong, since others damage what it says; it connects again now and then.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from random import Random

from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    MalformedFrame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Suback,
    Subscribe,
    TopicIdType,
    Unsuback,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillMsgResp,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicResp,
    WillTopicUpd,
    decode,
    encode,
)

# What a gateway says to clients that play by the rules.
KINDS_HEARD: set[type] = {
    Connack,
    WillTopicReq,
    WillMsgReq,
    Register,
    Regack,
    Publish,
    Puback,
    Pubrec,
    Pubrel,
    Pubcomp,
    Suback,
    Unsuback,
    Pingresp,
    Disconnect,
    WillTopicResp,
    WillMsgResp,
}
PREDEFINED_ID = 7
ANSWERS_MAX = 20  # what a talker still wants to answer; it forgets the oldest
TOPIC_IDS_MAX = 10
CONNECTS_AGAIN = 0.02
PATIENCE = 8
MUTATIONS_MAX = 2

Anything = Callable[["Talker"], Frame]


class Talker:
    def __init__(self, client_id: bytes, dice: Random, *, may_be_clean: bool = True) -> None:
        """One that is never clean keeps its place at a gateway that is full."""
        self.client_id = client_id
        self._may_be_clean = may_be_clean
        self.heard: Counter[type] = Counter()
        self._dice = dice
        self._answers: deque[Frame] = deque(maxlen=ANSWERS_MAX)
        self._topic_ids: deque[int] = deque([1], maxlen=TOPIC_IDS_MAX)
        self._is_there = False
        self._patience = 0  # how often it still says something else before it connects again

    def says(self) -> bytes:
        if self._answers:
            return encode(self._answers.popleft())
        self._patience -= 1
        if not self._is_there and self._patience > 0:
            return encode(Pingreq())
        if not self._is_there or self._likely(CONNECTS_AGAIN):
            self._patience = PATIENCE
            return encode(self._connect())
        return encode(self._dice.choice(_ANYTHING)(self))

    def hears(self, datagram: bytes) -> None:
        """What the gateway says is always a message."""
        frame = decode(datagram)
        self.heard[type(frame)] += 1
        self._learn(frame)
        answer = self._answer_to(frame)
        if answer is not None:
            self._answers.append(answer)

    def _learn(self, frame: Frame) -> None:
        match frame:
            case Connack(0):  # a refusal may be for a damaged CONNECT
                self._is_there = True
            case Disconnect():
                self._is_there = False
            case Regack(topic_id) | Suback(topic_id) if topic_id:
                self._topic_ids.append(topic_id)

    def _answer_to(self, frame: Frame) -> Frame | None:
        match frame:
            case WillTopicReq():
                return WillTopic(self._name(), self._dice.randint(0, 2), retain=self._likely(0.5))
            case WillMsgReq():
                return WillMsg(self._payload())
            case Register(topic_id, message_id):
                return Regack(topic_id, message_id, self._dice.choice([0, 0, 0, 1, 2]))
            case Publish(topic_id, message_id, _, 1):
                return Puback(topic_id, message_id, self._dice.choice([0, 0, 0, 0, 1, 2, 3]))
            case Publish(_, message_id, _, 2):
                return Pubrec(message_id)
            case Pubrec(message_id):
                return Pubrel(message_id)
            case Pubrel(message_id):
                return Pubcomp(message_id)
        return None

    def _connect(self) -> Frame:
        will, clean = self._likely(0.3), self._may_be_clean and self._likely(0.3)
        return Connect(self.client_id, self._dice.choice([0, 600]), will, clean)

    def _publish(self) -> Frame:
        dice = self._dice
        references = [
            *[(TopicIdType.NORMAL, dice.choice(self._topic_ids))] * 3,
            (TopicIdType.PREDEFINED, PREDEFINED_ID),
            (TopicIdType.SHORT, int.from_bytes(b"tp", "big")),
        ]
        kind, topic_id = dice.choice(references)
        qos = dice.choice([-1, 0, 1, 1, 2, 2])
        retain, dup = self._likely(0.1), self._likely(0.2)
        return Publish(topic_id, self._message_id(), self._payload(), qos, retain, dup, kind)

    def _subscribe(self) -> Frame:
        qos, message_id = self._dice.randint(0, 2), self._message_id()
        if self._likely(0.2):
            return Subscribe(message_id, b"tp", qos, topic_id_type=TopicIdType.SHORT)
        return Subscribe(message_id, self._filter(), qos)

    def _message_id(self) -> int:
        return self._dice.randint(1, 50)

    def _name(self) -> bytes:
        return b"t/%d" % self._dice.randrange(10)

    def _filter(self) -> bytes:
        return self._dice.choice([self._name(), self._name(), b"t/+", b"t/#"])

    def _payload(self) -> bytes:
        return self._dice.randbytes(self._dice.choice([0, 1, 8, 200, 260]))

    def _likely(self, share: float) -> bool:
        return self._dice.random() < share


def what_was_heard(talkers: Iterable[Talker]) -> Counter[type]:
    heard: Counter[type] = Counter()
    for talker in talkers:
        heard += talker.heard
    return heard


_ANYTHING: list[Anything] = [
    *[Talker._publish] * 8,
    *[Talker._subscribe] * 2,
    lambda talker: Register(0, talker._message_id(), talker._name()),
    lambda talker: Unsubscribe(talker._message_id(), talker._filter()),
    lambda talker: Pingreq(),
    lambda talker: Pingreq(talker.client_id),
    lambda talker: Pingreq(talker.client_id),
    lambda talker: Disconnect(600),
    lambda talker: Disconnect(),
    lambda talker: WillTopicUpd(talker._name(), 1),
    lambda talker: WillMsgUpd(talker._payload()),
]


# What becomes of a datagram. `other` is one that was on its way too.


def _bits_flipped(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    for _ in range(dice.randint(1, 4)):
        octets[dice.randrange(len(octets))] ^= 1 << dice.randrange(8)
    return octets


def _cut(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    return octets[: dice.randrange(len(octets))] or octets[:1]


def _beheaded(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    return octets[dice.randrange(len(octets)) :]


def _grown(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    at = dice.randrange(len(octets) + 1)
    octets[at:at] = dice.randbytes(dice.randint(1, 9))
    return octets


def _spliced(octets: bytearray, other: bytes, dice: Random) -> bytearray:
    """The head of one and the tail of another."""
    return octets[: dice.randint(1, len(octets))] + other[dice.randrange(len(other)) :]


def _another_length(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    octets[0] = dice.choice([0, 1, 2, 3, 255, len(octets) + 1 & 0xFF, dice.randrange(256)])
    return octets


def _another_type(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    octets[-1 if len(octets) < 2 else 1] = dice.randrange(0x20) if dice.random() < 0.9 else 0xFE
    return octets


def _extreme(octets: bytearray, _other: bytes, dice: Random) -> bytearray:
    octets[dice.randrange(len(octets))] = dice.choice([0x00, 0x01, 0x7F, 0x80, 0xFF])
    return octets


def _right_length(octets: bytearray, _other: bytes, _dice: Random) -> bytearray:
    """Behind a length that is right the damage gets past the first check."""
    if len(octets) < 256:
        octets[0] = len(octets)
    return octets


_MUTATIONS = (
    _bits_flipped, _cut, _beheaded, _grown, _spliced, _another_length, _another_type, _extreme,
)  # fmt: skip


def mutated(datagram: bytes, other: bytes, dice: Random) -> bytes:
    octets = bytearray(datagram)
    for _ in range(dice.randint(1, MUTATIONS_MAX)):
        octets = dice.choice(_MUTATIONS)(octets, other, dice)
    if dice.random() < 0.75:
        octets = _right_length(octets, other, dice)
    return bytes(octets)


def with_damaged_copy(datagram: bytes, other: bytes, dice: Random) -> list[bytes]:
    both = [datagram, mutated(datagram, other, dice)]
    dice.shuffle(both)
    return both


def is_whole(datagram: bytes) -> bool:
    """Whether the damage left a message, or made another one."""
    try:
        decode(datagram)
    except MalformedFrame:
        return False
    return True

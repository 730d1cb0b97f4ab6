"""The short ways past frames lead to where the long ones do, whatever a client says and when."""

from __future__ import annotations

import random

import pytest

from gateway.core.effects import ConnectSaved, WhenSaved
from gateway.core.events import Output
from gateway.core.session.options import SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Message, Peer, Reading
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Puback,
    Publish,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    TopicIdType,
    decode,
    encode,
)
from tests.core.session.client import HERE, PREDEFINED, Client
from tests.support.samples import seeds

STEPS = 80
PAYLOAD_MAX = 20
TOPIC = 1
COUNTED: dict[str, int] = {}


def both() -> tuple[Session, Session]:
    return twin().session, twin().session


def twin() -> Client:
    client = Client(SessionOptions(payload_bytes_max=PAYLOAD_MAX), PREDEFINED)
    client.says(Connect(b"dev1", clean_session=True, duration_s=60))
    client.says(Register(0, 1, b"a/b"))
    client.says(Register(0, 2, b"own"))
    return client


def short_way(session: Session, datagram: bytes, at: float) -> list[Output]:
    reading = session.plain(datagram, at)
    if reading is not None:
        COUNTED["reading"] = COUNTED.get("reading", 0) + 1
        return [reading]
    answered = session.plain_answer(datagram, at)
    if answered is not None:
        kind = type(decode(datagram)).__name__
        COUNTED[kind] = COUNTED.get(kind, 0) + 1
        return answered
    return session.receive(decode(datagram), at)


def something(dice: random.Random, session: Session) -> bytes:
    """Of few ids, so that they meet again; sometimes in the long form, or with bytes behind it."""
    number = dice.randint(1, 4)
    current = session.outbound.outstanding
    outstanding = number if current is None else current.message_id
    kind = dice.choice((*range(10), 8, 8, 8)) if current is not None else dice.randrange(10)
    if kind < 5:
        topic_id, topic_kind = dice.choice(
            [(TOPIC, TopicIdType.NORMAL)] * 6
            + [(9, TopicIdType.NORMAL), (7, TopicIdType.PREDEFINED), (0x6162, TopicIdType.SHORT)]
        )
        payload = bytes(dice.choice((1, 1, PAYLOAD_MAX, PAYLOAD_MAX + 1)))
        frame = Publish(
            topic_id, number, payload, dice.choice((0, 0, 1, 1, 1, 1, 2)), dice.random() < 0.2,
            dice.random() < 0.2, topic_kind,
        )  # fmt: skip
        datagram = encode(frame)
    elif kind < 8:
        datagram = encode(Pubrel(number))
    elif kind < 9:
        code = dice.choice([ReturnCode.ACCEPTED] * 4 + [ReturnCode.INVALID_TOPIC_ID])
        datagram = encode(Puback(2, dice.choice((outstanding, outstanding, number)), code))
    else:
        others: list[Frame] = [Disconnect(30)]
        others += [Pingreq() for _ in range(5)]
        others += [Regack(2, outstanding, ReturnCode.ACCEPTED) for _ in range(5)]
        datagram = encode(dice.choice(others))
    if dice.random() < 0.1:
        return datagram + b"x"
    if dice.random() < 0.1:
        return b"\x01" + (len(datagram) + 2).to_bytes(2, "big") + datagram[1:]
    return datagram


def admissions(effects: list[Output]) -> list[ConnectSaved]:
    waited = [each for one in effects if isinstance(one, WhenSaved) for each in one.then]
    return [each for each in waited if isinstance(each, ConnectSaved)]


def play(seed: int) -> None:
    dice = random.Random(seed)
    short, long = both()
    waiting: list[tuple[Reading, Reading]] = []
    at = 1.0
    for _ in range(STEPS):
        at += dice.choice((0.0, 0.1, 5.0))
        chance = dice.random()
        if short.state is not State.ACTIVE:
            again = Connect(b"dev1", clean_session=False, duration_s=60)
            pair = short.connect(again, HERE, at), long.connect(again, HERE, at)
            for session, effects in zip((short, long), pair, strict=True):
                for admit in admissions(effects):
                    session.admitted(admit, at)
        elif chance < 0.25 and waiting:
            record = dice.choice((-1, 5))
            left, right = waiting.pop(dice.randrange(len(waiting)))
            left.record = right.record = record
            pair = short.acknowledged(left), long.acknowledged(right)
        elif chance < 0.3:
            message = Message("own", b"on", dice.choice((0, 1, 1, 1, 2)))
            pair = short.deliver(message, at), long.deliver(message, at)
        else:
            datagram = something(dice, short)
            pair = short_way(short, datagram, at), long.receive(decode(datagram), at)
            readings = [[each for each in one if isinstance(each, Reading)] for one in pair]
            waiting += zip(*readings, strict=True)
        assert repr(pair[0]) == repr(pair[1]), seed
        assert (short.state, short.last_received_at) == (long.state, long.last_received_at), seed
        assert short.wake_at() == long.wake_at(), seed


@pytest.mark.parametrize("some", seeds(100, 6000, each=100))
def test_the_short_ways_and_the_long_ones_lead_to_the_same(some: range) -> None:
    for seed in some:
        play(seed)


def test_the_short_ways_are_gone() -> None:
    """Or the test above would prove nothing."""
    COUNTED.clear()
    for seed in range(50):
        play(seed)
    assert set(COUNTED) == {"reading", "Pubrel", "Puback"}
    assert min(COUNTED.values()) > 20, COUNTED


@pytest.mark.parametrize("state", [State.ASLEEP, State.LOST, State.CONNECTING])
def test_who_is_not_active_goes_the_long_way(state: State) -> None:
    session = Session(
        client_id=ClientId("dev1"),
        peer=Peer(0, b"here"),
        options=SessionOptions(),
        predefined=PREDEFINED,
    )
    session.state = state
    reading = encode(Publish(7, 1, b"x", 1, topic_id_type=TopicIdType.PREDEFINED))
    assert session.plain(reading, 1.0) is None
    assert session.plain_answer(encode(Pubrel(1)), 1.0) is None

"""Clients of others, with the habits that they were seen to have: each is served all the same.

None costs a reading, none loses its client, and none holds up what comes after a message that the
client cannot be told of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.options import EngineOptions
from gateway.core.session.options import PredefinedTopics
from gateway.core.state_records import ClientId, State
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Subscribe,
    TopicIdType,
    WillMsg,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench

S1 = ClientId("s1")
HERE = b"here"
READINGS = 12
STEP_S = 5.0


def swapped(number: int) -> int:
    return int.from_bytes(number.to_bytes(2, "big"), "little")


def good(frame: Frame) -> list[bytes]:
    """What a client by the book answers."""
    match frame:
        case Register():
            return [encode(Regack(frame.topic_id, frame.message_id, 0))]
        case Publish(qos=1):
            return [encode(Puback(frame.topic_id, frame.message_id, 0))]
        case Publish(qos=2):
            return [encode(Pubrec(frame.message_id))]
        case Pubrel():
            return [encode(Pubcomp(frame.message_id))]
    return []


def no_regack(frame: Frame) -> list[bytes]:
    return [] if isinstance(frame, Register) else good(frame)


def swapped_octets(frame: Frame) -> list[bytes]:
    match frame:
        case Register():
            return [encode(Regack(swapped(frame.topic_id), swapped(frame.message_id), 0))]
        case Publish(qos=1):
            return [encode(Puback(swapped(frame.topic_id), swapped(frame.message_id), 0))]
    return good(frame)


def puback_of_topic_0(frame: Frame) -> list[bytes]:
    if isinstance(frame, Publish) and frame.qos == 1:
        return [encode(Puback(0, frame.message_id, 0))]
    return good(frame)


def puback_with_a_topic_id_of_one_octet(frame: Frame) -> list[bytes]:
    if isinstance(frame, Publish) and frame.qos == 1:
        return [
            bytes((6, 0x0D, frame.topic_id & 0xFF)) + frame.message_id.to_bytes(2, "big") + b"\0"
        ]
    return good(frame)


def puback_to_any_qos(frame: Frame) -> list[bytes]:
    if isinstance(frame, Publish):
        return [*good(frame), encode(Puback(frame.topic_id, frame.message_id, 0))]
    return good(frame)


def pubrec_to_any_qos(frame: Frame) -> list[bytes]:
    return [encode(Pubrec(frame.message_id))] if isinstance(frame, Publish) else good(frame)


def nothing(_frame: Frame) -> list[bytes]:
    return []


def ping(_step: int) -> Sequence[Frame]:
    return [Pingreq()]


@dataclass(frozen=True)
class Habit:
    """`answers` to what comes, `signs` of life that it gives at each step."""

    answers: Callable[[Frame], list[bytes]] = good
    signs: Callable[[int], Sequence[Frame]] = ping
    message_id: Callable[[int], int] = lambda step: step
    kind: TopicIdType = TopicIdType.NORMAL


HABITS = {
    "by the book": Habit(),
    "no answer to REGISTER": Habit(no_regack),
    "REGACK and PUBACK with swapped octets": Habit(swapped_octets),
    "PUBACK with topic id 0": Habit(puback_of_topic_0),
    "PUBACK with a topic id of one octet": Habit(puback_with_a_topic_id_of_one_octet),
    "PUBACK to any QoS": Habit(puback_to_any_qos),
    "PUBREC to QoS 0 and 1": Habit(pubrec_to_any_qos),
    "no acknowledgement of anything": Habit(nothing),
    "PINGREQ always with the client id": Habit(signs=lambda _: [Pingreq(b"s1")]),
    "CONNECT in place of PINGREQ": Habit(signs=lambda _: [Connect(b"s1", 60, clean_session=False)]),
    "WILLMSG in place of PINGREQ": Habit(signs=lambda _: [WillMsg(b"there")]),
    "PINGREQ again and again": Habit(signs=lambda _: [Pingreq(b"s1")] * 20),
    "message ids that begin at 0": Habit(message_id=lambda step: step - 1),
    "message ids that wrap": Habit(message_id=lambda step: step % 5),
    "one message id": Habit(message_id=lambda _: 7),
    "own numbers as predefined ids": Habit(kind=TopicIdType.PREDEFINED),
    "own numbers as short names": Habit(kind=TopicIdType.SHORT),
}


class Device:
    """A client with a habit, at the bench."""

    def __init__(self, habit: Habit, *, clean: bool) -> None:
        self.habit = habit
        self.bench = Bench()
        self.got: set[bytes] = set()
        self.states: set[State] = set()
        self.says(Connect(b"s1", 60, clean_session=clean))
        self.topic_id = self.bench.register(HERE, b"t")
        self.bench.say(HERE, Subscribe(1, b"cmd/#", 1))

    def says(self, *frames: Frame) -> None:
        self.answers(self.bench.say(HERE, *frames))

    def answers(self, heard: list[Frame]) -> None:
        while heard:
            frame = heard.pop(0)
            if isinstance(frame, Publish):
                self.got.add(frame.payload)
            if isinstance(frame, Publish | Register | Pubrel):
                heard += self.bench.say_octets(HERE, *self.habit.answers(frame))

    def passes(self, seconds: float) -> None:
        self.bench.wake(self.bench.at + seconds)
        self.answers(self.bench.hear(HERE))
        self.states.add(self.bench.engine.sessions[S1].state)


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS.keys())
@pytest.mark.parametrize("clean", [False, True])
def test_a_client_with_a_habit_is_served(habit: Habit, *, clean: bool) -> None:
    device = Device(habit, clean=clean)
    bench = device.bench
    for number in range(3):
        bench.publishes(f"cmd/{number}", b"%d" % number, qos=1, by="cmd/#")
    device.passes(0.0)
    for step in range(1, READINGS + 1):
        device.passes(STEP_S)
        device.says(*habit.signs(step))
        message_id = habit.message_id(step)
        device.says(
            Publish(device.topic_id, message_id, b"r%d" % step, 1, topic_id_type=habit.kind)
        )
    readings = [str(each.payload, "ascii") for each in bench.seen_of(mqtt5.PublishPacket)]
    wanted = [f"r{step}" for step in range(1, READINGS + 1)]
    assert [each for each in readings if each in wanted] == wanted
    while bench.engine.sessions[S1].outbound.waiting:
        assert bench.at < 3000.0
        device.passes(STEP_S)
        device.says(*habit.signs(0))
    assert device.states == {State.ACTIVE}
    assert device.got == {b"0", b"1", b"2"}


def test_a_client_that_ignores_disconnect_comes_back_by_what_it_says_next() -> None:
    device = Device(Habit(), clean=False)
    device.bench.wake(200.0)
    assert device.bench.engine.sessions[S1].state is State.LOST
    for second in (201.0, 202.0):
        device.bench.at = second
        assert device.bench.say(HERE, Pingreq()) == [Disconnect()]
    device.says(Connect(b"s1", 60, clean_session=False))
    assert device.bench.engine.sessions[S1].state is State.ACTIVE


def test_a_sleeper_that_asks_all_the_time_gets_what_waits_once() -> None:
    device = Device(Habit(), clean=False)
    device.says(Disconnect(600))
    device.bench.publishes("cmd/0", b"0", qos=1, by="cmd/#")
    heard: list[Frame] = []
    for _ in range(200):
        device.bench.at += 0.05
        asked = device.bench.say(HERE, Pingreq(b"s1"))
        heard += asked
        device.answers(asked)
    assert device.got == {b"0"}
    assert [frame for frame in heard if isinstance(frame, Publish)] == []
    assert Pingresp() in heard


def test_auth_of_the_drafts_is_not_answered_and_its_client_goes_on() -> None:
    """bisquitt's clients send it behind CONNECT where they have a user name."""
    bench = Bench()
    plain = b"\x00\x05PLAIN\x00USER\x00PASSWORD"
    auth = bytes((len(plain) + 2, 0x03)) + plain
    assert bench.say_octets(HERE, encode(Connect(b"s1", 60)), auth) == [Connack(0)]
    assert [each.reason for each in bench.news if isinstance(each, Dropped)] == [Reason.MALFORMED]
    assert bench.say(HERE, Register(0, 1, b"t")) == [Regack(1, 1, 0)]


def test_a_name_that_is_predefined_gets_a_number_when_it_is_registered() -> None:
    bench = Bench(EngineOptions(UPSTREAM, predefined=PredefinedTopics.of({"boot": 7})))
    bench.say(HERE, Connect(b"s1", 60))
    assert bench.say(HERE, Register(0, 1, b"boot")) == [Regack(1, 1, 0)]
    for topic_id, kind in ((1, TopicIdType.NORMAL), (7, TopicIdType.PREDEFINED)):
        frame = Publish(topic_id, 2, b"x", 0, topic_id_type=kind)
        assert bench.say(HERE, frame) == []
    assert [each.topic for each in bench.seen_of(mqtt5.PublishPacket)][-2:] == ["boot", "boot"]

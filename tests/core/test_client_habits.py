"""Clients of others, with the habits that they were seen to have: each is served all the same.

None costs a reading, none loses its client, and none holds up what comes after a message that the
client cannot be told of. At the end are single datagrams of such clients, byte by byte, each with
what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mqtt5
import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.options import EngineOptions
from gateway.core.session.options import PredefinedTopics
from gateway.core.state_records import ClientId, State
from gateway.core.topic_options import UplinkOptions
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
    Suback,
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


def puback_with_a_topic_id_of_one_byte(frame: Frame) -> list[bytes]:
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
    """`answers` to what comes, `signs` of life that it gives at each step. `is_deaf`: it gives no
    answer that could be understood, so messages are given up for it in the end.
    """

    answers: Callable[[Frame], list[bytes]] = good
    signs: Callable[[int], Sequence[Frame]] = ping
    message_id: Callable[[int], int] = lambda step: step
    kind: TopicIdType = TopicIdType.NORMAL
    is_deaf: bool = False


HABITS = {
    "by the book": Habit(),
    "no answer to REGISTER": Habit(no_regack),
    "REGACK and PUBACK with swapped bytes": Habit(swapped_octets),
    "PUBACK with topic id 0": Habit(puback_of_topic_0),
    "PUBACK with a topic id of one byte": Habit(puback_with_a_topic_id_of_one_byte, is_deaf=True),
    "PUBACK to any QoS": Habit(puback_to_any_qos),
    "PUBREC to QoS 0 and 1": Habit(pubrec_to_any_qos),
    "no acknowledgement of anything": Habit(nothing, is_deaf=True),
    "PINGREQ always with the client id": Habit(signs=lambda _: [Pingreq(b"s1")]),
    "CONNECT in place of PINGREQ": Habit(signs=lambda _: [Connect(b"s1", 60, clean_session=False)]),
    "WILLMSG in place of PINGREQ": Habit(signs=lambda _: [WillMsg(b"there")]),
    "PINGREQ again and again": Habit(signs=lambda _: [Pingreq(b"s1")] * 20),
    "message ids that begin at 0": Habit(message_id=lambda step: step - 1),
    "message ids that wrap": Habit(message_id=lambda step: step % 5),
    "message ids that restart at 1 after each CONNACK": Habit(
        signs=lambda step: [Connect(b"s1", 60, clean_session=False)] if step % 4 == 1 else [],
        message_id=lambda step: (step - 1) % 4 + 1,
    ),
    "one message id": Habit(message_id=lambda _: 7),
    "own numbers as predefined ids": Habit(kind=TopicIdType.PREDEFINED),
    "own numbers as short names": Habit(kind=TopicIdType.SHORT),
}


def wait(bench: Bench, seconds: float) -> None:
    """With a broker that answers pings."""
    bench.wake(bench.at + seconds)
    bench.from_broker(mqtt5.PingRespPacket().write())


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
        wait(self.bench, seconds)
        self.answers(self.bench.hear(HERE))
        self.states.add(self.bench.engine.sessions[S1].state)


@pytest.mark.parametrize("habit", HABITS.values(), ids=HABITS.keys())
@pytest.mark.parametrize("clean", [False, True])
def test_a_client_with_a_habit_is_served(habit: Habit, *, clean: bool) -> None:
    device = Device(habit, clean=clean)
    bench = device.bench
    for number, qos in enumerate((1, 0, 2, 1)):
        bench.publishes(f"cmd/{number}", b"%d" % number, qos=qos, by="cmd/#")
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
    outbound = bench.engine.sessions[S1].outbound
    while outbound.waiting:
        assert bench.at < 3000.0
        device.passes(STEP_S)
        device.says(*habit.signs(0))
    assert device.states == {State.ACTIVE}
    assert device.got == {b"0", b"1", b"2", b"3"}
    assert (outbound.given_up is not None) == habit.is_deaf


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


# Byte by byte


def connected(*, clean: bool = False, predefined: PredefinedTopics | None = None) -> Bench:
    options = EngineOptions(UPSTREAM, predefined=predefined or PredefinedTopics.of({"boot": 7}))
    bench = Bench(options)
    bench.say(HERE, Connect(b"s1", 60, clean_session=clean))
    bench.say(HERE, Pingreq())
    return bench


def says(bench: Bench, spaced: str) -> list[str]:
    """What comes of a datagram, in bytes."""
    return [encode(frame).hex() for frame in bench.say_octets(HERE, bytes.fromhex(spaced))]


def reached(bench: Bench) -> list[tuple[str, bytes]]:
    """The readings, since the last look."""
    packets = bench.seen_of(mqtt5.PublishPacket)
    return [(each.topic, each.payload) for each in packets if each.topic != "tidegate/gh/state"]


def test_register_in_a_fresh_installation_gives_the_first_ids() -> None:
    bench = connected()
    assert says(bench, "07 0a 0000 0001 61") == ["070b0001000100"]
    assert says(bench, "07 0a 0000 0002 62") == ["070b0002000200"]


@pytest.mark.parametrize("leaves", ["02 18", None], ids=["DISCONNECT", "lost"])
def test_a_late_publish_of_a_clean_session_is_no_other_topics(leaves: str | None) -> None:
    bench = connected(clean=True)
    assert says(bench, "07 0a 0000 0001 61") == ["070b0001000100"]
    if leaves is not None:
        assert says(bench, leaves) == ["0218"]
    else:
        bench.wake(95.0)
    assert not bench.engine.sessions
    bench.say(HERE, Connect(b"s1", 60, clean_session=True))
    assert says(bench, "07 0a 0000 0001 62") == ["070b0002000100"]
    assert says(bench, "08 0c 20 0001 0002 41") == ["070d0001000202"]  # late, for "a"
    assert says(bench, "07 0a 0000 0003 61") == ["070b0001000300"]  # "a" is what it was


def test_suback_echoes_a_short_name_and_its_messages_come_under_it() -> None:
    bench = connected()
    assert says(bench, "07 12 02 0001 7a7a") == ["0813007a7a000100"]
    bench.publishes("zz", b"on", qos=0, by="zz")
    assert bench.hear(HERE) == [Publish(0x7A7A, 0, b"on", 0, topic_id_type=TopicIdType.SHORT)]


@pytest.mark.parametrize("kind", ["01", "02"], ids=["predefined", "short"])
def test_a_clients_own_id_under_another_type_is_its_own(kind: str) -> None:
    bench = connected()
    assert says(bench, "07 0a 0000 0001 61") == ["070b0001000100"]
    assert says(bench, f"07 12 {0x20 | int(kind):02x} 0009 0001") == ["0813200001000900"]
    assert says(bench, f"08 0c {0x20 | int(kind):02x} 0001 000a 41") == ["070d0001000a00"]
    assert reached(bench) == [("a", b"A")]
    assert says(bench, "08 0c 21 0007 000b 42") == ["070d0007000b00"]  # what is predefined wins
    assert reached(bench) == [("boot", b"B")]


def test_a_sleep_of_six_octets_has_its_duration() -> None:
    bench = connected()
    assert says(bench, "06 18 001e aaaa") == ["0218"]
    session = bench.engine.sessions[S1]
    assert (session.state, session.sleep_s) == (State.ASLEEP, 0x1E)


def test_a_short_name_that_is_longer_is_a_name() -> None:
    bench = connected()
    assert says(bench, "0a 12 22 0003 65 6d 71 2f 6e") == ["0813200001000300"]
    bench.publishes("emq/n", b"on", qos=0, by="emq/n")
    assert bench.hear(HERE) == [Publish(1, 0, b"on", 0)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("05 14 02 0005", "0415 0005"),
        ("05 12 00 000b", "0813 00 0000 000b 03"),
        ("06 0a 0000 0001", "070b 0000 0001 02"),
    ],
    ids=["UNSUBSCRIBE", "SUBSCRIBE", "REGISTER"],
)
def test_a_request_without_a_topic_is_answered(asked: str, answer: str) -> None:
    assert says(connected(), asked) == [answer.replace(" ", "")]


def test_one_that_only_publishes_and_pings_is_never_lost_and_hears_the_next_message() -> None:
    device = Device(Habit(nothing), clean=False)
    bench = device.bench
    bench.say(HERE, Connect(b"s1", 60, clean_session=False, will=True))
    bench.say_octets(HERE, bytes.fromhex("05 07 00 67 77"), bytes.fromhex("03 09 78"))
    bench.publishes("cmd/0", b"0", qos=1, by="cmd/#")
    bench.publishes("cmd/1", b"1", qos=1, by="cmd/#")
    bench.seen()
    heard: set[bytes] = set()
    for _ in range(120):
        device.passes(STEP_S)
        device.says(Pingreq(), Publish(device.topic_id, 0, b"qos 0", 0))
        heard |= device.got
    assert device.states == {State.ACTIVE}
    assert heard == {b"0", b"1"}
    assert reached(bench) == [("t", b"qos 0")] * 120  # and no will


@pytest.mark.parametrize("qos", [1, 2], ids=["REGISTER", "PUBREL"])
def test_a_sleeper_that_ignores_what_it_is_sent_hears_pingresp(qos: int) -> None:
    ignored = Register if qos == 1 else Pubrel
    device = Device(
        Habit(lambda frame: [] if isinstance(frame, ignored) else good(frame)), clean=False
    )
    bench = device.bench
    device.says(Disconnect(600))
    bench.publishes("cmd/0", b"0", qos=qos, by="cmd/#")
    began_at, heard = bench.at, list[Frame]()
    while Pingresp() not in heard:
        assert bench.at <= began_at + 50.0
        asked = bench.say(HERE, Pingreq(b"s1"))
        heard += asked
        device.answers(asked)
        wait(bench, STEP_S)


def test_a_new_client_id_for_each_process_takes_no_place_for_good() -> None:
    """With CleanSession 0: each leaves a session behind that no client comes back to."""
    bench = Bench(
        EngineOptions(UPSTREAM, admission=AdmissionOptions(clients_max=5, absent_s_min=60.0))
    )
    for process in range(40):
        name = b"node-%d" % process
        assert bench.say(HERE, Connect(name, 10, clean_session=False)) == [Connack(0)]
        assert bench.register(HERE, b"t") == 1
        bench.say(HERE, Publish(1, 1, name, 1))
        assert reached(bench)[-1] == ("t", name)
        for _ in range(6):
            wait(bench, STEP_S)
    assert len(bench.engine.sessions) == 5


def test_message_ids_that_wrap_at_125_cost_no_reading() -> None:
    bench = connected()
    topic_id = bench.register(HERE, b"t")
    for number in range(400):
        wait(bench, 1.0)
        message_id = number % 125 + 1
        reading = Publish(topic_id, message_id, b"%d" % number, 1)
        assert bench.say(HERE, reading) == [Puback(topic_id, message_id, 0)]
    assert reached(bench) == [("t", b"%d" % number) for number in range(400)]


# The sensor side


def test_register_that_is_not_answered_waits_no_longer_than_for_suback() -> None:
    bench = connected()
    bench.say(HERE, Subscribe(1, b"cmd/#", 1))
    bench.publishes("cmd/0", b"0", qos=1, by="cmd/#")
    (register,) = bench.hear(HERE)
    assert isinstance(register, Register)
    suback, message = bench.say(HERE, Subscribe(2, b"cmd/0", 1))
    assert suback == Suback(register.topic_id, 2, 0, 1)
    assert message == Publish(register.topic_id, 1, b"0", 1)


def test_a_copy_that_the_network_made_is_known_by_its_id() -> None:
    bench = connected()
    topic_id = bench.register(HERE, b"t")
    readings = [Publish(topic_id, number + 1, b"v%d" % number, 1) for number in range(5)]
    for reading in readings:
        bench.say(HERE, reading)
    assert bench.say(HERE, readings[2]) == [Puback(topic_id, 3, 0)]
    assert reached(bench) == [("t", b"v%d" % number) for number in range(5)]


def test_the_gateways_own_entry_at_home_assistant_is_not_taken_away() -> None:
    uplink = UplinkOptions(discovery_prefix="homeassistant")
    bench = Bench(EngineOptions(UPSTREAM, uplink=uplink))
    bench.say(HERE, Connect(b"s1", 60))
    topic_id = bench.register(HERE, b"homeassistant/device/tidegate_bar/config")
    emptied = Publish(topic_id, 2, b"", 1, retain=True)
    assert bench.say(HERE, emptied) == [Puback(topic_id, 2, 3)]
    assert reached(bench) == []

"""The simulated sensor's client: what it asks when; time is written as numbers, nothing waits.

What the library does of its own (message ids, repeated QoS 2 messages, topic ids that the gateway
gives) is tested in `tests/firmware/`.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.sensors.client import READINGS_WAITING_MAX, SensorClient, State
from gateway.cli.sensors.client_effects import (
    Acknowledged,
    Connected,
    ConversationEnded,
    Dropped,
    DropReason,
    Effect,
    EndReason,
    FellAsleep,
    Finished,
    Received,
    Retransmitted,
    Send,
)
from gateway.cli.sensors.pace import Pace
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
    decode,
    encode,
)

PACE = Pace(
    retry_after_s=2.0,
    retries_max=3,
    keep_alive_s=60,
    congestion_pause_s=5.0,
    reconnect_pause_s=(0.5, 0.5),
)
SLEEPY = replace(PACE, sleep_s=10, linger_s=0.5, wake_after=0.9)


class Node:
    """A client with its frames decoded. Its dice add nothing: message ids begin at 1."""

    def __init__(self, qos: int = 1, pace: Pace = PACE, *, clean: bool = False) -> None:
        client = SensorClient(b"s1", b"demo/s1", b"demo/s1/set", qos, Random(7), pace, clean)
        client.engine.dice = lambda bits: 0
        client.engine.message_id = 0
        self.client = client

    def connect(self, now: float) -> list[Frame | Effect]:
        return decoded(self.client.connect(now))

    def publish(self, payload: bytes, now: float) -> list[Frame | Effect]:
        return decoded(self.client.publish(payload, now))

    def leave(self, now: float) -> list[Frame | Effect]:
        return decoded(self.client.leave(now))

    def receive(self, frame: Frame, now: float) -> list[Frame | Effect]:
        return decoded(self.client.receive(encode(frame), now))

    def handle_time(self, now: float) -> list[Frame | Effect]:
        return decoded(self.client.handle_time(now))

    def wake_at(self) -> float | None:
        return self.client.wake_at()

    def state(self) -> State:
        return self.client.state


def decoded(effects: list[Effect]) -> list[Frame | Effect]:
    return [decode(each.datagram) if isinstance(each, Send) else each for each in effects]


def subscribed(qos: int = 1, pace: Pace = PACE, *, clean: bool = False) -> Node:
    """Topic id 6 is for commands; message id 1 is used."""
    node = Node(qos, pace, clean=clean)
    node.connect(now=0.0)
    node.receive(Connack(0), now=0.0)
    assert node.receive(Suback(6, 1, 0, qos=qos), now=0.0) == [Connected()]
    return node


def ready(qos: int = 1, pace: Pace = PACE, *, clean: bool = False) -> Node:
    """Topic id 5 is for readings as well, registered at time 0; message ids up to 3 are used."""
    node = subscribed(qos, pace, clean=clean)
    assert node.publish(b"0", now=0.0) == [Register(0, 2, b"demo/s1")]
    (publish,) = node.receive(Regack(5, 2, 0), now=0.0)
    assert isinstance(publish, Publish)
    if qos == 0:
        node.client.engine.message_id = 3
    elif qos == 1:
        node.receive(Puback(5, 3, 0), now=0.0)
    else:
        node.receive(Pubrec(3), now=0.0)
        node.receive(Pubcomp(3), now=0.0)
    assert node.state() is State.READY
    return node


def connects_again(node: Node, now: float) -> list[Frame | Effect]:
    """Its CONNECT and SUBSCRIBE are accepted; what follows."""
    (subscribe,) = node.receive(Connack(0), now)
    assert isinstance(subscribe, Subscribe)
    effects = node.receive(Suback(6, subscribe.message_id, 0, qos=subscribe.qos), now)
    assert effects[0] == Connected()
    return effects[1:]


# The conversation


def test_it_connects_subscribes_and_registers_one_after_the_other() -> None:
    node = Node()
    assert node.connect(now=0.0) == [Connect(b"s1", 60)]
    assert node.receive(Connack(0), now=0.1) == [Subscribe(1, b"demo/s1/set", qos=1)]
    assert node.receive(Suback(6, 1, 0, qos=1), now=0.2) == [Connected()]
    assert node.publish(b"21.5", now=0.3) == [Register(0, 2, b"demo/s1")]
    assert node.receive(Regack(5, 2, 0), now=0.4) == [Publish(5, 3, b"21.5", qos=1)]


def test_readings_before_the_conversation_is_complete_wait_for_it() -> None:
    node = Node(qos=0)
    node.connect(now=0.0)
    assert node.publish(b"21.5", now=0.0) == []
    assert node.publish(b"21.6", now=0.0) == []
    assert connects_again(node, now=0.1) == [Register(0, 2, b"demo/s1")]
    both = [Publish(5, 0, b"21.5", qos=0), Publish(5, 0, b"21.6", qos=0)]
    assert node.receive(Regack(5, 2, 0), now=0.2) == both


def test_an_answer_with_another_message_id_is_not_its_own() -> None:
    node = Node()
    node.connect(now=0.0)
    node.receive(Connack(0), now=0.0)
    assert node.receive(Suback(6, 9, 0), now=0.0) == []
    assert node.state() is State.SUBSCRIBING


@pytest.mark.parametrize("refusal", [Connack(3), Suback(0, 1, 3)])
def test_after_a_refusal_it_connects_again_after_a_pause(refusal: Connack | Suback) -> None:
    node = Node()
    node.connect(now=0.0)
    if isinstance(refusal, Suback):
        node.receive(Connack(0), now=0.5)
    assert node.receive(refusal, now=1.0) == [ConversationEnded(EndReason.REFUSED)]
    assert node.wake_at() == 1.5
    assert node.handle_time(now=1.5) == [Connect(b"s1", 60)]


def test_a_topic_that_is_refused_ends_the_conversation_and_keeps_the_reading() -> None:
    node = subscribed()
    node.publish(b"21.5", now=1.0)
    refused = node.receive(Regack(0, 2, 3), now=1.1)
    assert refused == [ConversationEnded(EndReason.REFUSED)]
    assert node.client.has_readings


def test_congestion_makes_it_wait_and_ask_again() -> None:
    node = Node()
    connect = node.connect(now=0.0)
    assert node.receive(Connack(1), now=1.0) == []
    assert node.publish(b"21.5", now=2.0) == []
    assert node.wake_at() == 6.0
    assert node.handle_time(now=6.0) == connect
    node.receive(Connack(0), now=6.0)
    assert node.receive(Suback(0, 1, 1), now=6.0) == []
    assert node.handle_time(now=11.0) == [Subscribe(2, b"demo/s1/set", qos=1)]
    assert node.receive(Suback(6, 2, 0), now=11.0) == [Connected(), Register(0, 3, b"demo/s1")]
    assert node.receive(Regack(0, 3, 1), now=11.0) == []
    assert node.handle_time(now=16.0) == [Register(0, 4, b"demo/s1")]
    node.receive(Regack(5, 4, 0), now=16.0)
    assert node.receive(Puback(5, 5, 1), now=16.0) == []
    again = Publish(5, 5, b"21.5", qos=1, dup=True)
    assert node.handle_time(now=21.0) == [Retransmitted(), again]


def test_a_disconnect_in_the_pause_of_congestion_makes_it_connect_again() -> None:
    node = ready()
    node.publish(b"21.5", now=1.0)
    node.receive(Puback(5, 4, 1), now=1.1)
    assert node.receive(Disconnect(), now=1.2) == [ConversationEnded(EndReason.BY_GATEWAY)]
    assert node.wake_at() == pytest.approx(1.7)


def test_a_disconnect_of_the_gateway_makes_it_connect_again() -> None:
    node = ready()
    assert node.receive(Disconnect(), now=3.0) == [ConversationEnded(EndReason.BY_GATEWAY)]
    assert node.receive(Pingresp(), now=3.1) == [], "it is away"
    assert node.handle_time(now=3.5) == [Connect(b"s1", 60)]


# The end


def test_leaving_is_complete_when_the_gateway_answers() -> None:
    node = ready()
    assert node.leave(now=1.0) == [Disconnect()]
    assert node.leave(now=1.0) == []
    assert node.receive(Disconnect(), now=1.1) == [Finished()]
    assert node.wake_at() is None
    assert node.publish(b"late", now=2.0) == []


def test_leaving_without_an_answer_ends_after_the_retries() -> None:
    node = ready()
    node.leave(now=0.0)
    for now in (2.0, 4.0, 6.0):
        assert node.handle_time(now) == [Retransmitted(), Disconnect()]
    assert node.handle_time(now=8.0) == [Finished()]
    assert node.wake_at() is None


def test_one_that_is_away_has_left_at_once() -> None:
    assert Node().leave(now=0.0) == [Finished()]


def a_clean_one_that_came_back() -> Node:
    node = Node(qos=2, clean=True)
    assert node.connect(now=0.0) == [Connect(b"s1", 60, clean_session=True)]
    connects_again(node, now=0.0)
    node.publish(b"once", now=1.0)
    node.receive(Regack(5, 2, 0), now=1.0)
    node.receive(Disconnect(), now=2.0)
    assert node.handle_time(now=2.5) == [Connect(b"s1", 60)]
    return node


def test_a_clean_one_comes_back_to_what_it_sent_at_qos_2() -> None:
    node = a_clean_one_that_came_back()
    assert connects_again(node, now=3.0) == [Register(0, 5, b"demo/s1")]
    again = node.receive(Regack(5, 5, 0), now=3.0)
    assert again == [Retransmitted(), Publish(5, 3, b"once", qos=2, dup=True)]


def test_a_clean_one_that_came_back_leaves_no_session_behind() -> None:
    node = a_clean_one_that_came_back()
    node.receive(Connack(0), now=3.0)
    assert node.leave(now=4.0) == [Connect(b"s1", 60, clean_session=True)]
    assert node.receive(Disconnect(), now=4.1) == []
    assert node.receive(Connack(0), now=4.2) == [Disconnect()]
    assert node.receive(Connack(0), now=4.3) == [], "a copy"
    assert node.receive(Disconnect(), now=4.4) == [Finished()]


def test_a_clean_one_that_may_not_come_in_again_has_left() -> None:
    node = a_clean_one_that_came_back()
    node.receive(Connack(0), now=3.0)
    node.leave(now=4.0)
    assert node.receive(Connack(3), now=4.1) == [Finished()]


# Readings


def test_qos_0_is_sent_and_not_acknowledged() -> None:
    node = ready(qos=0)
    assert node.publish(b"21.5", now=1.0) == [Publish(5, 0, b"21.5", qos=0)]
    assert not node.client.has_readings


def test_qos_1_is_settled_by_puback() -> None:
    node = ready()
    assert node.publish(b"21.5", now=1.0) == [Publish(5, 4, b"21.5", qos=1)]
    assert node.receive(Puback(5, 4, 0), now=1.1) == [Acknowledged(b"21.5")]


def test_qos_2_is_settled_by_pubcomp() -> None:
    node = ready(qos=2)
    assert node.publish(b"21.5", now=1.0) == [Publish(5, 4, b"21.5", qos=2)]
    assert node.receive(Pubrec(4), now=1.1) == [Pubrel(4)]
    assert node.receive(Pubcomp(4), now=1.2) == [Acknowledged(b"21.5")]


def test_a_long_reading_has_room() -> None:
    payload = bytes(65_000)
    assert ready().publish(payload, now=1.0) == [Publish(5, 4, payload, qos=1)]


def test_only_one_reading_is_under_way_at_a_time() -> None:
    node = ready()
    node.publish(b"first", now=1.0)
    assert node.publish(b"second", now=1.1) == []
    effects = node.receive(Puback(5, 4, 0), now=1.2)
    assert effects == [Acknowledged(b"first"), Publish(5, 5, b"second", qos=1)]


def test_a_reading_without_an_answer_is_repeated_with_dup() -> None:
    node = ready()
    node.publish(b"21.5", now=1.0)
    assert node.wake_at() == 3.0
    again = Publish(5, 4, b"21.5", qos=1, dup=True)
    assert node.handle_time(now=3.0) == [Retransmitted(), again]
    assert node.wake_at() == 5.0


def test_the_time_to_an_acknowledgement_counts_from_the_first_publish() -> None:
    node = ready()
    node.publish(b"21.5", now=0.1)
    node.handle_time(now=2.1)
    (acknowledged,) = node.receive(Puback(5, 4, 0), now=2.6)
    assert isinstance(acknowledged, Acknowledged)
    assert acknowledged.after_s == pytest.approx(2.5)


def test_after_n_retry_it_connects_again_and_the_reading_goes_first_with_its_id() -> None:
    node = ready()
    node.publish(b"21.5", now=0.0)
    for now in (2.0, 4.0, 6.0):
        node.handle_time(now)
    assert node.handle_time(now=8.0) == [ConversationEnded(EndReason.SILENCE)]
    node.handle_time(now=8.5)
    assert connects_again(node, now=8.5) == [Register(0, 6, b"demo/s1")]
    again = Publish(9, 4, b"21.5", qos=1, dup=True)
    assert node.receive(Regack(9, 6, 0), now=8.5) == [Retransmitted(), again]


def test_a_received_qos_2_reading_is_released_after_a_reconnect_not_sent_again() -> None:
    node = ready(qos=2)
    node.publish(b"21.5", now=0.0)
    node.receive(Pubrec(4), now=0.1)
    node.receive(Disconnect(), now=0.2)
    node.handle_time(now=0.7)
    connects_again(node, now=0.7)
    assert Pubrel(4) in node.receive(Regack(5, 6, 0), now=0.7)
    assert node.receive(Pubcomp(4), now=0.8) == [Acknowledged(b"21.5")]


@pytest.mark.parametrize("qos", [1, 2])
def test_an_unknown_topic_id_is_registered_again_and_the_reading_follows(qos: int) -> None:
    node = ready(qos)
    node.publish(b"21.5", now=1.0)
    assert node.receive(Puback(5, 4, 2), now=1.1) == [Register(0, 5, b"demo/s1")]
    again = Publish(9, 4, b"21.5", qos=qos, dup=True)
    assert node.receive(Regack(9, 5, 0), now=1.2) == [Retransmitted(), again]


def test_qos_0_learns_of_an_unknown_topic_id_too() -> None:
    node = ready(qos=0)
    node.publish(b"21.5", now=1.0)
    node.receive(Puback(5, 0, 2), now=1.1)
    assert node.publish(b"21.6", now=2.0) == [Register(0, 4, b"demo/s1")]


def test_a_reading_that_the_gateway_does_not_support_is_dropped() -> None:
    node = ready()
    node.publish(b"21.5", now=1.0)
    assert node.receive(Puback(5, 4, 3), now=1.1) == [Dropped(DropReason.REFUSED)]
    assert node.state() is State.READY
    assert node.handle_time(now=1.2) == [], "and it is dropped once"


def test_when_too_many_readings_wait_the_oldest_is_dropped() -> None:
    node = Node()
    node.connect(now=0.0)
    for number in range(READINGS_WAITING_MAX):
        assert node.publish(b"%d" % number, now=0.0) == []
    assert node.publish(b"last", now=0.0) == [Dropped(DropReason.QUEUE_FULL)]
    assert node.client.waiting[0].payload == b"1"
    assert len(node.client.waiting) == READINGS_WAITING_MAX


# From the gateway


@pytest.mark.parametrize(
    ("qos", "message_id", "answer"), [(0, 0, []), (1, 8, [Puback(6, 8, 0)]), (2, 8, [Pubrec(8)])]
)
def test_a_command_arrives_and_is_acknowledged(
    qos: int, message_id: int, answer: list[Frame]
) -> None:
    effects = ready().receive(Publish(6, message_id, b"2", qos=qos), now=1.0)
    assert effects == [Received(b"demo/s1/set", b"2"), *answer]


def test_a_command_while_a_request_is_open_is_received() -> None:
    node = ready()
    node.publish(b"21.5", now=1.0)
    effects = node.receive(Publish(6, 8, b"2", qos=1), now=1.1)
    assert effects == [Received(b"demo/s1/set", b"2"), Puback(6, 8, 0)]
    assert node.receive(Puback(5, 4, 0), now=1.2) == [Acknowledged(b"21.5")]


def test_a_ping_of_the_gateway_is_answered() -> None:
    assert ready().receive(Pingreq(), now=1.0) == [Pingresp()]


# Keep-alive


def test_it_asks_whether_the_gateway_is_there_before_the_keep_alive_is_over() -> None:
    node = ready()
    assert node.wake_at() == 45.0
    assert node.handle_time(now=45.0) == [Pingreq()]
    assert node.receive(Pingresp(), now=45.1) == []
    assert node.wake_at() == pytest.approx(90.0)


def test_readings_of_qos_0_prove_nothing_about_the_gateway() -> None:
    node = ready(qos=0)
    node.publish(b"21.5", now=29.0)
    assert node.wake_at() == 30.0
    assert node.handle_time(now=30.0) == [Pingreq()]


def test_readings_during_a_ping_wait_for_its_answer() -> None:
    node = ready(qos=0)
    node.handle_time(now=45.0)
    assert node.publish(b"21.5", now=45.1) == []
    assert node.receive(Pingresp(), now=45.2) == [Publish(5, 0, b"21.5", qos=0)]


def test_a_gateway_that_answers_no_ping_is_left() -> None:
    node = ready(qos=0)
    assert node.handle_time(now=45.0) == [Pingreq()]
    for now in (47.0, 49.0, 51.0):
        assert node.handle_time(now) == [Retransmitted(), Pingreq()]
    assert node.handle_time(now=53.0) == [ConversationEnded(EndReason.SILENCE)]


# Sleep


def sleeper() -> Node:
    """Asleep since 1.0."""
    node = ready(pace=SLEEPY)
    node.handle_time(now=0.5)
    node.receive(Disconnect(), now=1.0)
    assert node.state() is State.ASLEEP
    return node


def test_it_lingers_then_says_how_long_it_will_sleep() -> None:
    node = ready(pace=SLEEPY)
    assert node.wake_at() == 0.5
    assert node.handle_time(now=0.5) == [Disconnect(10)]
    assert node.receive(Disconnect(), now=0.6) == [FellAsleep(10)]
    assert node.wake_at() == pytest.approx(9.6), "a bit before the time it said"


def test_a_late_sleeper_wakes_after_the_time_it_said() -> None:
    node = ready(pace=replace(SLEEPY, wake_after=1.25))
    node.handle_time(now=0.5)
    node.receive(Disconnect(), now=0.5)
    assert node.wake_at() == 13.0


def test_it_stays_while_it_has_something_to_say() -> None:
    node = ready(pace=SLEEPY)
    node.publish(b"21.5", now=0.4)
    assert node.handle_time(now=0.5) == []
    assert node.receive(Puback(5, 4, 0), now=0.6) == [Acknowledged(b"21.5")]
    assert node.handle_time(now=1.1) == [Disconnect(10)]


def test_asleep_it_receives_nothing() -> None:
    node = sleeper()
    for frame in (Disconnect(), Publish(6, 9, b"3", qos=1), Pingresp()):
        assert node.receive(frame, now=2.0) == []
    assert node.state() is State.ASLEEP


def test_it_fetches_what_waits_and_sleeps_on() -> None:
    node = sleeper()
    assert node.handle_time(now=10.0) == [Pingreq(b"s1")]
    effects = node.receive(Publish(6, 9, b"3", qos=1), now=10.1)
    assert effects == [Received(b"demo/s1/set", b"3"), Puback(6, 9, 0)]
    assert node.receive(Pingresp(), now=10.2) == [FellAsleep(10)]
    assert node.wake_at() == pytest.approx(19.2)


def test_a_reading_wakes_it_without_registering_again() -> None:
    node = sleeper()
    assert node.publish(b"21.5", now=3.0) == [Connect(b"s1", 60)]
    assert node.receive(Connack(0), now=3.1) == [Publish(5, 4, b"21.5", qos=1)]
    node.receive(Puback(5, 4, 0), now=3.2)
    assert node.handle_time(now=3.7) == [Disconnect(10)]


def test_a_reading_taken_while_it_fetches_goes_out_after_pingresp() -> None:
    node = sleeper()
    node.handle_time(now=10.0)
    assert node.publish(b"21.5", now=10.1) == []
    assert node.receive(Pingresp(), now=10.2) == [FellAsleep(10), Connect(b"s1", 60)]


def test_silence_when_it_fetches_leads_to_connect() -> None:
    node = sleeper()
    node.handle_time(now=10.0)
    for now in (12.0, 14.0, 16.0):
        assert node.handle_time(now) == [Retransmitted(), Pingreq(b"s1")]
    assert node.handle_time(now=18.0) == [ConversationEnded(EndReason.SILENCE)]
    assert node.handle_time(now=18.5) == [Connect(b"s1", 60)]


def test_one_that_fetches_from_a_gateway_that_forgot_it_connects_again() -> None:
    node = sleeper()
    node.handle_time(now=10.0)
    assert node.receive(Disconnect(), now=10.1) == [ConversationEnded(EndReason.BY_GATEWAY)]


def test_it_leaves_from_its_sleep() -> None:
    node = sleeper()
    assert node.leave(now=2.0) == [Disconnect()]
    assert node.receive(Disconnect(), now=2.1) == [Finished()]
    assert node.wake_at() is None


# Anything at any time

IDS = st.integers(0, 8)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Connack, st.integers(0, 4)),
    st.builds(Regack, IDS, IDS, st.integers(0, 4)),
    st.builds(Suback, IDS, IDS, st.integers(0, 4)),
    st.builds(Puback, IDS, IDS, st.integers(0, 4)),
    st.builds(Pubrec, IDS),
    st.builds(Pubrel, IDS),
    st.builds(Pubcomp, IDS),
    st.builds(Publish, IDS, IDS, st.binary(max_size=3), qos=st.integers(-1, 2)),
    st.builds(Register, IDS, IDS, st.just(b"t")),
    st.sampled_from([Pingreq(), Pingresp(), Disconnect()]),
)
STEPS = st.lists(st.one_of(FRAMES, st.sampled_from(["publish", "time", "leave"])), max_size=60)


@given(qos=st.integers(0, 2), sleep_s=st.sampled_from([0, 5]), clean=st.booleans(), steps=STEPS)
def test_no_order_of_frames_and_time_breaks_it(
    qos: int, sleep_s: int, clean: bool, steps: list[Frame | str]
) -> None:
    node, now = Node(qos, replace(PACE, sleep_s=sleep_s), clean=clean), 0.0
    node.connect(now)
    for step in steps:
        match step:
            case "publish":
                node.publish(b"x", now)
            case "leave":
                node.leave(now)
            case "time":
                now = max(now, node.wake_at() or now)
                node.handle_time(now)
            case str():
                raise AssertionError(step)
            case _:
                node.receive(step, now)
        assert node.state() is State.GONE or node.wake_at() is not None
        if node.client.engine.size:
            assert node.state() not in (State.AWAY, State.ASLEEP, State.GONE)

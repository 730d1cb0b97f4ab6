"""Stories of the simulated sensor's client; time is written as numbers, nothing waits."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.sensors.client import READINGS_WAITING_MAX, TOPICS_MAX, SensorClient
from gateway.cli.sensors.client_effects import (
    Acknowledged,
    Connected,
    ConversationEnded,
    Dropped,
    DropReason,
    Effect,
    EndReason,
    Finished,
    Received,
    Retransmitted,
    Send,
)
from gateway.cli.sensors.client_states import TRANSITIONS, Input, State
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
    TopicIdType,
)

PACE = Pace(
    retry_after_s=2.0,
    retries_max=3,
    keep_alive_s=60,
    congestion_pause_s=5.0,
    reconnect_pause_s=(0.5, 0.5),
)


def a_client(qos: int = 1) -> SensorClient:
    return SensorClient(b"s1", b"demo/s1", b"demo/s1/set", qos, Random(7), PACE)


def a_ready_client(qos: int = 1) -> SensorClient:
    """Topic id 5 for readings, 6 for commands; message ids 1 and 2 are used."""
    client = a_client(qos)
    client.connect(now=0.0)
    answers = (Connack(0), Regack(5, 1, 0), Suback(6, 2, 0, qos=qos))
    effects = [effect for answer in answers for effect in client.receive(answer, now=0.0)]
    assert effects[-1] == Connected()
    return client


def sent(effects: list[Effect]) -> list[Frame]:
    return [effect.frame for effect in effects if isinstance(effect, Send)]


# The conversation


def test_it_connects_registers_and_subscribes_one_after_the_other() -> None:
    client = a_client()
    assert client.connect(now=0.0) == [Send(Connect(b"s1", 60))]
    assert client.receive(Connack(0), now=0.1) == [Send(Register(0, 1, b"demo/s1"))]
    assert client.receive(Regack(5, 1, 0), now=0.2) == [Send(Subscribe(2, b"demo/s1/set", qos=1))]
    assert client.receive(Suback(6, 2, 0, qos=1), now=0.3) == [Connected()]


def test_readings_before_the_conversation_is_complete_wait_for_it() -> None:
    client = a_client(qos=0)
    client.connect(now=0.0)
    assert client.publish(b"21.5", now=0.0) == []
    client.receive(Connack(0), now=0.1)
    client.receive(Regack(5, 1, 0), now=0.1)
    effects = client.receive(Suback(6, 2, 0), now=0.1)
    assert effects == [Connected(), Send(Publish(5, 0, b"21.5", qos=0))]


def test_an_answer_with_another_message_id_is_not_ours() -> None:
    client = a_client()
    client.connect(now=0.0)
    client.receive(Connack(0), now=0.0)
    assert client.receive(Regack(5, 9, 0), now=0.0) == []
    assert client.state is State.REGISTERING


def test_a_refused_connect_is_tried_again_after_a_pause() -> None:
    client = a_client()
    client.connect(now=0.0)
    assert client.receive(Connack(3), now=1.0) == [ConversationEnded(EndReason.REFUSED)]
    assert client.wake_at() == 1.5
    assert client.handle_time(now=1.5) == [Send(Connect(b"s1", 60))]


def test_congestion_makes_it_wait_and_repeat() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=1.0)
    assert client.receive(Puback(5, 3, 1), now=1.1) == []
    assert client.wake_at() == pytest.approx(6.1)
    again = Publish(5, 3, b"21.5", qos=1, dup=True)
    assert client.handle_time(now=6.1) == [Retransmitted(again), Send(again)]


def test_a_disconnect_of_the_gateway_makes_it_connect_again() -> None:
    client = a_ready_client()
    assert client.receive(Disconnect(), now=3.0) == [ConversationEnded(EndReason.BY_GATEWAY)]
    assert client.handle_time(now=3.5) == [Send(Connect(b"s1", 60))]


def test_leaving_is_complete_when_the_gateway_answers() -> None:
    client = a_ready_client()
    assert client.leave(now=1.0) == [Send(Disconnect())]
    assert client.receive(Disconnect(), now=1.1) == [Finished()]
    assert client.wake_at() is None
    assert client.publish(b"late", now=2.0) == []


def test_leaving_without_an_answer_ends_after_the_retries() -> None:
    client = a_ready_client()
    client.leave(now=0.0)
    for now in (2.0, 4.0, 6.0):
        assert sent(client.handle_time(now)) == [Disconnect()]
    assert client.handle_time(now=8.0) == [Finished()]
    assert client.wake_at() is None


def a_clean_client_that_came_back() -> SensorClient:
    client = a_client(qos=2)
    client.clean = True
    assert client.connect(now=0.0) == [Send(Connect(b"s1", 60, clean_session=True))]
    for answer in (Connack(0), Regack(5, 1, 0), Suback(6, 2, 0, qos=2)):
        client.receive(answer, now=0.0)
    client.publish(b"once", now=1.0)
    client.receive(Disconnect(), now=2.0)
    assert sent(client.handle_time(now=2.5)) == [Connect(b"s1", 60)]
    return client


def test_a_clean_one_comes_back_to_what_it_sent_at_qos_2() -> None:
    client = a_clean_client_that_came_back()
    for answer in (Connack(0), Regack(5, 4, 0)):
        client.receive(answer, now=3.0)
    again = sent(client.receive(Suback(6, 5, 0, qos=2), now=3.0))
    assert again == [Publish(5, 3, b"once", qos=2, dup=True)]


def test_a_clean_one_that_came_back_leaves_no_session_behind() -> None:
    client = a_clean_client_that_came_back()
    client.receive(Connack(0), now=3.0)
    assert sent(client.leave(now=4.0)) == [Connect(b"s1", 60, clean_session=True)]
    assert client.receive(Disconnect(), now=4.1) == []
    assert sent(client.receive(Connack(0), now=4.2)) == [Disconnect()]
    assert client.receive(Connack(0), now=4.3) == [], "a copy"
    assert client.receive(Disconnect(), now=4.4) == [Finished()]


def test_a_clean_one_that_was_never_away_just_says_goodbye() -> None:
    client = a_ready_client()
    client.clean = True
    assert sent(client.leave(now=1.0)) == [Disconnect()]


def test_leaving_before_it_ever_connected_says_nothing_on_the_air() -> None:
    assert a_client().leave(now=0.0) == [Finished()]


# Readings up


def test_qos_0_is_sent_and_forgotten() -> None:
    client = a_ready_client(qos=0)
    assert client.publish(b"21.5", now=1.0) == [Send(Publish(5, 0, b"21.5", qos=0))]
    assert client.state is State.READY


def test_qos_1_is_settled_by_puback() -> None:
    client = a_ready_client()
    assert client.publish(b"21.5", now=1.0) == [Send(Publish(5, 3, b"21.5", qos=1))]
    assert client.receive(Puback(5, 3, 0), now=1.1) == [Acknowledged(b"21.5")]


def test_qos_2_is_settled_by_pubcomp() -> None:
    client = a_ready_client(qos=2)
    assert client.publish(b"21.5", now=1.0) == [Send(Publish(5, 3, b"21.5", qos=2))]
    assert client.receive(Pubrec(3), now=1.1) == [Send(Pubrel(3))]
    assert client.receive(Pubcomp(3), now=1.2) == [Acknowledged(b"21.5")]


def test_only_one_reading_is_under_way_at_a_time() -> None:
    client = a_ready_client()
    client.publish(b"first", now=1.0)
    assert client.publish(b"second", now=1.1) == []
    effects = client.receive(Puback(5, 3, 0), now=1.2)
    assert effects == [Acknowledged(b"first"), Send(Publish(5, 4, b"second", qos=1))]


def test_a_reading_without_an_answer_is_repeated_with_dup() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=1.0)
    assert client.wake_at() == 3.0
    again = Publish(5, 3, b"21.5", qos=1, dup=True)
    assert client.handle_time(now=3.0) == [Retransmitted(again), Send(again)]
    assert client.wake_at() == 5.0


def test_a_pubrel_is_repeated_as_it_was() -> None:
    client = a_ready_client(qos=2)
    client.publish(b"21.5", now=1.0)
    client.receive(Pubrec(3), now=1.0)
    assert sent(client.handle_time(now=3.0)) == [Pubrel(3)]


def test_after_n_retry_it_connects_again_and_the_reading_goes_first_with_its_id() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=0.0)
    for now in (2.0, 4.0, 6.0):
        client.handle_time(now)
    assert client.handle_time(now=8.0) == [ConversationEnded(EndReason.SILENCE)]
    client.handle_time(now=8.5)
    client.receive(Connack(0), now=8.5)
    client.receive(Regack(9, 4, 0), now=8.5)
    effects = client.receive(Suback(6, 5, 0, qos=1), now=8.5)
    assert sent(effects) == [Publish(9, 3, b"21.5", qos=1, dup=True)]


def test_a_received_qos_2_reading_is_released_after_a_reconnect_not_sent_again() -> None:
    client = a_ready_client(qos=2)
    client.publish(b"21.5", now=0.0)
    client.receive(Pubrec(3), now=0.1)
    client.receive(Disconnect(), now=0.2)
    client.handle_time(now=0.7)
    client.receive(Connack(0), now=0.7)
    client.receive(Regack(5, 4, 0), now=0.7)
    effects = client.receive(Suback(6, 5, 0, qos=2), now=0.7)
    assert sent(effects) == [Pubrel(3)]
    assert client.receive(Pubcomp(3), now=0.8) == [Acknowledged(b"21.5")]


@pytest.mark.parametrize("qos", [1, 2])
def test_an_unknown_topic_id_is_registered_again_and_the_reading_follows(qos: int) -> None:
    client = a_ready_client(qos)
    client.publish(b"21.5", now=1.0)
    assert client.receive(Puback(5, 3, 2), now=1.1) == [Send(Register(0, 4, b"demo/s1"))]
    client.receive(Regack(9, 4, 0), now=1.2)
    effects = client.receive(Suback(6, 5, 0, qos=qos), now=1.3)
    assert sent(effects) == [Publish(9, 3, b"21.5", qos=qos)]


def test_qos_0_learns_of_an_unknown_topic_id_too() -> None:
    client = a_ready_client(qos=0)
    client.publish(b"21.5", now=1.0)
    assert client.receive(Puback(5, 0, 2), now=1.1) == [Send(Register(0, 3, b"demo/s1"))]


def test_a_reading_that_the_gateway_does_not_support_is_dropped() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=1.0)
    assert client.receive(Puback(5, 3, 3), now=1.1) == [Dropped(DropReason.REFUSED)]
    assert client.state is State.READY


def test_when_too_many_readings_wait_the_oldest_is_dropped() -> None:
    client = a_client()
    client.connect(now=0.0)
    for number in range(READINGS_WAITING_MAX):
        assert client.publish(b"%d" % number, now=0.0) == []
    assert client.publish(b"last", now=0.0) == [Dropped(DropReason.QUEUE_FULL)]
    assert client.waiting[0].payload == b"1"
    assert len(client.waiting) == READINGS_WAITING_MAX


def test_message_ids_start_again_at_1_after_65535() -> None:
    client = a_ready_client()
    client.last_message_id = 0xFFFF
    assert client.publish(b"21.5", now=1.0) == [Send(Publish(5, 1, b"21.5", qos=1))]


# From the gateway


@pytest.mark.parametrize(
    ("qos", "message_id", "answer"), [(0, 0, []), (1, 8, [Puback(6, 8, 0)]), (2, 8, [Pubrec(8)])]
)
def test_a_command_arrives_and_is_acknowledged(
    qos: int, message_id: int, answer: list[Frame]
) -> None:
    client = a_ready_client()
    effects = client.receive(Publish(6, message_id, b"2", qos=qos), now=1.0)
    assert effects[0] == Received(b"demo/s1/set", b"2", qos)
    assert sent(effects) == answer


def test_a_repeated_qos_2_command_is_received_once() -> None:
    client = a_ready_client(qos=2)
    client.receive(Publish(6, 8, b"2", qos=2), now=1.0)
    assert client.receive(Publish(6, 8, b"2", qos=2, dup=True), now=2.0) == [Send(Pubrec(8))]
    assert client.receive(Pubrel(8), now=2.1) == [Send(Pubcomp(8))]
    assert client.receive(Pubrel(8), now=2.2) == [Send(Pubcomp(8))]
    effects = client.receive(Publish(6, 8, b"3", qos=2), now=3.0)
    assert effects[0] == Received(b"demo/s1/set", b"3", 2)


@pytest.mark.parametrize(
    "frame",
    [
        Publish(77, 8, b"2", qos=1),
        Publish(6, 8, b"2", qos=1, topic_id_type=TopicIdType.PREDEFINED),
    ],
)
def test_a_message_for_an_unknown_topic_id_is_refused(frame: Publish) -> None:
    answer = Puback(frame.topic_id, 8, 2)
    assert a_ready_client().receive(frame, now=1.0) == [Send(answer)]


def test_a_registered_topic_is_learned_and_used() -> None:
    client = a_ready_client()
    assert client.receive(Register(7, 3, b"demo/all"), now=1.0) == [Send(Regack(7, 3, 0))]
    effects = client.receive(Publish(7, 0, b"2"), now=1.1)
    assert effects == [Received(b"demo/all", b"2", 0)]


def test_more_topics_than_it_has_room_for_are_refused_as_congestion() -> None:
    client = a_ready_client()
    for topic_id in range(100, 100 + TOPICS_MAX - 1):  # one is taken by the command topic
        assert client.receive(Register(topic_id, 3, b"t"), now=1.0) == [
            Send(Regack(topic_id, 3, 0))
        ]
    assert client.receive(Register(99, 3, b"t"), now=1.0) == [Send(Regack(99, 3, 1))]
    assert client.receive(Register(100, 3, b"new"), now=1.0) == [Send(Regack(100, 3, 0))]


def test_a_ping_of_the_gateway_is_answered() -> None:
    assert a_ready_client().receive(Pingreq(), now=1.0) == [Send(Pingresp())]


# Keep-alive


def test_it_pings_after_half_the_keep_alive_without_an_answer() -> None:
    client = a_ready_client(qos=0)
    client.publish(b"21.5", now=10.0)  # QoS 0 proves nothing about the gateway
    assert client.wake_at() == 30.0
    assert client.handle_time(now=30.0) == [Send(Pingreq())]
    assert client.receive(Pingresp(), now=30.1) == []
    assert client.wake_at() == pytest.approx(60.1)


def test_readings_during_a_ping_wait_for_its_answer() -> None:
    client = a_ready_client(qos=0)
    client.handle_time(now=30.0)
    assert client.publish(b"21.5", now=30.1) == []
    assert sent(client.receive(Pingresp(), now=30.2)) == [Publish(5, 0, b"21.5", qos=0)]


def test_answers_to_readings_put_the_ping_off() -> None:
    client = a_ready_client()
    client.publish(b"21.5", now=20.0)
    client.receive(Puback(5, 3, 0), now=20.0)
    assert client.wake_at() == 50.0


def test_a_gateway_that_answers_no_ping_is_left() -> None:
    client = a_ready_client(qos=0)
    for now in (30.0, 32.0, 34.0, 36.0):
        assert sent(client.handle_time(now)) == [Pingreq()]
    assert client.handle_time(now=38.0) == [ConversationEnded(EndReason.SILENCE)]


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


@given(qos=st.integers(0, 2), sleep_s=st.sampled_from([0, 5]), steps=STEPS)
def test_no_order_of_frames_and_time_breaks_it(
    qos: int, sleep_s: int, steps: list[Frame | str]
) -> None:
    client, now = a_client(qos), 0.0
    client.pace = replace(PACE, sleep_s=sleep_s)
    client.connect(now)
    for step in steps:
        match step:
            case "publish":
                client.publish(b"x", now)
            case "leave":
                client.leave(now)
            case "time":
                now = max(now, client.wake_at() or now)
                client.handle_time(now)
            case str():
                raise AssertionError(step)
            case _:
                client.receive(step, now)
        idle = client.state in (State.AWAY, State.READY, State.ASLEEP, State.GONE)
        assert idle == (client.request is None)
        assert client.state is State.GONE or client.wake_at() is not None


def test_every_state_but_the_last_can_be_left_and_every_failure_leads_away() -> None:
    for state, row in TRANSITIONS.items():
        if state in (State.GONE, State.LEAVING):
            continue
        assert row[Input.LEAVE] in (State.LEAVING, State.GONE)
        if state not in (State.AWAY, State.ASLEEP):  # in these nothing is asked that can fail
            assert row[Input.FAILED] is State.AWAY

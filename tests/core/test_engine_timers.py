"""Alarms: never late, and never more of them than sessions warrant."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.clients.client_table import TIMERS_SPARE
from gateway.core.effects import StateChanged
from gateway.core.state_records import State
from gateway.frames import Connect, Disconnect, Frame, Pingreq, Pingresp, Puback, Publish
from tests.support.engine_bench import Bench, short
from tests.support.samples import examples


def test_an_engine_without_clients_or_broker_wakes_for_nothing() -> None:
    assert Bench(connected=False).engine.wake_at() == inf


def test_the_earliest_of_all_alarms_is_the_engines() -> None:
    bench = Bench()
    assert bench.engine.wake_at() == 15.0, "the broker's ping"
    bench.join(b"s1", keep_alive_s=60)
    assert bench.engine.wake_at() == 15.0
    bench.join(b"s2", keep_alive_s=8)
    assert bench.engine.wake_at() == 12.0, "8 s of keep-alive and half of it on top"


def test_a_client_is_lost_when_its_time_is_over_and_not_before() -> None:
    bench = Bench()
    bench.join(b"s1", keep_alive_s=10)
    bench.wake(10.0)
    bench.say(b"s1", Pingreq())
    bench.wake(24.9)
    assert [each.after for each in bench.told(StateChanged)][-1] is State.ACTIVE
    bench.wake(25.0)
    assert [each.after for each in bench.told(StateChanged)] == [State.LOST]


def test_the_alarm_of_a_session_that_was_replaced_is_not_the_new_ones() -> None:
    bench = Bench()
    bench.join(b"s1", clean=True, keep_alive_s=10)
    bench.wake(5.0)
    bench.join(b"s1", clean=True, keep_alive_s=60)
    bench.told(StateChanged)
    bench.wake(90.0)
    assert bench.told(StateChanged) == []
    assert bench.say(b"s1", Pingreq()) == [Pingresp()]


def test_a_message_down_is_repeated_though_a_later_alarm_was_set() -> None:
    bench = Bench()
    bench.join(b"s1", keep_alive_s=3600)
    bench.subscribe(b"s1", b"cmd", qos=1)
    bench.publishes("cmd", qos=1, by="cmd")
    bench.hear(b"s1")
    bench.wake(10.0)
    (repeat,) = bench.hear(b"s1")
    assert isinstance(repeat, Publish)
    assert repeat.dup


@pytest.mark.guarantee("6")
def test_entries_of_sessions_that_came_and_went_do_not_pile_up() -> None:
    bench = Bench()
    for number in range(1000):
        bench.say(b"x", Connect(b"c%d" % number, 65_535, clean_session=True), Pingreq())
        assert (
            len(bench.engine.client_table._timers) <= 2 * len(bench.engine.sessions) + TIMERS_SPARE
        )
    assert len(bench.engine.sessions) == 1
    bench.wake(65_535 * 1.2)
    assert len(bench.engine.sessions) == 0


def test_entries_of_a_sleeper_that_is_often_awake_do_not_pile_up() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"cmd", qos=1)
    bench.say(b"s1", Disconnect(duration_s=65_535))
    for number in range(1, 500):
        bench.publishes("cmd", b"%d" % number, qos=1, by="cmd")
        for frame in bench.say(b"s1", Pingreq(b"s1")):
            if isinstance(frame, Publish):
                bench.say(b"s1", Puback(frame.topic_id, frame.message_id, 0))
        bench.wake(bench.at + 20.0)
        assert len(bench.engine.client_table._timers) <= 2 + TIMERS_SPARE
    bench.wake(bench.at + 65_535 * 1.1 + 1)
    assert bench.engine.sessions[next(iter(bench.engine.sessions))].state is State.LOST


NAMES = [b"s1", b"s2", b"s3"]
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(
        Connect, st.sampled_from(NAMES), st.sampled_from([0, 5, 60, 100]),
        st.booleans(), st.booleans(),
    ),
    st.builds(Disconnect, st.sampled_from([None, 0, 10, 100])),
    st.builds(Pingreq, st.sampled_from([b"", *NAMES])),
    st.builds(Puback, st.integers(1, 2), st.integers(1, 3), st.integers(0, 3)),
    st.builds(lambda qos, number: short(b"hi", qos, number), st.integers(0, 2), st.integers(1, 3)),
)  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("say"), st.sampled_from([b"x", b"y", b"z"]), frames),
    st.tuples(st.just("publish"), st.integers(0, 2)),
    st.tuples(st.just("subscribe"), st.sampled_from([b"x", b"y", b"z"]), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 10.0, 60.0])),
    st.tuples(st.just("sleep past alarms"), st.sampled_from([5.0, 200.0])),
    st.tuples(st.just("broker"), st.booleans()),
)


def act(bench: Bench, step: tuple[object, ...]) -> None:
    match step:
        case ("say", bytes(address), frame):
            bench.say(address, frame)  # type: ignore[arg-type]
        case ("publish", int(qos)):
            bench.publishes("cmd", b"%d" % qos, qos)
        case ("subscribe", bytes(address), int(qos)):
            bench.subscribe(address, b"cmd", qos)
        case ("wait", float(seconds)):
            bench.wake(bench.at + seconds)
        case ("sleep past alarms", float(seconds)):
            bench.at += seconds
            bench.take(bench.engine.handle_time(bench.at))
        case ("broker", True):
            bench.lose_broker()
            bench.connect_broker(session_present=True)
        case _:
            bench.lose_broker()


@given(st.lists(steps, max_size=40))
@examples(times=2)
def test_the_engine_never_wakes_later_than_any_session_asked(
    given_steps: list[tuple[object, ...]],
) -> None:
    bench = Bench()
    for step in given_steps:
        if step[0] != "publish" or bench.engine.upstream.phase.value == "up":
            act(bench, step)
        asked = min((each.wake_at() for each in bench.engine.sessions.values()), default=inf)
        assert bench.engine.wake_at() <= asked
        assert (
            len(bench.engine.client_table._timers) <= 2 * len(bench.engine.sessions) + TIMERS_SPARE
        )


@pytest.mark.parametrize("late_s", [0.0, 1000.0])
def test_an_alarm_that_is_handled_late_finds_everything_that_is_due(late_s: float) -> None:
    bench = Bench()
    for name in (b"s1", b"s2", b"s3"):
        bench.join(name, keep_alive_s=4)
    bench.told(StateChanged)
    bench.at = 6.0 + late_s
    bench.take(bench.engine.handle_time(bench.at))
    assert [each.after for each in bench.told(StateChanged)] == [State.LOST] * 3

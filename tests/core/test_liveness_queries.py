"""What is owed, asked of an engine on the bench at one moment."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core import liveness
from gateway.core.alarm_names import AlarmName
from gateway.core.liveness import LivenessSweep, OwedAnswer, SameObject, WaitsFor, owed
from gateway.core.mqtt.inflight import InFlight
from gateway.core.state_records import ClientId
from gateway.frames import Subscribe, TopicIdType
from tests.core.mqtt.broker_side import new_reading
from tests.core.uplink.custody.stories import bench_of as keeping_bench
from tests.core.uplink.custody.stories import take, wake_living
from tests.support.engine_bench import Bench, short
from tests.support.uplink_stories import JOURNAL, bench_of, hold


def named(found: list[OwedAnswer], name: AlarmName) -> list[tuple[str, WaitsFor]]:
    return [(one.kind, one.waits_for) for one in found if one.name is name]


def test_nothing_is_owed_where_all_is_answered() -> None:
    bench = bench_of()
    bench.say(b"s1", short(b"hi", 1, 7))
    assert owed(bench.engine, bench.at) == []
    assert LivenessSweep(bench.engine).look(bench.at, ()) == []


def test_the_oldest_of_what_waits_for_the_disk_is_owed_by_the_journal() -> None:
    bench = bench_of(JOURNAL)
    bench.say(b"s1", short(b"one", 1, 7))
    bench.say(b"s2", short(b"two", 1, 7))
    (one,) = owed(bench.engine, bench.at + 3.0)
    assert one.mark is bench.stores[0]
    assert one.what == "2 readings wait for the journal, the oldest, of s1, since 3 s"
    bench.flush()
    assert owed(bench.engine, bench.at) == []


@pytest.mark.parametrize("asked_at", [1.0, 2.0])
def test_suback_of_a_broker_that_is_away_is_not_owed_for_a_timer_ends_that(asked_at: float) -> None:
    bench = bench_of()
    bench.lose_broker()
    bench.at = asked_at
    bench.say(b"s1", Subscribe(1, b"tp", 1, topic_id_type=TopicIdType.SHORT))
    assert LivenessSweep(bench.engine).look(bench.at, ()) == []


def test_what_the_journal_is_to_read_again_is_owed_by_it() -> None:
    bench = keeping_bench()
    take(bench, b"one")
    wake_living(bench, 1e4)
    assert bench.asked_again != []
    found = owed(bench.engine, bench.at)
    assert named(found, AlarmName.BACKLOG_STALLED) == [("again", WaitsFor.JOURNAL)]
    bench.read_again()
    assert named(owed(bench.engine, bench.at), AlarmName.BACKLOG_STALLED) == []


# What could go to the broker


def in_flight(window: int = 2) -> InFlight:
    made = InFlight(10, 10_000)
    made.window = window
    return made


def test_the_head_of_the_queue_could_go_while_there_is_room() -> None:
    made, one = in_flight(window=1), new_reading(qos=1)
    assert made.could_go() is None
    made.wait(one, ahead=False)
    assert made.could_go() is one
    made.published[9] = new_reading()
    assert made.could_go() is None


def test_what_was_read_back_could_go_behind_what_is_older() -> None:
    made, back = in_flight(), new_reading(b"back", client="s2")
    made.backlog.ready.append(back)
    assert made.could_go() is back
    made.wait(new_reading(b"older"), ahead=True)
    assert made.could_go() is made.waiting[0]


@pytest.mark.parametrize("window", [1, 2])
def test_what_is_aside_could_go_when_it_is_free(window: int) -> None:
    made = in_flight(window)
    first, second, aside = new_reading(b"1", 2), new_reading(b"2", 2), new_reading(b"3", 1)
    for number, reading in enumerate((first, second)):
        reading.upstream_qos, reading.packet_id, reading.sequence = 2, number + 1, number
        made.publish(reading)
        made.release(reading.packet_id)
    made.qos_order.set_aside(aside)
    assert made.could_go() is None
    made.complete(1)
    assert made.could_go() is None, "it waits for the second one as well"
    made.complete(2)
    assert made.could_go() is aside
    made.qos_order.begin(first)
    assert made.could_go() is None, "another one began before it went"
    made.qos_order.end(first)
    made.published.update({8: new_reading(), 9: new_reading()})
    assert made.could_go() is None


def test_what_waits_with_nothing_on_the_wire_is_owed_by_nobody_outside() -> None:
    """Here a place for QoS 2 was never given back."""
    bench = bench_of(JOURNAL)
    wire: Any = bench.engine.upstream.publisher.in_flight
    wire._qos2 = 10_000
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    found = owed(bench.engine, bench.at)
    assert named(found, AlarmName.UPLINK_STALLED) == [("waiting", WaitsFor.NOBODY)]
    assert found[0].mark is wire.waiting[0]


def test_what_is_on_the_wire_is_owed_by_the_broker_until_it_has_answered_all() -> None:
    bench = bench_of()
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    found = owed(bench.engine, bench.at)
    assert named(found, AlarmName.UPLINK_STALLED) == [("PUBACK or PUBREC", WaitsFor.BROKER)]
    bench.release()
    assert owed(bench.engine, bench.at) == []
    assert bench.engine.upstream.publisher.in_flight.unanswered == 0


def test_what_waits_for_room_on_the_wire_is_answered_for_by_what_is_there() -> None:
    bench = bench_of(connected=False)
    bench.connect_broker(receive_max=1)
    hold(bench)
    bench.say(b"s1", short(b"one", 1, 7))
    bench.say(b"s2", short(b"two", 1, 7))
    assert len(bench.engine.upstream.publisher.in_flight.waiting) == 1
    found = owed(bench.engine, bench.at)
    assert named(found, AlarmName.UPLINK_STALLED) == [("PUBACK or PUBREC", WaitsFor.BROKER)]


def test_each_answer_and_each_connection_counts_what_the_broker_has_not_answered() -> None:
    bench = bench_of()
    hold(bench)
    wire = bench.engine.upstream.publisher.in_flight
    for number in range(3):
        bench.say(b"s1", short(b"hi", 1 + number % 2, 7 + number))
    bench.flush()
    assert wire.unanswered == len(wire) > 0
    bench.lose_broker()
    bench.flush()
    bench.packets.clear()
    bench.connect_broker(session_present=True)
    bench.flush()
    assert wire.unanswered == len(wire) > 0
    bench.release()
    bench.release()
    bench.flush()
    assert wire.unanswered == len(wire) == 0


# Sessions


def test_a_sweep_visits_all_in_turn_and_those_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    for number in range(5):
        bench.join(b"s%d" % number)
        session: Any = bench.engine.sessions[ClientId(f"s{number}")]
        session.silence_max_s = -1.0  # its timer is overdue
    monkeypatch.setattr(liveness, "SWEEP_SESSIONS", 2)
    sweep, bench.at = LivenessSweep(bench.engine), 100.0

    def visited(*also: str, is_full: bool = False) -> list[str | None]:
        found = sweep.look(bench.at, map(ClientId, also), is_full=is_full)
        return [one.client_id for one in found]

    assert visited() == ["s3", "s4"]
    assert visited("s4") == ["s4", "s1", "s2"]
    assert visited("s4", "gone", is_full=True) == ["s4"]
    del bench.engine.sessions[ClientId("s0")]
    assert visited() == [], "its session is over"
    assert visited() == ["s3", "s4"], "and the next round begins"


def test_a_message_under_way_without_a_timer_is_owed() -> None:
    bench = Bench()
    bench.join(b"s1")
    bench.say(b"s1", Subscribe(1, b"tp", 1, topic_id_type=TopicIdType.SHORT))
    bench.publishes("tp", qos=1)
    session = bench.engine.sessions[ClientId("s1")]
    assert LivenessSweep(bench.engine).look(bench.at, ()) == []
    session.outbound.due_at = None
    found = LivenessSweep(bench.engine).look(bench.at, ())
    assert named(found, AlarmName.DELIVERY_STALLED) == [("waiting", WaitsFor.STATE)]
    assert found[0].mark == SameObject(session.outbound.outstanding)
    assert found[0].mark != SameObject(object())
    assert found[0].mark != session.outbound.outstanding

"""What a reading needs before it is acknowledged, and its way on: stories of the uplink.

The journal is the production one, on files in memory; `flush` is the moment at which the disk has
what was given to it.
"""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.qos0_order import FOLLOWERS_MAX
from gateway.frames import Frame, Pubcomp, Publish, Pubrec, Pubrel, Regack, Register
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of
from tests.support.uplink_stories import (
    AUTO,
    JOURNAL,
    SPILL_AFTER_S,
    bench_of,
    hold,
    puback,
    reasons,
    say_numbers,
    sent,
)

# Who acknowledges


def test_auto_writes_nothing_while_the_broker_settles_in_time() -> None:
    bench = bench_of(AUTO)
    assert bench.say(b"s1", short(b"hi", 1, 7)) == [puback(7)]
    bench.wake(10.0)
    assert bench.stores == []


def test_auto_stores_what_is_unsettled_for_too_long_and_the_disk_acknowledges_it() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    assert bench.say(b"s1", short(b"hi", 1, 7)) == []
    bench.wake(SPILL_AFTER_S - 0.001)
    assert bench.stores == []
    bench.wake(SPILL_AFTER_S)
    assert [reading.payload for reading in bench.stores] == [b"hi"]
    assert bench.hear(b"s1") == [], "it is not on the disk yet"
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]
    bench.release()
    assert bench.hear(b"s1") == [], "acknowledged once"
    assert bench.finished == [bench.stores[0].record]


def test_a_reading_that_comes_later_is_spilled_later() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"first", 1, 7))
    bench.wake(0.03)
    bench.say(b"s2", short(b"second", 1, 7))
    bench.wake(SPILL_AFTER_S)
    assert [reading.payload for reading in bench.stores] == [b"first"]
    bench.wake(0.03 + SPILL_AFTER_S)
    assert [reading.payload for reading in bench.stores] == [b"first", b"second"]


def test_nothing_is_spilled_while_the_broker_settles_others() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"held", 1, 7))
    (held,) = bench.seen_of(mqtt5.PublishPacket)
    bench.wake(0.03)
    bench.holds = False
    bench.say(b"s2", short(b"settled", 1, 7))
    bench.wake(SPILL_AFTER_S)
    assert bench.stores == []
    bench.wake(0.03 + SPILL_AFTER_S)
    assert [reading.payload for reading in bench.stores] == [b"held"], "it has fallen silent"
    bench.answer(held)
    assert bench.hear(b"s1") == [puback(7)]


def test_auto_is_acknowledged_by_the_broker_if_it_is_faster_than_the_disk() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.wake(SPILL_AFTER_S)
    bench.release()
    assert bench.hear(b"s1") == [puback(7)]
    bench.flush()
    assert bench.hear(b"s1") == []
    assert bench.journal.numbers.depth == 0


@pytest.mark.guarantee("1")
@pytest.mark.parametrize(
    ("options", "qos", "answer"),
    [
        pytest.param(AUTO, 2, Pubrec(7), id="QoS 2 in auto"),
        pytest.param(JOURNAL, 1, puback(7), id="QoS 1 in journal"),
        pytest.param(JOURNAL, 2, Pubrec(7), id="QoS 2 in journal"),
    ],
)
def test_stored_first_is_acknowledged_and_sent_when_it_is_durable(
    options: ReadingOptions, qos: int, answer: Frame
) -> None:
    bench = bench_of(options)
    hold(bench)
    assert bench.say(b"s1", short(b"hi", qos, 7)) == []
    assert sent(bench) == [], "a crash now must not leave it at the broker"
    bench.flush()
    assert bench.hear(b"s1") == [answer]
    assert sent(bench) == [b"hi"]


@pytest.mark.parametrize("qos", [1, 2])
def test_upstream_waits_for_the_broker_and_stores_nothing(qos: int) -> None:
    bench = bench_of(ReadingOptions(Acknowledge.UPSTREAM))
    hold(bench)
    bench.say(b"s1", short(b"hi", qos, 7))
    bench.wake(10.0)
    bench.flush()
    bench.lose_broker()
    bench.flush()
    assert bench.hear(b"s1") == []
    assert bench.stores == []


def test_the_topic_decides_who_must_have_a_reading() -> None:
    bench = JournalBench(options_of(JOURNAL, ("tp", ReadingOptions(Acknowledge.UPSTREAM))))
    bench.join(b"s1")
    assert bench.say(b"s1", short(b"hi", 2, 7)) == [Pubrec(7)]
    assert bench.stores == []


def test_what_the_broker_settles_out_of_order_is_finished_in_several_runs() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    say_numbers(bench, 5)
    bench.flush()
    packets = bench.seen_of(mqtt5.PublishPacket)
    answers = [mqtt5.PubAckPacket(packets[place].packet_id or 0).write() for place in (1, 2, 4, 0)]
    bench.from_broker(b"".join(answers))
    assert bench.finished == [1, 2, 4, 0]
    assert bench.journal.numbers.depth == 1


@pytest.mark.guarantee("3")
def test_what_is_stored_first_takes_along_what_its_client_sent_before() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"first", 1, 7))
    bench.say(b"s2", short(b"another's", 1, 7))
    bench.say(b"s1", short(b"second", 2, 8))
    assert [reading.payload for reading in bench.stores] == [b"first", b"second"]
    bench.flush()
    assert bench.hear(b"s1") == [puback(7), Pubrec(8)]


@pytest.mark.guarantee("3")
def test_it_takes_them_along_as_they_came_though_the_first_is_settled() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"settled", 1, 7))
    (acknowledged,) = bench.seen_of(mqtt5.PublishPacket)
    bench.say(b"s1", short(b"first", 1, 8))
    bench.answer(acknowledged)
    assert bench.hear(b"s1") == [puback(7)]
    bench.say(b"s1", short(b"second", 1, 9))
    bench.say(b"s1", short(b"third", 2, 10))
    assert [reading.payload for reading in bench.stores] == [b"first", b"second", b"third"]


@pytest.mark.guarantee("3")
@pytest.mark.parametrize("is_lost", [False, True], ids=["too late", "no broker"])
def test_what_a_client_left_behind_is_not_written_behind_what_came_after(*, is_lost: bool) -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"left behind", 1, 7))
    bench.join(b"s1")
    bench.say(b"s1", short(b"later", 2, 8))
    bench.flush()
    if is_lost:
        bench.lose_broker()
    bench.wake(1.0)
    bench.flush()
    assert [reading.payload for reading in bench.stores] == [b"later"]
    if is_lost:
        bench.seen()
        bench.connect_broker()
    assert sent(bench) == [b"left behind", b"later"]


def test_what_was_unsettled_when_the_broker_went_is_stored_at_once() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.lose_broker()
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]
    bench.holds = False
    bench.seen()
    bench.connect_broker()
    assert sent(bench) == [b"hi"]
    assert bench.finished == [bench.stores[0].record]


def test_nobody_hears_of_a_session_that_ended_while_its_reading_was_stored() -> None:
    bench = bench_of(JOURNAL)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.join(b"s1")
    bench.flush()
    assert puback(7) not in bench.hear(b"s1")
    assert sent(bench) == [b"hi"]


def test_pubcomp_waits_until_the_release_of_a_stored_reading_is_durable() -> None:
    bench = bench_of(AUTO)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    assert bench.hear(b"s1") == [Pubrec(7)]
    assert bench.say(b"s1", Pubrel(7)) == []
    bench.flush()
    assert bench.hear(b"s1") == [Pubcomp(7)]


# While the broker is away


@pytest.mark.parametrize("options", [AUTO, JOURNAL], ids=["auto", "journal"])
def test_readings_are_acknowledged_from_the_disk_while_the_broker_is_away(
    options: ReadingOptions,
) -> None:
    bench = bench_of(options, connected=False)
    for number in range(5):
        bench.say(b"s1", short(b"%d" % number, 1 + number % 2, 7 + number))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7), Pubrec(8), puback(9), Pubrec(10), puback(11)]
    assert len(bench.engine.upstream.publisher.in_flight.waiting) == 0, "they are on the disk only"
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"0", b"1", b"2", b"3", b"4"]
    assert bench.journal.numbers.depth == 0


@pytest.mark.guarantee("3")
def test_live_readings_wait_behind_the_backlog_of_their_client_only() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"parked", 1, 7))
    bench.flush()
    bench.connect_broker()
    bench.say(b"s1", short(b"live", 1, 8))
    bench.say(b"s1", short(b"live at QoS 0", 0, 0))
    bench.say(b"s2", short(b"of another", 1, 7))
    assert sent(bench) == [b"of another"]
    bench.flush()
    assert sent(bench) == [b"parked", b"live", b"live at QoS 0"]
    assert bench.journal.numbers.depth == 0, "nothing says that QoS 0 arrived"
    bench.say(b"s1", short(b"after it", 1, 9))
    assert sent(bench) == [b"after it"]


def test_what_waited_in_memory_goes_before_what_was_parked_after_it() -> None:
    bench = bench_of(AUTO)
    bench.from_broker(mqtt5.DisconnectPacket().write())
    bench.lose_broker()
    bench.connect_broker(receive_max=1)
    hold(bench)
    say_numbers(bench, 3)
    bench.lose_broker()
    bench.say(b"s1", short(b"3", 1, 10))
    bench.flush()
    bench.seen()
    bench.holds = False
    bench.connect_broker(receive_max=1)
    bench.flush()
    assert sent(bench) == [b"0", b"1", b"2", b"3"]


def test_a_reading_that_is_stored_when_the_broker_goes_keeps_its_place() -> None:
    bench = bench_of(JOURNAL)
    bench.say(b"s1", short(b"first", 1, 7))
    bench.lose_broker()
    bench.say(b"s1", short(b"second", 1, 8))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7), puback(8)]
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"first", b"second"]


def test_an_outage_that_brought_nothing_leaves_no_trace() -> None:
    bench = bench_of(AUTO)
    bench.lose_broker()
    bench.connect_broker()
    bench.seen()
    assert bench.say(b"s1", short(b"hi", 1, 7)) == [puback(7)]
    assert bench.stores == []


# QoS 0


def test_qos_0_follows_what_is_being_stored() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"stored", 2, 7))
    bench.say(b"s1", short(b"follows", 0, 0))
    bench.say(b"s2", short(b"of another", 0, 0))
    assert sent(bench) == [b"of another"]
    bench.flush()
    assert sent(bench) == [b"stored", b"follows"]


def test_too_many_readings_at_qos_0_behind_one_that_is_being_stored_are_dropped() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"stored", 2, 7))
    for _ in range(FOLLOWERS_MAX + 1):
        bench.say(b"s1", short(b"follows", 0, 0))
    assert reasons(bench) == [Reason.UNSETTLED_FULL]
    bench.flush()
    assert len(sent(bench)) == 1 + FOLLOWERS_MAX


def test_qos_0_is_dropped_while_the_broker_is_away() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"at QoS 1", 1, 7))
    bench.say(b"s1", short(b"at QoS 0", 0, 0))
    assert reasons(bench) == [Reason.BROKER_AWAY]


@pytest.mark.parametrize(
    "options",
    [
        ReadingOptions(Acknowledge.AUTO, stores_qos_0_offline=True),
        ReadingOptions(stores_qos_0=True),
    ],
    ids=["offline", "always"],
)
def test_qos_0_is_stored_if_the_operator_wants_it(options: ReadingOptions) -> None:
    bench = bench_of(options, connected=False)
    bench.say(b"s1", short(b"hi", 0, 0))
    bench.flush()
    assert bench.hear(b"s1") == []
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"hi"]
    assert bench.journal.numbers.depth == 0


def test_a_stored_qos_0_reading_that_the_broker_is_too_slow_for_is_dropped_and_finished() -> None:
    bench = bench_of(ReadingOptions(Acknowledge.AUTO, stores_qos_0=True))
    bench.say(b"s1", short(b"hi", 0, 0))
    bench.engine.congested()
    bench.flush()
    assert reasons(bench) == [Reason.BROKER_SLOW]
    assert bench.journal.numbers.depth == 0


def test_qos_0_goes_through_the_journal_always_if_the_operator_wants_it() -> None:
    bench = bench_of(ReadingOptions(Acknowledge.AUTO, stores_qos_0=True))
    bench.say(b"s1", short(b"hi", 0, 0))
    assert sent(bench) == []
    bench.flush()
    assert sent(bench) == [b"hi"]
    bench.flush()
    assert bench.journal.numbers.depth == 0


def test_qos_0_of_a_topic_that_is_never_stored_does_not_wait_for_the_backlog() -> None:
    """Or a QoS 1 reading of its topic would overtake it."""
    bench = JournalBench(
        options_of(JOURNAL, ("tp", ReadingOptions(Acknowledge.UPSTREAM))), connected=False
    )
    bench.join(b"s1")
    register = Register(0, 1, b"t")
    (regack,) = bench.say(b"s1", register)
    assert isinstance(regack, Regack)
    bench.say(b"s1", Publish(regack.topic_id, 7, b"parked", 1))
    bench.flush()
    bench.holds = True
    bench.connect_broker()
    bench.say(b"s1", short(b"at QoS 0", 0, 0), short(b"at QoS 1", 1, 8))
    assert sent(bench) == [b"at QoS 0", b"at QoS 1"]
    bench.flush()
    assert sent(bench) == [b"parked"]


def test_what_could_not_be_reached_on_the_disk_follows_when_it_can() -> None:
    """Its file was gone for a while; what came later did not wait for it for ever."""
    bench = bench_of(AUTO, connected=False)
    say_numbers(bench, 2)
    bench.flush()
    bench.connect_broker()
    bench.seen()
    bench.take(bench.engine.read_back([], bench.at))
    bench.say(b"s1", short(b"live", 1, 20))
    assert sent(bench) == [b"live"]
    bench.take(bench.engine.in_reach_again(2, bench.at))
    bench.flush()
    assert sent(bench) == [b"0", b"1"]

"""What a reading needs before it is acknowledged, and its way on: the stories of gateway/uplink.py.

The journal is the production one, on files in memory; `flush` is the moment at which the disk has
what was given to it.
"""

from __future__ import annotations

import mqtt5
import pytest

from gateway import uplink
from gateway.effects import Dropped, Reason
from gateway.frames import Frame, Puback, Pubcomp, Pubrec, Pubrel
from gateway.journal.rules import RETRY_AFTER_S
from gateway.routing.reading_rules import Acknowledge, ReadingRules
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, rules_of

TP = int.from_bytes(b"tp", "big")
SPILL_AFTER_S = 0.05
JOURNAL = ReadingRules(Acknowledge.JOURNAL)
AUTO = ReadingRules(Acknowledge.AUTO)


def puback(message_id: int, return_code: int = 0) -> Puback:
    return Puback(TP, message_id, return_code)


def bench_of(rules: ReadingRules = AUTO, *, connected: bool = True) -> JournalBench:
    bench = JournalBench(rules_of(rules), connected=connected)
    bench.join(b"s1")
    bench.join(b"s2")
    bench.seen()
    return bench


def sent(bench: JournalBench) -> list[bytes]:
    """The payloads of the readings that went to the broker since the last look."""
    packets = bench.seen_of(mqtt5.PublishPacket)
    return [packet.payload or b"" for packet in packets if "tidegate/" not in packet.topic]


def reasons(bench: JournalBench) -> list[Reason]:
    return [dropped.reason for dropped in bench.told(Dropped)]


def silence_disk(bench: JournalBench) -> None:
    """From now on nothing can be written."""
    bench.files.faults.write_fails = 1.0


def heal_disk(bench: JournalBench) -> None:
    """The disk works again, and the journal has noticed."""
    bench.files.faults.write_fails = 0.0
    bench.at += RETRY_AFTER_S
    bench.flush()


def hold(bench: JournalBench) -> None:
    """The broker answers no more, until `bench.release()`."""
    bench.holds = True
    bench.seen()


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
    assert [forward.payload for forward in bench.stores] == [b"hi"]
    assert bench.hear(b"s1") == [], "it is not on the disk yet"
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]
    bench.release()
    assert bench.hear(b"s1") == [], "acknowledged once"
    assert [forward.payload for forward in bench.finished] == [b"hi"]


def test_a_reading_that_comes_later_is_spilled_later() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"first", 1, 7))
    bench.wake(0.03)
    bench.say(b"s2", short(b"second", 1, 7))
    bench.wake(SPILL_AFTER_S)
    assert [forward.payload for forward in bench.stores] == [b"first"]
    bench.wake(0.03 + SPILL_AFTER_S)
    assert [forward.payload for forward in bench.stores] == [b"first", b"second"]


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


@pytest.mark.parametrize(
    ("rules", "qos", "answer"),
    [
        pytest.param(AUTO, 2, Pubrec(7), id="QoS 2 in auto"),
        pytest.param(JOURNAL, 1, puback(7), id="QoS 1 in journal"),
        pytest.param(JOURNAL, 2, Pubrec(7), id="QoS 2 in journal"),
    ],
)
def test_stored_first_is_acknowledged_and_sent_when_it_is_durable(
    rules: ReadingRules, qos: int, answer: Frame
) -> None:
    bench = bench_of(rules)
    hold(bench)
    assert bench.say(b"s1", short(b"hi", qos, 7)) == []
    assert sent(bench) == [], "a crash now must not leave it at the broker"
    bench.flush()
    assert bench.hear(b"s1") == [answer]
    assert sent(bench) == [b"hi"]


@pytest.mark.parametrize("qos", [1, 2])
def test_upstream_waits_for_the_broker_and_stores_nothing(qos: int) -> None:
    bench = bench_of(ReadingRules(Acknowledge.UPSTREAM))
    hold(bench)
    bench.say(b"s1", short(b"hi", qos, 7))
    bench.wake(10.0)
    bench.flush()
    bench.lose_broker()
    bench.flush()
    assert bench.hear(b"s1") == []
    assert bench.stores == []


def test_the_topic_decides_who_must_have_a_reading() -> None:
    bench = JournalBench(rules_of(JOURNAL, ("tp", ReadingRules(Acknowledge.UPSTREAM))))
    bench.join(b"s1")
    assert bench.say(b"s1", short(b"hi", 2, 7)) == [Pubrec(7)]
    assert bench.stores == []


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
    assert len(bench.finished) == 1


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


@pytest.mark.parametrize("rules", [AUTO, JOURNAL], ids=["auto", "journal"])
def test_readings_are_acknowledged_from_the_disk_while_the_broker_is_away(
    rules: ReadingRules,
) -> None:
    bench = bench_of(rules, connected=False)
    for number in range(5):
        bench.say(b"s1", short(b"%d" % number, 1 + number % 2, 7 + number))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7), Pubrec(8), puback(9), Pubrec(10), puback(11)]
    assert len(bench.engine.upstream.readings.in_flight.waiting) == 0, "they are on the disk only"
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"0", b"1", b"2", b"3", b"4"]
    assert bench.journal.numbers.depth == 0


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
    for number in range(3):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number))
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
    for _ in range(uplink.FOLLOWERS_MAX + 1):
        bench.say(b"s1", short(b"follows", 0, 0))
    assert reasons(bench) == [Reason.UNSETTLED_FULL]
    bench.flush()
    assert len(sent(bench)) == 1 + uplink.FOLLOWERS_MAX


def test_qos_0_is_dropped_while_the_broker_is_away() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"at QoS 1", 1, 7))
    bench.say(b"s1", short(b"at QoS 0", 0, 0))
    assert reasons(bench) == [Reason.BROKER_AWAY]


@pytest.mark.parametrize(
    "rules",
    [ReadingRules(Acknowledge.AUTO, stores_qos_0_offline=True), ReadingRules(stores_qos_0=True)],
    ids=["offline", "always"],
)
def test_qos_0_is_stored_if_the_operator_wants_it(rules: ReadingRules) -> None:
    bench = bench_of(rules, connected=False)
    bench.say(b"s1", short(b"hi", 0, 0))
    bench.flush()
    assert bench.hear(b"s1") == []
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"hi"]
    assert bench.journal.numbers.depth == 0


def test_a_stored_qos_0_reading_that_the_broker_is_too_slow_for_is_dropped_and_finished() -> None:
    bench = bench_of(ReadingRules(Acknowledge.AUTO, stores_qos_0=True))
    bench.say(b"s1", short(b"hi", 0, 0))
    bench.engine.set_clogged(is_clogged=True)
    bench.flush()
    assert reasons(bench) == [Reason.BROKER_SLOW]
    assert bench.journal.numbers.depth == 0


# Without the journal


def test_without_the_journal_the_broker_settles() -> None:
    bench = bench_of(JOURNAL)
    silence_disk(bench)
    bench.say(b"s1", short(b"hi", 1, 7), short(b"again", 2, 8))
    assert bench.hear(b"s1") == []
    bench.flush()
    assert sent(bench) == [b"hi", b"again"]
    assert bench.hear(b"s1") == [puback(7), Pubrec(8)]
    assert bench.say(b"s1", Pubrel(8)) == [Pubcomp(8)], "nothing of it is on record"


def test_without_journal_and_broker_the_sensor_keeps_its_reading() -> None:
    bench = bench_of(AUTO, connected=False)
    silence_disk(bench)
    bench.say(b"s1", short(b"hi", 1, 7), short(b"again", 2, 8))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7, 1), puback(8, 1)]
    assert reasons(bench) == [Reason.JOURNAL_FAILED] * 2
    heal_disk(bench)
    bench.say(b"s1", short(b"hi", 1, 7, dup=True))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]
    bench.connect_broker()
    bench.flush()
    (first,) = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "tp"]
    assert dict(first.user_properties)["seq"] == "0", "what was refused left no hole"


def test_without_the_journal_nothing_overtakes_what_is_parked() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"parked", 1, 7))
    bench.flush()
    bench.hear(b"s1")
    bench.connect_broker()
    silence_disk(bench)
    bench.say(b"s1", short(b"live", 1, 8))
    while bench.write():
        pass
    assert bench.hear(b"s1") == [puback(8, 1)]
    bench.flush()
    assert sent(bench) == [b"parked"]


def test_what_follows_a_reading_that_could_not_be_stored_goes_on() -> None:
    bench = bench_of(AUTO)
    silence_disk(bench)
    bench.say(b"s1", short(b"first", 2, 7), short(b"second", 0, 0), short(b"third", 2, 8))
    bench.flush()
    assert sent(bench) == [b"first", b"second", b"third"]


def test_a_spill_that_failed_is_tried_again_and_nothing_is_said_meanwhile() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    silence_disk(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.wake(SPILL_AFTER_S)
    bench.flush()
    assert bench.hear(b"s1") == []
    assert reasons(bench) == []
    bench.at += 0.1
    heal_disk(bench)
    bench.wake(SPILL_AFTER_S + uplink.SPILL_AGAIN_S)
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]


def test_a_reading_that_no_segment_can_hold_is_refused_for_good() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"x" * 1024, 1, 7))
    (forward,) = bench.stores
    bench.take(bench.engine.not_stored([forward], Reason.PAYLOAD_TOO_LARGE, bench.at))
    assert bench.hear(b"s1") == [puback(7, 3)]


# What the broker refuses


def refuse(bench: JournalBench, packet: mqtt5.PublishPacket, code: int) -> None:
    packet_id = packet.packet_id or 0
    answer = mqtt5.PubAckPacket(packet_id, reason_code=mqtt5.PubAckReasonCode(code))
    bench.from_broker(answer.write())


def held_reading(bench: JournalBench) -> mqtt5.PublishPacket:
    (packet,) = [one for one in bench.seen_of(mqtt5.PublishPacket) if one.topic == "tp"]
    return packet


QUOTA_EXCEEDED, NOT_AUTHORIZED = 0x97, 0x87


def test_what_was_acknowledged_is_offered_again_when_the_broker_has_no_room() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]
    refuse(bench, held_reading(bench), QUOTA_EXCEEDED)
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.count) == (Reason.BROKER_REFUSED, 0)
    bench.wake(uplink.OFFER_AGAIN_S - 0.1)
    assert sent(bench) == []
    bench.holds = False
    bench.wake(uplink.OFFER_AGAIN_S)
    assert sent(bench) == [b"hi"]
    assert bench.journal.numbers.depth == 0


def test_what_is_to_be_offered_again_is_offered_to_the_next_connection_first() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    for number in range(2):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number))
    bench.flush()
    for packet in bench.seen_of(mqtt5.PublishPacket):
        refuse(bench, packet, QUOTA_EXCEEDED)
    bench.lose_broker()
    bench.holds = False
    bench.connect_broker()
    assert sent(bench) == [b"0", b"1"]


def test_what_the_broker_refuses_for_good_is_finished() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    refuse(bench, held_reading(bench), NOT_AUTHORIZED)
    assert reasons(bench) == [Reason.BROKER_REFUSED]
    assert bench.journal.numbers.depth == 0


def test_no_more_than_a_number_is_kept_to_be_offered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplink, "POSTPONED_MAX", 1)
    bench = bench_of(JOURNAL)
    hold(bench)
    for number in range(2):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number))
    bench.flush()
    for packet in bench.seen_of(mqtt5.PublishPacket):
        refuse(bench, packet, QUOTA_EXCEEDED)
    assert sum(dropped.count for dropped in bench.told(Dropped)) == 1
    assert bench.journal.numbers.depth == 1


def test_a_reading_refused_while_it_is_being_stored_is_answered_by_the_refusal() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.wake(SPILL_AFTER_S)
    refuse(bench, held_reading(bench), NOT_AUTHORIZED)
    assert bench.hear(b"s1") == [puback(7, 3)]
    bench.flush()
    assert bench.hear(b"s1") == []
    assert bench.journal.numbers.depth == 0


# What is not worth sending any more


def test_a_reading_that_waited_too_long_is_dropped_and_counted() -> None:
    bench = bench_of(ReadingRules(Acknowledge.AUTO, expiry_s=60.0), connected=False)
    bench.say(b"s1", short(b"old", 1, 7))
    bench.flush()
    bench.at += 30.0
    bench.say(b"s1", short(b"younger", 1, 8))
    bench.flush()
    bench.at += 31.0
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"younger"]
    assert reasons(bench) == [Reason.EXPIRED]
    assert bench.journal.numbers.depth == 0


def test_what_never_waited_on_the_disk_does_not_expire() -> None:
    rules = (ReadingRules(Acknowledge.UPSTREAM, expiry_s=1.0),)
    bench = JournalBench(rules_of(*rules), connected=False)
    bench.join(b"s1")
    bench.say(b"s1", short(b"kept by its sensor", 1, 7))
    bench.at += 60.0
    bench.connect_broker()
    assert sent(bench) == [b"kept by its sensor"]


def test_of_a_retained_topic_only_the_newest_value_is_sent() -> None:
    bench = bench_of(ReadingRules(Acknowledge.AUTO, coalesce_retained=True), connected=False)
    for number in range(3):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number, retain=True))
        bench.say(b"s1", short(b"event %d" % number, 1, 17 + number))
    bench.flush()
    bench.connect_broker()
    bench.flush()
    assert sent(bench) == [b"event 0", b"event 1", b"2", b"event 2"]
    assert reasons(bench) == [Reason.COALESCED] * 2


def test_the_oldest_that_the_journal_gave_up_are_counted_and_their_client_is_free_again() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"given up", 1, 7))
    bench.flush()
    bench.drop_oldest("s1", 1)
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id, dropped.count) == (Reason.JOURNAL_FULL, "s1", 1)
    bench.hear(b"s1")
    bench.connect_broker()
    assert bench.say(b"s1", short(b"live", 1, 8)) == [puback(8)]


# A broker that cannot follow


def test_what_exceeds_memory_goes_through_the_journal_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplink, "OVERFLOW", 3)
    bench = JournalBench(connected=False)
    bench.join(b"s1")
    bench.join(b"s2")
    bench.connect_broker(receive_max=1)
    hold(bench)
    for number in range(8):
        bench.say(b"s%d" % (1 + number % 2), short(b"%d" % number, 1, 7 + number))
    assert len(bench.engine.upstream.readings.in_flight.waiting) == 3
    assert [forward.payload for forward in bench.stores] == [b"4", b"5", b"6", b"7"]
    bench.flush()
    bench.release()
    bench.flush()
    assert sent(bench)[-7:] == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert bench.hear(b"s1") == [puback(message_id) for message_id in (11, 13, 7, 9)]
    assert bench.say(b"s1", short(b"8", 1, 20)) == [puback(20)], "afterwards all is as before"
    assert bench.stores[-1].payload == b"7"


def test_readings_go_on_when_a_clogged_connection_is_free_again() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    bench.connect_broker()
    bench.engine.set_clogged(is_clogged=True)
    bench.flush()
    assert sent(bench) == []
    bench.engine.set_clogged(is_clogged=False)
    bench.wake(bench.at + uplink.LOOK_AGAIN_S)
    assert sent(bench) == [b"hi"]

"""Refused by the broker, too old, too much: more stories of gateway/core/uplink/uplink.py."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.mqtt import backlog
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink import deferred, uplink
from gateway.storage.journal import reading
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of
from tests.support.uplink_stories import (
    AUTO,
    JOURNAL,
    bench_of,
    drain_paused,
    hold,
    puback,
    reasons,
    say_numbers,
    sent,
)

# What the broker refuses


def refuse(bench: JournalBench, packet: mqtt5.PublishPacket, code: int) -> None:
    packet_id = packet.packet_id or 0
    answer = mqtt5.PubAckPacket(packet_id, reason_code=mqtt5.PubAckReasonCode(code))
    bench.from_broker(answer.write())


def held_reading(bench: JournalBench) -> mqtt5.PublishPacket:
    (packet,) = [one for one in bench.seen_of(mqtt5.PublishPacket) if one.topic == "tp"]
    return packet


BUSY, NOT_AUTHORIZED = 0x83, 0x87


def test_what_was_acknowledged_is_offered_again_when_the_broker_has_no_room() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]
    refuse(bench, held_reading(bench), BUSY)
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.count) == (Reason.BROKER_REFUSED, 0)
    bench.wake(deferred.OFFER_AGAIN_S - 0.1)
    assert sent(bench) == []
    bench.holds = False
    bench.wake(deferred.OFFER_AGAIN_S)
    assert sent(bench) == [b"hi"]
    assert bench.journal.numbers.depth == 0


def test_what_is_to_be_offered_again_is_offered_to_the_next_connection_first() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    say_numbers(bench, 2)
    bench.flush()
    for packet in bench.seen_of(mqtt5.PublishPacket):
        refuse(bench, packet, BUSY)
    bench.lose_broker()
    bench.holds = False
    bench.connect_broker()
    assert sent(bench) == [b"0", b"1"]


def test_what_was_acknowledged_and_the_broker_refuses_for_good_is_set_aside() -> None:
    bench = bench_of(JOURNAL)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    refuse(bench, held_reading(bench), NOT_AUTHORIZED)
    assert reasons(bench) == []
    (record,) = bench.engine.uplink.aside.records.values()
    assert (record.client_id, record.payload, record.sequence) == ("s1", b"hi", 0)
    assert "0x87" in record.reason
    assert bench.journal.numbers.depth == 0


def test_no_more_than_a_number_is_kept_to_be_offered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deferred, "POSTPONED_MAX", 1)
    bench = bench_of(JOURNAL)
    hold(bench)
    say_numbers(bench, 2)
    bench.flush()
    for packet in bench.seen_of(mqtt5.PublishPacket):
        refuse(bench, packet, BUSY)
    (record,) = bench.engine.uplink.aside.records.values()
    assert record.payload == b"1"
    assert sum(dropped.count for dropped in bench.told(Dropped)) == 0
    assert bench.journal.numbers.depth == 1


def test_a_reading_refused_while_it_is_being_stored_is_answered_by_the_refusal() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.wake(0.05)
    refuse(bench, held_reading(bench), NOT_AUTHORIZED)
    assert bench.hear(b"s1") == [puback(7, 3)]
    bench.flush()
    assert bench.hear(b"s1") == []
    assert bench.journal.numbers.depth == 0


# What is not worth sending any more


def test_a_reading_that_waited_too_long_is_dropped_and_counted() -> None:
    bench = bench_of(ReadingOptions(Acknowledge.AUTO, expiry_s=60.0), connected=False)
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


def test_so_is_one_that_is_stored_and_waits_for_the_window() -> None:
    bench = bench_of(ReadingOptions(Acknowledge.JOURNAL, expiry_s=60.0), connected=False)
    bench.connect_broker(receive_max=1)
    hold(bench)
    for number in range(4):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number))
        bench.flush()
        bench.at += 25.0
    bench.release()
    bench.flush()
    assert sent(bench) == [b"2", b"3"], "the broker had the first one"
    assert reasons(bench) == [Reason.EXPIRED]
    assert bench.journal.numbers.depth == 0


def test_what_never_waited_on_the_disk_does_not_expire() -> None:
    options = (ReadingOptions(Acknowledge.UPSTREAM, expiry_s=1.0),)
    bench = JournalBench(options_of(*options), connected=False)
    bench.join(b"s1")
    bench.say(b"s1", short(b"kept by its sensor", 1, 7))
    bench.at += 60.0
    bench.connect_broker()
    assert sent(bench) == [b"kept by its sensor"]


def test_of_a_retained_topic_only_the_newest_value_is_sent() -> None:
    bench = bench_of(ReadingOptions(Acknowledge.AUTO, coalesce_retained=True), connected=False)
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
    bench = bench_of(AUTO, connected=False)
    bench.connect_broker(receive_max=1)
    hold(bench)
    for number in range(8):
        bench.say(b"s%d" % (1 + number % 2), short(b"%d" % number, 1, 7 + number))
    assert len(bench.engine.upstream.publisher.in_flight.waiting) == 3
    # What each client sent before comes first on the disk as well.
    assert [int(reading.payload) for reading in bench.stores] == [0, 2, 4, 1, 3, 5, 6, 7]
    bench.flush()
    bench.release()
    bench.flush()
    assert sent(bench)[-7:] == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert bench.hear(b"s1") == [puback(message_id) for message_id in (7, 9, 11, 13)]
    assert bench.say(b"s1", short(b"8", 1, 20)) == [puback(20)], "afterwards all is as before"
    assert bench.stores[-1].payload == b"7"


def test_it_ends_when_nothing_stored_waits_any_more_though_more_is_being_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplink, "OVERFLOW", 2)
    bench = bench_of(AUTO, connected=False)
    bench.connect_broker(receive_max=1)
    hold(bench)
    say_numbers(bench, 5)
    bench.release()
    bench.say(b"s1", short(b"behind", 1, 20))
    assert bench.say(b"s2", short(b"free", 1, 21)) == [puback(21)]
    stores = [b"0", b"1", b"2", b"3", b"4", b"behind"]
    assert [reading.payload for reading in bench.stores] == stores
    bench.flush()
    assert sent(bench) == [b"1", b"2", b"free", b"3", b"4", b"behind"]
    assert bench.journal.numbers.queued == bench.journal.numbers.depth == 0


def test_what_was_being_parked_when_the_broker_came_back_is_not_read_back() -> None:
    bench = bench_of(JOURNAL, connected=False)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.connect_broker()
    hold(bench)
    bench.write()
    assert held_reading(bench).payload == b"hi"
    assert not bench.read()
    numbers = bench.journal.numbers
    assert (numbers.queued, numbers.depth) == (0, 1)


def test_but_it_is_behind_another_that_is_parked() -> None:
    bench = bench_of(JOURNAL, connected=False)
    bench.say(b"s1", short(b"old", 1, 7))
    bench.flush()
    bench.say(b"s1", short(b"new", 1, 8))
    bench.connect_broker()
    bench.write()
    assert sent(bench) == []
    bench.flush()
    assert sent(bench) == [b"old", b"new"]


def test_nor_does_it_go_on_while_the_drain_is_paused() -> None:
    bench = bench_of(JOURNAL, connected=False)
    bench.say(b"s1", short(b"hi", 1, 7))
    with drain_paused(bench):
        bench.connect_broker()
        bench.flush()
        assert sent(bench) == []
        assert bench.journal.numbers.queued == 1
    bench.flush()
    assert sent(bench) == [b"hi"]


def test_what_is_parked_later_does_not_overtake_it() -> None:
    bench = bench_of(JOURNAL, connected=False)
    say_numbers(bench, 2)
    bench.connect_broker(receive_max=1)
    hold(bench)
    bench.write()
    bench.lose_broker()
    bench.say(b"s1", short(b"2", 1, 9))
    bench.flush()
    bench.holds = False
    bench.seen()
    bench.connect_broker(session_present=False)
    bench.flush()
    assert sent(bench) == [b"0", b"1", b"2"]


def test_nor_does_what_stays_parked_for_a_pause() -> None:
    bench = bench_of(JOURNAL, connected=False)
    say_numbers(bench, 3)
    bench.connect_broker(receive_max=1)
    hold(bench)
    group = bench.journal.begin_group(bench.at)
    assert group is not None
    bench.say(b"s1", short(b"3", 1, 17))
    bench.end_write(group)
    with drain_paused(bench):
        bench.flush()
    bench.flush()
    bench.release()
    assert sent(bench) == [b"1", b"2", b"3"], "the broker had the first one"


def test_nor_does_what_came_while_it_was_being_stored_and_the_broker_away() -> None:
    bench = bench_of(JOURNAL)
    say_numbers(bench, 3)
    group = bench.journal.begin_group(bench.at)
    assert group is not None
    bench.lose_broker()
    bench.say(b"s1", short(b"3", 1, 17))
    hold(bench)
    bench.connect_broker(receive_max=1)
    with drain_paused(bench):
        bench.end_write(group)
        bench.flush()
    bench.flush()
    bench.release()
    assert sent(bench) == [b"1", b"2", b"3"], "the broker had the first one"


def test_readings_go_on_when_a_clogged_connection_is_free_again() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    bench.connect_broker()
    bench.engine.congested()
    bench.flush()
    assert sent(bench) == []
    assert bench.engine.is_congested
    bench.take(bench.engine.uncongested(bench.at))
    assert not bench.engine.is_congested
    assert sent(bench) == [b"hi"]


def test_more_is_read_back_as_the_broker_takes_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "READY_MAX", 2)
    monkeypatch.setattr(reading, "BACKLOG_READINGS_MAX", 2)
    bench = bench_of(JOURNAL, connected=False)
    for number in range(6):
        bench.say(b"s1", short(b"%d" % number, 1, number + 1))
        bench.flush()
    hold(bench)
    bench.connect_broker(receive_max=1)
    went = []
    for _ in range(6):
        bench.flush()
        packet = held_reading(bench)
        went.append(packet.payload)
        bench.answer(packet)
    assert went == [b"%d" % number for number in range(6)]

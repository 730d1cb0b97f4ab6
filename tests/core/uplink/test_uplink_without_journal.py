"""Readings without the journal, full or failing: the broker settles them, or sensors keep them."""

from __future__ import annotations

import mqtt5

from gateway.core.drop_reasons import Reason
from gateway.core.uplink import spill
from gateway.frames import Pubcomp, Pubrec, Pubrel
from tests.support.engine_bench import short
from tests.support.uplink_stories import (
    AUTO,
    JOURNAL,
    SPILL_AFTER_S,
    bench_of,
    heal_disk,
    hold,
    puback,
    reasons,
    sent,
    silence_disk,
)


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
    bench.wake(SPILL_AFTER_S + spill.AGAIN_S)
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]


def test_a_reading_that_no_segment_can_hold_is_refused_for_good() -> None:
    bench = bench_of(AUTO, connected=False)
    bench.say(b"s1", short(b"x" * 1024, 1, 7))
    (reading,) = bench.stores
    bench.take(bench.engine.not_stored([reading], Reason.PAYLOAD_TOO_LARGE, bench.at))
    assert bench.hear(b"s1") == [puback(7, 3)]

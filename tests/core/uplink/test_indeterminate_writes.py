"""What a failed write may have left on the disk: stories of indeterminate_writes.py."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.core.uplink.indeterminate_writes import (
    HELD_MAX,
    HELD_S,
    STORE_AGAIN_S,
    IndeterminateWrites,
)
from gateway.core.values import Reading
from gateway.frames import Pubrec
from gateway.storage.journal.options import RETRY_AFTER_S
from tests.simulation.simulated_files import Faults
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of
from tests.support.uplink_stories import AUTO, JOURNAL, bench_of, hold, puback, reasons, sent


def lose_syncs(bench: JournalBench) -> None:
    """From now on what is written is in the page cache, and no sync of it succeeds."""
    bench.files.faults = Faults(sync_fails=1.0)


def heal(bench: JournalBench) -> None:
    bench.files.faults = Faults()


def store_again(bench: JournalBench) -> None:
    """The time comes at which the journal tries once more, and then the engine."""
    bench.at += RETRY_AFTER_S
    bench.flush()
    bench.wake(bench.at + STORE_AGAIN_S - RETRY_AFTER_S)
    bench.flush()


def outlast(bench: JournalBench) -> None:
    """It comes again and again, until there is no more hope."""
    for _ in range(int(HELD_S / STORE_AGAIN_S) + 2):
        store_again(bench)


def killed(bench: JournalBench) -> JournalBench:
    """The next life, which finds what is in the page cache."""
    bench.files.kill()
    heal(bench)
    return JournalBench(options_of(AUTO, epoch=4), connected=False, files=bench.files, at=bench.at)


def tags(bench: JournalBench) -> dict[bytes, tuple[str, str]]:
    """Epoch and sequence by payload, of the readings that went out since the last look."""
    packets = [each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "tp"]
    found = {}
    for packet in packets:
        properties = dict(packet.user_properties)
        found[packet.payload or b""] = properties["epoch"], properties["seq"]
    return found


@pytest.mark.guarantee("2")
def test_a_qos_2_reading_is_held_until_the_journal_has_it() -> None:
    bench = bench_of(AUTO)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    assert (sent(bench), bench.hear(b"s1")) == ([], [])
    heal(bench)
    store_again(bench)
    assert bench.hear(b"s1") == [Pubrec(7)]
    assert sent(bench) == [b"hi"]


def test_what_was_held_and_stored_comes_back_once() -> None:
    bench = bench_of(AUTO, connected=False)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    heal(bench)
    store_again(bench)
    assert bench.hear(b"s1") == [Pubrec(7)]
    bench = killed(bench)
    bench.connect_broker(session_present=True)
    bench.flush()
    assert sent(bench) == [b"hi"]
    assert bench.journal.numbers.depth == 0


def test_a_qos_1_reading_goes_on_to_a_broker_that_is_there() -> None:
    bench = bench_of(JOURNAL)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    assert sent(bench) == [b"hi"]
    assert bench.hear(b"s1") == [puback(7)]


def test_a_qos_1_reading_is_held_while_the_broker_is_away() -> None:
    bench = bench_of(JOURNAL, connected=False)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    bench.flush()
    assert bench.hear(b"s1") == []
    heal(bench)
    store_again(bench)
    assert bench.hear(b"s1") == [puback(7)]
    bench.connect_broker()
    bench.flush()
    assert tags(bench) == {b"hi": ("3", "0")}, "under the sequence that it had"


def test_a_client_with_a_reading_that_is_held_keeps_what_follows_and_others_do_not() -> None:
    bench = bench_of(JOURNAL)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    assert bench.say(b"s1", short(b"next", 1, 8), short(b"zero", 0, 0)) == [puback(8, 1)]
    bench.say(b"s2", short(b"other", 1, 7))
    bench.flush()
    assert reasons(bench) == [Reason.JOURNAL_FAILED]
    assert sent(bench) == [b"other"]
    assert bench.hear(b"s2") == [puback(7)]
    heal(bench)
    store_again(bench)
    assert sent(bench) == [b"hi", b"zero"], "QoS 0 goes behind it"


def test_what_was_not_yet_written_when_the_disk_failed_is_not_held() -> None:
    bench = bench_of(AUTO)
    bench.files.faults = Faults(write_fails=1.0)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    assert sent(bench) == [b"hi"]


def test_after_a_while_the_broker_alone_settles_it() -> None:
    bench = bench_of(AUTO)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    began = bench.at
    bench.wake(began + HELD_S - 0.1)
    bench.flush()
    assert sent(bench) == []
    outlast(bench)
    assert sent(bench) == [b"hi"]
    assert bench.hear(b"s1") == [Pubrec(7)]
    assert bench.engine.uplink._indeterminate.due(bench.at + 1000.0) == []


def test_after_a_while_with_the_broker_away_its_sensor_keeps_it() -> None:
    bench = bench_of(AUTO, connected=False)
    lose_syncs(bench)
    bench.say(b"s1", short(b"hi", 2, 7))
    bench.flush()
    outlast(bench)
    assert bench.hear(b"s1") == [puback(7, 1)]
    assert reasons(bench) == [Reason.JOURNAL_FAILED]


@pytest.mark.guarantee("1")
def test_a_sequence_that_may_be_on_the_disk_is_not_given_again() -> None:
    """Else the broker gets two readings with one tag, and one of them looks like a repeat."""
    bench = bench_of(AUTO, connected=False)
    lose_syncs(bench)
    bench.say(b"s1", short(b"lost?", 1, 7))
    bench.flush()
    outlast(bench)
    bench.hear(b"s1")
    bench.connect_broker()
    bench.say(b"s2", short(b"next", 1, 7))
    first = tags(bench)
    bench = killed(bench)
    bench.connect_broker(session_present=True)
    bench.flush()
    again = tags(bench)
    assert [*first, *again] == [b"next", b"lost?"]
    assert first[b"next"] != again[b"lost?"]


def test_a_reading_that_is_on_its_way_to_the_broker_is_not_held() -> None:
    bench = bench_of(AUTO)
    hold(bench)
    bench.say(b"s1", short(b"hi", 1, 7))
    lose_syncs(bench)
    bench.wake(0.05)
    bench.flush()
    assert bench.engine.uplink._indeterminate.due(1000.0) == []
    heal(bench)
    bench.wake(bench.at + RETRY_AFTER_S + 0.1)
    bench.flush()
    bench.wake(bench.at + RETRY_AFTER_S + 0.1)
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)]


@pytest.mark.guarantee("2")
def test_what_the_broker_has_released_is_not_stored_as_if_it_had_not_received_it() -> None:
    bench = bench_of(AUTO)
    bench.files.faults = Faults(write_fails=1.0)
    hold(bench)
    bench.say(b"s1", short(b"released", 2, 7))
    bench.say(b"s2", short(b"sent", 2, 7))
    bench.flush()
    first, _ = (each for each in bench.seen_of(mqtt5.PublishPacket) if each.topic == "tp")
    bench.from_broker(mqtt5.PubRecPacket(first.packet_id or 0).write())
    bench.stores.clear()
    bench.lose_broker()
    assert [reading.payload for reading in bench.stores] == [b"sent"]


def test_no_more_are_held_than_the_limit() -> None:
    indeterminate = IndeterminateWrites()
    readings = [
        Reading(ClientId("s1"), "t", b"", 2, False, 1, number, 0.0)
        for number in range(HELD_MAX + 1)
    ]
    held = [indeterminate.hold(reading, 0.0) for reading in readings]
    assert held == [True] * HELD_MAX + [False]
    assert indeterminate.due(STORE_AGAIN_S) == readings[:HELD_MAX]

"""What the stories of the uplink have in common: two sensors, a journal, and a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mqtt5

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.frames import Puback
from gateway.storage.journal.options import RETRY_AFTER_S
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of

TP = int.from_bytes(b"tp", "big")
JOURNAL = ReadingOptions(Acknowledge.JOURNAL)
AUTO = ReadingOptions(Acknowledge.AUTO)
SPILL_AFTER_S = 0.05


def puback(message_id: int, return_code: int = 0) -> Puback:
    return Puback(TP, message_id, return_code)


def bench_of(options: ReadingOptions = AUTO, *, connected: bool = True) -> JournalBench:
    bench = JournalBench(options_of(options), connected=connected)
    bench.join(b"s1")
    bench.join(b"s2")
    bench.seen()
    return bench


def say_numbers(bench: JournalBench, count: int) -> None:
    """So many readings of one sensor, from 0 on, with message ids from 7 on."""
    for number in range(count):
        bench.say(b"s1", short(b"%d" % number, 1, 7 + number))


@contextmanager
def drain_paused(bench: JournalBench) -> Iterator[None]:
    """By the operator."""
    bench.ask(bench.engine.operator.pause_drain(is_paused=True))
    yield
    bench.ask(bench.engine.operator.pause_drain(is_paused=False))


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

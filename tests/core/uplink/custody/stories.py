"""What the stories of custody have in common: an engine with the production journal under it, one
sensor, a broker, and an ingest that says what it has.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import mqtt5

from gateway.core.engine import EngineOptions
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.custody.custody import LOOK_EVERY_S, CustodyOptions
from tests.support.engine_bench import short
from tests.support.journal_bench import JournalBench, options_of
from tests.support.uplink_stories import AUTO

FILTER = "tidegate/ingest/gh/ack/#"
EPOCH = 3
TIMEOUT_S = 100.0
KEPT = ReadingOptions(Acknowledge.AUTO, keeps=True)


def options(*, gives_way: bool = False, epoch: int = EPOCH) -> EngineOptions:
    """All is kept but what is below `by/`, which is two letters in MQTT-SN's short names."""
    given = options_of(KEPT, ("by", AUTO), epoch=epoch)
    return replace(given, custody=CustodyOptions(True, "gh", TIMEOUT_S, gives_way=gives_way))


def bench_of(given: EngineOptions | None = None, **more: Any) -> JournalBench:
    bench = JournalBench(given or options(), **more)
    bench.join(b"s1")
    bench.seen()
    return bench


def take(bench: JournalBench, *payloads: bytes, qos: int = 1) -> None:
    """Readings that are in the journal and at the broker."""
    for number, payload in enumerate(payloads, len(bench.stores) + 1):
        bench.say(b"s1", short(payload, qos, number))
        bench.flush()


def receive(bench: JournalBench, *ranges: tuple[int, int], epoch: int = EPOCH, **how: Any) -> None:
    """A receipt of a collector."""
    payload = json.dumps({"v": 1, "epochs": {str(epoch): ranges}}).encode()
    bench.publishes("tidegate/ingest/gh/ack/a", payload, 1, by=FILTER, **how)


def wake(bench: JournalBench, at: float) -> None:
    """Time passes for custody alone: no sensor is lost, and the broker need not be pinged."""
    while bench.at < at:
        bench.at = min(at, bench.at + LOOK_EVERY_S)
        bench.ask(bench.engine.custody.handle_time(bench.at))


def wake_living(bench: JournalBench, at: float) -> None:
    """The same beside an ingest that repeats that it has nothing."""
    while bench.at < at:
        receive(bench)
        wake(bench, min(at, bench.at + 60.0))


def depth(bench: JournalBench) -> tuple[int, int]:
    """Readings in the journal: those that wait for the broker, and those that are kept."""
    numbers = bench.journal.numbers
    return numbers.depth, numbers.kept


def again(bench: JournalBench) -> list[mqtt5.PublishPacket]:
    """What is read again now, and goes out."""
    bench.seen()
    if bench.asked_again:
        bench.read_again()
    return [one for one in bench.seen_of(mqtt5.PublishPacket) if "tidegate/" not in one.topic]

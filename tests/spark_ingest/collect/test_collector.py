"""The collector, a real mosquitto and real files: what is acknowledged is there, once, after
whatever happens."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from tests.support.collector import CollectorProcess, rows_in, times_seen
from tests.support.publisher import Publisher
from tests.support.waiting import until

QUICK = "[rotation]\nlinger_ms = 50\n"
# A stock mosquitto keeps a thousand messages for a client and forgets the rest.
KEEP_ALL = ["max_queued_messages 0"]


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(KEEP_ALL) as running:
        yield running


def has(lake: Path, value: float) -> bool:
    return value in times_seen(lake)


def all_there(lake: Path, values: range, *collectors: str) -> Callable[[], bool]:
    return lambda: times_seen(lake, *collectors).keys() >= {float(each) for each in values}


def test_what_is_published_is_in_the_lake_once_and_in_order(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with CollectorProcess(tmp_path, broker.url, "c1", QUICK) as collector:
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish(range(3000))
        until(all_there(collector.lake, range(3000)))
        assert collector.stop() == 0
    assert [row["value"] for row in rows_in(collector.lake)] == [float(n) for n in range(3000)]


@pytest.mark.parametrize("rounds", [4, pytest.param(50, marks=pytest.mark.soak)])
def test_a_killed_collector_loses_nothing_and_leaves_nothing_half_done(
    broker: Mosquitto, tmp_path: Path, rounds: int
) -> None:
    """Killed again and again while readings come, at no particular moment."""
    dice = random.Random(8)
    collector = CollectorProcess(tmp_path, broker.url, "c1", QUICK)
    with collector, Publisher(broker.port) as publisher:
        collector.wait_until_collecting()
        for round_ in range(rounds):
            first = round_ * 1100
            publisher.publish(range(first, first + 1000))
            wait_for = float(first + dice.randrange(1000))
            until(partial(has, collector.lake, wait_for))
            collector.kill()
            publisher.publish(range(first + 1000, first + 1100))
            collector.start()
        until(all_there(collector.lake, range(rounds * 1100)))
        assert collector.stop() == 0
    assert not list(collector.lake.rglob("*.tmp"))


def test_two_collectors_share_and_have_everything_between_them(
    broker: Mosquitto, tmp_path: Path
) -> None:
    first = CollectorProcess(tmp_path, broker.url, "c1", QUICK)
    second = CollectorProcess(tmp_path, broker.url, "c2", QUICK)
    with first, second, Publisher(broker.port) as publisher:
        first.wait_until_collecting()
        second.wait_until_collecting()
        publisher.publish(range(2000))
        until(all_there(first.lake, range(2000), "c1", "c2"))
    shares = [sum(times_seen(first.lake, name).values()) for name in ("c1", "c2")]
    assert sum(shares) == 2000
    assert min(shares) > 0


def test_two_collectors_killed_in_turn_have_everything_between_them(
    broker: Mosquitto, tmp_path: Path
) -> None:
    both = [CollectorProcess(tmp_path, broker.url, name, QUICK) for name in ("c1", "c2")]
    with both[0], both[1], Publisher(broker.port) as publisher:
        for each in both:
            each.wait_until_collecting()
        for round_ in range(6):
            publisher.publish(range(round_ * 500, round_ * 500 + 500))
            both[round_ % 2].kill()
            both[round_ % 2].start()
        until(all_there(both[0].lake, range(3000), "c1", "c2"))


def test_a_collector_that_retires_takes_its_share_along_and_leaves_the_rest_to_others(
    broker: Mosquitto, tmp_path: Path
) -> None:
    staying = CollectorProcess(tmp_path, broker.url, "c1", QUICK)
    leaving = CollectorProcess(tmp_path, broker.url, "c2", QUICK)
    with staying, leaving, Publisher(broker.port) as publisher:
        staying.wait_until_collecting()
        leaving.wait_until_collecting()
        leaving.kill()
        publisher.publish(range(1000))  # half of it waits for the one that is gone
        retiring = CollectorProcess(tmp_path, broker.url, "c2", QUICK, arguments=["--retire"])
        retiring.start()
        assert retiring.wait_for_exit() == 0
        until(all_there(staying.lake, range(1000), "c1", "c2"))
        publisher.publish(range(1000, 2000))
        until(all_there(staying.lake, range(1000, 2000), "c1"))


def test_a_broker_that_is_restarted_is_found_again(broker: Mosquitto, tmp_path: Path) -> None:
    with CollectorProcess(tmp_path, broker.url, "c1", QUICK) as collector:
        collector.wait_until_collecting()
        broker.restart()
        collector.wait_for_log(r"connected to broker \S+ again")
        with Publisher(broker.port) as publisher:
            publisher.publish(range(100))
        until(all_there(collector.lake, range(100)))
    assert collector.log.count(" unreachable: ") == 1, "each reason once"


def test_until_idle_it_collects_what_waits_and_ends(broker: Mosquitto, tmp_path: Path) -> None:
    once = CollectorProcess(tmp_path, broker.url, "c1", QUICK, arguments=["--until-idle", "0.3"])
    once.start()
    assert once.wait_for_exit() == 0
    with Publisher(broker.port) as publisher:
        publisher.publish(range(500))
    once.start()
    assert once.wait_for_exit() == 0
    assert len(times_seen(once.lake)) == 500


def test_payloads_that_nobody_decodes_are_in_quarantine_and_acknowledged(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with CollectorProcess(tmp_path, broker.url, "c1", QUICK) as collector:
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish([0], payload=b"\xff\x00\xff")
            publisher.publish([1])
        until(lambda: len(rows_in(collector.lake)) == 2)
        assert collector.stop() == 0
        collector.start()
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish([2])
        until(lambda: 2.0 in times_seen(collector.lake))
    bad, *good = rows_in(collector.lake)
    assert (bad["error"], bad["payload"], bad["seq"]) == ("form", b"\xff\x00\xff", 0)
    assert [row["value"] for row in good] == [1.0, 2.0], "the bad one came once"


def with_topics(collector: CollectorProcess, *topics: str) -> None:
    text = re.sub(
        r"topics = .*", f"topics = {json.dumps(topics)}", collector.config_path.read_text()
    )
    collector.config_path.write_text(text)


def test_a_topic_that_is_taken_out_of_the_file_is_unsubscribed(
    broker: Mosquitto, tmp_path: Path
) -> None:
    """The session stays at the broker, and with it what it was subscribed to."""
    collector = CollectorProcess(tmp_path, broker.url, "c1", QUICK)
    with_topics(collector, "a/#", "farm/#")
    with collector:
        collector.wait_until_collecting()
    with_topics(collector, "b/#", "farm/#")
    collector.start()
    collector.wait_for_log("unsubscribed from .*a/#")
    collector.stop()  # and what it is subscribed to is written down
    with Publisher(broker.port) as publisher:  # to a session that is away
        publisher.publish(range(100, 200), topic="a/1")
        publisher.publish(range(100), topic="b/1")
    collector.start()
    until(all_there(collector.lake, range(100)))
    collector.stop()
    assert times_seen(collector.lake) == {float(each): 1 for each in range(100)}
    assert collector.whole_log.count("unsubscribed from") == 1


def test_messages_of_a_subscription_that_is_not_written_down_are_logged(
    broker: Mosquitto, tmp_path: Path
) -> None:
    """As a release leaves it that kept no account of its subscriptions."""
    collector = CollectorProcess(tmp_path, broker.url, "c1", QUICK)
    with_topics(collector, "a/#")
    with collector:
        collector.wait_until_collecting()
    (collector.lake / "subscriptions" / "c1.json").unlink()
    with_topics(collector, "b/#")
    collector.start()
    collector.wait_until_collecting()
    with Publisher(broker.port) as publisher:
        publisher.publish(range(10), topic="a/1")
    collector.wait_for_log("messages on topic .*a/1.* come, for which collector.topics")
    until(all_there(collector.lake, range(10)))
    collector.stop()

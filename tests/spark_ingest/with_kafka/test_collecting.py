"""The collector, a real mosquitto and a real Kafka: what is acknowledged is in the topic, whatever
dies."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from tests.support.collector import CollectorProcess
from tests.support.kafka import KafkaBroker, Read, records_in
from tests.support.publisher import Publisher
from tests.support.waiting import until
from tests.support.watcher import Watcher


def config(kafka: KafkaBroker, topic: str, more: str = "") -> str:
    return (
        f'[rotation]\nlinger_ms = 50\n[acknowledge]\nevery_s = 0.2\n[kafka]\ntopic = "{topic}"\n'
        f'servers = "{kafka.servers}"\ntimeout_s = 3\n{more}'
    )


def collector_of(
    folder: Path, broker: Mosquitto, kafka: KafkaBroker, topic: str, more: str = ""
) -> CollectorProcess:
    return CollectorProcess(folder, broker.url, "c1", config(kafka, topic, more))


def sequences(records: list[Read]) -> Counter[int]:
    return Counter(int(each.headers["seq"]) for each in records)


def has_all(kafka: KafkaBroker, topic: str, numbers: range) -> bool:
    return sequences(records_in(kafka, topic)).keys() >= set(numbers)


def test_what_is_published_is_in_the_topic_once_and_in_order(
    broker: Mosquitto, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    with collector_of(tmp_path, broker, kafka, topic) as collector:
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish(range(3000))
        until(partial(has_all, kafka, topic, range(3000)))
        assert collector.stop() == 0
    records = records_in(kafka, topic)
    assert [each.message["seq"] for each in records] == [*range(3000)]
    assert len({each.partition for each in records}) == 1, "a gateway's readings are in one"
    first = records[0]
    assert (first.key, first.message["topic"]) == (b"gh", "farm/1/t")
    assert first.headers == {"tidegate": b"1", "gw": b"gh", "epoch": b"1", "seq": b"0"}
    (row,) = first.message["rows"]
    assert (row["part"], row["value"], row["device"]) == (0, 0.0, "s1")
    assert not (tmp_path / "lake" / "segments").exists()


def test_a_message_without_a_tag_and_one_that_nobody_decodes_are_there_too(
    broker: Mosquitto, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    with collector_of(tmp_path, broker, kafka, topic) as collector:
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish([1], gateway=None)
            publisher.publish([2], payload=b"\xff\x00")
        until(lambda: len(records_in(kafka, topic)) == 2)
    foreign, bad = sorted(records_in(kafka, topic), key=lambda each: len(each.headers))
    assert (foreign.key, foreign.headers) == (b"farm/1/t", {"tidegate": b"1"})
    assert bad.message["payload"] == "/wA="
    assert bad.message["rows"][0]["error"] == "form"


def test_while_kafka_is_away_nothing_is_acknowledged_and_nothing_is_lost(
    broker: Mosquitto, tmp_path: Path, topic: str
) -> None:
    with (
        KafkaBroker(tmp_path) as kafka,
        collector_of(tmp_path, broker, kafka, topic) as collector,
        Watcher(broker, "tidegate/ingest/#") as told,
    ):
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish(range(100))
            until(lambda: told.last("tidegate/ingest/gh/ack/c1") == {"1": [[0, 99]]})
            kafka.kill()
            publisher.publish(range(100, 300))
            collector.wait_for_log(r"no batch can be written: .*Kafka at 127.0.0.1.*nothing is ack")
            assert told.last("tidegate/ingest/gh/ack/c1") == {"1": [[0, 99]]}
            kafka.start()
            collector.wait_for_log("Kafka takes messages again", 60)
            publisher.publish(range(300, 400))
        until(lambda: told.last("tidegate/ingest/gh/ack/c1") == {"1": [[0, 399]]})
        assert has_all(kafka, topic, range(400))
        assert collector.log.count("no batch can be written") == 1, "the reason is said once"


def test_a_collector_and_a_kafka_that_are_killed_again_and_again_lose_nothing(
    broker: Mosquitto, tmp_path: Path, topic: str
) -> None:
    dice = random.Random(3)
    with (
        KafkaBroker(tmp_path) as kafka,
        collector_of(tmp_path, broker, kafka, topic) as collector,
        Publisher(broker.port) as publisher,
    ):
        collector.wait_until_collecting()
        for round_ in range(6):
            first = round_ * 1100
            publisher.publish(range(first, first + 1000))
            enough = range(first, first + dice.randrange(1000))
            until(partial(has_all, kafka, topic, enough))
            victim = (collector, kafka)[round_ % 2]
            victim.kill()
            publisher.publish(range(first + 1000, first + 1100))
            victim.start()
        until(partial(has_all, kafka, topic, range(6600)), 60)
        assert collector.stop() == 0


def test_a_collector_tells_in_its_next_life_what_is_in_the_topic(
    broker: Mosquitto, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """Receipts are told each minute here, so the first life tells of the first reading alone."""
    receipt = "tidegate/ingest/gh/ack/c1"
    with collector_of(tmp_path, broker, kafka, topic) as collector:
        collector.config_path.write_text(
            collector.config_path.read_text().replace("every_s = 0.2", "every_s = 60")
        )
        collector.kill()
        collector.start()
        collector.wait_until_collecting()
        with Watcher(broker, "tidegate/ingest/#") as told, Publisher(broker.port) as publisher:
            publisher.publish([0])
            until(lambda: told.last(receipt) == {"1": [[0, 0]]})
            publisher.publish(range(1, 500))
            until(partial(has_all, kafka, topic, range(500)))
            collector.kill()
            collector.start()
            until(lambda: told.last(receipt) == {"1": [[0, 499]]})


def test_what_was_learned_about_payloads_is_known_in_the_next_life(
    broker: Mosquitto, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    schema = '[[schema]]\nname = "plain"\ntopic = "farm/#"\n'
    with collector_of(tmp_path, broker, kafka, topic, schema) as collector:
        collector.wait_until_collecting()
        with Publisher(broker.port) as publisher:
            publisher.publish([0], payload=b'{"level": 3}')
            until(partial(has_all, kafka, topic, range(1)))
            collector.kill()
            collector.start()
            collector.wait_until_collecting()
            publisher.publish([1], payload=b'{"level": "low"}')
        until(partial(has_all, kafka, topic, range(2)))
    good, bad = (each.message["rows"][0] for each in records_in(kafka, topic))
    assert (good.get("error"), bad["error"]) == (None, "kind")


def test_a_topic_that_takes_too_little_is_refused_with_what_to_do(
    broker: Mosquitto, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka.make_topic(topic)
    collector = collector_of(tmp_path, broker, kafka, topic)
    collector.start()
    assert collector.wait_for_exit() == 69
    assert "takes records of 1048588 bytes, and kafka.record_bytes_max is 4194304" in collector.log
    assert "Traceback" not in collector.log

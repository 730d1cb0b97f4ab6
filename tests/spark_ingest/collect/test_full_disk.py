"""A disk that is full: nothing is acknowledged, nothing is lost, and it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from hil.rig.mosquitto import Mosquitto, free_tcp_port
from hil.rig.small_disk import SmallDisk, small_disk
from tests.support.collector import CollectorProcess, times_seen
from tests.support.publisher import Publisher
from tests.support.waiting import until

DISK_BYTES = 2 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place, DISK_BYTES) as mounted:
        yield mounted


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_queued_messages 0"]) as running:
        yield running


def metric(port: int, name: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    raise AssertionError(f"no {name}")


def test_nothing_is_lost_on_a_full_disk(broker: Mosquitto, tmp_path: Path, disk: SmallDisk) -> None:
    port = free_tcp_port()
    config = (
        f'receive_max = 500\n[rotation]\nlinger_ms = 50\n[metrics]\nlisten = "127.0.0.1:{port}"\n'
    )
    collector = CollectorProcess(
        tmp_path, broker.url, "c1", config, prefix=disk.prefix, lake=tmp_path / "disk" / "lake"
    )
    lake = disk.path / "lake"
    with collector, Publisher(broker.port) as publisher:
        collector.wait_until_collecting()
        publisher.publish(range(100))
        until(lambda: len(times_seen(lake)) == 100)
        disk.fill()
        publisher.publish(range(100, 3000))
        collector.wait_for_log("no segment can be written: No space left on device")
        assert metric(port, "tidegate_ingest_stalled") == 1
        until(lambda: metric(port, "tidegate_ingest_messages_held") >= 500)
        assert metric(port, "tidegate_ingest_messages_durable_total") == 100
        disk.free()
        collector.wait_for_log("the disk takes messages again")
        until(lambda: len(times_seen(lake)) == 3000)
        assert collector.stop() == 0
        assert set(times_seen(lake).values()) == {1}


def test_a_collector_that_is_stopped_while_the_disk_is_full_leaves_all_with_the_broker(
    broker: Mosquitto, tmp_path: Path, disk: SmallDisk
) -> None:
    collector = CollectorProcess(
        tmp_path, broker.url, "c1", "[rotation]\nlinger_ms = 50\n",
        prefix=disk.prefix, lake=tmp_path / "disk" / "lake",
    )  # fmt: skip
    lake = disk.path / "lake"
    with collector, Publisher(broker.port) as publisher:
        collector.wait_until_collecting()
        disk.fill()
        publisher.publish(range(100))
        collector.wait_for_log("no segment can be written")
        assert collector.stop() == 0
        assert "the disk takes nothing: 100 messages stay with the broker" in collector.log
        disk.free()
        collector.start()
        until(lambda: len(times_seen(lake)) == 100)

"""Death and refusal at each call to the disk: what was acknowledged is there, what is there twice
has one identity, and nothing waits for ever."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from spark_ingest.collect import assembly
from spark_ingest.collect.collector import Collector, EndWhen
from spark_ingest.collect.counters import Counters
from spark_ingest.config import load
from spark_ingest.segments.disk import Disk
from spark_ingest.segments.shelf import Shelf
from spark_ingest.segments.writing import SegmentWriter
from tests.support.collector import rows_in
from tests.support.publisher import Publisher

READINGS = 30
# The calls for one segment, in order, and how often its readings are in the lake when the process
# dies at that call and another collects what the broker sends again.
DEATHS = [("write", 1), ("half a write", 1), ("rename", 1), ("sync_folder", 2), ("acknowledge", 2)]


class DeathError(BaseException):
    """The process ends here: nothing that would come later happens."""


class FaultyDisk(Disk):
    """`fault` happens at the first call of this name, once."""

    def __init__(self, call: str, fault: BaseException) -> None:
        self.fault: BaseException | None = fault
        self._call = call

    def write(self, path: Path, octets: bytes) -> None:
        self._pass("write")
        if self._call == "half a write" and self.fault is not None:
            path.write_bytes(octets[: len(octets) // 2])
        self._pass("half a write")
        super().write(path, octets)

    def rename(self, path: Path, to: Path) -> None:
        self._pass("rename")
        super().rename(path, to)

    def sync_folder(self, folder: Path) -> None:
        if list(folder.glob("*.parquet")):  # not when the folder is made
            self._pass("sync_folder")
        super().sync_folder(folder)
        if list(folder.glob("*.parquet")):
            self._pass("acknowledge")

    def _pass(self, call: str) -> None:
        if call == self._call and self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


def collect(broker: Mosquitto, folder: Path, disk: Disk) -> Counters:
    """Until nothing comes for half a second, or death."""
    counters = Counters()
    settings = load(None, [
        f"lake.path={folder / 'lake'}", f"broker.url={broker.url}", "collector.name=c1",
        'collector.topics=["farm/#"]', "rotation.linger_ms=50",
    ])  # fmt: skip
    with Shelf(settings.lake.folder, "c1", disk) as shelf:
        writer = SegmentWriter(shelf, assembly.registry(settings), assembly.row_options(settings))
        writer.remember()
        options = assembly.collector_options(settings, EndWhen.IDLE, 0.5)
        asyncio.run(Collector(options, writer, counters).run())
    return counters


def identities(folder: Path) -> Counter[int]:
    return Counter(row["seq"] for row in rows_in(folder / "lake"))


@pytest.mark.parametrize(("call", "times"), DEATHS)
def test_whoever_dies_at_a_call_to_the_disk_loses_nothing(
    broker: Mosquitto, tmp_path: Path, call: str, times: int
) -> None:
    collect(broker, tmp_path, Disk())
    with Publisher(broker.port) as publisher:
        publisher.publish(range(READINGS))
    disk = FaultyDisk(call, DeathError())
    with suppress(DeathError):
        collect(broker, tmp_path, disk)
    assert disk.fault is None, "it has died"
    collect(broker, tmp_path, Disk())
    assert identities(tmp_path) == dict.fromkeys(range(READINGS), times)
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("call", [call for call, _ in DEATHS[:-1]])
def test_what_the_disk_refuses_is_written_later_by_the_same_process(
    broker: Mosquitto, tmp_path: Path, call: str
) -> None:
    collect(broker, tmp_path, Disk())
    with Publisher(broker.port) as publisher:
        publisher.publish(range(READINGS))
    disk = FaultyDisk(call, OSError(errno.EIO, "Input/output error"))
    counters = collect(broker, tmp_path, disk)
    assert counters.registry.get_sample_value("tidegate_ingest_disk_errors_total") == 1
    assert counters.registry.get_sample_value("tidegate_ingest_stalled") == 0
    found = identities(tmp_path)
    assert set(found) == set(range(READINGS))
    assert max(found.values()) == (2 if call == "sync_folder" else 1)
    collect(broker, tmp_path, Disk())
    assert identities(tmp_path) == found, "all of it was acknowledged"

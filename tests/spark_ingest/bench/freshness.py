"""How long a reading takes from its publisher to a committed row of bronze. Seconds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from hil.rig.mosquitto import Mosquitto
from tests.support.collector import CollectorProcess
from tests.support.job import JobProcess
from tests.support.publisher import Publisher
from tests.support.waiting import until

PER_S = 50
TRIGGER_S = 2.0
COLLECTING = "[rotation]\nlinger_ms = 200\n"
WARM_UP_S = 15


def latencies(seconds: int) -> list[float]:
    with (
        TemporaryDirectory(prefix="bench-") as folder,
        Mosquitto(["max_queued_messages 0"]) as broker,
        CollectorProcess(Path(folder), broker.url, "c1", COLLECTING) as collector,
        Publisher(broker.port) as publisher,
    ):
        lake = collector.lake
        collector.wait_until_collecting()
        publisher.publish(range(10))
        until(lambda: (lake / "segments" / "c1" / "0000000000.parquet").exists())
        with JobProcess(lake, trigger_s=TRIGGER_S):
            until(lambda: (lake / "tables" / "rollup_1d").exists(), 60)
            count = _publish(broker.port, seconds + WARM_UP_S)
            until(lambda: len(_commits(lake)) >= count, 60)
        found = sorted(_commits(lake).items())
        return [latency for _, latency in found[WARM_UP_S * PER_S :]]


def _publish(port: int, seconds: int) -> int:
    """With the time of publishing in milliseconds as the value; how many."""
    count = seconds * PER_S
    command = [sys.executable, "-m", "tests.spark_ingest.bench.freshness", str(port), str(count)]
    subprocess.run(command, check=True)
    return count


def _commits(lake: Path) -> dict[float, float]:
    """Latency by the time of publishing: until the file's commit is in the log."""
    found = {}
    bronze = lake / "tables" / "bronze"
    for log in (bronze / "_delta_log").glob("*.json"):
        committed_s = log.stat().st_mtime
        for line in log.read_text().splitlines():
            added = json.loads(line).get("add")
            if added is not None:
                for published_ms in pq.read_table(bronze / added["path"], columns=["value"])[0]:
                    if published_ms.as_py() > 1e12:
                        found[published_ms.as_py()] = committed_s - published_ms.as_py() / 1000
    return found


def main(port: int, count: int) -> None:
    """Evenly, at PER_S."""
    with Publisher(port, "clock") as publisher:
        began = time.time()
        for number in range(count):
            time.sleep(max(0.0, began + number / PER_S - time.time()))
            publisher.publish([number + 100], payload=f"{time.time() * 1000:.3f}".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

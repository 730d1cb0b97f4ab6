"""How fast a collector takes what has waited for it with the broker, by three collectors.

ours        as it is
forgetful   ours, on a disk without fsync: what durability costs
paho        the same rows and files, received and acknowledged by paho: what the client costs

Each is a process of its own. It is timed by what it leaves behind, from the arrival of the first
message to the last segment, so that its start does not count.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hil.rig.mosquitto import Mosquitto
from spark_ingest.collect import assembly
from spark_ingest.collect.batch import Batch
from spark_ingest.collect.collector import Collector, EndWhen
from spark_ingest.collect.counters import Counters
from spark_ingest.config import Settings, load
from spark_ingest.payload.record import Delivery
from spark_ingest.segments.disk import Disk
from spark_ingest.segments.segment import read_footer
from spark_ingest.segments.shelf import Shelf, segment_numbers, segment_path
from spark_ingest.segments.writing import SegmentWriter
from tests.support.publisher import Publisher

KINDS = ("ours", "forgetful", "paho")
IDLE_S = 1.0


def rate(kind: str, messages: int) -> float:
    """Messages per second."""
    with (
        TemporaryDirectory(prefix="bench-") as folder,
        Mosquitto(["max_queued_messages 0"]) as broker,
    ):
        lake = Path(folder) / "lake"
        run(kind, lake, broker.port)  # so that the broker keeps what comes
        with Publisher(broker.port) as publisher:
            publisher.publish(range(messages))
        run(kind, lake, broker.port)
        paths = [segment_path(lake, "c1", n) for n in segment_numbers(lake, "c1")]
        footers = [read_footer(path) for path in paths]
        assert sum(each.messages for each in footers) == messages
        end_s = max(path.stat().st_mtime for path in paths)
        return messages / (end_s - min(each.first_us for each in footers) / 1e6)


def run(kind: str, lake: Path, port: int) -> None:
    command = [sys.executable, "-m", "tests.spark_ingest.bench.backlog", kind, str(lake), str(port)]
    subprocess.run(command, check=True)


class ForgetfulDisk(Disk):
    def write(self, path: Path, octets: bytes) -> None:
        path.write_bytes(octets)

    def sync_folder(self, folder: Path) -> None:
        """Some day."""


def main(kind: str, lake: Path, port: int) -> None:
    settings = load(None, [
        f"lake.path={lake}", f"broker.url=mqtt://127.0.0.1:{port}", "collector.name=c1",
        'collector.topics=["farm/#"]',
    ])  # fmt: skip
    disk = ForgetfulDisk() if kind == "forgetful" else Disk()
    with Shelf(lake, "c1", disk) as shelf:
        writer = SegmentWriter(shelf, assembly.registry(settings), assembly.row_options(settings))
        if kind == "paho":
            WithPaho(settings, writer).run(port)
            return
        import uvloop

        options = assembly.collector_options(settings, EndWhen.IDLE, IDLE_S)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(Collector(options, writer, Counters()).run())


class WithPaho:
    """Two threads, as paho has it: one receives, the other writes and acknowledges."""

    def __init__(self, settings: Settings, writer: SegmentWriter) -> None:
        options = assembly.collector_options(settings, EndWhen.NEVER, IDLE_S)
        self._receive_max = settings.collector.receive_max
        self._session = options.session
        self._batch = Batch(options.rotation, self._receive_max)
        self._writer = writer
        self._lock = threading.Lock()
        self._heard_at = time.monotonic()

    def run(self, port: int) -> None:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, self._session.client_id,
            protocol=mqtt.MQTTv5, manual_ack=True,
        )  # fmt: skip
        client.on_message = self._take
        client.on_connect = self._subscribe
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 3600
        properties.ReceiveMaximum = self._receive_max
        client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        client.loop_start()
        while time.monotonic() - self._heard_at < IDLE_S:
            self._write(client)
        client.disconnect()
        client.loop_stop()

    def _subscribe(self, client: Any, *_: Any) -> None:
        client.subscribe("$share/tidegate-ingest/farm/#", qos=1)

    def _take(self, _client: Any, _userdata: Any, message: Any) -> None:
        self._heard_at = time.monotonic()
        properties = getattr(message.properties, "UserProperty", [])
        delivery = Delivery(
            message.topic, message.payload, message.qos, message.retain, properties,
            time.time_ns() // 1000, message.mid, 1,
        )  # fmt: skip
        with self._lock:
            self._batch.add(delivery, self._heard_at)

    def _write(self, client: Any) -> None:
        with self._lock:
            is_due = self._batch.due_at() <= time.monotonic()
            deliveries = self._batch.take() if is_due else []
        if not deliveries:
            time.sleep(0.001)
            return
        self._writer.write(deliveries)
        for delivery in deliveries:
            client.ack(delivery.packet_id, delivery.qos)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    os._exit(0)  # paho's threads may linger

"""A real Kafka for tests: one broker that is its own controller, stopped by its pid. The jars are
those of .ci/setup-kafka.sh.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from hil.rig.logged_process import LoggedProcess, ProcessError
from hil.rig.ports import HeldPort
from spark_ingest.spark.java import find_java
from tests.support.waiting import POLL_INTERVAL_S, until

SETUP = Path(__file__).parents[2] / ".ci" / "setup-kafka.sh"
START_S_MAX = 60.0
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
CONFIG = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={folder}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def jars_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("TIDEGATE_KAFKA_JARS") or Path(cache) / "tidegate" / "kafka")


def connector() -> str:
    """Spark's, as `spark.jars` has it."""
    return ",".join(str(each) for each in (jars_folder() / "spark").glob("*.jar"))


def why_not_here() -> str | None:
    """None where these tests can be run."""
    needed = [name for name in ("confluent_kafka", "pyspark", "deltalake") if not find_spec(name)]
    if needed:
        return f"{', '.join(needed)} is not installed"
    looked = subprocess.run(["bash", str(SETUP), "--look"], capture_output=True, check=False)
    return None if looked.returncode == 0 else f"the jars are not in {jars_folder()}"


class KafkaBroker(LoggedProcess):
    """It keeps its port and its records over `kill()` and `start()`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "kafka.log")
        self._ports = HeldPort(), HeldPort()
        self._folder = folder / "kafka"
        self._config = folder / "kafka.properties"
        self._config.write_text(
            CONFIG.format(
                port=self._ports[0].number,
                controller=self._ports[1].number,
                folder=self._folder,
            )
        )

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self._ports[0].number}"

    def start(self) -> None:
        """Returns when it answers."""
        java = [str(find_java(os.environ).home / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC"]
        java += ["-cp", f"{jars_folder()}/broker/*"]
        if not self._folder.exists():
            tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config)]
            subprocess.run([*java, *tool], check=True, capture_output=True)
        self.launch([*java, "kafka.Kafka", str(self._config)])
        self._wait_until_it_answers()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        for port in self._ports:
            port.close()

    def _wait_until_it_answers(self) -> None:
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + START_S_MAX
        admin = self._admin()
        while time.monotonic() < deadline:
            if self.returncode is not None:
                raise ProcessError(f"Kafka ended with {self.returncode}:\n{self.log_tail()}")
            try:
                if admin.list_topics(timeout=1.0).brokers:
                    return
            except KafkaException:
                time.sleep(POLL_INTERVAL_S)
        raise ProcessError(f"Kafka does not answer:\n{self.log_tail()}")

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def make_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        from confluent_kafka.admin import NewTopic

        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        admin = self._admin()
        admin.create_topics([topic])[name].result(20)

    def remove_topic(self, name: str) -> None:
        """Returns when a new one may have its name."""
        admin = self._admin()
        admin.delete_topics([name])[name].result(20)
        until(lambda: name not in admin.list_topics(timeout=20).topics)

    def put(self, topic: str, *records: dict[str, Any]) -> None:
        """As anybody may; each has key, value and headers as it likes."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers})
        for each in records:
            producer.produce(topic, **each)
        assert producer.flush(20) == 0


@dataclass(frozen=True, slots=True)
class Read:
    partition: int
    offset: int
    key: bytes
    headers: dict[str, bytes]
    message: dict[str, Any]


def records_in(broker: KafkaBroker, topic: str = "tidegate-readings") -> list[Read]:
    """All that is in the topic by now, each partition in its order."""
    return list(_records(broker, topic))


def _records(broker: KafkaBroker, topic: str) -> Iterator[Read]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "t", "log_level": 0})
    try:
        for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
            first, past = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
            consumer.assign([TopicPartition(topic, number, first)])
            while first < past:
                record = consumer.poll(20)
                assert record is not None
                assert record.error() is None
                first = record.offset() + 1
                yield Read(
                    number, record.offset(), record.key(),
                    dict(record.headers() or ()), json.loads(record.value()),
                )  # fmt: skip
    finally:
        consumer.close()

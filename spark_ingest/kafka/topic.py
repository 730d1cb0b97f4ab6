"""The topic of readings: there, as large as we need it, and what stands at its end.

The client is librdkafka (confluent-kafka), whose producer numbers what it sends, so that its own
tries neither repeat nor reorder records. aiokafka and kafka-python do that in Python, at the cost
of the core that decodes payloads.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from spark_ingest.installing import brings
from spark_ingest.kafka.record import TAG_HEADERS
from spark_ingest.segments.sequences import Encoded, Identities

log = logging.getLogger("tidegate.ingest.kafka")

ANSWER_S_MAX = 10.0
# Of the end of each partition: what came within the interval of receipts.
RECORDS_REPEATED = 5_000
# What Kafka adds to a record's value: headers, key, and the head of a batch.
OVERHEAD_BYTES = 65_536 + 4_096


class TopicRefusedError(Exception):
    """The topic cannot be used as it is, and to try again would not change that."""


class KafkaUnreachableError(OSError):
    """Kafka does not answer, or does not take what we send. It may do so later."""

    def __init__(self, why: str, servers: str) -> None:
        super().__init__(None, why, servers)
        self.strerror, self.filename = why, f"Kafka at {servers}"


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    servers: str
    topic: str
    name: str = "collector"  # who we are to it
    partitions: int = 6  # of a topic that is not there yet
    record_bytes_max: int = 4 << 20
    compression: str = "zstd"
    timeout_s: float = 30.0
    client: Mapping[str, str] = field(default_factory=dict)  # anything else for librdkafka


def missing_client() -> str | None:
    """What to do about it, or None where there is nothing missing."""
    if importlib.util.find_spec("confluent_kafka") is not None:
        return None
    return (
        f"[kafka] needs Kafka's client:  {brings('kafka', 'confluent-kafka')}  (for 32-bit ARM it "
        "is in Debian only, for its own Python:  sudo apt-get install -y python3-confluent-kafka)"
    )


class Topic:
    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def client_settings(self) -> dict[str, Any]:
        options = self._options
        return {
            **options.client,
            "bootstrap.servers": options.servers,
            "client.id": f"tidegate-ingest-{options.name}",
            # It would log each address that it tries; what matters is in our own lines.
            "log_level": 0,
            "error_cb": _ignored,
        }

    def make_ready(self) -> None:
        """Made if it is not there. Raises KafkaUnreachableError, TopicRefusedError."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.client_settings())
        try:
            topics = admin.list_topics(timeout=ANSWER_S_MAX).topics
            if self._options.topic not in topics:
                self._make(admin)
            self._must_take_our_records(admin)
        except KafkaException as error:
            raise self._unreachable(error) from None

    def described(self) -> str:
        """For people. Raises KafkaUnreachableError, TopicRefusedError; makes nothing."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        name, admin = self._options.topic, AdminClient(self.client_settings())
        try:
            topics = admin.list_topics(timeout=ANSWER_S_MAX).topics
            if name not in topics:
                return (
                    f"Kafka at {self._options.servers}: {name} is not there yet; `collect` makes it"
                )
            self._must_take_our_records(admin)
        except KafkaException as error:
            raise self._unreachable(error) from None
        partitions = topics[name].partitions.values()
        copies = min((len(each.replicas) for each in partitions), default=0)
        counts = f"{len(partitions)} partitions, {copies} copies"
        return f"Kafka at {self._options.servers}: {name}, {counts}"

    def newest_ids(self) -> Iterator[dict[str, Encoded]]:
        """Which readings the last records are. Raises KafkaUnreachableError."""
        from confluent_kafka import Consumer, KafkaException

        settings = {"group.id": "tidegate-ingest", "enable.auto.commit": False}
        consumer = Consumer({**self.client_settings(), **settings, "enable.partition.eof": True})
        try:
            identities = Identities()
            for headers in self._last_headers(consumer):
                gateway, epoch, sequence = (headers.get(name) for name in TAG_HEADERS)
                if gateway is not None and _is_number(epoch) and _is_number(sequence):
                    identities.add(gateway.decode(errors="replace"), int(epoch), int(sequence))
            yield identities.encoded()
        except KafkaException as error:
            raise self._unreachable(error) from None
        finally:
            consumer.close()

    def _last_headers(self, consumer: Any) -> Iterator[dict[str, bytes]]:
        from confluent_kafka import KafkaError, TopicPartition

        name = self._options.topic
        described = consumer.list_topics(name, timeout=ANSWER_S_MAX).topics[name]
        begins = []
        for number in described.partitions:
            first, past = consumer.get_watermark_offsets(
                TopicPartition(name, number), timeout=ANSWER_S_MAX
            )
            if past > first:
                begin = max(first, past - RECORDS_REPEATED)
                begins.append(TopicPartition(name, number, begin))
        consumer.assign(begins)
        unfinished = len(begins)
        while unfinished:
            record = consumer.poll(ANSWER_S_MAX)
            if record is None:
                return  # what could be sent in time was sent; gateways send the rest again
            if record.error() is None:
                yield dict(record.headers() or ())
            elif record.error().code() == KafkaError._PARTITION_EOF:
                unfinished -= 1

    def _make(self, admin: Any) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        options = self._options
        limit = {"max.message.bytes": str(options.record_bytes_max + OVERHEAD_BYTES)}
        # As many copies as the brokers are set to make.
        topic = NewTopic(options.topic, options.partitions, replication_factor=-1, config=limit)
        try:
            admin.create_topics([topic])[options.topic].result(ANSWER_S_MAX)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another collector's
                raise TopicRefusedError(
                    f"the topic {options.topic} is not there and cannot be made: "
                    f"{error.args[0].str()}; make it, with max.message.bytes="
                    f"{limit['max.message.bytes']}"
                ) from None
        else:
            log.info("made the topic %s with %d partitions", options.topic, options.partitions)

    def _must_take_our_records(self, admin: Any) -> None:
        """Else one message would stop all others for ever."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        options = self._options
        resource = ConfigResource(ResourceType.TOPIC, options.topic)
        try:
            config = admin.describe_configs([resource])[resource].result(ANSWER_S_MAX)
        except KafkaException as error:
            log.warning(
                "what the topic %s takes is not told to us: %s", options.topic, error.args[0].str()
            )
            return
        limit, needed = int(config["max.message.bytes"].value), options.record_bytes_max
        if limit < needed + OVERHEAD_BYTES:
            raise TopicRefusedError(
                f"the topic {options.topic} takes records of {limit} bytes, and "
                f"kafka.record_bytes_max is {needed}: set the topic's max.message.bytes to "
                f"{needed + OVERHEAD_BYTES}, or lower kafka.record_bytes_max and "
                "collector.message_bytes_max"
            )

    def _unreachable(self, error: Any) -> KafkaUnreachableError:
        return KafkaUnreachableError(error.args[0].str(), self._options.servers)


def _is_number(octets: bytes | None) -> TypeGuard[bytes]:
    return octets is not None and octets.isdigit() and len(octets) <= 18


def _ignored(_error: object) -> None:
    """It reports each address; a caller that waits for an answer gets the error."""

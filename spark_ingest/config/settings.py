"""All that an operator can decide, as frozen values, each beside its key, kind, meaning and reason.

A key is called as its field. These classes check nothing: `load` hands out only what has passed.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_ingest.config import kinds
from spark_ingest.config.kinds import KIB, MIB, Broker, HostPort, Kind

NAME_LENGTH_MAX = 64
SCHEMAS_MAX = 256
FIELDS_MAX = 256
ROUTES_MAX = 64


# docs/mqtt.md, and the receipts of other groups of collectors.
NO_READINGS = (
    "tidegate/+/state",
    "tidegate/+/stats",
    "tidegate/+/clients/+",
    "tidegate/+/values/+",
    "tidegate/+/events/+",
    "tidegate/+/announced/+",
    "tidegate/+/command/+",
    "tidegate/ingest/+/ack/+",
    "homeassistant/device/+/config",
    "homeassistant/status",
)


def key(kind: Kind, meaning: str, default: Any, why: str = "", example: str = "") -> Any:
    """`example` is TOML for `init`, where the default would not help."""
    metadata = {"kind": kind, "meaning": meaning, "why": why, "example": example}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def host_name() -> str:
    """This machine's name, made to fit `collector.name`."""
    fitting = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")
    return fitting[:NAME_LENGTH_MAX] or "collector"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSettings:
    """Where everything is kept"""

    path: Path | None = key(
        kinds.file_path(), "The folder of segments and tables", None, "must be given",
        example='"lake"',
    )  # fmt: skip

    @property
    def folder(self) -> Path:
        """It is given: `load` has seen to that."""
        assert self.path is not None
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The MQTT 5 broker that the gateways publish to"""

    url: Broker = key(kinds.broker_url(), "Where it is", Broker("127.0.0.1", 1883, False))
    username: str | None = key(kinds.text(), "Who we are to it", None, example='"ingest"')
    password_file: Path | None = key(
        kinds.file_path(), "Its first line is the password", None, example='"password"'
    )
    ca_file: Path | None = key(
        kinds.file_path(), "Authorities to trust, in PEM form", None, "else those of the system",
        example='"ca.pem"',
    )  # fmt: skip
    cert_file: Path | None = key(kinds.file_path(), "Our certificate", None, example='"us.pem"')
    key_file: Path | None = key(kinds.file_path(), "Its key", None, example='"us.key"')
    keep_alive_s: int = key(
        kinds.integer(5, 3600), "A dead connection is noticed within 1 to 1.5 times this", 30
    )
    session_expiry_s: int = key(
        kinds.integer(60, 4_294_967_294),
        "How long the broker keeps our share of the messages while we are away",
        604_800,
        "a week; mosquitto drops the share of a collector whose session ends",
    )
    filters_per_subscribe_max: int = key(
        kinds.integer(1, kinds.FILTERS_MAX),
        "Topic filters in one SUBSCRIBE; more of them go into several",
        8,
        "AWS IoT takes no more, and nothing is slower for it",
    )
    connect_timeout_s: float = key(kinds.number(1, 300), "For TCP, TLS and CONNACK each", 10.0)
    reconnect_delay_s_max: float = key(kinds.number(0.1, 3600), "Between two tries", 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """What is collected, and by whom"""

    name: str = key(
        kinds.name(),
        "Names the folder of segments and the MQTT client; each collector has its own, for ever",
        host_name,
        "the host's name",
    )
    group: str = key(kinds.name(), "Collectors of one group share the messages", "tidegate-ingest")
    topics: tuple[str, ...] = key(
        kinds.topic_filters(), "What to subscribe to", (), "must be given",
        example='["sensors/#"]',
    )  # fmt: skip
    leave_out: tuple[str, ...] = key(
        kinds.topic_filters(least=0),
        "Topics whose messages are no readings, unless they have a delivery tag",
        NO_READINGS,
        "what gateways say of themselves; before it upstream.topic_prefix of the gateways",
    )
    receive_max: int = key(
        kinds.integer(2, 65_535),
        "Messages that the broker may send before we acknowledge the first",
        20_000,
        "two batches of half of it are in work at a time",
    )
    message_bytes_max: int = key(
        kinds.size(KIB, 256 * MIB),
        "The largest packet we take; a broker leaves out what is larger, without a word, and from "
        "one that sends it all the same it is skipped",
        MIB,
    )
    keep_payload: bool = key(
        kinds.boolean(), "Keep the bytes of good messages too, not only of those in quarantine",
        False, "they double the size",
    )  # fmt: skip
    clock_ahead_s_max: float = key(
        kinds.number(0, 31_536_000),
        "A reading that was measured later than this from now goes to quarantine",
        3600.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeSettings:
    """What gateways are told is safe here, for those with journal.keep_until_ingested"""

    enabled: bool = key(
        kinds.boolean(), "Publish receipts, retained", True,
        "others take no notice; of two groups of collectors only that counts which must have all",
    )  # fmt: skip
    topic: str = key(
        kinds.text(), "Where; with upstream.topic_prefix of the gateways before it",
        "tidegate/ingest/{gw}/ack/{collector}",
    )  # fmt: skip
    every_s: float = key(
        kinds.number(0.1, 60), "How often a gateway is told, while there is news", 5.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationSettings:
    """When a segment is written: whichever comes first"""

    messages_max: int = key(
        kinds.integer(1, 1_000_000), "Messages of a segment; half of receive_max if that is less",
        20_000,
    )  # fmt: skip
    bytes_max: int = key(kinds.size(KIB, 4096 * MIB), "Bytes in memory", 32 * MIB)
    linger_ms: int = key(
        kinds.integer(1, 3_600_000),
        "How long the first message of a segment waits for others",
        1000,
        "more makes fewer files, less makes tables fresher",
    )
    held_bytes_max: int = key(
        kinds.size(KIB, 65_536 * MIB),
        "What may wait in memory before we stop reading from the broker",
        256 * MIB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """A Kafka topic between collectors and Spark, instead of segments; for sites that have one"""

    servers: str | None = key(
        kinds.servers(), "Where Kafka is", None, "without it there are segments",
        example='"127.0.0.1:9092"',
    )  # fmt: skip
    topic: str = key(
        kinds.kafka_topic(), "The topic of readings; made if it is not there", "tidegate-readings"
    )
    partitions: int = key(
        kinds.integer(1, 1000), "Of a topic that is made", 6, "a gateway's readings are in one"
    )
    record_bytes_max: int = key(
        kinds.size(MIB, 256 * MIB), "The largest record; of a larger message only the payload is "
        "kept, in quarantine", 4 * MIB, "the topic's max.message.bytes must be 68KiB more",
    )  # fmt: skip
    compression: str = key(
        kinds.choice("none", "gzip", "snappy", "lz4", "zstd"), "Of records", "zstd"
    )
    timeout_s: float = key(
        kinds.number(1, 600), "A batch that is not answered for by then is sent again", 30.0
    )
    client: Mapping[str, str] = key(
        kinds.pairs(), "Anything else that the collector's client (librdkafka) shall know", dict,
        example='{ "security.protocol" = "SSL", "ssl.ca.location" = "ca.pem" }',
    )  # fmt: skip
    spark: Mapping[str, str] = key(
        kinds.pairs(), "Anything else that Spark's source shall know", dict,
        example='{ "kafka.security.protocol" = "SSL" }',
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Numbers for Prometheus"""

    listen: HostPort | None = key(
        kinds.listen_address(), "Where /metrics is", None, "collectors of one host differ in it",
        example='"127.0.0.1:9109"',
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark fills the tables"""

    name: str = key(
        kinds.name(), "Names the query, its checkpoint and its place in the lake", "tidegate"
    )
    master: str | None = key(
        kinds.text(),
        "Where Spark runs; a cluster needs the lake under the same path on all its machines",
        None,
        "this machine with all its cores, or what spark-submit is told",
        example='"local[2,4]"',
    )
    conf: Mapping[str, str] = key(
        kinds.pairs(), "Anything else that Spark shall know", dict,
        example='{ "spark.driver.memory" = "2g" }',
    )  # fmt: skip
    trigger_s: float = key(
        kinds.number(0, 86_400), "Seconds from the beginning of a batch to that of the next", 5.0
    )
    rows_max: int = key(
        kinds.integer(1000, 100_000_000), "Rows of a batch; at least one segment", 1_000_000,
        "what is behind is caught up with in several",
    )  # fmt: skip
    goes_on_without_lost_segments: bool = key(
        kinds.boolean(), "Go on when a segment is gone, and leave a gap", False,
        "else it is an error",
    )  # fmt: skip
    metrics_listen: HostPort | None = key(
        kinds.listen_address(), "Where /metrics of `run` is", None, example='"127.0.0.1:9110"'
    )
    progress_file: Path | None = key(
        kinds.file_path(), "A file that has the last batch's progress as JSON", None,
        example='"progress.json"',
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GapsSettings:
    """When a device counts as silent"""

    silence_periods: float = key(
        kinds.number(1.5, 10_000), "Silent is who says nothing for so many of its periods", 5.0
    )
    period_s: float | None = key(
        kinds.number(0.001, 31_536_000), "How often devices speak", None,
        "each device's own median", example="60",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSettings:
    """Good rows that meet a condition go to a table of their own as well"""

    name: str = key(kinds.name(), "The table", "", example='"hot"')
    where: str = key(
        kinds.text(), "The condition, in Spark SQL over the columns of bronze", "",
        example='''"metric = 'temperature' and value > 30"''',
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What is written to stderr"""

    level: str = key(
        kinds.choice("debug", "info", "warning", "error"), "The least that is written", "info"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSettings:
    kind: str | None = key(kinds.choice("number", "text"), "What it is", None, example='"number"')
    unit: str | None = key(
        kinds.text(), "Its unit; given to values that come without one", None, example='"Cel"'
    )
    min: float | None = key(kinds.number(-1e300, 1e300), "What is less is wrong", None,
                            example="-40")  # fmt: skip
    max: float | None = key(kinds.number(-1e300, 1e300), "What is more is wrong", None,
                            example="85")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """What the payloads of a topic filter are; the first filter that matches decides"""

    name: str = key(kinds.name(), "What it is called in the tables", "", example='"climate"')
    topic: str = key(kinds.topic_filter(), "Its topics", "", example='"sensors/+/climate"')
    format: str = key(
        kinds.choice("auto", "senml", "cbor", "json", "text"), "The form of the payload", "auto"
    )
    time_field: str | None = key(
        kinds.text(), "Which field of plain CBOR or JSON says when", None, example='"ts"'
    )
    time_unit: str = key(kinds.choice("s", "ms", "us"), "The unit of that field", "s")
    other_fields: str = key(
        kinds.choice("learn", "quarantine"), "What becomes of fields not listed below", "learn"
    )
    fields: Mapping[str, FieldSettings] = field(
        default_factory=dict, metadata={"named": FieldSettings, "count_max": FIELDS_MAX}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    lake: LakeSettings = field(default_factory=LakeSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    collector: CollectorSettings = field(default_factory=CollectorSettings)
    acknowledge: AcknowledgeSettings = field(default_factory=AcknowledgeSettings)
    rotation: RotationSettings = field(default_factory=RotationSettings)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    log: LogSettings = field(default_factory=LogSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    gaps: GapsSettings = field(default_factory=GapsSettings)
    schema: tuple[SchemaSettings, ...] = field(
        default=(), metadata={"repeated": SchemaSettings, "count_max": SCHEMAS_MAX}
    )
    route: tuple[RouteSettings, ...] = field(
        default=(), metadata={"repeated": RouteSettings, "count_max": ROUTES_MAX}
    )


TABLES: dict[str, type] = {
    "lake": LakeSettings,
    "broker": BrokerSettings,
    "collector": CollectorSettings,
    "acknowledge": AcknowledgeSettings,
    "rotation": RotationSettings,
    "kafka": KafkaSettings,
    "metrics": MetricsSettings,
    "log": LogSettings,
    "spark": SparkSettings,
    "gaps": GapsSettings,
}

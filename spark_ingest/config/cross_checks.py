"""Checks between keys: each contradiction with the key to change."""

from __future__ import annotations

from collections.abc import Iterator

from spark_ingest.config.kinds import MIB, with_unit
from spark_ingest.config.problems import KeyPath, shown
from spark_ingest.config.settings import SchemaSettings, Settings
from spark_ingest.tables.tables import reserved_names

# What the promises rest on, or another key of ours decides.
CLIENT_OURS = frozenset(
    {
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "bootstrap.servers",
        "metadata.broker.list",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "message.max.bytes",
        "compression.type",
        "compression.codec",
        "client.id",
    }
)
SPARK_OURS = frozenset(
    {
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "includeHeaders",
        "endingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "failOnDataLoss",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "kafka.bootstrap.servers",
    }
)


def contradictions(settings: Settings, *, collects: bool) -> Iterator[tuple[KeyPath, str]]:
    """`collects`: whether the settings are to be those of a collector."""
    if settings.lake.path is None:
        yield ("lake", "path"), 'must be given: the folder of all segments, such as path = "lake"'
    if collects and not settings.collector.topics:
        yield (
            ("collector", "topics"),
            'must be given: the topics to collect, such as topics = ["sensors/#"]',
        )
    if settings.rotation.held_bytes_max < settings.collector.message_bytes_max:
        yield (
            ("rotation", "held_bytes_max"),
            f"must hold at least one message of collector.message_bytes_max "
            f"({settings.collector.message_bytes_max} bytes)",
        )
    yield from _of_broker(settings)
    yield from _of_kafka(settings)
    yield from _of_receipts(settings.acknowledge.topic)
    names: set[str] = set()
    for index, schema in enumerate(settings.schema):
        yield from _of_schema(schema, ("schema", index), names)
        names.add(schema.name)
    yield from _of_routes(settings)


def _of_routes(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    taken = reserved_names()
    for index, route in enumerate(settings.route):
        for key in ("name", "where"):
            if not getattr(route, key):
                yield ("route", index, key), f"must be given, for each [[route]] its own {key}"
        if route.name in taken:
            yield ("route", index, "name"), f"{shown(route.name)} is another table's name already"
        taken.add(route.name)


def _of_broker(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    broker = settings.broker
    if broker.password_file is not None and broker.username is None:
        yield ("broker", "password_file"), "is of no use without broker.username"
    if (broker.cert_file is None) != (broker.key_file is None):
        other_key = "key_file" if broker.cert_file is None else "cert_file"
        yield ("broker", other_key), "is of no use alone: give cert_file and key_file, or neither"
    for name in ("ca_file", "cert_file", "key_file"):
        if getattr(broker, name) is not None and not broker.url.tls:
            yield ("broker", name), "needs a broker.url that begins with mqtts://"


def _of_kafka(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    kafka = settings.kafka
    if kafka.servers is None:
        return
    # Base64 makes a payload a third longer, and topic and client are as long as MQTT allows.
    needed = 2 * settings.collector.message_bytes_max + MIB
    if kafka.record_bytes_max < needed:
        yield (
            ("kafka", "record_bytes_max"),
            f"must be {with_unit(needed)} or more, to hold any message of "
            "collector.message_bytes_max; or lower that",
        )
    for table, ours in (("client", CLIENT_OURS), ("spark", SPARK_OURS)):
        for name in sorted(ours.intersection(getattr(kafka, table))):
            yield (
                ("kafka", table),
                f"{shown(name)} is not to be set: the promises rest on it, or another "
                "key decides it",
            )


def _of_receipts(topic: str) -> Iterator[tuple[KeyPath, str]]:
    levels = topic.split("/")
    parts = [levels.count(each) for each in ("{gw}", "ack", "{collector}")]
    if parts != [1, 1, 1] or any(sign in topic for sign in "+#") or topic.count("{") != 2:
        yield (
            ("acknowledge", "topic"),
            "must have the levels {gw}, ack and {collector} once each, and no other sign with a "
            "meaning, such as tidegate/ingest/{gw}/ack/{collector}",
        )


def _of_schema(
    schema: SchemaSettings, path: KeyPath, names: set[str]
) -> Iterator[tuple[KeyPath, str]]:
    for key in ("name", "topic"):
        if not getattr(schema, key):
            yield (*path, key), f"must be given, for each [[schema]] its own {key}"
    if schema.name in names:
        yield (*path, "name"), f"{shown(schema.name)} is the name of another schema already"
    if schema.time_field is not None and schema.format in ("senml", "text"):
        yield (*path, "time_field"), f"is of no use with format = {shown(schema.format)}"
    for name, field in schema.fields.items():
        if field.min is not None and field.max is not None and field.min > field.max:
            yield (*path, "fields", name, "min"), "must not be more than max"
        if field.kind == "text" and (field.min, field.max) != (None, None):
            yield (*path, "fields", name, "kind"), "has a range, so it must be a number"

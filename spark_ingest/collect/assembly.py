"""From settings to the options of the collector. The only file that imports both."""

from __future__ import annotations

from spark_ingest.collect.batch import RotationOptions
from spark_ingest.collect.collector import CollectorOptions, EndWhen
from spark_ingest.collect.credentials import password_of, tls_of
from spark_ingest.collect.receipts import ReceiptOptions
from spark_ingest.collect.session import SessionOptions
from spark_ingest.collect.subscriptions import Subscriptions
from spark_ingest.config import Settings
from spark_ingest.config.settings import FieldSettings, SchemaSettings
from spark_ingest.kafka.topic import KafkaOptions
from spark_ingest.payload.decoding import Format
from spark_ingest.payload.registry import Field, Kind, Registry, SchemaOptions
from spark_ingest.segments.rows import RowOptions

# One client id per collector and group: the share belongs to the id.
CLIENT_ID = "{group}-{name}"
TIME_UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def collector_options(settings: Settings, end_when: EndWhen, idle_s: float) -> CollectorOptions:
    """Raises ConfigError for files that the settings name and that are not what they should be."""
    broker = settings.broker
    return CollectorOptions(
        session=session_options(settings),
        rotation=RotationOptions(
            messages_max=settings.rotation.messages_max,
            bytes_max=settings.rotation.bytes_max,
            linger_s=settings.rotation.linger_ms / 1000,
            held_bytes_max=settings.rotation.held_bytes_max,
        ),
        host=broker.url.host,
        port=broker.url.port,
        tls=tls_of(broker),
        receipts=ReceiptOptions(
            topic=settings.acknowledge.topic,
            collector=settings.collector.name,
            every_s=settings.acknowledge.every_s,
            is_on=settings.acknowledge.enabled,
        ),
        connect_timeout_s=broker.connect_timeout_s,
        reconnect_delay_s_max=broker.reconnect_delay_s_max,
        left_out=settings.collector.leave_out,
        end_when=end_when,
        idle_s=idle_s,
    )


def session_options(settings: Settings) -> SessionOptions:
    broker, collector = settings.broker, settings.collector
    return SessionOptions(
        client_id=CLIENT_ID.format(group=collector.group, name=collector.name),
        filters=collector.topics,
        group=collector.group,
        receive_max=collector.receive_max,
        packet_bytes_max=collector.message_bytes_max,
        keep_alive_s=broker.keep_alive_s,
        session_expiry_s=broker.session_expiry_s,
        filters_per_subscribe_max=broker.filters_per_subscribe_max,
        connack_timeout_s=broker.connect_timeout_s,
        username=broker.username,
        password=password_of(broker),
    )


def subscriptions(settings: Settings, session: SessionOptions) -> Subscriptions:
    known_as = f"{settings.broker.url} {session.client_id}"
    lake, name = settings.lake.folder, settings.collector.name
    return Subscriptions(lake, name, known_as, session.subscriptions)


def row_options(settings: Settings) -> RowOptions:
    return RowOptions(
        keep_payload=settings.collector.keep_payload,
        clock_ahead_s_max=settings.collector.clock_ahead_s_max,
    )


def kafka_options(settings: Settings) -> KafkaOptions:
    kafka = settings.kafka
    assert kafka.servers is not None
    return KafkaOptions(
        servers=kafka.servers,
        topic=kafka.topic,
        name=settings.collector.name,
        partitions=kafka.partitions,
        record_bytes_max=kafka.record_bytes_max,
        compression=kafka.compression,
        timeout_s=kafka.timeout_s,
        client=kafka.client,
    )


def registry(settings: Settings) -> Registry:
    return Registry(schema_options(settings))


def schema_options(settings: Settings) -> list[SchemaOptions]:
    return [_schema_options(each) for each in settings.schema]


def _schema_options(schema: SchemaSettings) -> SchemaOptions:
    return SchemaOptions(
        name=schema.name,
        topic_filter=schema.topic,
        format=Format(schema.format),
        time_field=schema.time_field,
        time_unit_s=TIME_UNITS_S[schema.time_unit],
        fields={name: _field(each) for name, each in schema.fields.items()},
        takes_other_fields=schema.other_fields == "learn",
    )


def _field(field: FieldSettings) -> Field:
    kind = None if field.kind is None else Kind(field.kind)
    if field.min is not None or field.max is not None:
        kind = Kind.NUMBER
    return Field(kind=kind, unit=field.unit, least=field.min, most=field.max)

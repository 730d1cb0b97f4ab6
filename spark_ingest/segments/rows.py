"""Messages to rows, as columns of plain lists: decoded, checked, without repeats. Pure.

A message that cannot be decoded becomes one row in quarantine; nothing that a message holds raises.

Limits: one batch is one `Rows`; who makes it bounds it. A message has at most as many rows as its
decoder gives points. A payload is shown in each row that is in quarantine; of what that repeats,
REPEATED_BYTES_MAX in all. Then a message with bad values is one row in quarantine, as a whole, and
a good one shows its payload once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_ingest.payload.decoding import decode
from spark_ingest.payload.record import Clock, Delivery, Fault, Point, Tag, UndecodableError, tag_of
from spark_ingest.payload.registry import Registry, Schema
from spark_ingest.segments.footer import Footer
from spark_ingest.segments.sequences import Identities

# A gateway whose clock says less has none. It is where SenML begins to take times for absolute.
PLAUSIBLE_US_MIN = 2**28 * 1_000_000
# A column of bytes holds 2 GiB, and a batch may have 256 MiB of payloads beside these.
REPEATED_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RowOptions:
    keep_payload: bool = False
    clock_ahead_s_max: float = 3600.0


@dataclass(slots=True)
class Columns:
    """Of each message once, and of each row with the number of its message."""

    gw: list[str | None] = field(default_factory=list)
    client: list[str | None] = field(default_factory=list)
    epoch: list[int | None] = field(default_factory=list)
    seq: list[int | None] = field(default_factory=list)
    topic: list[str] = field(default_factory=list)
    qos: list[int] = field(default_factory=list)
    retain: list[bool] = field(default_factory=list)
    gw_ts: list[int | None] = field(default_factory=list)
    rx_ts: list[int] = field(default_factory=list)
    schema: list[str | None] = field(default_factory=list)
    payload: list[bytes] = field(default_factory=list)

    message: list[int] = field(default_factory=list)
    payload_of: list[int | None] = field(default_factory=list)  # the message whose payload it shows
    part: list[int] = field(default_factory=list)
    ts: list[int] = field(default_factory=list)
    ts_src: list[str] = field(default_factory=list)
    device: list[str | None] = field(default_factory=list)
    metric: list[str | None] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)
    unit: list[str | None] = field(default_factory=list)
    text: list[str | None] = field(default_factory=list)
    error: list[str | None] = field(default_factory=list)
    error_detail: list[str | None] = field(default_factory=list)


class Rows:
    def __init__(self, registry: Registry, options: RowOptions) -> None:
        self.columns = Columns()
        self.repeated = 0
        self.quarantined: dict[str, int] = {}
        self.mistakes: list[Exception] = []  # of ours; at most one is kept
        self._registry = registry
        self._keep_payload = options.keep_payload
        self._ahead_us_max = round(options.clock_ahead_s_max * 1e6)
        self._identities = Identities()
        self._schemas: list[Schema | None] = []  # of each message
        self._repeated_bytes = 0

    def add(self, delivery: Delivery) -> None:
        tag = tag_of(delivery.properties)
        if tag.epoch is not None and tag.sequence is not None:
            assert tag.gateway is not None
            if not self._identities.add(tag.gateway, tag.epoch, tag.sequence):
                self.repeated += 1
                return
        schema = self._registry.schema_for(delivery.topic)
        now_us, clock = self._taken_on(tag, delivery)
        fault: UndecodableError | None = None
        try:
            points = _points(delivery.payload, schema, now_us)
        except UndecodableError as error:
            points, fault = [], error
        except Exception as error:  # a payload must not stop all others for ever
            self.mistakes[:] = [error]
            points, fault = [], UndecodableError(Fault.OURS, repr(error))
        self._add_message(tag, delivery, schema)
        points = [self._checked(point, schema) for point in points]
        faults = [each.fault for each in points if each.fault is not None]
        shown = len(points) if self._keep_payload else len(faults)
        has_room = shown < 2 or self._may_repeat((shown - 1) * len(delivery.payload))
        if faults and not has_room:
            fault = faults[0]
        if fault is not None:
            self._add_row(0, Point("", None, fault=fault), now_us, clock, shows=True)
            return
        for part, point in enumerate(points):
            shows = point.fault is not None or (self._keep_payload and (has_room or not part))
            self._add_row(part, point, now_us, clock, shows=shows)

    def _may_repeat(self, payload_bytes: int) -> bool:
        if self._repeated_bytes + payload_bytes > REPEATED_BYTES_MAX:
            return False
        self._repeated_bytes += payload_bytes
        return True

    def finished(self, collector: str, number: int) -> tuple[Columns, Footer]:
        """Schemas may have grown with each message; all rows get the id of what they are now."""
        self.columns.schema = [None if each is None else each.id for each in self._schemas]
        footer = Footer(
            collector=collector,
            number=number,
            rows=len(self.columns.message),
            messages=len(self.columns.topic),
            repeated=self.repeated,
            quarantined=self.quarantined,
            first_us=min(self.columns.rx_ts),
            last_us=max(self.columns.rx_ts),
            ids=self._identities.encoded(),
            schemas=self._registry.described(),
        )
        return self.columns, footer

    def _taken_on(self, tag: Tag, delivery: Delivery) -> tuple[int, Clock]:
        """By the gateway's clock, unless it cannot be right; the collector's is on a server."""
        received_us, taken_on_us = delivery.received_us, tag.taken_on_us
        if taken_on_us is None or taken_on_us < PLAUSIBLE_US_MIN:
            return received_us, Clock.COLLECTOR
        if taken_on_us > received_us + self._ahead_us_max:
            return received_us, Clock.COLLECTOR
        return taken_on_us, Clock.GATEWAY

    def _add_message(self, tag: Tag, delivery: Delivery, schema: Schema | None) -> None:
        columns = self.columns
        columns.gw.append(tag.gateway)
        columns.client.append(tag.client)
        columns.epoch.append(tag.epoch)
        columns.seq.append(tag.sequence)
        columns.topic.append(delivery.topic)
        columns.qos.append(delivery.qos)
        columns.retain.append(delivery.retain)
        columns.gw_ts.append(tag.taken_on_us)
        columns.rx_ts.append(delivery.received_us)
        self._schemas.append(schema)
        columns.payload.append(delivery.payload)

    def _checked(self, point: Point, schema: Schema | None) -> Point:
        """With what is wrong with it; without a time that cannot be right."""
        if point.time_us is not None:
            ahead_us = point.time_us - self.columns.rx_ts[-1]
            if ahead_us > self._ahead_us_max:
                reason = f"measured {ahead_us / 1e6:.0f} s after it was received"
                fault = point.fault or UndecodableError(Fault.CLOCK, reason)
                return point._replace(time_us=None, fault=fault)
        if schema is None or point.fault is not None:
            return point
        try:
            return schema.checked(point)
        except UndecodableError as error:
            return point._replace(fault=error)

    def _add_row(self, part: int, point: Point, ts: int, clock: Clock, *, shows: bool) -> None:
        """`ts`: when the message was taken on, by `clock`. `shows` the payload."""
        columns = self.columns
        message = len(columns.topic) - 1
        if point.time_us is not None:
            ts, clock = point.time_us, Clock.DEVICE
        fault = point.fault
        columns.message.append(message)
        columns.part.append(part)
        columns.ts.append(ts)
        columns.ts_src.append(clock.value)
        columns.device.append(point.device or columns.client[message])
        columns.metric.append(point.metric or None)
        columns.value.append(point.value)
        columns.unit.append(point.unit)
        columns.text.append(point.text)
        columns.error.append(None if fault is None else fault.fault.value)
        columns.error_detail.append(None if fault is None else fault.detail)
        columns.payload_of.append(message if shows else None)
        if fault is not None:
            word = fault.fault.value
            self.quarantined[word] = self.quarantined.get(word, 0) + 1


def _points(payload: bytes, schema: Schema | None, now_us: int) -> list[Point]:
    if schema is None:
        return decode(payload, now_us)
    options = schema.options
    return decode(
        payload,
        now_us,
        format=options.format,
        time_field=options.time_field,
        time_unit_s=options.time_unit_s,
    )

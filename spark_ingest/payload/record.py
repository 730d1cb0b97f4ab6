"""What a row of a segment is, and what its columns mean. Values only; Parquet is in table.py.

A *message* is what the broker brought. A *row* is one measured value of it, so that a pack of three
values has three rows, which differ in `part`, `metric`, `value`, `unit`, `text` and perhaps `ts`. A
message that cannot be decoded is one row with `error`, and a value that breaks the rules of its
schema is a row with `error` beside the good ones: both are *in quarantine*, with the payload as it
came. Quarantined rows stay in the same segments as all others: one rename makes a message safe,
whatever it holds, and its sequence is never taken for a gap.

Rule 1: (gw, epoch, seq, part) names a row for ever. All rows of a message are in one segment.
Rule 2: a message without a complete delivery tag has `seq` null. It may be there more than once, as
        MQTT at QoS 1 has it; nothing here guesses that two of them are the same.
Rule 3: `ts` is when it was measured, by the first clock that we have: the node's, else the
        gateway's when it took the reading on, else the collector's. `ts_src` says whose.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

SCHEMA_VERSION = 1

# 9999-12-31, the last day that timestamps of every reader can hold.
UNIX_US_MAX = 253_402_300_799_999_999
# Epoch and sequence are 64-bit columns. More digits than this are no number of a gateway.
NUMBER_DIGITS_MAX = 18
GATEWAY_LENGTH_MAX = 256


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str  # as PyArrow spells it
    meaning: str


COLUMNS = (
    Column("gw", "string", "the gateway that took the reading on; null of other publishers"),
    Column("client", "string", "the MQTT-SN client id of the node"),
    Column("epoch", "int64", "which life of the gateway numbered it"),
    Column("seq", "int64", "its number in that life, without holes; null without a delivery tag"),
    Column("part", "int32", "which value of the message, from 0"),
    Column("topic", "string", "as published"),
    Column("qos", "int8", "of the delivery to the collector"),
    Column("retain", "bool", "it was a retained message, so perhaps an old one"),
    Column("ts", "timestamp[us, tz=UTC]", "when it was measured"),
    Column("ts_src", "string", "whose clock says so: device, gateway or collector"),
    Column("gw_ts", "timestamp[us, tz=UTC]", "when the gateway took it on"),
    Column("rx_ts", "timestamp[us, tz=UTC]", "when the collector got it"),
    Column("device", "string", "the base name of the pack, else the client id"),
    Column("metric", "string", "what was measured; null where nothing could be decoded"),
    Column("value", "double", "the number; true is 1"),
    Column("unit", "string", "as sent, else as the schema has it"),
    Column("text", "string", "the value where it is no number"),
    Column("schema", "string", "name and fingerprint of the schema that it was checked against"),
    Column("error", "string", "why it is in quarantine; null of good rows"),
    Column("error_detail", "string", "the same in words"),
    Column("payload", "binary", "as it came; of rows in quarantine, or of all if so configured"),
)


class Clock(Enum):
    """Whose time `ts` is."""

    DEVICE = "device"
    GATEWAY = "gateway"
    COLLECTOR = "collector"


class Fault(Enum):
    """Why a row is in quarantine: the column `error`, and a label of the metrics."""

    EMPTY = "empty"  # no payload: it clears a retained message and says nothing
    FORM = "form"  # neither SenML nor CBOR nor JSON, or not what the schema's format says
    SENML = "senml"  # CBOR or JSON, but no valid pack
    TOO_LARGE = "too_large"  # more values, or deeper, than we take
    NUMBER = "number"  # infinite, or no number
    CLOCK = "clock"  # measured in the future, or at no time there is
    KIND = "kind"  # text where the schema has a number, or the other way about
    UNIT = "unit"  # another unit than the schema has
    RANGE = "range"  # outside of what the schema says is possible
    UNKNOWN_FIELD = "unknown_field"  # not in a schema that takes no others
    OURS = "ours"  # a mistake of this program, which the log describes


class UndecodableError(Exception):
    """A payload that goes to quarantine, or one value of it."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(fault, detail)
        self.fault = fault
        self.detail = detail


class Point(NamedTuple):
    """One decoded value: `value` or `text`, or neither and why it cannot be trusted."""

    metric: str
    value: float | None
    text: str | None = None
    unit: str | None = None
    time_us: int | None = None  # if the payload says when
    device: str | None = None  # if the payload says who
    fault: UndecodableError | None = None


@dataclass(slots=True)
class Delivery:
    """A message as the broker brought it. `connection` is the one on which to acknowledge it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: list[tuple[str, str]]
    received_us: int  # Unix time
    packet_id: int  # 0 at QoS 0
    connection: int


class Tag(NamedTuple):
    """The delivery tag: the user properties `gw client epoch seq ts`, as far as they make sense."""

    gateway: str | None = None
    client: str | None = None
    epoch: int | None = None
    sequence: int | None = None
    taken_on_us: int | None = None

    @property
    def is_complete(self) -> bool:
        """Only then does it name the reading."""
        return self.sequence is not None


def tag_of(properties: list[tuple[str, str]]) -> Tag:
    """Anyone can publish user properties, so each is looked at before it is believed."""
    given = dict(properties)
    gateway = given.get("gw")
    if not gateway or len(gateway) > GATEWAY_LENGTH_MAX:
        return Tag()
    epoch, sequence = _number(given.get("epoch")), _number(given.get("seq"))
    if epoch is None or sequence is None:
        epoch = sequence = None
    taken_on_ms = _number(given.get("ts"))
    taken_on_us = None if taken_on_ms is None else taken_on_ms * 1000
    if taken_on_us is not None and taken_on_us > UNIX_US_MAX:
        taken_on_us = None
    return Tag(
        gateway=gateway,
        client=given.get("client"),
        epoch=epoch,
        sequence=sequence,
        taken_on_us=taken_on_us,
    )


def _number(text: str | None) -> int | None:
    if text is None or not (0 < len(text) <= NUMBER_DIGITS_MAX and text.isascii()):
        return None
    return int(text) if text.isdecimal() else None

"""What the operator says about the payloads of a topic, what was learned of them, and the check.

A *schema* is for the topics of a filter; the first filter that matches decides. It names fields
with kind, unit and range, all of which a value must meet, else that value goes to quarantine, and
only that value.

Fields that it does not name are *learned*: the first value decides kind and unit, and a later one
that differs goes to quarantine. So schemas grow, and never change: a field that must change gets a
new name, or its old one is declared again in the configuration, which overrides what was learned.
What was learned is in the footer of every segment and comes back from the newest one.

Limits: FIELDS_MAX learned fields of a schema; the values of further ones are taken unchecked. The
schemas of TOPICS_MAX topics are remembered; then they are looked up again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from spark_ingest.payload.decoding import Format
from spark_ingest.payload.record import Fault, Point, UndecodableError
from spark_ingest.payload.scalars import shown
from spark_ingest.payload.topic_filters import matches

FIELDS_MAX = 256
TOPICS_MAX = 10_000


class Kind(Enum):
    NUMBER = "number"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Field:
    """None says nothing about it: any kind, any unit, any value."""

    kind: Kind | None = None
    unit: str | None = None
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    name: str
    topic_filter: str
    format: Format = Format.AUTO
    time_field: str | None = None
    time_unit_s: float = 1.0
    fields: Mapping[str, Field] = field(default_factory=dict)
    takes_other_fields: bool = True


class Schema:
    def __init__(self, options: SchemaOptions) -> None:
        self.options = options
        self.learned: dict[str, Field] = {}
        self._id: str | None = None

    @property
    def id(self) -> str:
        """Name and fingerprint: collectors that know the same fields have the same id."""
        if self._id is None:
            known = json.dumps(self.described(), sort_keys=True).encode()
            self._id = f"{self.options.name}/{zlib.crc32(known):08x}"
        return self._id

    def checked(self, point: Point) -> Point:
        """The point, with the unit of the schema where it has none; or UndecodableError."""
        known = self.options.fields.get(point.metric) or self.learned.get(point.metric)
        if known is None:
            self._learn(point)
            return point
        if known.kind is not None and known.kind is not _kind_of(point):
            raise UndecodableError(
                Fault.KIND,
                f"{shown(point.metric)} is {_kind_of(point).value}, not {known.kind.value}",
            )
        if known.unit is not None and point.unit is None:
            point = point._replace(unit=known.unit)
        elif known.unit is not None and point.unit != known.unit:
            raise UndecodableError(
                Fault.UNIT, f"{shown(point.metric)} is in {shown(point.unit)}, not {known.unit}"
            )
        _check_range(known, point)
        return point

    def restore(self, described: Mapping[str, Sequence[object]]) -> None:
        """What a previous run learned. What the configuration names by now is left to it."""
        for name, (kind, unit, *_) in described.items():
            if name not in self.options.fields and len(self.learned) < FIELDS_MAX:
                unit_known = unit if isinstance(unit, str) else None
                self.learned[name] = Field(Kind(kind) if kind else None, unit_known)
        self._id = None

    def described(self) -> dict[str, list[str | float | None]]:
        """All known fields: kind, unit, least, most."""
        return {
            name: [each.kind and each.kind.value, each.unit, each.least, each.most]
            for name, each in {**self.learned, **self.options.fields}.items()
        }

    def _learn(self, point: Point) -> None:
        if not self.options.takes_other_fields:
            raise UndecodableError(
                Fault.UNKNOWN_FIELD, f"{shown(point.metric)} is not in the schema"
            )
        if len(self.learned) < FIELDS_MAX:
            self.learned[point.metric] = Field(_kind_of(point), point.unit)
            self._id = None


class Registry:
    def __init__(self, options: Sequence[SchemaOptions]) -> None:
        self.schemas = [Schema(each) for each in options]
        self._by_topic: dict[str, Schema | None] = {}

    def schema_for(self, topic: str) -> Schema | None:
        try:
            return self._by_topic[topic]
        except KeyError:
            pass
        if len(self._by_topic) >= TOPICS_MAX:
            self._by_topic.clear()
        found = (each for each in self.schemas if matches(each.options.topic_filter, topic))
        schema = self._by_topic[topic] = next(found, None)
        return schema

    def restore(self, described: Mapping[str, Mapping[str, Sequence[object]]]) -> None:
        """By schema id, as `described` says it; those that are configured no more are left out."""
        by_name = {id_.rpartition("/")[0]: fields for id_, fields in described.items()}
        for schema in self.schemas:
            schema.restore(by_name.get(schema.options.name, {}))

    def described(self) -> dict[str, dict[str, list[str | float | None]]]:
        return {schema.id: schema.described() for schema in self.schemas}


def _kind_of(point: Point) -> Kind:
    return Kind.TEXT if point.value is None else Kind.NUMBER


def _check_range(known: Field, point: Point) -> None:
    value = point.value
    if value is None:
        return
    if known.least is not None and value < known.least:
        raise UndecodableError(
            Fault.RANGE, f"{shown(point.metric)} is {value:g}, less than {known.least:g}"
        )
    if known.most is not None and value > known.most:
        raise UndecodableError(
            Fault.RANGE, f"{shown(point.metric)} is {value:g}, more than {known.most:g}"
        )

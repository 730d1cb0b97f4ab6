"""Schemas: what is declared, what is learned, and what goes to quarantine for it."""

from __future__ import annotations

import pytest

from spark_ingest.payload.record import Fault, Point, UndecodableError
from spark_ingest.payload.registry import (
    FIELDS_MAX,
    TOPICS_MAX,
    Field,
    Kind,
    Registry,
    Schema,
    SchemaOptions,
)

CLIMATE = SchemaOptions(
    "climate", "farm/+/climate", fields={"t": Field(Kind.NUMBER, "Cel", -40.0, 85.0)}
)


def refused(schema: Schema, point: Point) -> UndecodableError:
    with pytest.raises(UndecodableError) as raised:
        schema.checked(point)
    return raised.value


def test_the_first_filter_that_matches_decides() -> None:
    anything = SchemaOptions("anything", "farm/#")
    registry = Registry([CLIMATE, anything])
    names = {
        topic: schema and schema.options.name
        for topic in ("farm/1/climate", "farm/1/door", "barn/1")
        for schema in [registry.schema_for(topic)]
    }
    assert names == {"farm/1/climate": "climate", "farm/1/door": "anything", "barn/1": None}


def test_the_schemas_of_more_topics_than_are_remembered_are_found_too() -> None:
    registry = Registry([CLIMATE])
    for number in range(TOPICS_MAX + 2):
        assert registry.schema_for(f"farm/{number}/climate") is registry.schemas[0]


def test_a_declared_field_keeps_what_fits_and_gives_it_its_unit() -> None:
    assert Schema(CLIMATE).checked(Point("t", 21.5)) == Point("t", 21.5, unit="Cel")
    assert Schema(CLIMATE).checked(Point("t", 85.0, unit="Cel")).value == 85.0


@pytest.mark.parametrize(
    ("point", "fault", "words"),
    [
        (Point("t", 85.1), Fault.RANGE, "85.1, more than 85"),
        (Point("t", -41.0), Fault.RANGE, "-41, less than -40"),
        (Point("t", 70.0, unit="Far"), Fault.UNIT, "'Far', not Cel"),
        (Point("t", None, "warm"), Fault.KIND, "is text, not number"),
    ],
)
def test_what_a_declared_field_does_not_take(point: Point, fault: Fault, words: str) -> None:
    error = refused(Schema(CLIMATE), point)
    assert error.fault is fault
    assert words in error.detail


def test_a_new_field_is_learned_and_later_values_must_be_like_the_first() -> None:
    schema = Schema(CLIMATE)
    schema.checked(Point("humidity", 50.0, unit="%RH"))
    assert schema.checked(Point("humidity", 51.0)).unit == "%RH"
    assert refused(schema, Point("humidity", 0.5, unit="/")).fault is Fault.UNIT
    assert refused(schema, Point("humidity", None, "wet")).fault is Fault.KIND
    schema.checked(Point("door", None, "open"))
    assert schema.checked(Point("door", None, "shut")).text == "shut"


def test_a_strict_schema_takes_no_other_fields() -> None:
    schema = Schema(SchemaOptions("strict", "#", takes_other_fields=False))
    assert refused(schema, Point("t", 1.0)).fault is Fault.UNKNOWN_FIELD


def test_beyond_the_limit_values_are_taken_unchecked() -> None:
    schema = Schema(SchemaOptions("wide", "#"))
    for number in range(FIELDS_MAX):
        schema.checked(Point(f"f{number}", 1.0))
    assert schema.checked(Point("one more", 1.0)).value == 1.0
    assert schema.checked(Point("one more", None, "text")).text == "text"
    assert len(schema.learned) == FIELDS_MAX


def test_what_was_learned_outlasts_a_restart() -> None:
    before = Registry([CLIMATE])
    before.schemas[0].checked(Point("humidity", 50.0, unit="%RH"))
    before.schemas[0].checked(Point("door", None, "open"))
    after = Registry([CLIMATE])
    after.restore(before.described())
    assert after.schemas[0].id == before.schemas[0].id
    assert refused(after.schemas[0], Point("humidity", 0.5, unit="/")).fault is Fault.UNIT
    assert refused(after.schemas[0], Point("door", 1.0)).fault is Fault.KIND


def test_the_configuration_overrides_what_was_learned() -> None:
    before = Registry([SchemaOptions("climate", "#")])
    before.schemas[0].checked(Point("t", 70.0, unit="Far"))
    after = Registry([CLIMATE])
    after.restore(before.described())
    assert after.schemas[0].checked(Point("t", 21.0, unit="Cel")).unit == "Cel"


def test_collectors_that_know_the_same_fields_have_the_same_id() -> None:
    one, other = Schema(CLIMATE), Schema(CLIMATE)
    before = one.id
    one.checked(Point("a", 1.0))
    one.checked(Point("b", 1.0))
    other.checked(Point("b", 1.0))
    assert one.id != other.id
    other.checked(Point("a", 1.0))
    assert before != one.id == other.id


def test_what_is_configured_no_more_is_forgotten() -> None:
    before = Registry([SchemaOptions("old", "#")])
    before.schemas[0].checked(Point("t", 1.0))
    after = Registry([CLIMATE])
    after.restore(before.described())
    assert after.schemas[0].learned == {}

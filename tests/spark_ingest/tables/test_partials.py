"""Partial rollups: of any rows, the same numbers as by hand."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_ingest.segments.segment import schema
from spark_ingest.tables.partials import NEEDED, partials_of
from spark_ingest.tables.sketch import bucket_of
from spark_ingest.tables.tables import ROLLUPS, SERIES

MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
VALUES = [0.0, 1.0, -1.0, 1e-10, -3e-9, 21.5, 1e-300, 1e300, -1e300, 0.1, 123456.789, 1e9]


def at(seconds: float) -> datetime:
    return MIDNIGHT + timedelta(seconds=seconds)


def table(*rows: dict[str, Any]) -> Any:
    usual = {"gw": "gh", "device": "n1", "topic": "t", "metric": "m", "ts": MIDNIGHT}
    needed = pa.schema([schema().field(name) for name in NEEDED])
    return pa.Table.from_pylist([{**usual, **row} for row in rows], needed)


def rolled(period: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = partials_of(table(*rows), period).to_pylist()
    return found


def test_a_minute_is_what_is_in_it() -> None:
    first, second = rolled(
        "minute",
        {"ts": at(60), "value": 2.0},
        {"ts": at(119.999999), "value": 4.0},
        {"ts": at(90), "value": -1.0},
        {"ts": at(120), "value": 8.0},
    )
    assert first == {
        **{"start": at(60), "gw": "gh", "device": "n1", "topic": "t", "metric": "m", "unit": None},
        **{"n": 3, "sum": 5.0, "min": -1.0, "max": 4.0, "day": MIDNIGHT.date()},
        **{"first": 2.0, "first_ts": at(60), "last": 4.0, "last_ts": at(119.999999)},
        "sketch": sorted(Counter(map(bucket_of, (2.0, 4.0, -1.0))).items()),
    }
    assert (second["start"], second["n"]) == (at(120), 1)


def test_of_several_values_at_one_time_the_least_is_first_and_the_most_last() -> None:
    (row,) = rolled("hour", *({"value": value} for value in (5.0, 3.0, 9.0)))
    assert (row["first"], row["last"]) == (3.0, 9.0)


def test_what_is_no_number_is_left_out() -> None:
    assert rolled("hour", {"value": None}) == []
    (row,) = rolled("hour", {"value": None}, {"value": 1.0})
    assert row["n"] == 1


def test_series_are_kept_apart_also_where_something_is_not_known() -> None:
    rows = rolled(
        "minute",
        {"value": 1.0},
        {"value": 1.0, "unit": "Cel"},
        {"value": 1.0, "device": None},
        {"value": 1.0, "gw": None},
        {"value": 1.0, "topic": "other"},
        {"value": 1.0},
    )
    assert sorted(row["n"] for row in rows) == [1, 1, 1, 1, 2]


def test_buckets_are_those_of_the_sketch() -> None:
    (row,) = rolled("day", *({"value": value} for value in VALUES))
    assert dict(row["sketch"]) == Counter(map(bucket_of, VALUES))


@pytest.mark.parametrize("period", ROLLUPS.values())
def test_any_rows_give_what_plain_arithmetic_gives(period: str) -> None:
    dice = random.Random(3)
    rows: list[dict[str, Any]] = [
        {
            "ts": at(dice.randrange(-86_400, 2 * 86_400)),
            "value": dice.randrange(-4000, 4000) / 8,  # whose sums are exact
            "device": dice.choice((None, "n1", "n2")),
            "metric": dice.choice(("t", "rh")),
        }
        for _ in range(2000)
    ]
    fields = {"minute": {"second": 0}, "hour": {"minute": 0, "second": 0}}
    floor = fields.get(period, {"hour": 0, "minute": 0, "second": 0})
    expected: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        key = (row["ts"].replace(**floor), "gh", row["device"], "t", row["metric"], None)
        expected.setdefault(key, []).append(row["value"])
    found = {(row["start"], *(row[name] for name in SERIES)): row for row in rolled(period, *rows)}
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        row = found[key]
        assert (row["n"], row["sum"], row["min"], row["max"], dict(row["sketch"])) == (
            len(values), sum(values), min(values), max(values), Counter(map(bucket_of, values)),
        )  # fmt: skip

"""Rollups are the same numbers, however late readings come and however partials are merged."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_ingest.sketch import bucket_of, quantile
from spark_ingest.spark import rollups
from spark_ingest.spark.pipeline import to_rollups
from tests.spark_ingest.with_spark.frames import at, readings, rows_of

SUMS = ("n", "sum", "min", "max", "first", "first_ts", "last", "last_ts")
VALUES = [0.0, 1.0, -1.0, 1e-10, -3e-9, 21.5, 1e-300, 1e300, -1e300, 0.1, 123456.789, 1e9]


def rolled(rows: DataFrame, name: str, period: str) -> DataFrame:
    return rollups.merged(to_rollups(rows).where(f"table = '{name}'"), period)


def plain(frame: DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By key, with nothing left out."""
    return {
        (row.start, row.gw, row.device, row.topic, row.metric, row.unit): row.asDict()
        for row in frame.collect()
    }


def made_up(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Over three days, with values whose sums are exact in any order."""
    return [
        {
            "ts": at(dice.randrange(-86_400, 2 * 86_400)),
            "value": dice.randrange(-4000, 4000) / 8,
            "device": f"n{dice.randrange(3)}",
            "metric": dice.choice(("t", "rh")),
        }
        for _ in range(count)
    ]


def test_a_minute_is_what_is_in_it(spark: SparkSession) -> None:
    rows = readings(
        spark,
        {"ts": at(60), "value": 2.0},
        {"ts": at(119.999999), "value": 4.0},
        {"ts": at(90), "value": -1.0},
        {"ts": at(90), "value": 7.0, "error": "range"},
        {"ts": at(120), "value": 8.0},
    )
    found = rolled(rows, "rollup_1m", "minute")
    assert rows_of(found, "start", *SUMS, "day") == [
        (naive(60), 3, 5.0, -1.0, 4.0, 2.0, naive(60), 4.0, naive(119.999999), at(0).date()),
        (naive(120), 1, 8.0, 8.0, 8.0, 8.0, naive(120), 8.0, naive(120), at(0).date()),
    ]


def naive(seconds: float) -> Any:
    """As PySpark hands times out: those of the session's zone, which is UTC, without saying so."""
    return at(seconds).replace(tzinfo=None)


@pytest.mark.parametrize("seed", [1, 2])
def test_any_cut_into_batches_gives_the_same_rollups(spark: SparkSession, seed: int) -> None:
    dice = random.Random(seed)
    rows = made_up(dice, 300)
    whole = plain(rollups.partials(readings(spark, *rows), "hour"))
    dice.shuffle(rows)
    cuts = sorted(dice.sample(range(1, 300), 3))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 300], strict=True)]
    partials = [rollups.partials(readings(spark, *piece), "hour") for piece in pieces]
    together = partials[0]
    for each in partials[1:]:
        together = together.unionByName(each)
    assert plain(rollups.merged(together, "hour")) == whole


def test_days_of_hours_of_minutes_are_days_of_values(spark: SparkSession) -> None:
    rows = readings(spark, *made_up(random.Random(5), 300))
    direct = plain(rollups.partials(rows, "day"))
    assert plain(rolled(rows, "rollup_1d", "day")) == direct


def test_a_reading_that_is_two_days_late_is_in_its_own_minute(spark: SparkSession) -> None:
    in_time = ({"ts": at(30), "value": 1.0}, {"ts": at(200_000), "value": 5.0})
    first = to_rollups(readings(spark, *in_time))
    late = to_rollups(readings(spark, {"ts": at(31), "value": 3.0, "rx_ts": at(200_100)}))
    minutes = rollups.merged(first.unionByName(late).where("table = 'rollup_1m'"), "minute")
    assert rows_of(minutes.where("n > 1"), "start", *SUMS) == [
        (naive(0), 2, 4.0, 1.0, 3.0, 1.0, naive(30), 3.0, naive(31))
    ]


def test_series_are_kept_apart_also_where_something_is_not_known(spark: SparkSession) -> None:
    rows = readings(
        spark,
        {"value": 1.0},
        {"value": 1.0, "unit": "Cel"},
        {"value": 1.0, "device": None},
        {"value": 1.0, "gw": None},
        {"value": 1.0, "topic": "other"},
        {"value": 1.0},
    )
    found = rolled(rows, "rollup_1m", "minute")
    assert rows_of(found, "n") == [(1,), (1,), (1,), (1,), (2,)]


def test_buckets_are_those_of_the_sketch(spark: SparkSession) -> None:
    rows = rollups.partials(readings(spark, *({"value": value} for value in VALUES)), "minute")
    (row,) = rows.collect()
    assert row.sketch == Counter(map(bucket_of, VALUES))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95, 1.0])
def test_quantiles_are_those_of_the_sketch(spark: SparkSession, share: float) -> None:
    rows = rollups.partials(readings(spark, *({"value": value} for value in VALUES)), "minute")
    ((found,),) = rows.select(rollups.quantile(share)).collect()
    assert found == pytest.approx(quantile(Counter(map(bucket_of, VALUES)), share), rel=1e-12)


def test_statistics_for_people_stay_within_what_was_measured(spark: SparkSession) -> None:
    rows = readings(spark, *({"value": value} for value in (70.0, 85.0, 85.0, 85.0)))
    found = rollups.with_statistics(rollups.partials(rows, "minute"))
    assert rows_of(found, "n", "mean", "p99", "max") == [(4, 81.25, 85.0, 85.0)]

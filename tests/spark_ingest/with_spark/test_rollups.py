"""Partial rollups merge to the same rows, however they were cut, and quantiles are right."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_ingest.spark import rollups
from spark_ingest.tables.partials import partials_of
from spark_ingest.tables.sketch import bucket_of, quantile
from tests.spark_ingest.tables.test_partials import VALUES, table
from tests.spark_ingest.with_spark.frames import at, naive, rows_of


def partials(spark: SparkSession, period: str, *batches: list[dict[str, Any]]) -> DataFrame:
    """As so many batches leave them in a table."""
    return spark.createDataFrame(
        pa.concat_tables([partials_of(table(*rows), period) for rows in batches])
    )


def plain(frame: DataFrame) -> list[dict[str, Any]]:
    found = [row.asDict() for row in frame.collect()]
    return sorted(found, key=lambda row: (row["start"], row["device"] or "", row["metric"]))


def made_up(dice: random.Random, count: int) -> list[dict[str, Any]]:
    """Over three days, with values whose sums are exact in any order."""
    return [
        {
            "ts": at(dice.randrange(-86_400, 2 * 86_400)),
            "value": dice.randrange(-4000, 4000) / 8,
            "device": dice.choice((None, "n1", "n2")),
            "metric": dice.choice(("t", "rh")),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize(("seed", "period"), [(1, "minute"), (2, "hour"), (3, "day")])
def test_any_cut_into_batches_merges_to_the_same_rollups(
    spark: SparkSession, seed: int, period: str
) -> None:
    dice = random.Random(seed)
    rows = made_up(dice, 400)
    whole = plain(partials(spark, period, rows))
    dice.shuffle(rows)
    cuts = sorted(dice.sample(range(1, 400), 5))
    pieces = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, 400], strict=True)]
    assert plain(rollups.merged(partials(spark, period, *pieces), period)) == whole


def test_days_of_minutes_are_days_of_values(spark: SparkSession) -> None:
    rows = made_up(random.Random(5), 400)
    minutes = partials(spark, "minute", rows[:200], rows[200:])
    assert plain(rollups.merged(minutes, "day")) == plain(partials(spark, "day", rows))


def test_a_reading_that_is_two_days_late_is_in_its_own_minute(spark: SparkSession) -> None:
    in_time = [{"ts": at(30), "value": 1.0}, {"ts": at(200_000), "value": 5.0}]
    late = [{"ts": at(31), "value": 3.0}]
    minutes = rollups.merged(partials(spark, "minute", in_time, late), "minute")
    columns = ("n", "sum", "min", "max", "first", "first_ts", "last", "last_ts")
    assert rows_of(minutes.where("n > 1"), "start", *columns) == [
        (naive(0), 2, 4.0, 1.0, 3.0, 1.0, naive(30), 3.0, naive(31))
    ]


def test_quantiles_are_those_of_the_sketch(spark: SparkSession) -> None:
    shares = (0.0, 0.1, 0.5, 0.95, 1.0)
    rows = partials(spark, "minute", [{"value": value} for value in VALUES])
    (found,) = rows.select(*map(rollups.quantile, shares)).collect()
    sketch = Counter(map(bucket_of, VALUES))
    assert list(found) == [pytest.approx(quantile(sketch, each), rel=1e-12) for each in shares]


def test_statistics_for_people_stay_within_what_was_measured(spark: SparkSession) -> None:
    rows = partials(spark, "minute", [{"value": value} for value in (70.0, 85.0, 85.0, 85.0)])
    found = rollups.with_statistics(rows)
    assert rows_of(found, "n", "mean", "p99", "max") == [(4, 81.25, 85.0, 85.0)]

"""Where a row goes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_ingest.spark.pipeline import RouteError, check_routes
from spark_ingest.spark.transforms import with_day, with_tables
from tests.spark_ingest.with_spark.frames import at, readings, rows_of


def test_good_rows_go_to_bronze_bad_ones_to_quarantine_and_some_elsewhere_too(
    spark: SparkSession,
) -> None:
    rows = readings(
        spark,
        {"metric": "t", "value": 31.0},
        {"metric": "t", "value": 29.0},
        {"metric": "t", "value": 99.0, "error": "range"},
        {"metric": "t", "value": None, "text": "warm"},
        {"metric": "rh", "value": 60.0, "gw": "ox"},
    )
    routes = {"hot": "metric = 't' and value > 30", "ox": "gw = 'ox'"}
    assert rows_of(with_tables(rows, routes), "seq", "table") == [
        (0, "bronze"), (0, "hot"), (1, "bronze"), (2, "quarantine"), (3, "bronze"),
        (4, "bronze"), (4, "ox"),
    ]  # fmt: skip


def test_without_routes_every_row_goes_to_one_table(spark: SparkSession) -> None:
    rows = readings(spark, {"value": 1.0}, {"error": "form"})
    assert rows_of(with_tables(rows, {}), "seq", "table") == [(0, "bronze"), (1, "quarantine")]


def test_a_row_is_of_the_day_on_which_it_came(spark: SparkSession) -> None:
    rows = readings(spark, {"ts": at(-100_000), "rx_ts": at(-1)}, {"ts": at(0), "rx_ts": at(0)})
    days = [(seq, str(day)) for seq, day in rows_of(with_day(rows), "seq", "day")]
    assert days == [(0, "2026-11-20"), (1, "2026-11-21")]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("temperature > 3", "`temperature` cannot be resolved"),
        ("value >", "PARSE_SYNTAX_ERROR"),
        ("value + 1", "DATATYPE_MISMATCH"),
        ("count(*) > 1", "GROUP BY"),
    ],
)
def test_a_condition_that_is_none_is_refused_before_anything_is_written(
    spark: SparkSession, where: str, said: str
) -> None:
    with pytest.raises(RouteError, match=rf"route 'hot': where = .*{said}") as error:
        check_routes(spark, {"hot": where})
    assert "\n" not in str(error.value)

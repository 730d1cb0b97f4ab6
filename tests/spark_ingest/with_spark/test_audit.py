"""What is missing is found, and nothing else."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_ingest.spark.audit import SilenceOptions, arrived, completeness, gaps, silences
from tests.spark_ingest.with_spark.frames import at, naive, readings, rows_of

GAP = ("gw", "epoch", "first_seq", "last_seq", "missing", "after_ts", "before_ts")


def numbered(spark: SparkSession, *sequences: int, gw: str = "gh", epoch: int = 1) -> DataFrame:
    return readings(
        spark,
        *({"seq": n, "gw": gw, "epoch": epoch, "gw_ts": at(n), "ts": at(n)} for n in sequences),
    )


def spoken(spark: SparkSession, *seconds: float, device: str = "n1") -> DataFrame:
    return readings(spark, *({"ts": at(each), "device": device} for each in seconds))


def test_without_holes_there_are_no_gaps(spark: SparkSession) -> None:
    rows = numbered(spark, 0, 1, 2).unionByName(numbered(spark, 0, 1, epoch=2))
    assert rows_of(gaps(rows), *GAP) == []


def test_a_hole_is_found_with_what_stands_around_it(spark: SparkSession) -> None:
    assert rows_of(gaps(numbered(spark, 0, 1, 5, 6)), *GAP) == [
        ("gh", 1, 2, 4, 3, naive(1), naive(5))
    ]


def test_a_life_whose_beginning_is_missing_has_a_gap(spark: SparkSession) -> None:
    assert rows_of(gaps(numbered(spark, 2, 3)), *GAP) == [("gh", 1, 0, 1, 2, None, naive(2))]


def test_lives_and_gateways_have_their_own_gaps(spark: SparkSession) -> None:
    rows = numbered(spark, 0, 2).unionByName(numbered(spark, 1, gw="ox", epoch=7))
    assert rows_of(gaps(rows), "gw", "epoch", "first_seq") == [("gh", 1, 1), ("ox", 7, 0)]


def test_a_reading_in_quarantine_is_not_missing(spark: SparkSession) -> None:
    rows = arrived(numbered(spark, 0, 2), numbered(spark, 1))
    assert rows_of(gaps(rows), *GAP) == []


def test_messages_of_others_have_no_numbers_and_no_gaps(spark: SparkSession) -> None:
    assert rows_of(gaps(readings(spark, {"seq": None, "gw": None, "epoch": None})), *GAP) == []


def test_who_says_nothing_for_five_of_its_periods_is_silent(spark: SparkSession) -> None:
    rows = spoken(spark, 0, 60, 120, 180, 480, 540).unionByName(
        spoken(spark, 0, 200, 400, 600, device="n2")
    )
    found = rows_of(silences(rows, SilenceOptions(4.9)), "device", "since", "until", "silent_s")
    assert found == [("n1", naive(180), naive(480), 300.0)]


def test_who_fell_silent_is_silent_up_to_the_newest_reading_of_all(spark: SparkSession) -> None:
    rows = spoken(spark, 0, 60, 120, 180).unionByName(
        spoken(spark, 0, 300, 600, 900, 1200, device="n2")
    )
    found = rows_of(silences(rows, SilenceOptions()), "device", "since", "until", "silent_s")
    assert found == [("n1", naive(180), None, 1020.0)]


def test_a_period_that_is_given_counts_instead_of_the_device_s_own(spark: SparkSession) -> None:
    rows = spoken(spark, 0, 60, 120, 180)
    assert rows_of(silences(rows, SilenceOptions(5, 10.0)), "since") == [
        (naive(0),), (naive(60),), (naive(120),),
    ]  # fmt: skip


def test_of_a_device_that_spoke_twice_nobody_knows_how_often_it_speaks(
    spark: SparkSession,
) -> None:
    rows = spoken(spark, 0, 1).unionByName(spoken(spark, 0, 500, 1000, 1500, device="n2"))
    assert rows_of(silences(rows, SilenceOptions()), "device") == []


def test_an_hour_is_as_complete_as_its_share_of_readings(spark: SparkSession) -> None:
    minutes = [60 * n for n in range(181) if not 60 <= n < 90 and not 120 <= n < 180]
    found = rows_of(
        completeness(spoken(spark, *minutes), SilenceOptions()),
        "device",
        "hour",
        "readings",
        "expected",
        "percent",
    )
    assert found == [
        ("n1", naive(0), 60, 60, 100.0),
        ("n1", naive(3600), 30, 60, 50.0),
        ("n1", naive(7200), 0, 60, 0.0),
        ("n1", naive(10_800), 1, 1, 100.0),
    ]

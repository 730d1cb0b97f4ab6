"""`gwdelta`: a batch that Spark replays is in the table once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_ingest.spark.errors import first_line
from spark_ingest.spark.options import local_folder
from tests.spark_ingest.examples import delivery, tagged
from tests.support.lakes import write_segments


def rows(folder: Path) -> list[Any]:
    return sorted(DeltaTable(str(folder)).to_pyarrow_table()["id"].to_pylist())


def save(frame: DataFrame, folder: Path, mode: str = "append", **options: str) -> None:
    frame.write.format("gwdelta").mode(mode).options(**options).save(str(folder))


def stream(spark: SparkSession, folder: Path, options: Mapping[str, str]) -> None:
    """What the lake has, one segment at a time."""
    query = (
        spark.readStream.format("gwlog")
        .option("maxFilesPerTrigger", "1")
        .load(str(folder / "lake"))
        .selectExpr("value as id", "to_date(ts) as day")
        .writeStream.format("gwdelta")
        .options(path=str(folder / "t"), checkpointLocation=str(folder / "c"), **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_batch_that_spark_repeats_is_not_written_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As after a crash between our commit and Spark's."""
    write_segments(tmp_path / "lake", "c1", *([delivery(float(n), tagged(n))] for n in range(3)))
    stream(spark, tmp_path, {"appId": "q"})
    for name in ("2", ".2.crc"):
        (tmp_path / "c" / "commits" / name).unlink()
    stream(spark, tmp_path, {"appId": "q"})
    assert rows(tmp_path / "t") == [0.0, 1.0, 2.0]
    assert len(list((tmp_path / "t").glob("day=*/*.parquet"))) == 3


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("/c/q", "/c/q"), ("c/q", "c/q"), ("file:/c/q", "/c/q"), ("file:///c/q", "/c/q"),
        ("c/a:b", "c/a:b"), ("hdfs://name/c/q", None), ("s3a://bucket/c", None),
    ],
)  # fmt: skip
def test_a_checkpoint_is_made_durable_where_it_is_a_folder(
    location: str, folder: str | None
) -> None:
    assert local_folder(location) == (None if folder is None else Path(folder))


def test_a_stream_must_say_who_writes(spark: SparkSession, tmp_path: Path) -> None:
    write_segments(tmp_path / "lake", "c1", [delivery(1.0, tagged(0))])
    with pytest.raises(PySparkException) as error:
        stream(spark, tmp_path, {})
    assert "'appId' must be given: who writes" in first_line(error.value)


def test_batches_append_overwrite_and_may_be_repeated(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    save(spark.range(3), table)
    save(spark.range(1), table, txnAppId="nightly", txnVersion="7")
    save(spark.range(1), table, txnAppId="nightly", txnVersion="7")
    assert rows(table) == [0, 0, 1, 2]
    save(spark.range(5, 6), table, "overwrite")
    assert rows(table) == [5]


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        ("select 1 as id, 'x' as day", {}, "'day' partitions the table and must be a date"),
        ("select 1 as id", {"txnAppId": "a"}, "together only"),
        ("select 1 as id", {"txnAppId": "a", "txnVersion": "x"}, "the number of a batch, not 'x'"),
        ("select interval 1 day as id", {}, "which gwdelta does not write; cast it"),
    ],
)
def test_what_cannot_be_written_is_an_error_in_one_line(
    spark: SparkSession, tmp_path: Path, sql: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as error:
        save(spark.sql(sql), tmp_path / "t", **options)
    assert said in first_line(error.value)


def test_rows_that_do_not_fit_the_table_are_refused_and_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    save(spark.range(1), tmp_path / "t")
    with pytest.raises(PySparkException) as error:
        save(spark.sql("select 'one' as id"), tmp_path / "t")
    assert "its column 'id' is" in first_line(error.value)
    assert rows(tmp_path / "t") == [0]

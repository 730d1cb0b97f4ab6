"""`gwlog`: each reading once, in batches as large as asked for, and a clear word otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_ingest.planning.plan import Planned
from spark_ingest.segments.consumers import Consumers
from spark_ingest.segments.footer import Footer
from spark_ingest.segments.shelf import segment_path
from spark_ingest.spark.errors import first_line
from spark_ingest.spark.source import SourceOptions
from tests.spark_ingest.examples import delivery, tagged
from tests.spark_ingest.with_spark.frames import rows_of
from tests.support.lakes import write_segments

FOOTER = Footer(
    collector="c1", number=0, rows=0, messages=0, repeated=0, quarantined={}, first_us=0,
    last_us=0, ids={}, schemas={},
)  # fmt: skip
READINGS = [delivery(float(n), tagged(n)) for n in range(500)]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """500 readings and 200 repeats, in five segments of two collectors."""
    write_segments(tmp_path, "c1", READINGS[:200], READINGS[100:300], READINGS[300:350])
    write_segments(tmp_path, "c2", READINGS[250:400], READINGS[400:])
    return tmp_path


def run(spark: SparkSession, lake: Path, name: str = "q", **options: str) -> list[dict[str, Any]]:
    """To the end of what is there; its progress reports. The table is in the lake's folder."""
    query = (
        spark.readStream.format("gwlog")
        .options(**options)
        .load(str(lake))
        .select("value")
        .writeStream.format("gwdelta")
        .option("appId", name)
        .option("path", str(lake / f"{name}-table"))
        .option("checkpointLocation", str(lake / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(each.json) for each in query.recentProgress]


def written(lake: Path, name: str = "q") -> Counter[float]:
    from deltalake import DeltaTable

    table = DeltaTable(str(lake / f"{name}-table")).to_pyarrow_table()
    return Counter(table["value"].to_pylist())


ALL = {float(n): 1 for n in range(500)}


def test_a_batch_query_has_each_reading_once_and_all_columns(
    spark: SparkSession, lake: Path
) -> None:
    frame = spark.read.format("gwlog").load(str(lake)).persist()
    assert rows_of(frame, "value") == [(float(n),) for n in range(500)]
    first = frame.where("seq = 0").first()
    assert first is not None
    assert (first.gw, first.client, first.topic, first.ts_src) == (
        "gh", "s1", "farm/1/climate", "gateway",
    )  # fmt: skip


def test_some_columns_may_be_asked_for_in_any_order(spark: SparkSession, lake: Path) -> None:
    frame = spark.read.format("gwlog").schema("seq bigint, gw string").load(str(lake))
    assert frame.columns == ["seq", "gw"]
    assert frame.count() == 500


@pytest.mark.parametrize(
    ("options", "segments", "tasks"),
    [
        ({"partitions": "2"}, [20_000] * 50, [500_000] * 2),
        ({"partitions": "3"}, [20_000] * 50, [340_000, 340_000, 320_000]),
        ({"partitions": "8"}, [20_000] * 6, [60_000] * 2),  # not worth a task each
        ({"partitions": "8"}, [5], [5]),
        # Too many for two, so two rounds of two.
        ({"partitions": "2"}, [250_000] * 5, [500_000, 250_000, 250_000, 250_000]),
        ({"partitions": "2"}, [20_200] * 50, [505_000] * 2),
        ({"rowsPerPartition": "300"}, [100, 200, 300, 900, 100], [300, 300, 900, 100]),
        ({}, [], []),
    ],
)
def test_tasks_of_a_batch_are_alike_and_as_many_as_are_of_use(
    lake: Path, options: dict[str, str], segments: list[int], tasks: list[int]
) -> None:
    plan = [
        Planned("c1", number, replace(FOOTER, number=number, rows=rows), {})
        for number, rows in enumerate(segments)
    ]
    parts = SourceOptions({"path": str(lake), **options}).parts(plan, ["seq"])
    paths = [path for part in parts for path, _ in part.segments]
    assert paths == [str(segment_path(lake, "c1", each.number)) for each in plan], "all, in order"
    rows = dict(zip(paths, segments, strict=True))
    assert [sum(rows[path] for path, _ in part.segments) for part in parts] == tasks


def test_a_stream_has_each_reading_once_in_batches_of_the_size_asked_for(
    spark: SparkSession, lake: Path
) -> None:
    reports = run(spark, lake, maxRowsPerTrigger="200")
    assert [report["numInputRows"] for report in reports if report["numInputRows"]] == [
        200, 100, 100, 100,
    ]  # fmt: skip
    assert written(lake) == ALL


def test_a_stream_that_goes_on_has_only_what_is_new(spark: SparkSession, lake: Path) -> None:
    run(spark, lake, maxFilesPerTrigger="2")
    write_segments(lake, "c2", [READINGS[7], delivery(1000.0, tagged(500))])
    run(spark, lake, maxFilesPerTrigger="2", consumer="night")
    assert written(lake) == ALL | {1000.0: 1}
    assert Consumers(lake).names() in ([], ["night"])  # Spark may leave the last commit out


def test_a_lost_segment_ends_the_query_with_what_to_do_and_may_be_done_without(
    spark: SparkSession, lake: Path
) -> None:
    run(spark, lake)
    write_segments(lake, "c1", [delivery(1000.0, tagged(500))], [delivery(1001.0, tagged(501))])
    segment_path(lake, "c1", 3).unlink()
    with pytest.raises(PySparkException) as error:
        run(spark, lake)
    said = first_line(error.value)
    assert "segments 3 to 3 are gone, and this query has not read them" in said
    run(spark, lake, failOnDataLoss="false")
    assert written(lake) == ALL | {1001.0: 1}


@pytest.mark.parametrize(
    ("schema", "options", "said"),
    [
        (None, {"maxRowsPerTrigger": "many"}, "'maxRowsPerTrigger' must be a whole number"),
        (None, {"failOnDataLoss": "perhaps"}, "'failOnDataLoss' must be true or false"),
        ("value int", {}, "'value' is double, not int; read it as it is and cast it"),
        ("temperature double", {}, "no column 'temperature'; they have gw, client"),
    ],
)
def test_a_wrong_schema_or_option_is_an_error_in_one_line(
    spark: SparkSession, lake: Path, schema: str | None, options: dict[str, str], said: str
) -> None:
    reader = spark.read.format("gwlog").options(**options)
    with pytest.raises(PySparkException) as error:
        (reader if schema is None else reader.schema(schema)).load(str(lake)).count()
    assert said in first_line(error.value)


def test_a_wrong_option_of_a_stream_is_an_error_in_one_line(
    spark: SparkSession, lake: Path
) -> None:
    with pytest.raises(PySparkException) as error:
        run(spark, lake, maxBytesPerTrigger="0")
    assert "'maxBytesPerTrigger' must be a whole number above 0" in first_line(error.value)


def test_a_folder_that_is_no_lake_is_an_error_that_says_how_it_becomes_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException) as error:
        spark.read.format("gwlog").load(str(tmp_path)).count()
    assert "has no folder 'segments'" in first_line(error.value)


READ_WITHOUT_PANDAS = """
import sys
from pathlib import Path
from spark_ingest.segments.lake import LakeSegments
from spark_ingest.planning.offset import Offset
from spark_ingest.planning.plan import planned
from spark_ingest.planning.reading import batches_of
from spark_ingest.segments.shelf import segment_path

segments = LakeSegments(Path(sys.argv[1]))
rows = 0
for each in planned(Offset(), Offset(segments.heads()), segments):
    path = segment_path(Path(sys.argv[1]), each.collector, each.number)
    rows += sum(batch.num_rows for batch in batches_of(path, ["gw", "value"], each.left_out))
print(rows, "pandas" in sys.modules)
"""


def test_what_reads_a_lake_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes each worker as long as half a million rows do."""
    readings = [delivery(float(n), tagged(n)) for n in range(3)]
    write_segments(tmp_path, "c1", readings[:2])
    write_segments(tmp_path, "c2", [readings[1], delivery(9.0, []), readings[2]])
    command = [sys.executable, "-c", READ_WITHOUT_PANDAS, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["4", "False"]

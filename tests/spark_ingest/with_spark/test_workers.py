"""Spark's workers: whose Python they are, what they import, what is said of those that cannot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from spark_ingest.spark.place import has_workers_elsewhere
from spark_ingest.spark.session import WORKER_PYTHON
from spark_ingest.spark.workers import (
    Question,
    WorkersError,
    lacking,
    must_do_our_work,
)


def where_pyspark_is(batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"path": [pyspark.__file__], "by": [sys.executable]})


def test_workers_have_the_driver_s_python_and_pyspark_and_no_zip_of_it(spark: SparkSession) -> None:
    frame = spark.range(1, numPartitions=1).mapInArrow(where_pyspark_is, "path string, by string")
    assert [tuple(row) for row in frame.collect()] == [(pyspark.__file__, sys.executable)]


def test_only_what_spark_put_before_the_path_of_a_worker_is_left_out() -> None:
    of_spark = "/s/python/lib/pyspark.zip:/s/lib/py4j-0.10-src.zip:/s/jars/spark-core_2.13.jar"
    of_others = "/with space/lib::/others.zip:/py4j"
    answer = subprocess.run(
        [WORKER_PYTHON, "-c", "import os; print(os.environ['PYTHONPATH'])", "a b"],
        env={"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{of_spark}:{of_others}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout == f"{of_others}\n"


def test_workers_that_can_do_our_work_are_left_in_peace(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert not has_workers_elsewhere(spark)
    must_do_our_work(spark, tmp_path)
    must_do_our_work(spark, tmp_path / "made with the first batch")


def test_what_workers_lack_is_said_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    lack = r"No module named 'gone': install the same packages in the Python that they start"
    with pytest.raises(WorkersError, match=lack):
        must_do_our_work(spark, tmp_path, modules=("gone",))
    assert "they do not see /no/lake" in Question((), "/no/lake").lack()


def test_that_no_worker_is_there_is_said_while_it_is_waited_for(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    must_do_our_work(spark, tmp_path, time_limit_s=0.01)
    assert "no worker of local[2,4] has taken a task for 0 s" in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  ModuleNotFoundError: No module named 'spark_ingest'\n", "No module named 'spark_ing"),
        ('java.io.IOException: Cannot run program "python9": error=2', "python9 does not start"),
        ("Job aborted\n\tat org", "Job aborted"),
    ],
)
def test_of_a_task_that_failed_what_can_be_mended_is_said(text: str, said: str) -> None:
    assert lacking(Exception(text)).startswith(said)

"""Spark's workers: whose Python they are, and what they import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from spark_ingest.spark.session import WORKER_PYTHON


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

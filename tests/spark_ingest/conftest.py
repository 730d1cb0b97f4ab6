"""Segments are Parquet, and PyArrow has no wheel for 32-bit ARM: there their tests cannot be. Those
of tables need what `make spark-setup` installs, those with Kafka what `make kafka-test` fetches.
"""

from __future__ import annotations

from importlib.util import find_spec

from tests.support.kafka import why_not_here

WITHOUT_KAFKA = why_not_here()
NEED_PYARROW = (
    "test_segment.py",
    "test_collector.py",
    "test_crash_points.py",
    "test_full_disk.py",
    "test_with_gateway.py",
    "test_command_line.py",
    "test_lake.py",
    "test_retention.py",
    "test_partials.py",
    "test_kept_until_ingested.py",
    "test_too_large.py",
)
collect_ignore = [
    *([] if find_spec("pyarrow") else NEED_PYARROW),
    *([] if find_spec("pyspark") and find_spec("deltalake") else ["with_spark"]),
    *(["with_kafka"] if WITHOUT_KAFKA else []),
]


def pytest_report_header() -> str | None:
    """Where this folder is named on the command line; `make test` says it itself."""
    if WITHOUT_KAFKA is None:
        return None
    return f"not run: tests/spark_ingest/with_kafka, as {WITHOUT_KAFKA}: make kafka-test"

"""Segments are Parquet, and PyArrow has no wheel for 32-bit ARM: there their tests cannot be. Those
of tables need what `make spark-setup` installs.
"""

from __future__ import annotations

from importlib.util import find_spec

NEED_PYARROW = (
    *("test_segment.py", "test_collector.py", "test_crash_points.py", "test_full_disk.py"),
    *("test_with_gateway.py", "test_command_line.py", "test_lake.py", "test_retention.py"),
    *("test_partials.py", "test_kept_until_ingested.py"),
)
collect_ignore = [
    *([] if find_spec("pyarrow") else NEED_PYARROW),
    *([] if find_spec("pyspark") and find_spec("deltalake") else ["with_spark"]),
]

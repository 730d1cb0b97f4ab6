"""Segments are Parquet, and PyArrow has no wheel for 32-bit ARM: there their tests cannot be."""

from __future__ import annotations

from importlib.util import find_spec

NEED_PYARROW = (
    *("test_segment.py", "test_collector.py", "test_crash_points.py", "test_full_disk.py"),
    *("test_with_gateway.py", "test_command_line.py", "test_mistakes_at_start.py"),
)
collect_ignore = [] if find_spec("pyarrow") else list(NEED_PYARROW)

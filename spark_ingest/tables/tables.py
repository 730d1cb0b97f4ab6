"""The tables of a lake: which there are, what their columns mean, and where they are.

    <lake>/tables/<name>/           Delta, each of them readable without Spark
    <lake>/checkpoints/<query>/     how far the query is that fills them

`bronze` has every good value once, `quarantine` what cannot be trusted, with its bytes. Rollups
hold *partial* rows: each batch adds some, and those of one key are merged by the reader, or for
good by `compact`. That is why nothing is ever too late for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_ingest.payload.record import COLUMNS, Column

DAY = "day"  # the partition column of every table that has one
TABLES = "tables"
CHECKPOINTS = "checkpoints"
BRONZE = "bronze"
QUARANTINE = "quarantine"
GAPS = "gaps"
SILENCES = "silences"
COMPLETENESS = "completeness"
# What Spark's `date_trunc` calls the period.
ROLLUPS: Mapping[str, str] = {
    "rollup_1m": "minute",
    "rollup_1h": "hour",
    "rollup_1d": "day",
}
OF_FAULTS = ("error", "error_detail")
# What makes one row of a rollup.
SERIES = ("gw", "device", "topic", "metric", "unit")
_TIME = "timestamp[us, tz=UTC]"
_DAY_RECEIVED = Column(DAY, "date32", "the day on which the collector got it, UTC")

ROLLUP_COLUMNS = (
    Column("start", _TIME, "the beginning of the minute, hour or day, UTC, by `ts`"),
    Column("gw", "string", "as in bronze"),
    Column("device", "string", "as in bronze"),
    Column("topic", "string", "as in bronze"),
    Column("metric", "string", "as in bronze"),
    Column("unit", "string", "as in bronze"),
    Column("n", "int64", "how many values"),
    Column("sum", "double", "their sum; the mean is sum / n"),
    Column("min", "double", "the least"),
    Column("max", "double", "the most"),
    Column("first", "double", "the one measured first; of several at that time the least"),
    Column("first_ts", _TIME, "when that was"),
    Column("last", "double", "the one measured last; of several at that time the most"),
    Column("last_ts", _TIME, "when that was"),
    Column("sketch", "map<int32, int64>", "how many values in which bucket, for quantiles"),
    Column(DAY, "date32", "the day of `start`"),
)
GAP_COLUMNS = (
    Column("gw", "string", "the gateway"),
    Column("epoch", "int64", "which life of it"),
    Column("first_seq", "int64", "the first reading that is missing"),
    Column("last_seq", "int64", "the last one"),
    Column("missing", "int64", "how many"),
    Column("after_ts", _TIME, "when the gateway took on the reading before; null if there is none"),
    Column("before_ts", _TIME, "when it took on the reading behind"),
)
SILENCE_COLUMNS = (
    Column("gw", "string", "the gateway of the last reading before"),
    Column("device", "string", "the device"),
    Column("since", _TIME, "its last reading before"),
    Column("until", _TIME, "its first one behind; null if it is silent still"),
    Column("silent_s", "double", "how long that was, or is"),
    Column("period_s", "double", "how often it usually speaks: the median of its intervals"),
)
COMPLETENESS_COLUMNS = (
    Column("device", "string", "the device"),
    Column("hour", _TIME, "the beginning of the hour, UTC"),
    Column("readings", "int64", "how many there are"),
    Column("expected", "int64", "how many there would be at its usual period"),
    Column("percent", "double", "of what is expected, at most 100"),
)


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    columns: tuple[Column, ...]

    def schema(self) -> Any:
        import pyarrow as pa

        return pa.schema([(each.name, _type(each.type)) for each in self.columns])


def readings(name: str) -> Definition:
    """Bronze, and each table that a route fills with rows of it."""
    good = tuple(each for each in COLUMNS if each.name not in OF_FAULTS)
    return Definition(name, (*good, _DAY_RECEIVED))


def quarantine() -> Definition:
    return Definition(QUARANTINE, (*COLUMNS, _DAY_RECEIVED))


def rollup(name: str) -> Definition:
    return Definition(name, ROLLUP_COLUMNS)


def core() -> list[Definition]:
    """What every batch is written to."""
    return [readings(BRONZE), quarantine(), *map(rollup, ROLLUPS)]


def audits() -> list[Definition]:
    """What `gaps` makes again each time."""
    return [
        Definition(GAPS, GAP_COLUMNS),
        Definition(SILENCES, SILENCE_COLUMNS),
        Definition(COMPLETENESS, COMPLETENESS_COLUMNS),
    ]


def table_folder(lake: Path, name: str) -> Path:
    return lake / TABLES / name


def checkpoint_folder(lake: Path, query: str) -> Path:
    return lake / CHECKPOINTS / query


def reserved_names() -> set[str]:
    """What no route may be called."""
    return {each.name for each in (*core(), *audits())}


def _type(name: str) -> Any:
    import pyarrow as pa

    if name == _TIME:
        return pa.timestamp("us", tz="UTC")
    if name.startswith("map"):
        return pa.map_(pa.int32(), pa.int64())
    return {"double": pa.float64(), "bool": pa.bool_()}.get(name) or getattr(pa, name)()

"""What the tables say of one day, as plain values. Reads Delta; no Spark.

Rollups are partial, so they are merged here: sums are added, extremes compared.

Limits: METRICS_MAX metrics and DEVICES_MAX devices are shown, those with the most readings; what is
left out is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from spark_ingest.tables.tables import (
    BRONZE,
    COMPLETENESS,
    DAY,
    GAPS,
    QUARANTINE,
    SILENCES,
    table_folder,
)

STEP_S = 600  # of a line
STEPS = 86_400 // STEP_S
METRICS_MAX = 6
DEVICES_MAX = 40
PERIODS_MIN = 5  # a silence that began before midnight is another day's


class NoDayError(Exception):
    """There is nothing to show, with what to do about it."""


@dataclass(slots=True)
class Line:
    """A device's values of a metric: mean, least and most of each step, or None."""

    device: str
    mean: list[float | None] = field(default_factory=lambda: [None] * STEPS)
    least: list[float | None] = field(default_factory=lambda: [None] * STEPS)
    most: list[float | None] = field(default_factory=lambda: [None] * STEPS)


@dataclass(slots=True)
class Metric:
    name: str
    unit: str
    values: int = 0
    lines: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Gap:
    gateway: str
    epoch: int
    first: int
    last: int
    missing: int
    after: datetime | None
    before: datetime


@dataclass(frozen=True, slots=True)
class Silence:
    device: str
    since: datetime
    until: datetime | None  # None: beyond the end of the day
    seconds: float
    period_s: float


@dataclass(slots=True)
class Day:
    day: date
    values: int
    metrics: list[Metric]
    devices: list[str]
    percent: dict[str, list[float | None]]  # by device, of each hour
    gateways: list[str]
    gaps: list[Gap]
    silences: list[Silence]
    quarantined: dict[str, int]  # by fault
    left_out: list[str]  # what there was no room for, in words

    @property
    def begins(self) -> datetime:
        return datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC)

    @property
    def missing(self) -> int:
        return sum(gap.missing for gap in self.gaps)

    @property
    def complete(self) -> float | None:
        hours = [each for row in self.percent.values() for each in row if each is not None]
        return sum(hours) / len(hours) if hours else None


def newest_day(lake: Path) -> date:
    """The one with the most values, of those there are; the newer of two."""
    rows = _rows(lake, "rollup_1d", [DAY, "n"])
    counts: Counter[date] = Counter()
    for row in rows:
        counts[row[DAY]] += row["n"]
    if not counts:
        raise NoDayError(f"no rollups in {lake}: python -m spark_ingest run fills them")
    return max(counts, key=lambda each: (counts[each], each))


def read_day(lake: Path, day: date) -> Day:
    """Raises NoDayError, and what deltalake raises."""
    rows = _rows(lake, "rollup_1m", None, day)
    if not rows:
        raise NoDayError(f"no values of {day} in {lake}; its fullest day is {newest_day(lake)}")
    for row in rows:  # other publishers may name no device
        row["device"] = row["device"] or row["topic"]
    begins = datetime(day.year, day.month, day.day, tzinfo=UTC)
    ends = begins + timedelta(days=1)
    devices = _largest(rows, "device")
    metrics, kinds = _metrics(rows, begins, devices[:DEVICES_MAX])
    found = Day(
        day=day,
        values=sum(row["n"] for row in rows),
        metrics=metrics,
        devices=sorted(devices[:DEVICES_MAX], key=_natural),
        percent=_percent(lake, begins, ends),
        gateways=sorted({row["gw"] for row in rows if row["gw"]}),
        gaps=_gaps(lake, begins, ends),
        silences=_silences(lake, begins, ends),
        quarantined=dict(_faults(lake, day)),
        left_out=[],
    )
    for what, count, most in (
        ("devices", len(devices), DEVICES_MAX),
        ("metrics", kinds, METRICS_MAX),
    ):
        if count > most:
            found.left_out.append(f"{count - most} more {what}")
    return found


def _metrics(
    rows: Sequence[dict[str, Any]], begins: datetime, devices: Sequence[str]
) -> tuple[list[Metric], int]:
    """Those that are shown, and how many there are."""
    merged: dict[tuple[str, str, str, int], list[float]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    shown = set(devices)
    for row in rows:
        key = row["metric"], row["unit"] or ""
        counts[key] += row["n"]
        if row["device"] not in shown:
            continue
        step = int((row["start"] - begins).total_seconds()) // STEP_S
        now = merged.setdefault((*key, row["device"], step), [0, 0.0, row["min"], row["max"]])
        now[0] += row["n"]
        now[1] += row["sum"]
        now[2], now[3] = min(now[2], row["min"]), max(now[3], row["max"])
    metrics = {key: Metric(*key, values=count) for key, count in counts.most_common(METRICS_MAX)}
    lines: dict[tuple[str, str, str], Line] = {}
    for (name, unit, device, step), (n, total, least, most) in merged.items():
        if (name, unit) in metrics:
            line = lines.setdefault((name, unit, device), Line(device))
            line.mean[step], line.least[step], line.most[step] = total / n, least, most
    for (name, unit, _), line in sorted(lines.items(), key=lambda item: _natural(item[0][2])):
        metrics[name, unit].lines.append(line)
    return sorted(metrics.values(), key=lambda each: each.name), len(counts)


def _percent(lake: Path, begins: datetime, ends: datetime) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for row in _rows(lake, COMPLETENESS):
        if begins <= row["hour"] < ends:
            hours = found.setdefault(row["device"], [None] * 24)
            hours[row["hour"].hour] = row["percent"]
    return found


def _gaps(lake: Path, begins: datetime, ends: datetime) -> list[Gap]:
    """By when the readings around were measured: a gateway may have got them days later."""
    rows = sorted(_rows(lake, GAPS), key=lambda row: (row["gw"], row["epoch"], row["first_seq"]))
    measured = _measured(lake, rows)
    found = []
    for row in rows:
        gateway_epoch, first, last = (row["gw"], row["epoch"]), row["first_seq"], row["last_seq"]
        after = measured.get((*gateway_epoch, first - 1), row["after_ts"])
        before = measured.get((*gateway_epoch, last + 1), row["before_ts"])
        if before >= begins and (after or before) < ends:
            found.append(Gap(*gateway_epoch, first, last, row["missing"], after, before))
    return found


def _measured(lake: Path, gaps: Sequence[dict[str, Any]]) -> dict[tuple[str, int, int], datetime]:
    """When the readings around these were."""
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    around = {each for row in gaps for each in (row["first_seq"] - 1, row["last_seq"] + 1)}
    if not around:
        return {}
    dataset = DeltaTable(str(table_folder(lake, BRONZE))).to_pyarrow_dataset()
    wanted = pc.field("seq").isin(sorted(around))
    rows = dataset.to_table(columns=["gw", "epoch", "seq", "ts"], filter=wanted).to_pylist()
    return {(row["gw"], row["epoch"], row["seq"]): row["ts"] for row in rows}


def _silences(lake: Path, begins: datetime, ends: datetime) -> list[Silence]:
    """As far as they are on that day; the longest first."""
    found = []
    for row in _rows(lake, SILENCES):
        until = row["until"] if row["until"] is not None and row["until"] < ends else None
        seconds = ((until or ends) - max(row["since"], begins)).total_seconds()
        if seconds > row["period_s"] * PERIODS_MIN:
            found.append(
                Silence(
                    device=row["device"],
                    since=row["since"],
                    until=until,
                    seconds=seconds,
                    period_s=row["period_s"],
                )
            )
    return sorted(found, key=lambda each: (-each.seconds, _natural(each.device)))


def _faults(lake: Path, day: date) -> Counter[str]:
    """Of what came on that day, or was measured on it."""
    rows = _rows(lake, QUARANTINE, ["error", "ts", DAY])
    return Counter(row["error"] for row in rows if day in (row[DAY], row["ts"].date()))


def _largest(rows: Sequence[dict[str, Any]], column: str) -> list[str]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row[column]] += row["n"]
    return [name for name, _ in counts.most_common()]


def _rows(
    lake: Path, name: str, columns: list[str] | None = None, day: date | None = None
) -> list[dict[str, Any]]:
    """None of a table that is not there."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        table = DeltaTable(str(table_folder(lake, name)))
    except TableNotFoundError:
        return []
    if columns is None:
        columns = [each.name for each in table.schema().fields if each.name != "sketch"]
    filters = None if day is None else [(DAY, "=", day)]
    rows: list[dict[str, Any]] = table.to_pyarrow_table(
        columns=columns, filters=filters
    ).to_pylist()
    return rows


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """So that node-10 comes behind node-9."""
    parts, digits = [], ""
    for letter in name + " ":
        if letter.isdecimal():
            digits += letter
            continue
        if digits:
            parts.append((False, int(digits), ""))
            digits = ""
        parts.append((True, 0, letter))
    return parts

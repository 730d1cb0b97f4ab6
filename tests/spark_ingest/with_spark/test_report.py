"""A day on a page: what it shows is in the tables, and what comes from messages is only text there.
No Spark: the page is made without it.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_ingest.__main__ import main
from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.report.day import NoDayError, newest_day, read_day
from spark_ingest.report.page import page_of, query_of
from spark_ingest.tables.delta.files import write_files
from spark_ingest.tables.delta.table import Table
from spark_ingest.tables.partials import partials_of
from spark_ingest.tables.tables import ROLLUPS, audits, core, readings, table_folder

DAY = date(2026, 11, 20)
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
EVIL = "<script>alert('x')</script>&\"1"
EMPTY = {"qos": 1, "retain": False, "part": 0, "text": None, "schema": None, "payload": None}


def reading(
    device: str, minute: int, value: float, seq: int, gateway: str = "gh"
) -> dict[str, Any]:
    at = MIDNIGHT + timedelta(minutes=minute)
    return {
        **EMPTY, "gw": gateway, "client": device, "epoch": 1, "seq": seq, "topic": f"t/{device}",
        "ts": at, "ts_src": "device", "gw_ts": at + timedelta(days=3), "rx_ts": at, "day": DAY,
        "device": device, "metric": "t", "unit": "Cel", "value": value,
    }  # fmt: skip


# Two values in each minute of two hours; the batches overlap, so that partials must be merged.
ROWS = [
    *(reading("node-2", minute, float(minute), minute) for minute in range(120)),
    *(reading("node-10", minute, 2.0, 200 + minute) for minute in range(0, 120, 10)),
    reading(EVIL, 5, 7.0, 300),
]


def write(lake: Path, name: str, *batches: list[dict[str, Any]]) -> None:
    schemas = {each.name: each.schema() for each in (*core(), *audits())}
    table = Table(table_folder(lake, name), schemas[name])
    for number, rows in enumerate(batches):
        full = [{field: row.get(field) for field in schemas[name].names} for row in rows]
        batch = pa.Table.from_pylist(full, schema=schemas[name])
        table.append(write_files([batch], table.folder, schemas[name]), "app", number)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    write(tmp_path, "bronze", ROWS)
    rows = pa.Table.from_pylist(ROWS, schema=readings("bronze").schema())
    for name, period in ROLLUPS.items():
        parts = [partials_of(part, period) for part in (rows[:65], rows[65:])]
        write(tmp_path, name, *(part.to_pylist() for part in parts))
    hour = {"device": "node-2", "hour": MIDNIGHT, "readings": 60, "expected": 60, "percent": 100.0}
    half = {**hour, "hour": MIDNIGHT + timedelta(hours=1), "readings": 30, "percent": 50.0}
    write(tmp_path, "completeness", [hour, half, {**hour, "hour": MIDNIGHT - timedelta(hours=1)}])
    later = MIDNIGHT + timedelta(days=3)
    gap = {"gw": "gh", "epoch": 1, "first_seq": 120, "last_seq": 199, "missing": 80,
           "after_ts": later, "before_ts": later}  # fmt: skip
    other = {**gap, "first_seq": 900, "last_seq": 901, "missing": 2}
    write(tmp_path, "gaps", [gap, other])
    silence = {"gw": "gh", "device": "node-2", "since": MIDNIGHT + timedelta(hours=2),
               "until": None, "silent_s": 1e6, "period_s": 60.0}  # fmt: skip
    before = {**silence, "since": MIDNIGHT - timedelta(hours=3), "until": MIDNIGHT}
    write(tmp_path, "silences", [silence, before])
    bad = {**reading("node-2", 7, 400.0, 400), "error": "range", "error_detail": "t is 400"}
    write(tmp_path, "quarantine", [bad])
    return tmp_path


def test_a_day_is_what_the_tables_say_of_it(lake: Path) -> None:
    day = read_day(lake, DAY)
    assert (day.values, day.gateways, day.quarantined) == (133, ["gh"], {"range": 1})
    assert day.devices == sorted(day.devices, key=lambda name: name != EVIL)
    (metric,) = day.metrics
    assert (metric.name, metric.unit, metric.values) == ("t", "Cel", 133)
    two = next(line for line in metric.lines if line.device == "node-2")
    # Ten minutes are a step: 60 to 69 came in two batches.
    assert (two.mean[6], two.least[6], two.most[6]) == (64.5, 60.0, 69.0)
    assert two.mean[12] is None
    assert day.percent == {"node-2": [100.0, 50.0, *[None] * 22]}
    assert day.complete == 75.0


def test_a_gap_is_where_the_readings_around_it_were_measured(lake: Path) -> None:
    """The gateway got them three days later; the other gap is of a day unknown."""
    (gap,) = read_day(lake, DAY).gaps
    assert (gap.missing, gap.after, gap.before) == (80, MIDNIGHT + timedelta(minutes=119), MIDNIGHT)


def test_of_a_silence_only_what_is_on_that_day_counts(lake: Path) -> None:
    (silence,) = read_day(lake, DAY).silences
    assert (silence.since.hour, silence.until, silence.seconds) == (2, None, 22 * 3600)


def test_days_without_values_are_told_with_one_that_has_some(lake: Path, tmp_path: Path) -> None:
    assert newest_day(lake) == DAY
    with pytest.raises(NoDayError, match=r"no values of 2026-11-19 .*fullest day is 2026-11-20"):
        read_day(lake, date(2026, 11, 19))
    with pytest.raises(NoDayError, match="spark_ingest run fills them"):
        newest_day(tmp_path / "nowhere")


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_runs_nothing(lake: Path) -> None:
    page = page_of(read_day(lake, DAY), lake)
    tags = Tags(page)
    assert "script" not in tags.seen
    assert tags.links == []
    assert "&lt;script&gt;alert" in page
    assert tags.seen.count("svg") == 3
    assert tags.seen.count("polyline") == 3, "a line for each stretch without a hole"


def test_what_the_page_says_about_pandas_runs_as_it_is(lake: Path) -> None:
    program = query_of(read_day(lake, DAY), lake)
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=200
    )
    assert "node-2" in answer.stdout
    assert "29.5" in answer.stdout, "the mean of 0 to 59"


def test_the_verb_draws_a_day_of_a_lake(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "page.html"
    assert main(["report", "--lake", str(lake), "--output", str(output)]) == ExitCode.OK
    assert "2026-11-20 is in" in capsys.readouterr().out
    assert output.read_text().startswith("<!doctype html>")
    asked = ["report", "--lake", str(lake), "--day", "2026-11-19", "--output", str(output)]
    assert main(asked) == ExitCode.FAILURE
    assert "fullest day" in capsys.readouterr().err
    asked = ["report", "--lake", str(lake), "--output", str(tmp_path / "no" / "page.html")]
    assert main(asked) != ExitCode.OK
    assert "page.html" in capsys.readouterr().err


def test_messages_of_other_publishers_are_shown_by_their_topic(tmp_path: Path) -> None:
    """They have no gateway, number or device."""
    plain = {"gw": None, "client": None, "device": None, "epoch": None, "seq": None, "gw_ts": None}
    foreign = [{**reading("", 7, value, 0), **plain, "topic": "shed/power"} for value in (3.0, 4.0)]
    both = [*ROWS, *foreign]
    write(tmp_path, "bronze", both)
    rows = pa.Table.from_pylist(both, schema=readings("bronze").schema())
    for name, period in ROLLUPS.items():
        write(tmp_path, name, partials_of(rows, period).to_pylist())
    found = read_day(tmp_path, DAY)
    assert "shed/power" in found.devices
    assert found.gateways == ["gh"]
    (line,) = [each for each in found.metrics[0].lines if each.device == "shed/power"]
    assert line.mean[0] == 3.5
    output = tmp_path / "day.html"
    assert main(["report", "--lake", str(tmp_path), "--output", str(output)]) == ExitCode.OK
    assert "shed/power" in output.read_text()


def test_a_day_of_other_publishers_alone_is_shown_too(tmp_path: Path) -> None:
    plain = {"gw": None, "client": None, "device": None, "epoch": None, "seq": None}
    rows = [{**reading("", 7, 3.0, 0), **plain, "unit": None, "topic": "shed/power"}]
    write(tmp_path, "bronze", rows)
    table = pa.Table.from_pylist(rows, schema=readings("bronze").schema())
    for name, period in ROLLUPS.items():
        write(tmp_path, name, partials_of(table, period).to_pylist())
    assert "publishers without a gateway" in page_of(read_day(tmp_path, DAY), tmp_path)

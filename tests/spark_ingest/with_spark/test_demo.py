"""The demo: a day is played through the whole chain, and the page says what came of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_ingest.cli.demo import fill_and_show
from spark_ingest.cli.report import draw
from spark_ingest.demo.story import run_day

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent


def test_a_killed_broker_costs_the_gateway_that_keeps_nothing_and_not_the_other(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, said = tmp_path / "lake", list[str]()
    played = run_day(tmp_path, lake, 4, said.append)
    assert (played.sent, played.lost) == (2700, 40)
    assert played.sent_again >= 40
    assert any("is killed, with 80 readings" in line for line in said)
    fill_and_show(spark, lake)
    shown = capsys.readouterr().out
    assert "00:00:00|node-1|rh    |%RH |30 |" in shown
    assert "|range|'t' is 190, more than 85" in shown
    assert "gap: harbour" in shown
    assert "gap: lighthouse" not in shown
    assert "missing readings: 40, gaps: 1, " in shown
    draw(lake, played.day, tmp_path / "day.html")
    page = (tmp_path / "day.html").read_text()
    assert "readings missing, in 1 gap<" in page
    assert "<td>node-4</td><td class=n>17:58:03</td><td class=n>midnight</td>" in page
    bronze = DeltaTable(str(lake / "tables" / "bronze")).to_pyarrow_table()
    named = {tuple(row.values()) for row in bronze.select(["gw", "seq", "part"]).to_pylist()}
    assert len(named) == bronze.num_rows


@pytest.mark.soak  # it starts a Spark of its own
@pytest.mark.parametrize("how", [[], ["--without-broker"]])
def test_the_demo_as_a_newcomer_types_it(tmp_path: Path, how: list[str]) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "spark_ingest", "demo", "--devices", "4", "--folder", "d", *how],
        cwd=tmp_path, env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin:/usr/sbin"},
        capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "gap: harbour, epoch " in answer.stdout
    assert "gaps: 1, silences: " in answer.stdout
    assert "day.html; open it with a browser" in answer.stdout
    assert "Traceback" not in answer.stderr
    assert "in 1 gap<" in (tmp_path / "day.html").read_text()

"""The demo as a newcomer types it: it ends well, and says what there is to see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent


@pytest.mark.timeout(400)  # it starts a Spark of its own, on a machine that may be busy
def test_the_demo_plays_a_day_and_draws_what_came_of_it(tmp_path: Path) -> None:
    """A broker that is killed costs the gateway that keeps nothing forty minutes, and the other
    none.
    """
    answer = subprocess.run(
        [sys.executable, "-m", "spark_ingest", "demo", "--devices", "4", "--folder", "d"],
        cwd=tmp_path, env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin:/usr/sbin"},
        capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "2820 readings were sent, 40 of them lost with the broker" in answer.stdout
    assert "00:00:00|node-1|rh    |%RH |30 |" in answer.stdout
    assert "|range|'t' is 190, more than 85" in answer.stdout
    assert "gap: harbour" in answer.stdout
    assert "missing readings: 40, gaps: 1, " in answer.stdout
    assert "gap: lighthouse" not in answer.stdout
    assert "Traceback" not in answer.stderr
    page = (tmp_path / "day.html").read_text()
    assert "readings missing, in 1 gap<" in page
    assert page.count("<polyline") >= 2 * 4
    assert "<td>node-4</td><td class=n>17:58:03</td><td class=n>midnight</td>" in page
    bronze = DeltaTable(str(tmp_path / "d" / "tables" / "bronze")).to_pyarrow_table()
    named = {tuple(row.values()) for row in bronze.select(["gw", "seq", "part"]).to_pylist()}
    assert len(named) == bronze.num_rows

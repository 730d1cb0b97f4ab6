"""The demo as a newcomer types it: it ends well, and says what there is to see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent


@pytest.mark.timeout(400)  # it starts a Spark of its own, on a machine that may be busy
def test_the_demo_shows_rollups_quarantine_a_gap_and_a_silence(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "spark_ingest", "demo", "--devices", "4", "--folder", "d"],
        cwd=tmp_path, env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert "|2026-11-20 00:00:00|node-1|rh    |%RH |60 |" in answer.stdout
    assert "|range|'t' is 190, more than 85" in answer.stdout
    assert "gap: harbour, epoch 1: 12 readings, 1000 to 1011" in answer.stdout
    # Each of the two sensors behind that gateway lacks six readings, which is a silence too.
    assert "missing readings: 12, gaps: 1, silences: 3; 9" in answer.stdout
    assert "silence: node-4 for 215" in answer.stdout
    assert "Traceback" not in answer.stderr
    bronze = DeltaTable(str(tmp_path / "d" / "tables" / "bronze")).to_pyarrow_table()
    named = {tuple(row.values()) for row in bronze.select(["gw", "seq", "part"]).to_pylist()}
    assert len(named) == bronze.num_rows

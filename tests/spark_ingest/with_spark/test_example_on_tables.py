"""docs/examples/tables/hours.py, on a rollup as two batches leave it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_ingest.tables.partials import partials_of
from tests.examples import EXAMPLES
from tests.spark_ingest.tables.test_partials import at, table

deltalake = pytest.importorskip("deltalake")


def test_each_hour_has_the_mean_of_all_batches(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / "rollup_1h"
    folder.mkdir(parents=True)
    batches = (
        table({"ts": at(10), "value": 20.0, "unit": "Cel"}, {"ts": at(3700), "value": 7.0}),
        table({"ts": at(20), "value": 22.0, "unit": "Cel"}, {"ts": at(30), "value": 24.0}),
        table({"ts": at(40), "value": 24.0, "unit": "Cel"}, {"ts": at(-1), "value": 99.0}),
    )
    for batch in batches:
        deltalake.write_deltalake(folder, partials_of(batch, "hour"), mode="append")
    script = str(EXAMPLES / "tables" / "hours.py")
    command = [sys.executable, script, str(tmp_path), "2026-11-21"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == [
        "00:00 n1 m 22.00 Cel, of 3",
        "00:00 n1 m 24.00, of 1",
        "01:00 n1 m 7.00, of 1",
    ]

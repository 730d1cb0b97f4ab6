"""A program's wall clock can be set while it runs, and only that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hil.rig.shifted_clock import ShiftedClock

TELLS = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.time_ns(), time.monotonic(), sys.argv[1:], flush=True)
"""
REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_wall_clock_jumps_forth_and_back_and_the_monotonic_one_does_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "tells.py").write_text(TELLS)
    clock = ShiftedClock(tmp_path / "clock")
    path = os.pathsep.join((str(REPOSITORY), str(tmp_path)))
    with subprocess.Popen(
        [sys.executable, "-m", "hil.rig.shifted_clock", str(clock.path), "tells", "run", "-x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    ) as told:
        assert told.stdin is not None
        assert told.stdout is not None

        def ask() -> tuple[float, float]:
            told.stdin.write("\n")  # type: ignore[union-attr]
            told.stdin.flush()  # type: ignore[union-attr]
            line = told.stdout.readline()  # type: ignore[union-attr]
            assert line.endswith("['run', '-x']\n")
            wall, wall_ns, monotonic = line.split()[:3]
            assert abs(float(wall) - int(wall_ns) / 1e9) < 1.0
            return float(wall), float(monotonic)

        before, began = ask()
        assert clock.times_seen == 0
        clock.jump(86_400)
        later, at = ask()
        assert clock.times_seen == 1
        assert 86_399 < later - before - (at - began) < 86_401
        clock.jump(-90_000)
        earlier, at = ask()
        ask()
        assert clock.times_seen == 2
        assert -3_601 < earlier - before - (at - began) < -3_599
        told.stdin.close()

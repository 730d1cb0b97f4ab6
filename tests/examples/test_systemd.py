"""docs/examples/systemd/override.conf, beside the unit that `tidegate unit` writes, by systemd."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.app.service.unit import unit
from tests.examples import EXAMPLES

DROP_IN = EXAMPLES / "systemd" / "override.conf"


def faults(folder: Path, drop_in: str) -> list[str]:
    """What systemd says of the service with it."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("not run: systemd-analyze is missing")
    command = folder / "tidegate"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    path = folder / "tidegate.service"
    path.write_text(unit(command, []))
    beside = folder / "tidegate.service.d" / DROP_IN.name
    beside.parent.mkdir(exist_ok=True)
    beside.write_text(drop_in)
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    return [line for line in done.stderr.splitlines() if "tidegate" in line]


def test_systemd_takes_the_drop_in(tmp_path: Path) -> None:
    text = DROP_IN.read_text(encoding="utf-8")
    assert faults(tmp_path, text) == []
    (found,) = faults(tmp_path, text.replace("LimitNOFILE=4096", "LimitNFILE=4096"))
    assert "LimitNFILE" in found
    assert DROP_IN.name in found

"""What `make test` brings for the types of what boards load, which no test may need to go on."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.house.test_setup import FULL_DISK, Machine

SCRIPT = ".ci/setup-types.sh"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip(f"not run: there is no Node.js to install for {platform.machine()}")
    found = Machine(tmp_path)
    assert found.set_up().returncode == 0
    return found


def targets(machine: Machine) -> list[str]:
    lines = (machine.repository / "installed").read_text().splitlines()
    return [line.split("--target ")[1].split()[0] for line in lines if "--target" in line]


def test_the_stubs_of_each_port_have_a_folder_of_their_own(machine: Machine) -> None:
    run = machine.set_up(SCRIPT)
    assert (run.returncode, run.stdout.count("\n")) == (0, 1), run.stderr
    assert targets(machine) == [f".venv/board-stubs/{port}" for port in ("esp32", "rp2", "unix")]


def test_done_once_it_says_nothing_and_needs_no_network(machine: Machine) -> None:
    machine.set_up(SCRIPT)
    (machine.repository / "fault").write_text("Network is unreachable")
    run = machine.set_up(SCRIPT)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_without_a_network_the_tests_go_on_and_the_next_time_it_is_tried_again(
    machine: Machine,
) -> None:
    (machine.repository / "fault").write_text("Network is unreachable")
    run = machine.set_up(SCRIPT)
    assert (run.returncode, run.stderr) == (0, "")
    assert "(.venv/setup-types.log says why): types of what boards load will not be" in run.stdout
    (machine.repository / "fault").unlink()
    machine.set_up(SCRIPT)
    assert len(targets(machine)) == 3


def test_on_a_full_disk_it_is_left_out(machine: Machine) -> None:
    machine.has("df", FULL_DISK)
    run = machine.set_up(SCRIPT)
    assert run.returncode == 0
    assert "20 MiB are free here, 350 are needed" in run.stdout
    assert not (machine.repository / ".venv/.types-ready").exists()

"""What `make docs` installs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.test_setup import Machine

SCRIPT = ".ci/setup-site.sh"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    found.has("uname", "#!/bin/sh\necho x86_64\n")
    assert found.set_up().returncode == 0
    return found


def test_it_is_installed_with_hashes_and_once(machine: Machine) -> None:
    assert machine.set_up(SCRIPT).returncode == 0
    again = machine.set_up(SCRIPT)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    (call,) = (one for one in machine.calls_of_pip() if "requirements-site.lock" in one)
    assert "--require-hashes" in call


def test_another_lock_is_installed_into_the_environment_that_is_there(machine: Machine) -> None:
    machine.set_up(SCRIPT)
    with (machine.repository / ".ci/requirements-site.lock").open("a") as changed:
        changed.write("# changed\n")
    machine.set_up(SCRIPT)
    assert sum("requirements-site.lock" in one for one in machine.calls_of_pip()) == 2


def test_without_a_network_it_says_where_the_reason_is(machine: Machine) -> None:
    (machine.repository / "fault").write_text("Network is unreachable\n")
    run = machine.set_up(SCRIPT)
    assert run.returncode == 69
    assert "Network is unreachable" in run.stderr
    assert "the whole output is in .venv/setup-site.log" in run.stderr
    (machine.repository / "fault").unlink()
    assert machine.set_up(SCRIPT).returncode == 0


def test_where_there_is_no_build_it_says_so(machine: Machine) -> None:
    machine.has("uname", "#!/bin/sh\necho armv7l\n")
    run = machine.set_up(SCRIPT)
    assert run.returncode == 69
    assert "no build for armv7l" in run.stderr

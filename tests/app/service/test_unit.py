"""The unit for systemd: what it may do, and for which installation it is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.app.service.unit import serial_groups, sysusers, unit
from tests.cli.tidegate import tidegate

EXPOSURE_MAX = 2.0
COMMAND = Path("/usr/bin/tidegate")


@pytest.fixture
def analyze() -> str:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("not run: systemd-analyze is missing")
    return command


def test_its_exposure_is_low(analyze: str, tmp_path: Path) -> None:
    path = tmp_path / "tidegate.service"
    path.write_text(unit(COMMAND, ["dialout", "plugdev"]))
    said = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", str(path)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.search(r"Overall exposure level for tidegate.service: ([0-9.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= EXPOSURE_MAX


def test_systemd_finds_nothing_wrong_with_it(analyze: str, tmp_path: Path) -> None:
    command = tmp_path / "tidegate"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    path = tmp_path / "tidegate.service"
    path.write_text(unit(command, []))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(path)], capture_output=True, text=True, check=False
    )
    about_us = [line for line in done.stderr.splitlines() if "tidegate" in line]
    assert about_us == []


def test_groups_that_are_not_there_are_left_out() -> None:
    assert serial_groups(lambda name: name == "uucp") == ["uucp"]
    assert "SupplementaryGroups=uucp\n" in unit(COMMAND, ["uucp"])
    assert "SupplementaryGroups" not in unit(COMMAND, [])
    assert sysusers([]).count("\nm ") == 0
    assert "\nm tidegate uucp\n" in sysusers(["uucp"])


@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("/opt/tidegate/bin/tidegate", "/opt/tidegate/bin/tidegate"),
        ("/srv/our tools/tidegate", '"/srv/our tools/tidegate"'),
        ("/srv/50%/$x/tidegate", "/srv/50%%/$$x/tidegate"),
    ],
)
def test_the_command_is_the_one_of_this_installation(command: str, written: str) -> None:
    text = unit(Path(command), [])
    assert f"\nExecStart={written} run --config /etc/tidegate/config.toml\n" in text
    assert f"\nExecReload={written} check /etc/tidegate/config.toml\n" in text
    assert "@" not in text.replace("@system-service", "").replace("@privileged @resources", "")


def test_the_verb_writes_unit_and_user(tmp_path: Path) -> None:
    written = tidegate("unit", "--debian", folder=tmp_path).stdout
    assert written == unit(COMMAND, ["dialout", "plugdev"])
    assert "ExecStart=/opt/x run" in tidegate("unit", "--command", "/opt/x", folder=tmp_path).stdout
    users = tidegate("unit", "--sysusers", "--debian", folder=tmp_path).stdout
    assert users.splitlines()[1:] == [
        'u tidegate - "Tidegate MQTT-SN gateway" /var/lib/tidegate',
        "m tidegate dialout",
        "m tidegate plugdev",
    ]


def test_what_is_not_installed_has_no_unit(tmp_path: Path) -> None:
    done = tidegate("unit", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr == ("tidegate unit: this is no installed command: name one with --command\n")


def test_a_command_in_a_home_is_warned_of(tmp_path: Path) -> None:
    command = Path.home() / ".local/bin/tidegate"
    done = tidegate("unit", "--command", command, folder=tmp_path)
    assert f"warning: {command} is in a home, where the service may not look" in done.stderr
    advice = done.stderr.splitlines()[1:]
    assert advice[-1] == (
        "  /usr/local/bin/tidegate unit | sudo tee /etc/systemd/system/tidegate.service"
    )
    assert "sudo python3 -m venv /opt/tidegate" in advice[0]

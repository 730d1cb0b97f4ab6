"""Seeded faults, each with the exact command that `tidegate doctor` names for it."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.cli.doctor import clock, configuration, units
from gateway.cli.doctor.block_device import BlockDevice
from gateway.cli.doctor.broker import examine as examine_broker
from gateway.cli.doctor.findings import Level
from gateway.cli.doctor.listeners import IFF_MULTICAST, INTERFACES
from gateway.cli.doctor.section import Examined
from gateway.cli.doctor.wear import wear
from gateway.config import credential, load
from gateway.host.installation import Installation
from hil.rig.mosquitto import Mosquitto
from tests.cli.doctor import QUIET, Doctor, taken_udp_port
from tests.cli.tidegate import tidegate


def _lo_has_multicast() -> bool:
    flags = INTERFACES / "lo" / "flags"
    return not flags.exists() or bool(int(flags.read_text(), 16) & IFF_MULTICAST)


# Configuration and rights


def test_a_wrong_configuration_is_opened_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[gateway]\nidd = 3\n[log]\nlevel = 7\n")
    done = tidegate("doctor", "--config", "c.toml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (78, "")
    assert "c.toml:2:1: gateway.idd: unknown key, did you mean gateway.id?\n" in done.stdout
    assert "  $ sudo nano +2,1 c.toml\n" in done.stdout
    assert "  $ sudo nano +4,9 c.toml\n" in done.stdout


def test_a_configuration_that_is_not_there_is_written(tmp_path: Path) -> None:
    done = tidegate("doctor", "--config", "no.toml", "--json", folder=tmp_path)
    (finding,) = json.loads(done.stdout)["configuration"]["findings"]
    assert (done.returncode, finding["command"]) == (78, "sudo tidegate init no.toml")


def test_a_secret_that_is_missing_is_put_there(doctor: Doctor) -> None:
    text = f'{QUIET}[upstream]\nusername = "g"\npassword_file = "secret"\n'
    (finding,) = doctor.run("configuration", text, code=1)
    assert finding["command"] == f"sudo install -D -m 0600 /dev/stdin {doctor.folder}/secret"
    text = text.replace('"secret"', '"credential:tidegate.upstream.password"')
    assert doctor.commands("configuration", text) == [
        "sudo install -D -m 0600 /dev/stdin /etc/credstore/tidegate.upstream.password"
    ]


def test_a_secret_that_everybody_reads_is_taken_from_them(doctor: Doctor) -> None:
    secret = doctor.folder / "secret"
    secret.write_text("tide")
    secret.chmod(0o644)
    text = QUIET.replace("[admin]\n", '[admin]\npassword_file = "secret"\n')
    (command,) = doctor.commands("configuration", text)
    assert command == f"sudo chmod o-rwx {secret}"
    subprocess.run(command.removeprefix("sudo ").split(), check=True)
    assert secret.stat().st_mode & stat.S_IRWXO == 0
    assert doctor.commands("configuration", text, level="warning") == []


# Ports


def test_a_port_that_another_program_has_is_freed(doctor: Doctor) -> None:
    with taken_udp_port() as (port, pid):
        text = QUIET.replace("127.0.0.1:0", f"127.0.0.1:{port}")
        (command,) = doctor.commands("listeners", text)
        assert command in (f"sudo kill {pid}", command if "systemctl" in command else "")
    assert doctor.run("listeners", text, code=0) == []


def test_an_address_that_is_not_here_is_opened_in_the_file(doctor: Doctor) -> None:
    text = QUIET.replace("127.0.0.1:0", "192.0.2.1:1883")
    assert doctor.commands("listeners", text) == [f"sudo nano +6,10 {doctor.config}"]


def test_a_page_whose_port_is_taken_names_who_looks_it_up(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = QUIET.replace('listen = ""', f'listen = "127.0.0.1:{port}"')
        (command,) = doctor.commands("listeners", text)
    assert command == f"sudo kill {os.getpid()}" or command.startswith("sudo systemctl ")


@pytest.mark.skipif(_lo_has_multicast(), reason="this machine's lo has multicast, or is hidden")
def test_an_interface_without_multicast_is_switched(doctor: Doctor) -> None:
    more = 'multicast = "225.1.1.1:1883"\nmulticast_interface = "lo"\n'
    assert doctor.commands("listeners", QUIET + more) == [
        "sudo ip link set dev lo multicast on",
    ]
    gone = (QUIET + more).replace('"lo"', '"eth77"')
    assert doctor.commands("listeners", gone) == [f"sudo nano +8,23 {doctor.config}"]


# Clock, disk, services


@pytest.mark.parametrize("unix_s", [0.0, 1_700_000_000.0, 9_000_000_000.0])
def test_a_clock_that_is_wrong_is_set(
    unix_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_UNITS", (tmp_path,))
    for first in ("sudo apt-get install -y systemd-timesyncd && ", ""):
        (finding, *_) = clock.examine(unix_s).findings
        assert finding.level is Level.FAILURE
        assert finding.command == f"{first}sudo timedatectl set-ntp true"
        (tmp_path / "chrony.service").touch()


def test_a_clock_that_follows_nobody_is_set(doctor: Doctor) -> None:
    doctor.program("timedatectl", "echo no")
    (command,) = doctor.commands("clock", QUIET, level="warning")
    assert command.endswith("sudo timedatectl set-ntp true")
    doctor.program("timedatectl", "echo yes")
    assert doctor.run("clock", QUIET, code=0) == []


def test_a_state_in_memory_is_opened_in_the_file(doctor: Doctor) -> None:
    text = QUIET.replace('"state"', '"/dev/shm/tidegate"')
    assert doctor.commands("disk", text) == [f"sudo nano +2,13 {doctor.config}"]


def test_a_file_in_place_of_the_state_is_moved(doctor: Doctor) -> None:
    (doctor.folder / "state").touch()
    (command,) = doctor.commands("disk", QUIET)
    assert command == f"sudo mv {doctor.folder}/state {doctor.folder}/state.old"
    subprocess.run(command.removeprefix("sudo ").split(), check=True)
    # A machine of the tests may be an overlay, of which it warns.
    assert not any(doctor.commands("disk", QUIET, level="warning"))


@pytest.mark.parametrize(
    ("life", "spare", "level"),
    [
        ("0x01 0x02", "0x01", None),
        ("0x09 0x02", "0x01", Level.WARNING),
        ("0x01 0x01", "0x02", Level.WARNING),
        ("0x0b 0x02", "0x01", Level.FAILURE),
        ("0x01 0x01", "0x03", Level.FAILURE),
        ("nonsense", "", None),
    ],
)
def test_a_card_that_is_worn_is_backed_up(
    tmp_path: Path, life: str, spare: str, level: Level | None
) -> None:
    folder = tmp_path / "class" / "block" / "mmcblk0" / "device"
    folder.mkdir(parents=True)
    (folder / "life_time").write_text(f"{life}\n")
    (folder / "pre_eol_info").write_text(f"{spare}\n")
    found = list(wear(BlockDevice("mmcblk0", "eMMC", None), tmp_path))
    assert [each.level for each in found] == ([] if level is None else [level])
    assert [each.command for each in found] == [
        "sudo tidegate backup /media/usb/tidegate.backup" for _ in found
    ]
    assert list(wear(BlockDevice("sda", "solid state", None), tmp_path)) == []


WELL = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "Result": "success",
    "NRestarts": "0",
    "NeedDaemonReload": "no",
    "ReadWritePaths": "",
}


@pytest.fixture
def systemd(doctor: Doctor) -> Callable[..., None]:
    """A systemctl that tells what it is told to tell of the gateway's service, and of another."""

    def tells(other: str = "none", **changes: str) -> None:
        lines = "\n".join(
            f"echo {shlex.quote(f'{name}={value}')}" for name, value in (WELL | changes).items()
        )
        doctor.program(
            "systemctl",
            f'case "$2" in\ntidegate.service)\n{lines}\n;;\n'
            f"{other}) echo ActiveState=active ;;\n*) echo LoadState=not-found ;;\nesac",
        )

    return tells


SERVICE = QUIET.replace('"state"', '"/var/lib/tidegate"')
INSTALL = "what installs the service"


@pytest.mark.parametrize(
    ("changes", "level", "command"),
    [
        (
            {"ActiveState": "failed", "Result": "exit-code"},
            "failure",
            "sudo systemctl reset-failed tidegate && sudo systemctl start tidegate",
        ),
        (
            {"LoadState": "masked", "ActiveState": "inactive"},
            "failure",
            "sudo systemctl unmask tidegate && sudo systemctl enable --now tidegate",
        ),
        ({"UnitFileState": "disabled"}, "warning", "sudo systemctl enable --now tidegate"),
        ({"ActiveState": "inactive"}, "warning", "sudo systemctl start tidegate"),
        ({"NRestarts": "7"}, "warning", "sudo journalctl -u tidegate -p warning -b"),
        (
            {"NeedDaemonReload": "yes"},
            "warning",
            "sudo systemctl daemon-reload && sudo systemctl restart tidegate",
        ),
        ({"LoadState": "not-found"}, "note", INSTALL),
        (
            {"ExecStart": f"{{ path={Path.home()}/.local/bin/tidegate ; argv[]=tidegate run }}"},
            "failure",
            INSTALL,
        ),
    ],
)
def test_a_service_that_is_not_well_is_mended(
    doctor: Doctor,
    systemd: Callable[..., None],
    changes: dict[str, str],
    level: str,
    command: str,
) -> None:
    systemd(**changes)
    if command == INSTALL:
        command = units._install_command()
    assert doctor.commands("units", SERVICE, level=level) == [command]


def test_a_service_that_is_well_is_left_alone(doctor: Doctor, systemd: Callable[..., None]) -> None:
    systemd()
    assert doctor.run("units", SERVICE, code=0) == []


def test_a_state_that_the_sandbox_hides_is_allowed(
    doctor: Doctor, systemd: Callable[..., None]
) -> None:
    systemd()
    (command,) = doctor.commands("units", QUIET)
    assert command == (
        "sudo mkdir -p /etc/systemd/system/tidegate.service.d && "
        f"printf '[Service]\\nReadWritePaths={doctor.folder}/state\\n' | "
        "sudo tee /etc/systemd/system/tidegate.service.d/state_dir.conf && "
        "sudo systemctl daemon-reload"
    )
    systemd(ReadWritePaths=str(doctor.folder))
    assert doctor.run("units", QUIET, code=0) == []


def test_services_that_take_serial_ports_are_switched_off(
    doctor: Doctor, systemd: Callable[..., None]
) -> None:
    line = SERVICE + '[[serial]]\nport = "/dev/ttyS97"\n'
    systemd("ModemManager.service")
    assert doctor.commands("units", line, level="warning") == [
        "sudo systemctl disable --now ModemManager"
    ]
    systemd("serial-getty@ttyS97.service")
    assert doctor.commands("units", line) == ["sudo systemctl disable --now serial-getty@ttyS97"]


def test_a_serial_port_that_is_not_there_is_looked_for(doctor: Doctor) -> None:
    text = QUIET + '[[serial]]\nport = "/dev/ttyUSB97"\n'
    assert doctor.commands("serial", text, level="warning") == ["ls -l /dev/serial/by-id/"]


def test_without_systemd_nothing_is_said_of_services(doctor: Doctor) -> None:
    doctor.program("systemctl", "exit 1")
    assert doctor.run("units", SERVICE, code=0) == []


def test_every_part_is_examined_and_answers_in_json(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(QUIET)
    done = tidegate("doctor", "--config", "c.toml", "--syncs", "10", "--json", folder=tmp_path)
    answer = json.loads(done.stdout)
    assert list(answer) == [
        "schema",
        "ok",
        "configuration",
        "clock",
        "limits",
        "disk",
        "files",
        "listeners",
        "serial",
        "broker",
        "ingest",
        "units",
        "gateway",
    ]


def test_a_unit_made_by_hand_hides_that_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "tidegate.service"
    packaged.touch()
    monkeypatch.setattr(units, "PACKAGED", packaged)
    monkeypatch.setattr(units, "is_startable", lambda _: True)  # also where this clone is in a home
    found = {
        "FragmentPath": "/etc/systemd/system/tidegate.service",
        "ExecStart": f"{{ path={sys.executable} ; argv[]={sys.executable} run }}",
    }
    (finding,) = units._about_unit(found)
    assert f"hides {packaged} of the Debian package: the service starts {sys.executable}" in (
        finding.what
    )
    assert finding.command == (
        "sudo rm /etc/systemd/system/tidegate.service && sudo systemctl daemon-reload && "
        "sudo systemctl restart tidegate"
    )
    assert list(units._about_unit(found | {"FragmentPath": str(packaged)})) == []


def test_what_every_user_may_start_is_installed_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Installation, "is_in_a_home", False)
    assert re.sub(r"\S*/tidegate unit", "tidegate unit", units._install_command()) == (
        "sudo install -d /etc/sysusers.d && tidegate unit --sysusers | "
        "sudo tee /etc/sysusers.d/tidegate.conf && sudo systemd-sysusers && "
        "tidegate unit | sudo tee /etc/systemd/system/tidegate.service && "
        "sudo systemctl daemon-reload && sudo systemctl enable --now tidegate"
    )


def test_what_is_in_a_home_is_installed_elsewhere_for_a_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Installation, "is_in_a_home", True)
    command = units._install_command()
    assert "/opt/tidegate" in command
    assert "/usr/local/bin/tidegate unit | sudo tee /etc/systemd/system/tidegate.service" in command


def test_a_stored_credential_is_not_typed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service is stopped, so systemd has handed over nothing."""
    (tmp_path / "tidegate.upstream.password").write_text("tide")
    monkeypatch.setattr(credential, "STORE", tmp_path)
    config = tmp_path / "c.toml"
    with Mosquitto() as broker:
        config.write_text(
            f'{QUIET}[upstream]\nurl = "{broker.url}"\nusername = "g"\n'
            'password_file = "credential:tidegate.upstream.password"\n'
        )
        subject = Examined(load(config, environment={}, overrides=()), config)
        assert configuration.examine(subject).findings == []
        assert examine_broker(subject).findings == []
        (tmp_path / "tidegate.upstream.password").unlink()
        monkeypatch.setattr(credential, "OTHER_STORES", ())
        (missing,) = configuration.examine(subject).findings
        assert missing.command.endswith(f" {tmp_path}/tidegate.upstream.password")
        (note,) = examine_broker(subject).findings
        assert (note.level, note.command) == (
            Level.NOTE,
            "sudo tidegate doctor --only broker",
        )

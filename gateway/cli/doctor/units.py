"""The services of this machine: the gateway's own, and those that get in its way."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import SERVICE, Examined, Section
from gateway.config.serial_ports import port_server
from gateway.host.installation import BIN_FOR_ALL, Installation, is_in_a_home

ASKED_S_MAX = 10.0
STATE_DIR = Path("/var/lib/tidegate")
DROP_INS = f"/etc/systemd/system/{SERVICE}.service.d"
RESTARTS_MANY = 5
UNIT_PLACE = f"/etc/systemd/system/{SERVICE}.service"
PACKAGED = Path(f"/usr/lib/systemd/system/{SERVICE}.service")
_ASKED = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "Result",
    "NRestarts",
    "NeedDaemonReload",
    "ReadWritePaths",
    "FragmentPath",
    "ExecStart",
)


def examine(subject: Examined) -> Section:
    section = Section("units")
    properties = _shown(SERVICE)
    if properties is None:
        section.lines.append(("service", "there is no systemd here"))
        return section
    section.facts["service"] = properties
    if properties.get("LoadState") == "not-found":
        section.lines.append(("service", "not installed"))
        section.findings.append(
            Finding(
                Level.NOTE,
                "no service starts the gateway when this machine starts",
                "docs/service.md says how, in three commands",
                _install_command(),
            )
        )
    else:
        active, enabled = properties.get("ActiveState"), properties.get("UnitFileState")
        state = f"{active} ({properties.get('SubState')}), {enabled}"
        section.lines.append(("service", state))
        section.findings += _about_service(properties)
        section.findings += _about_state_dir(subject, properties)
        section.findings += _about_unit(properties)
    section.findings += _about_serial(subject)
    return section


def _install_command() -> str:
    """What is in a home the service cannot start (203/EXEC): then it is installed elsewhere too."""
    here, tidegate, first = Installation.this(), "tidegate", ""
    if here.is_in_a_home:
        tidegate, first = f"{BIN_FOR_ALL}/tidegate", f"{here.for_all_users()} && "
    return (
        f"{first}sudo install -d /etc/sysusers.d && {tidegate} unit --sysusers | "
        "sudo tee /etc/sysusers.d/tidegate.conf && sudo systemd-sysusers && "
        f"{tidegate} unit | sudo tee {UNIT_PLACE} && sudo systemctl daemon-reload && "
        f"sudo systemctl enable --now {SERVICE}"
    )


def _about_unit(properties: dict[str, str]) -> Iterator[Finding]:
    """Which program the service starts: the package's unit is hidden by one that was made by hand,
    and a command that is gone or in a home fails with 203/EXEC.
    """
    path = Path(properties.get("FragmentPath") or "/")
    if path.is_relative_to("/etc") and PACKAGED.exists() and not _is_one(path, PACKAGED):
        yield Finding(
            Level.WARNING,
            f"{path} hides {PACKAGED} of the Debian package: the service starts "
            f"{_started(properties) or 'what it says'}, and not what the package brought",
            "remove the one that was made by hand, if the package is to run",
            f"sudo rm {path} && sudo systemctl daemon-reload && sudo systemctl restart {SERVICE}",
        )
    command = _started(properties)
    if command is not None and not is_startable(Path(command)):
        yield Finding(
            Level.FAILURE,
            f"the service starts {command}, which is not there or in a home, where it may not look "
            "(203/EXEC)",
            "install for the whole machine, and write the unit by that command",
            _install_command(),
        )


def _started(properties: dict[str, str]) -> str | None:
    found = re.match(r"\{ path=(\S+) ;", properties.get("ExecStart", ""))
    return None if found is None else found[1]


def is_startable(command: Path) -> bool:
    try:
        return command.exists() and not is_in_a_home(command)
    except OSError:
        return False


def _is_one(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _about_service(properties: dict[str, str]) -> Iterator[Finding]:
    active, enabled = properties.get("ActiveState"), properties.get("UnitFileState")
    if properties.get("LoadState") == "masked":
        yield Finding(
            Level.FAILURE, "the service is masked, so nothing can start it", "",
            f"sudo systemctl unmask {SERVICE} && sudo systemctl enable --now {SERVICE}",
        )  # fmt: skip
    elif active == "failed":
        yield Finding(
            Level.FAILURE,
            f"the service has failed ({properties.get('Result')})",
            f"see why:  sudo journalctl -u {SERVICE} -n 50",
            f"sudo systemctl reset-failed {SERVICE} && sudo systemctl start {SERVICE}",
        )
    elif enabled == "disabled":
        yield Finding(
            Level.WARNING,
            "the service does not start when this machine starts",
            "",
            f"sudo systemctl enable --now {SERVICE}",
        )
    elif active == "inactive":
        yield Finding(
            Level.WARNING, "the service is stopped", "", f"sudo systemctl start {SERVICE}"
        )
    restarts = properties.get("NRestarts", "")
    if restarts.isdigit() and int(restarts) >= RESTARTS_MANY:
        yield Finding(
            Level.WARNING,
            f"the service was started again {restarts} times since the machine started",
            "its log says why",
            f"sudo journalctl -u {SERVICE} -p warning -b",
        )
    if properties.get("NeedDaemonReload") == "yes":
        yield Finding(
            Level.WARNING,
            "the unit was changed, and systemd goes by the one before",
            "",
            f"sudo systemctl daemon-reload && sudo systemctl restart {SERVICE}",
        )


def _about_state_dir(subject: Examined, properties: dict[str, str]) -> Iterator[Finding]:
    """ProtectSystem=strict makes everything else read-only."""
    folder = subject.configuration.settings.gateway.state_dir.absolute()
    allowed = [STATE_DIR, *map(Path, properties.get("ReadWritePaths", "").split())]
    if not any(folder.is_relative_to(path) for path in allowed):
        yield Finding(
            Level.FAILURE,
            f"gateway.state_dir {folder} may not be written by the service: its sandbox lets it "
            f"write to {STATE_DIR} alone",
            "allow it by a drop-in",
            f"sudo mkdir -p {DROP_INS} && printf '[Service]\\nReadWritePaths={folder}\\n' | "
            f"sudo tee {DROP_INS}/state_dir.conf && sudo systemctl daemon-reload",
        )


def _about_serial(subject: Examined) -> Iterator[Finding]:
    ports = [
        line.port
        for line in subject.configuration.settings.serial
        if port_server(line.port) is None
    ]
    if not ports:
        return
    if (_shown("ModemManager") or {}).get("ActiveState") == "active":
        yield Finding(
            Level.WARNING,
            "ModemManager speaks to each serial port that is plugged in, in case it is a modem",
            "switch it off, unless this machine has a modem",
            "sudo systemctl disable --now ModemManager",
        )
    for port in ports:
        name = Path(port).resolve().name
        if (_shown(f"serial-getty@{name}") or {}).get("ActiveState") == "active":
            yield Finding(
                Level.FAILURE,
                f"{port} is a login console of this machine",
                "on a Raspberry Pi also: sudo raspi-config nonint do_serial_cons 1",
                f"sudo systemctl disable --now serial-getty@{name}",
            )


def _shown(unit: str) -> dict[str, str] | None:
    """None if there is no systemd to ask."""
    command = ["systemctl", "show", f"{unit}.service", f"--property={','.join(_ASKED)}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ASKED_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines() if "=" in line)

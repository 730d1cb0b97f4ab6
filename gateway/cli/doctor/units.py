"""The services of this machine: the gateway's own, and those that get in its way."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import SERVICE, Examined, Section
from gateway.config.serial_ports import port_server

ASKED_S_MAX = 10.0
STATE_DIR = Path("/var/lib/tidegate")
DROP_INS = f"/etc/systemd/system/{SERVICE}.service.d"
RESTARTS_MANY = 5
_ASKED = (
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "Result",
    "NRestarts",
    "NeedDaemonReload",
    "ReadWritePaths",
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
                "tidegate unit | sudo tee /etc/systemd/system/tidegate.service",
            )
        )
    else:
        active, enabled = properties.get("ActiveState"), properties.get("UnitFileState")
        state = f"{active} ({properties.get('SubState')}), {enabled}"
        section.lines.append(("service", state))
        section.findings += _about_service(properties)
        section.findings += _about_state_dir(subject, properties)
    section.findings += _about_serial(subject)
    return section


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
            f"the service was started anew {restarts} times since the machine started",
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

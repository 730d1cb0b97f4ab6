"""Which serial ports this machine has, who may and does use them, and what is amiss with those that
the configuration names.

Ports are looked at, not opened: many boards start again when their port is opened.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from serial.tools import list_ports  # type: ignore[import-untyped]

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.gateway_process import state_folder_of
from gateway.config.serial_ports import port_server
from gateway.config.settings import Settings
from gateway.transports.port_owner import device_owner
from gateway.transports.serial.faults import BY_ID, absent_text, permission_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """`by_id` are its names that stay when it is plugged in elsewhere; `chip` is what USB says of
    it. `link` is its name in the metrics, if it is configured, and `advice` how to get at it, if
    this user may not.
    """

    device: str
    by_id: tuple[str, ...] = ()
    description: str | None = None
    chip: str | None = None
    owner: str | None = None
    is_the_gateways: bool = False
    link: str | None = None
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class LineFacts:
    """A port of the configuration; nothing is known of those on the network."""

    link: str
    port: str
    is_there: bool


@dataclass(frozen=True, slots=True)
class SerialFacts:
    ports: tuple[PortFacts, ...]
    lines: tuple[LineFacts, ...]


def examine_ports(settings: Settings, by_id: Path = BY_ID) -> SerialFacts:
    local = [
        (f"serial{number}", line.port)
        for number, line in enumerate(settings.serial)
        if port_server(line.port) is None
    ]
    links = {os.path.realpath(port): link for link, port in local}
    names = _names(by_id)
    found = {os.path.realpath(each.device): each for each in list_ports.comports()}
    # Ports of the configuration that the machine does not list as such, too.
    devices = sorted({*found, *(device for device in links if Path(device).exists())})
    return SerialFacts(
        tuple(
            _port(device, found.get(device), tuple(names.get(device, ())), links.get(device))
            for device in devices
        ),
        tuple(LineFacts(link, port, Path(port).exists()) for link, port in local),
    )


def _names(by_id: Path) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    try:
        for link in sorted(by_id.iterdir()):
            names.setdefault(os.path.realpath(link), []).append(str(link))
    except OSError:
        pass  # no port has such a name
    return names


def _port(device: str, listed: Any, by_id: tuple[str, ...], link: str | None) -> PortFacts:
    chip = description = None
    if listed is not None:
        description = None if listed.description == "n/a" else listed.description
        if listed.vid is not None:
            chip = f"USB {listed.vid:04x}:{listed.pid:04x}"
            chip += f" serial number {listed.serial_number}" if listed.serial_number else ""
    owner = device_owner(device)
    pid = re.search(r"\(process (\d+)\)", owner or "")
    may = os.access(device, os.R_OK | os.W_OK, effective_ids=True)
    return PortFacts(
        device=device,
        by_id=by_id,
        description=description,
        chip=chip,
        owner=owner,
        is_the_gateways=pid is not None and state_folder_of(int(pid[1])) is not None,
        link=link,
        advice=None if may else permission_text(device),
    )


def serial_findings(facts: SerialFacts) -> list[Finding]:
    """The worst first; none if all is well."""
    found = [
        *(_absent(line) for line in facts.lines if not line.is_there),
        *(finding for port in facts.ports for finding in _of_port(port)),
        *(finding for line in facts.lines for finding in _of_name(line, facts.ports)),
    ]
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


def _absent(line: LineFacts) -> Finding:
    return Finding(
        Level.WARNING,
        f"{line.link}: {absent_text(line.port)}",
        "plug it in, which the gateway notices by itself, or correct its [[serial]] port",
        "ls -l /dev/serial/by-id/",
    )


def _of_port(port: PortFacts) -> Iterator[Finding]:
    if port.advice is not None:
        level = Level.NOTE if port.link is None else Level.FAILURE
        command = re.search(r"sudo usermod -aG \S+ [^\s,]+", port.advice)
        yield Finding(
            level,
            port.advice,
            "or run this as the gateway's user, if that one may",
            command[0] if command else f"ls -l {port.device}; id",
        )
    if port.owner is not None and port.link is not None and not port.is_the_gateways:
        yield Finding(
            Level.WARNING,
            f"{port.link}: {port.owner} has {port.device}",
            "stop it, unless it is the gateway itself; the gateway waits until it is free",
            f"sudo fuser -v {port.device}",
        )


def _of_name(line: LineFacts, ports: Sequence[PortFacts]) -> Iterator[Finding]:
    """A name that another port can have after the next start of the machine."""
    if not line.port.startswith(("/dev/ttyUSB", "/dev/ttyACM")):
        return
    names = [port.by_id for port in ports if port.link == line.link and port.by_id]
    if names:
        yield Finding(
            Level.NOTE,
            f"{line.link}: {line.port} may be another port after the machine was started again",
            f'set port = "{names[0][0]}", which stays',
        )


def ports_described(facts: SerialFacts) -> Iterator[tuple[str, str]]:
    """For people: what, and how it is."""
    if not facts.ports:
        yield "serial", "no ports"
    for number, port in enumerate(facts.ports):
        yield "" if number else "serial", "; ".join(_descriptions(port))
        for name in port.by_id:
            yield "", f"  {name}"


def _descriptions(port: PortFacts) -> Iterator[str]:
    yield port.device
    known = ", ".join(each for each in (port.description, port.chip) if each)
    if known:
        yield known
    if port.link is not None:
        yield f"{port.link} of the configuration"
    yield f"held by {port.owner}" if port.owner else "free"
    if port.advice is not None:
        yield "not for this user"


def ports_as_json(facts: SerialFacts) -> dict[str, Any]:
    return {
        "ports": [asdict(port) | {"by_id": list(port.by_id)} for port in facts.ports],
        "lines": [asdict(line) for line in facts.lines],
    }

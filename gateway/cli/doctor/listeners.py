"""The ports that the gateway listens on: free, its own already, or somebody else's; and its groups.

Each is tried for a moment. One that is in use is well if the gateway itself has it.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.gateway_process import state_folder_of, unit_of
from gateway.cli.doctor.section import Examined, Section
from gateway.config.settings import HostPort, Settings, UdpSettings
from gateway.transports.errors import LinkError
from gateway.transports.port_owner import port_owner
from gateway.transports.udp.multicast_socket import find_place

RECEIVE_BUFFER_MAX = Path("/proc/sys/net/core/rmem_max")
INTERFACES = Path("/sys/class/net")
IFF_UP, IFF_MULTICAST = 0x1, 0x1000  # netdevice(7)


def examine(subject: Examined) -> Section:
    section = Section("listeners")
    settings = subject.configuration.settings
    facts = []
    for number, udp in enumerate(settings.udp):
        if udp not in settings.listeners:
            continue
        problem = _tried(udp.listen, socket.SOCK_DGRAM)
        facts.append({"listen": str(udp.listen), "problem": problem})
        state = "free" if problem is None else problem
        section.lines.append(("udp", f"{udp.listen}, {state}"))
        section.findings += _about_port(subject, f"udp.{number}.listen", udp.listen, problem, "udp")
        section.findings += _about_buffer(udp)
        section.findings += _about_group(subject, number, udp)
    if any(udp.has_dtls for udp in settings.listeners):
        from gateway.cli.doctor.dtls import about_dtls  # only when wanted

        section.findings += about_dtls(subject)
    listen = settings.admin.listen
    if listen is not None:
        problem = _tried(listen, socket.SOCK_STREAM)
        section.lines.append(("page", f"http://{listen}, {problem or 'free'}"))
        section.findings += _about_port(subject, "admin.listen", listen, problem, "tcp")
    section.facts["udp"] = facts
    return section


def _tried(listen: HostPort, kind: socket.SocketKind) -> str | None:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        with socket.socket(family, kind) as tried:
            if kind == socket.SOCK_STREAM:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((listen.host, listen.port))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return None


def _about_port(
    subject: Examined, key: str, listen: HostPort, problem: str | None, protocol: str
) -> Iterator[Finding]:
    match problem:
        case None:
            return
        case "EADDRINUSE":
            yield from _in_use(subject, key, listen, protocol)
        case "EADDRNOTAVAIL":
            yield Finding(
                Level.FAILURE,
                f"{key}: this machine has no address {listen.host} now",
                "listen on all of them (0.0.0.0 or [::]), or on one that `ip -brief address` shows",
                subject.edit(key),
            )
        case "EACCES":
            yield Finding(
                Level.FAILURE,
                f"{key}: port {listen.port} is for root alone",
                "choose a port from 1024 up, or give the service AmbientCapabilities= and "
                "CapabilityBoundingSet=CAP_NET_BIND_SERVICE: docs/service.md",
                subject.edit(key),
            )
        case "EAFNOSUPPORT":
            yield Finding(
                Level.FAILURE,
                f"{key}: this machine has no IPv{ip_address(listen.host).version}",
                "listen on an address of the other version",
                subject.edit(key),
            )
        case other:
            yield Finding(Level.FAILURE, f"{key}: {listen}: {other}", "", subject.edit(key))


def _in_use(subject: Examined, key: str, listen: HostPort, protocol: str) -> Iterator[Finding]:
    flag = "u" if protocol == "udp" else "t"
    owner = port_owner(listen.port, protocol)
    if owner is None:
        yield Finding(
            Level.NOTE,
            f"{key}: {protocol} port {listen.port} is in use, by whom only root may know",
            "if the gateway runs, it is the gateway",
            f"sudo ss -{flag}lpn sport = :{listen.port}",
        )
        return
    folder = state_folder_of(owner.pid)
    if folder is not None and is_state_folder(folder, subject.configuration.settings):
        return
    unit = unit_of(owner.pid)
    is_other = "" if folder is None else f", another gateway, with its state in {folder}"
    yield Finding(
        Level.FAILURE,
        f"{key}: {protocol} port {listen.port} is in use by {owner}{is_other}",
        "stop that program, or give this gateway another port",
        f"sudo kill {owner.pid}" if unit is None else f"sudo systemctl disable --now {unit}",
    )


def is_state_folder(folder: Path, settings: Settings) -> bool:
    try:
        return folder.samefile(settings.gateway.state_dir)
    except OSError:  # one that is gone, or of a container: the gateway is named by its port alone
        return folder == settings.gateway.state_dir.absolute()


def _about_buffer(udp: UdpSettings) -> Iterator[Finding]:
    try:
        most = int(RECEIVE_BUFFER_MAX.read_text())
    except (OSError, ValueError):
        return
    if udp.receive_buffer_bytes > most:
        setting = f"net.core.rmem_max={udp.receive_buffer_bytes}"
        yield Finding(
            Level.NOTE,
            f"the kernel gives {most} of the {udp.receive_buffer_bytes} bytes that "
            "udp.receive_buffer_bytes asks for: bursts of thousands of readings may lose some",
            "raise the kernel's limit",
            f"echo {setting} | sudo tee /etc/sysctl.d/60-tidegate.conf && sudo sysctl --system",
        )


def _about_group(subject: Examined, number: int, udp: UdpSettings) -> Iterator[Finding]:
    if udp.multicast is None:
        return
    name = udp.multicast_interface
    if name is not None and (INTERFACES / name).exists():
        flags = int((INTERFACES / name / "flags").read_text(), 16)
        if not flags & IFF_UP:
            yield _group_failure(number, f"{name} is switched off", f"sudo ip link set {name} up")
            return
        if not flags & IFF_MULTICAST:
            command = f"sudo ip link set dev {name} multicast on"
            yield _group_failure(number, f"{name} carries no multicast", command)
            return
    try:
        find_place(udp.multicast, udp.listen, name)
    except LinkError as error:
        key = f"udp.{number}.multicast" + ("" if name is None else "_interface")
        yield _group_failure(number, str(error), subject.edit(key))


def _group_failure(number: int, what: str, command: str) -> Finding:
    return Finding(
        Level.FAILURE,
        f"udp.{number}.multicast: {what}",
        "sensors cannot find this gateway by searching until then; those that know it can speak",
        command,
    )

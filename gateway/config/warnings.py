"""Warnings: what is allowed but probably not meant. Reported when the file is checked and at each
start, and no reason to stop: a disk may be mounted later, a file be readable to the daemon's own
user alone.
"""

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from gateway.config.addresses import is_address
from gateway.config.credential import credential_of, is_secret, is_stored, stored_at
from gateway.config.gathering import Gathering
from gateway.config.kinds import with_unit
from gateway.config.mounts import free_bytes, mount_of, taken_bytes
from gateway.config.problems import DEFAULT
from gateway.config.regular_file import opening
from gateway.config.serial_ports import port_server
from gateway.config.settings import MIB, Settings, TopicSettings
from gateway.config.spelling import KeyPath, dotted, printable, quoted, shortened, shown
from gateway.config.topic_filters import covers


def find_warnings(settings: Settings, gathering: Gathering) -> Iterator[str]:
    """One line each: who gave it, the key, and why it looks wrong."""
    yield from _about_files(gathering)
    yield from _about_interfaces(settings, gathering)
    yield from _about_ports(settings, gathering)
    yield from _about_prefix(settings, gathering)
    yield from _about_topic_filters(settings, gathering)
    yield from _about_bindings(settings, gathering)
    yield from _about_values(settings, gathering)
    yield from _about_commands(settings, gathering)
    yield from _about_state_dir(settings, gathering)


def _line(path: KeyPath, warning: str, gathering: Gathering) -> str:
    given = gathering.given.get(path)
    return f"{DEFAULT if given is None else given.origin}: {dotted(path)}: {warning}"


def _about_files(gathering: Gathering) -> Iterator[str]:
    for path, given in gathering.given.items():
        if given.key.name.endswith("_file") and isinstance(given.value, Path):
            warning = _warning_of_file(given.value, secret=is_secret(given.key.name))
            if warning:
                yield _line(path, f"{_shown(given.value)} {warning}", gathering)


def _warning_of_file(path: Path, secret: bool) -> str | None:
    opening(path)
    name = credential_of(path)
    if name is not None:
        is_missing = _is_missing(path) and is_stored(name) is False
        place = stored_at(path)
        return f"is not there, and neither is {place}: put the secret there" if is_missing else None
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return f"cannot be read now: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "cannot be read: it is no regular file"
    if not os.access(path, os.R_OK):
        return "cannot be read now: Permission denied"
    if secret and mode & stat.S_IROTH:
        return f"can be read by everybody on this machine: sudo chmod o-r {_shown(path)}"
    return None


def _is_missing(path: Path) -> bool:
    """For certain: what only the service may read counts as there."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _about_interfaces(settings: Settings, gathering: Gathering) -> Iterator[str]:
    """By name only: an address may come with the network, and so may the interface."""
    names = {name for _, name in socket.if_nameindex()}
    for index, udp in enumerate(settings.listeners):
        interface = udp.multicast_interface
        if interface is None or interface in names or is_address(interface):
            continue
        warning = (
            f"this machine has no interface {shown(interface)} now, but {', '.join(sorted(names))}"
        )
        yield _line(("udp", index, "multicast_interface"), warning, gathering)
    zone = settings.upstream.host.partition("%")[2]
    if zone and zone not in names and not zone.isdecimal():
        warning = f"this machine has no interface {shown(zone)} now, but {', '.join(sorted(names))}"
        yield _line(("upstream", "url"), warning, gathering)


def _about_ports(settings: Settings, gathering: Gathering) -> Iterator[str]:
    """Two names of one device; `cross_checks.py` compares names only, as devices come and go."""
    first_with: dict[str, int] = {}
    for index, line in enumerate(settings.serial):
        if port_server(line.port) is not None:
            continue
        earlier = first_with.setdefault(os.path.realpath(line.port), index)
        if earlier != index:
            warning = (
                f"{shown(line.port)} is the same device as serial.{earlier}.port now: only one of "
                "the two can have it"
            )
            yield _line(("serial", index, "port"), warning, gathering)


def _about_prefix(settings: Settings, gathering: Gathering) -> Iterator[str]:
    prefix = settings.upstream.topic_prefix
    if prefix and not prefix.endswith("/"):
        example = quoted(shortened(prefix) + "sensors/boot")
        warning = f"has no slash at its end: topics become {example}"
        yield _line(("upstream", "topic_prefix"), warning, gathering)


def _about_topic_filters(settings: Settings, gathering: Gathering) -> Iterator[str]:
    for index, topic in enumerate(settings.topic):
        before = _which_covers(topic, settings.topic[:index])
        if before is not None:
            other = shown(settings.topic[before].filter)
            warning = f"never decides, because topic.{before}.filter {other} comes first"
            yield _line(("topic", index, "filter"), warning, gathering)


def _about_bindings(settings: Settings, gathering: Gathering) -> Iterator[str]:
    if not settings.binding:
        return
    from gateway.config.binding_checks import useless_of

    for index, binding in enumerate(settings.binding):
        for key, warning in useless_of(binding, settings):
            yield _line(("binding", index, key), warning, gathering)


def _about_values(settings: Settings, gathering: Gathering) -> Iterator[str]:
    if not settings.home_assistant_value:
        return
    from gateway.config.home_assistant_checks import useless_of

    for index, value in enumerate(settings.home_assistant_value):
        for key, warning in useless_of(value):
            yield _line(("home_assistant_value", index, key), warning, gathering)


def _about_commands(settings: Settings, gathering: Gathering) -> Iterator[str]:
    if not settings.home_assistant_command:
        return
    from gateway.config.home_assistant_command_checks import useless_of

    first: dict[tuple[str | None, str], int] = {}
    for index, command in enumerate(settings.home_assistant_command):
        before = first.setdefault((command.client, command.name), index)
        if before != index:
            warning = f"never decides, because home_assistant_command.{before} has that name"
            yield _line(("home_assistant_command", index, "name"), warning, gathering)
        for key, warning in useless_of(command):
            yield _line(("home_assistant_command", index, key), warning, gathering)


def _which_covers(topic: TopicSettings, earlier: tuple[TopicSettings, ...]) -> int | None:
    covering = (number for number, one in enumerate(earlier) if covers(one.filter, topic.filter))
    return next(covering, None)


def _about_state_dir(settings: Settings, gathering: Gathering) -> Iterator[str]:
    folder = settings.gateway.state_dir
    opening(folder)
    mount = mount_of(folder)
    if mount is not None and mount.is_in_memory:
        warning = f"{_shown(folder)} is in memory ({mount.file_system}): what is kept there "
        warning += "will not survive a power cut"
        yield _line(("gateway", "state_dir"), warning, gathering)
    free = free_bytes(folder)
    if free is None or not settings.stores_readings:
        return
    room, wanted = free + taken_bytes(settings.gateway.journal_dir), settings.journal.size_max_bytes
    if room < wanted:
        warning = f"{with_unit(wanted)} is more than the {room // MIB}MiB that {_shown(folder)} "
        warning += (
            "has room for; once the disk is full, readings are refused while the broker is away"
        )
        yield _line(("journal", "size_max"), warning, gathering)


def _shown(path: Path) -> str:
    return printable(shortened(str(path)))

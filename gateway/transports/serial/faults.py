"""Why a serial port cannot be opened: a sentence that says what to do. Reads /dev and /proc."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import termios
from collections.abc import Sequence
from pathlib import Path

from gateway.host import limits
from gateway.transports.port_owner import device_owner
from gateway.transports.serial.line import LineError, LineFailure, PortOptions

BY_ID = Path("/dev/serial/by-id")
PORTS_NAMED_MAX = 8

_ABSENT = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR, errno.EIO})
_BUSY = frozenset({errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK})


def why_not_opened(options: PortOptions, error: Exception) -> LineError:
    """For what pyserial raised, which knows the number of the error only sometimes."""
    port = options.port
    limit = limits.named(error)
    if limit is not None:
        return LineError(LineFailure.UNSUITABLE, f"{port} cannot be opened now: {limit}")
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, PermissionError) or number in (errno.EACCES, errno.EPERM):
        return LineError(LineFailure.PERMISSION, permission_text(port))
    if number in _ABSENT or not Path(port).exists():
        return LineError(LineFailure.ABSENT, absent_text(port))
    if number in _BUSY:
        return LineError(LineFailure.BUSY, busy_text(port, device_owner(port)))
    return LineError(LineFailure.UNSUITABLE, unsuitable_text(options, error))


def absent_text(port: str, by_id: Path = BY_ID) -> str:
    there = ports_by_id(by_id)
    if not there:
        return f"{port} is not there, and neither is any port in {by_id}: is it plugged in?"
    named = ", ".join(f"{name} ({device})" for name, device in there[:PORTS_NAMED_MAX])
    more = len(there) - PORTS_NAMED_MAX
    others = f" and {more} more" if more > 0 else ""
    return f"{port} is not there; in {by_id} there is {named}{others}"


def ports_by_id(by_id: Path = BY_ID) -> list[tuple[str, str]]:
    """Names that stay, and those of the devices now."""
    try:
        links = sorted(by_id.iterdir())
    except OSError:
        return []
    return [(link.name, Path(os.path.realpath(link)).name) for link in links]


def busy_text(port: str, owner: str | None) -> str:
    who = owner or "another program, perhaps of another user (sudo fuser -v says which),"
    return f"{who} has {port}: stop it, or give one of the two another port"


def permission_text(port: str) -> str:
    user = _user_name(os.geteuid())
    try:
        status = Path(port).stat()
    except OSError:
        return f"user {user} may not look at {port}: see the rights of the folders above it"
    return permission_advice(
        port,
        status.st_mode,
        _group_name(status.st_gid),
        user,
        is_listed=_is_listed(user, status.st_gid),
        is_member=status.st_gid in (*os.getgroups(), os.getegid()),
    )


def permission_advice(
    port: str, mode: int, group: str, user: str, *, is_listed: bool, is_member: bool
) -> str:
    """`is_listed`: in the group's list; `is_member`: this process has it, from when it began."""
    begin = f"user {user} may not open {port}"
    both = stat.S_IRGRP | stat.S_IWGRP
    if mode & both != both or group == "root" or is_member:
        rule = 'SUBSYSTEM=="tty", KERNEL=="ttyUSB*|ttyACM*", GROUP="dialout", MODE="0660"'
        return (
            f"{begin}, and no group that it could join may: give it one by a rule of udev, "
            f"such as {rule} in /etc/udev/rules.d/50-serial.rules"
        )
    if is_listed:
        return (
            f"{begin} yet: it is in the group {group}, but was not when this program began; "
            "restart the service, or log in again"
        )
    return (
        f"{begin}, which belongs to the group {group}: sudo usermod -aG {group} {user}, then "
        "restart the service, or log in again"
    )


def unsuitable_text(options: PortOptions, error: Exception) -> str:
    port = options.port
    detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if not _is_character_device(port) or _is_no_terminal(error):
        return f"{port} is no serial port"
    return (
        f"{port} cannot be set to {options.baud} baud, parity {options.parity}, "
        f"{options.stop_bits} stop bits{', RTS/CTS' if options.rtscts else ''}: {detail}"
    )


def _is_no_terminal(error: Exception) -> bool:
    """pyserial gives the number of this one in a text only."""
    return any(
        isinstance(each, termios.error | OSError) and errno.ENOTTY in each.args
        for each in _chain(error)
    )


def _chain(error: BaseException) -> Sequence[BaseException]:
    found = [error]
    while found[-1].__context__ is not None:
        found.append(found[-1].__context__)
    return found


def _is_character_device(port: str) -> bool:
    try:
        return stat.S_ISCHR(Path(port).stat().st_mode)
    except OSError:
        return True


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _is_listed(user: str, group: int) -> bool:
    try:
        return user in grp.getgrgid(group).gr_mem
    except KeyError:
        return False

"""Who holds a port or a device, as far as /proc tells: for the one line that says why we cannot
have it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_TABLES = {"udp": ("net/udp", "net/udp6"), "tcp": ("net/tcp", "net/tcp6")}
_LOCAL, _STATE, _INODE = 1, 3, 9  # columns of these tables
_LISTENS = "0A"  # TCP alone has states
# The kernel writes these tables a page at a time and leaves out lines when sockets are opened or
# closed meanwhile: one reading in 30 beside a program that does so all the time.
_READINGS = 5
# Pseudo-terminals (Documentation/admin-guide/devices.txt). Each container counts its own from 0, so
# that one number is several of them.
PSEUDO_TERMINALS = range(136, 144)


@dataclass(frozen=True, slots=True)
class Owner:
    """`mosquitto (process 412)`"""

    name: str
    pid: int

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


def port_owner(port: int, protocol: str = "udp", proc: Path = Path("/proc")) -> Owner | None:
    """Who listens there, by "udp" or "tcp"; None if no process does, or if only root may know."""
    sockets = {f"socket:[{columns[_INODE]}]" for columns in _sockets(port, protocol, proc)}
    return _holder(lambda each: _target(each) in sockets, proc) if sockets else None


def device_owner(path: str, proc: Path = Path("/proc")) -> str | None:
    """Who else has the device open, in a container too; this process itself only if nobody else."""
    try:
        wanted = Path(path).stat()
    except OSError:
        return None
    if not stat.S_ISCHR(wanted.st_mode):
        return None

    def is_it(descriptor: Path) -> bool:
        # Not all are looked at: one on a network's disk that is away would not answer.
        return _target(descriptor).startswith("/dev/") and _is_same(descriptor, wanted)

    holder = _holder(is_it, proc, other_than=os.getpid())
    other = None if holder is None else str(holder)
    if other is None and _holds(proc / str(os.getpid()), is_it):
        return "this program itself, under another name of the port,"
    return other


def _is_same(descriptor: Path, wanted: os.stat_result) -> bool:
    try:
        found = descriptor.stat()
    except OSError:  # closed meanwhile
        return False
    if not stat.S_ISCHR(found.st_mode) or found.st_rdev != wanted.st_rdev:
        return False
    return os.major(wanted.st_rdev) not in PSEUDO_TERMINALS or found.st_dev == wanted.st_dev


def _holder(
    is_it: Callable[[Path], bool], proc: Path, other_than: int | None = None
) -> Owner | None:
    for process in proc.glob("[0-9]*"):
        if process.name != str(other_than) and _holds(process, is_it):
            return Owner(_name(process), int(process.name))
    return None


def only_groups_have(port: int, proc: Path = Path("/proc")) -> bool:
    """Whether all sockets on this port are bound to multicast groups, and none to an address."""
    hosts = {columns[_LOCAL].rpartition(":")[0] for columns in _sockets(port, "udp", proc)}
    return bool(hosts) and all(map(_is_group, hosts))


def _is_group(host: str) -> bool:
    """The address as /proc has it: words of 32 bits, in the machine's byte order."""
    first = int(host[:8], 16).to_bytes(4, sys.byteorder)[0]
    return first == 0xFF if len(host) > 8 else first & 0xF0 == 0xE0


def _sockets(port: int, protocol: str, proc: Path) -> list[list[str]]:
    """The lines of the sockets on this port, some perhaps more than once."""
    found: list[list[str]] = []
    for _ in range(_READINGS):
        found += _one_reading(port, protocol, proc)
    return found


def _one_reading(port: int, protocol: str, proc: Path) -> Iterator[list[str]]:
    for table in _TABLES[protocol]:
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            is_open = protocol == "udp" or columns[_STATE] == _LISTENS
            if is_open and int(columns[_LOCAL].rpartition(":")[2], 16) == port:
                yield columns


def _holds(process: Path, is_it: Callable[[Path], bool]) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:  # another user's, or gone
        return False
    return any(map(is_it, descriptors))


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"

"""The gateway that runs: the process that has locked the state folder, as /proc has it.

Its limits, its signals, whether it is stopped, and whether the files it has open are still those
of the folder. What another user's process is doing only root may know; then less is found.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import SERVICE
from gateway.config.settings import Settings
from gateway.host.limits import UNLIMITED
from gateway.storage.state.folder import LOCK_FILE
from gateway.storage.state.store import DATABASE_FILE
from gateway.transports.port_owner import port_owner

PROC = Path("/proc")
DELETED = " (deleted)"
# How the kernel calls places where a write to a log waits.
_LOG_WAITS = ("pipe_write", "n_tty_write", "tty_write", "unix_dgram_sendmsg", "sock_alloc_send")
_OURS = re.compile(rf"{LOCK_FILE}|state\.db(-wal|-shm)?|.*\.segment|spare-.*")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    pid: int
    folder: Path
    proc: Path = PROC

    @property
    def own(self) -> Path:
        return self.proc / str(self.pid)


def running(settings: Settings, proc: Path = PROC) -> int | None:
    """Who has locked the state folder, or else listens where it would, if that is a gateway. The
    lock is not tried, because a gateway that starts just now would be refused.
    """
    lock = settings.gateway.state_dir.absolute() / LOCK_FILE
    names = {str(lock), f"{lock}{DELETED}"}
    with suppress(OSError, ValueError):
        inode = lock.stat().st_ino if lock.exists() else -1
        for line in (proc / "locks").read_text().splitlines():
            columns = line.split()
            if len(columns) < 6 or columns[1] != "FLOCK" or not columns[4].isdecimal():
                continue
            process = GatewayProcess(int(columns[4]), lock.parent, proc)
            is_it = int(columns[5].rpartition(":")[2]) == inode
            if is_it or any(target in names for target, _ in _descriptors(process)):
                return process.pid
    for udp in settings.listeners:
        owner = port_owner(udp.listen.port, proc=proc) if udp.listen.port else None
        if owner is not None and state_folder_of(owner.pid, proc) is not None:
            return owner.pid
    return None


def state_folder_of(pid: int, proc: Path = PROC) -> Path | None:
    """Of a gateway: where it has its lock and its database open. None for what is no gateway,
    whatever its command line says, and for what only root may know.
    """
    targets = [
        Path(target.removesuffix(DELETED))
        for target, _ in _descriptors(GatewayProcess(pid, Path(), proc))
    ]
    folders = {path.parent for path in targets if path.name == DATABASE_FILE}
    locked = (path.parent for path in targets if path.name == LOCK_FILE)
    return next((folder for folder in locked if folder in folders), None)


def unit_of(pid: int, proc: Path = PROC) -> str | None:
    """The service that a process belongs to, by its control group."""
    try:
        text = (proc / str(pid) / "cgroup").read_text()
    except OSError:
        return None
    found = re.search(r"/system\.slice/(?:.*/)?([\w@.\\-]+\.service)", text)
    return None if found is None else found[1]


def restart(process: GatewayProcess) -> str:
    """By what has started it. A container's engine and a shell start it again as they did."""
    unit = unit_of(process.pid, process.proc)
    return f"sudo kill {process.pid}" if unit is None else f"sudo systemctl restart {unit}"


def examined(process: GatewayProcess) -> Iterator[Finding]:
    yield from _about_state(process)
    yield from _about_files(process)
    yield from _about_descriptors(process)
    yield from _about_signals(process)


def _about_state(process: GatewayProcess) -> Iterator[Finding]:
    state = _field(process, "State") or ""
    if state[:1] in ("T", "t"):
        yield Finding(
            Level.FAILURE,
            f"the gateway (process {process.pid}) is stopped: it serves nobody until it goes on",
            "Ctrl-Z, SIGSTOP or a debugger did that",
            f"sudo kill -CONT {process.pid}",
        )
    elif state.startswith("D"):
        yield Finding(
            Level.WARNING,
            f"the gateway (process {process.pid}) waits in the kernel, {_wchan(process)}",
            "a disk that does not answer, most often; see dmesg",
            f"sudo cat /proc/{process.pid}/stack; sudo dmesg | tail -n 50",
        )
    elif any(word in _wchan(process) for word in _LOG_WAITS):
        yield Finding(
            Level.FAILURE,
            f"the gateway (process {process.pid}) waits until somebody reads its log: "
            f"{_wchan(process)}",
            "its log goes to a pipe or terminal that is not read; Ctrl-Q on a terminal",
            f"ls -l /proc/{process.pid}/fd/2",
        )


def _about_files(process: GatewayProcess) -> Iterator[Finding]:
    gone = []
    for target, descriptor in _descriptors(process):
        path = Path(target.removesuffix(DELETED))
        if not _OURS.fullmatch(path.name):
            continue
        is_there = path.is_relative_to(process.folder) and not target.endswith(DELETED)
        if not is_there or not _is_same(path, descriptor):
            gone.append(path.name)
    if gone:
        yield Finding(
            Level.FAILURE,
            f"files that the gateway has open are not those in {process.folder} any more: "
            f"{', '.join(sorted(set(gone))[:5])}",
            "they were removed or replaced while it runs; what it stores is lost when it ends. "
            "Put them back if they were moved, then start it again",
            restart(process),
        )
    elif not process.folder.is_dir():
        yield Finding(
            Level.FAILURE,
            f"{process.folder} was removed while the gateway runs",
            "it makes a new one when it starts",
            restart(process),
        )


def _about_descriptors(process: GatewayProcess) -> Iterator[Finding]:
    soft = limits_of(process).get("Max open files")
    used = len(list(_descriptors(process)))
    if soft is None or soft == UNLIMITED or not used:
        return
    if used > 0.8 * soft:
        yield Finding(
            Level.WARNING,
            f"the gateway has {used} of at most {soft} files open (RLIMIT_NOFILE)",
            "raise the limit in a drop-in: [Service] LimitNOFILE=1024",
            f"sudo systemctl edit {SERVICE}",
        )


def _about_signals(process: GatewayProcess) -> Iterator[Finding]:
    for field, how in (("SigBlk", "blocks"), ("SigIgn", "ignores")):
        mask = int(_field(process, field) or "0", 16)
        names = [each.name for each in _SIGNALS if mask & 1 << (each - 1)]
        if "SIGTERM" in names or (names and how == "blocks"):
            yield Finding(
                Level.WARNING,
                f"the gateway (process {process.pid}) {how} {' and '.join(names)}: it cannot be "
                "stopped or reloaded",
                "the process that started it had them so; end it by force, then start it again",
                f"sudo kill -KILL {process.pid}",
            )


def limits_of(process: GatewayProcess) -> dict[str, int]:
    """The soft ones, by their names in /proc."""
    found = {}
    with suppress(OSError):
        for line in (process.own / "limits").read_text().splitlines()[1:]:
            parts = re.split(r"\s{2,}", line.strip())
            if len(parts) >= 2 and (parts[1].isdecimal() or parts[1] == "unlimited"):
                found[parts[0]] = int(parts[1]) if parts[1].isdecimal() else UNLIMITED
    return found


def _descriptors(process: GatewayProcess) -> Iterator[tuple[str, Path]]:
    with suppress(OSError):
        for descriptor in (process.own / "fd").iterdir():
            with suppress(OSError):
                yield os.fsdecode(descriptor.readlink()), descriptor


def _is_same(path: Path, descriptor: Path) -> bool:
    try:
        return path.samefile(descriptor)
    except OSError:
        return False


def _field(process: GatewayProcess, name: str) -> str | None:
    with suppress(OSError):
        text = (process.own / "status").read_text(errors="replace")
        found = re.search(rf"^{name}:\s*(.*)$", text, re.MULTILINE)
        return None if found is None else found[1]
    return None


def _wchan(process: GatewayProcess) -> str:
    with suppress(OSError):
        return (process.own / "wchan").read_text(errors="replace").strip().strip("0")
    return ""

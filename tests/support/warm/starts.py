"""`subprocess.Popen` that forks a template where the command is one that this can serve."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.warm.template import ELSE, ORDER_BYTES_MAX, RUN, UNBUFFERED

VARIABLE = "TIDEGATE_STARTS"
FORM_VARIABLE = "TIDEGATE_COMPILED"  # chooses what `run` imports
REPOSITORY = Path(__file__).parents[3]
MODULES = (["gateway"], ["tests.hil.patched_gateway"], ["firmware.image"])
PR_SET_CHILD_SUBREAPER = 36
# What an interpreter reads as it begins, or the C library: it is what it was for the template.
NO_MATTER = ("PYTHON", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", UNBUFFERED)
TEMPLATES_MAX = 4  # of 60 MB each
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "UV_")

_cold_popen = subprocess.Popen
_executing = signature(_cold_popen._execute_child)  # type: ignore[attr-defined]
_libc = ctypes.CDLL(None, use_errno=True)


class Key(NamedTuple):
    """What a template is for; `environment` holds what was read as it began."""

    kind: str
    environment: tuple[tuple[str, str], ...]


class Starts:
    """Of one process that runs tests."""

    def __init__(self) -> None:
        self.is_cold = False  # while a test runs that wants it so
        self._templates: dict[Key, socket.socket] = {}
        self._processes: list[subprocess.Popen[bytes]] = []  # they end with this one
        self._lock = threading.Lock()

    def is_served(self, command: list[str], given: Mapping[str, Any]) -> bool:
        """Whether a template can do what was asked for."""
        environment = os.environ if given["env"] is None else given["env"]
        return (
            not self.is_cold
            and command[:2] == [sys.executable, "-m"]
            and command[2:3] in MODULES
            and given["close_fds"]
            and given["restore_signals"]
            and not given["pass_fds"]
            and given["executable"] is None
            and all(given[each] is None for each in ("preexec_fn", "gid", "gids", "uid"))
            and given["umask"] == -1
            and given["process_group"] == -1
            and given["shell"] is False
            and self._has_room(_key(command, environment))
            and environment.get("PYTHONPATH") in (None, "", str(REPOSITORY))
        )

    def start(self, command: list[str], given: Mapping[str, Any]) -> int:
        """The number of the new process, which is a child of this one."""
        environment = dict(os.environ if given["env"] is None else given["env"])
        order = {
            "module": command[2],
            "arguments": command[3:],
            "folder": os.path.abspath(given["cwd"] or os.getcwd()),  # noqa: PTH100, PTH109
            "environment": environment,
            "has_session": bool(given["start_new_session"]),
        }
        streams = [
            number if given[name] == -1 else given[name]
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        with self._lock:
            template = self._template(_key(command, environment))
            return _ordered(template, json.dumps(order).encode(), streams)

    def _has_room(self, key: Key) -> bool:
        return key in self._templates or len(self._templates) < TEMPLATES_MAX

    def _template(self, key: Key) -> socket.socket:
        if key not in self._templates:
            self._templates[key] = self._made(key)
        return self._templates[key]

    def _made(self, key: Key) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: value for name, value in os.environ.items() if not _is_key(name)}
        environment |= dict(key.environment)
        command = [sys.executable, "-m", "tests.support.warm.template"]
        command += [str(its.fileno()), key.kind]
        with its:
            process = _cold_popen(
                command,
                cwd=REPOSITORY,
                env=environment,
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
            )
        self._processes.append(process)
        assert ours.recv(ORDER_BYTES_MAX) == b"ready", f"{command}: {process.wait()}"
        return ours


class WarmPopen(_cold_popen):  # type: ignore[type-arg]
    def _execute_child(self, *values: Any) -> None:
        given = _executing.bind(self, *values).arguments
        command = given["args"]
        words = [] if isinstance(command, str | bytes | os.PathLike) else [*map(str, command)]
        if not starts.is_served(words, given):
            super()._execute_child(*values)  # type: ignore[misc]
            return
        self.pid = starts.start(words, given)
        self._child_created = True
        ends = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[end] for end in ends))  # type: ignore[attr-defined]


def install() -> None:
    if os.environ.get(VARIABLE) != "cold" and sys.platform == "linux":
        subprocess.Popen = WarmPopen  # type: ignore[misc]


def _ordered(template: socket.socket, order: bytes, streams: list[int]) -> int:
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        socket.send_fds(template, [order], streams)
        pid = int(template.recv(ORDER_BYTES_MAX))
        _wait_until_ours(pid)
    finally:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return pid


def _key(command: Sequence[str], environment: Mapping[str, str]) -> Key:
    kind = RUN if command[3:4] == [RUN] else ELSE
    found = {name: value for name, value in environment.items() if _is_key(name)}
    if kind != RUN:
        found.pop(FORM_VARIABLE, None)
    return Key(kind, tuple(sorted(found.items())))


def _is_key(name: str) -> bool:
    return name == FORM_VARIABLE or (name.startswith(READ_AT_START) and name not in NO_MATTER)


def _wait_until_ours(pid: int) -> None:
    """Until the process between has ended: before that, its child is not a child of this one."""
    while True:
        status = Path(f"/proc/{pid}/stat").read_text()
        if int(status.rpartition(")")[2].split()[1]) == os.getpid():
            return
        os.sched_yield()


starts = Starts()

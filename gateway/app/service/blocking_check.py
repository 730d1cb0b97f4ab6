"""Finds calls in the event loop's thread that a disk, a name server or a peer could hold up.

A tool for those who change Tidegate; the test suite has it on in every gateway that it starts.
`TIDEGATE_CHECK_BLOCKING=log` logs each finding once as an error with its place, `=raise` makes the
call fail as well. `TIDEGATE_CHECK_BLOCKING_TO=FILE` appends findings to a file.

- Armed when the gateway has started, until it has stopped; other threads may block.
- Calls that Python audits (PEP 578) are seen by a hook. Of those that it does not audit, such as
  os.stat, the functions are wrapped while the check is on.
- A module that is imported late is a finding too: it is read from the disk.
- What may block is in ALLOWED, each with its reason.

Without the variable nothing of this is installed. Compiled modules have no frames: a call from one
of them is found, with the place of its caller.
"""

from __future__ import annotations

import functools
import grp
import logging
import os
import pwd
import re
import socket
import ssl
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any

log = logging.getLogger("tidegate.blocking")

VARIABLE = "TIDEGATE_CHECK_BLOCKING"
FILE_VARIABLE = "TIDEGATE_CHECK_BLOCKING_TO"
PLACES_SHOWN_MAX = 6
FINDINGS_MAX = 100  # different ones; more are not looked at

PACKAGE = str(Path(__file__).resolve().parents[2])
_SITE = ("site-packages", "dist-packages")


class Mode(Enum):
    LOG = "log"
    RAISE = "raise"


class BlockingCallError(Exception):
    """A call that could block was made in the event loop's thread."""


@dataclass(frozen=True, slots=True)
class Finding:
    call: str
    argument: str
    places: tuple[str, ...]  # of our code, innermost first: `stores.py:137 state_numbers`

    def __str__(self) -> str:
        places = " < ".join(self.places[:PLACES_SHOWN_MAX]) or "no place of ours"
        return f"{self.call}({self.argument}) at {places}"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What matches all that is given is no finding."""

    reason: str
    call: str = ""
    argument: str = ""
    place: str = ""

    def covers(self, finding: Finding) -> bool:
        return (
            self.call in ("", finding.call)
            and re.match(self.argument, finding.argument) is not None
            and any(place.startswith(self.place) for place in finding.places or ("",))
        )


ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "the kernel makes these files when they are read: no disk is behind them",
        argument=r"/(proc|sys)/(?!.*/fd/\d)",
    ),
    Allowed("no file: it has no contents and no disk", argument=r"/dev/(null|tty)$"),
    Allowed(
        "no file: since Python 3.13 a traceback in the log parses pieces of lines, and one that is "
        "none makes it look for a file of this name",
        call="open",
        argument=r"<unknown>$",
    ),
)

_AUDITED = frozenset(
    {
        "open",
        "glob.glob",
        "import",
        "subprocess.Popen",
        "sqlite3.connect",
        "tempfile.mkstemp",
        *(f"os.{name}" for name in ("chflags", "chmod", "chown", "exec", "fork", "forkpty")),
        *(f"os.{name}" for name in ("getxattr", "link", "listdir", "listxattr", "mkdir")),
        *(f"os.{name}" for name in ("posix_spawn", "remove", "rename", "rmdir", "scandir")),
        *(f"os.{name}" for name in ("setxattr", "spawn", "symlink", "system", "truncate")),
        "os.utime",
        "fcntl.flock",
        "fcntl.lockf",
        *(f"shutil.{name}" for name in ("copyfile", "copytree", "move", "rmtree", "chown")),
        *(f"socket.{name}" for name in ("getaddrinfo", "gethostbyname", "gethostbyaddr")),
        "socket.getnameinfo",
        "socket.connect",
        "socket.bind",
        "socket.sendto",
    }
)
# (where it is, its name, whether it blocks only on a descriptor that is blocking)
_WRAPPED: tuple[tuple[Any, str, bool], ...] = (
    *(
        (os, name, False)
        for name in (
            "stat",
            "lstat",
            "fstat",
            "statvfs",
            "fstatvfs",
            "access",
            "readlink",
            "fsync",
            "fdatasync",
            "ftruncate",
            "posix_fallocate",
            "sync",
        )
    ),
    *((os, name, True) for name in ("read", "write", "pread", "pwrite", "readv", "writev")),
    *((ssl.SSLContext, f"load_{name}", False) for name in ("cert_chain", "verify_locations")),
    (ssl.SSLContext, "load_default_certs", False),
    *((pwd, name, False) for name in ("getpwuid", "getpwnam", "getpwall")),
    *((grp, name, False) for name in ("getgrgid", "getgrnam", "getgrall")),
    (time, "sleep", False),
    (threading.Thread, "join", False),
)


@dataclass(slots=True)
class BlockingCheck:
    mode: Mode
    to: Path | None = None
    allowed: tuple[Allowed, ...] = ALLOWED
    findings: list[Finding] = field(default_factory=list)
    _thread: int | None = field(init=False, default=None)
    _seen: set[tuple[str, tuple[str, ...]]] = field(init=False, default_factory=set)
    _is_reporting: bool = field(init=False, default=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> BlockingCheck | None:
        """As the variables have it; None without them."""
        wanted, to = environment.get(VARIABLE, ""), environment.get(FILE_VARIABLE)
        if wanted not in {mode.value for mode in Mode}:
            return None
        return cls(Mode(wanted), Path(to) if to else None)

    def arm(self) -> None:
        """From here on for the thread that calls this."""
        _install()
        _armed.append(self)
        self._thread = threading.get_ident()

    def disarm(self) -> None:
        self._thread = None
        if self in _armed:
            _armed.remove(self)

    def check_call(self, call: str, argument: str) -> None:
        """Called before the call is made, in any thread. Raises BlockingCallError in mode RAISE."""
        if threading.get_ident() != self._thread or self._is_reporting:
            return
        self._is_reporting = True  # what is done here is no finding
        try:
            finding = self._finding(call, argument)
            if finding is None:
                return
            self._report(finding)
        finally:
            self._is_reporting = False
        if self.mode is Mode.RAISE:
            raise BlockingCallError(str(finding))

    def _finding(self, call: str, argument: str) -> Finding | None:
        """None for what is allowed, and for calls of programs that use the gateway as a library."""
        frames = list(_frames())
        innermost = next((each for each in frames if not _is_library(each)), None)
        if innermost is not None and not _is_ours(innermost):
            return None
        places = tuple(_place(frame) for frame in frames if _is_ours(frame))
        finding = Finding(call, argument, places)
        return None if any(each.covers(finding) for each in self.allowed) else finding

    def _report(self, finding: Finding) -> None:
        key = (finding.call, finding.places)
        if key in self._seen or len(self._seen) >= FINDINGS_MAX:
            return
        self._seen.add(key)
        self.findings.append(finding)
        log.error("a call that may block, in the thread of the event loop: %s", finding)
        if self.to is not None:
            with self.to.open("a", encoding="utf-8") as file:
                file.write(f"{finding}\n")


# What is installed stays, as a hook cannot be taken away; without an armed check it does nothing.
_armed: list[BlockingCheck] = []
_is_installed: list[bool] = []


def _install() -> None:
    if _is_installed:
        return
    _is_installed.append(True)
    for owner, name, only_if_blocking in _WRAPPED:
        setattr(owner, name, _wrapped(owner, name, only_if_blocking))
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _armed or event not in _AUDITED:
        return
    if event.startswith("socket."):
        argument = _of_socket(event, arguments)
    elif event == "import":
        argument = None if _is_built_in(arguments[0]) else str(arguments[0])
    else:
        argument = _of_path(arguments[0] if arguments else "")
    if argument is not None:
        for check in tuple(_armed):
            check.check_call(event, argument)


def _wrapped(owner: Any, name: str, only_if_blocking: bool) -> Callable[..., Any]:
    before = getattr(owner, name)
    call = f"{getattr(owner, '__name__', owner)}.{name}"

    @functools.wraps(before)
    def checked(*arguments: Any, **named: Any) -> Any:
        if _armed and not (only_if_blocking and _does_not_block(arguments[0])):
            argument = _of_path(arguments[0] if arguments else "")
            for check in tuple(_armed):
                check.check_call(call, "a descriptor" if argument is None else argument)
        return before(*arguments, **named)

    return checked


def _does_not_block(descriptor: int) -> bool:
    """A pipe or socket that is set so; a file always may."""
    try:
        return not os.get_blocking(descriptor) and not stat.S_ISREG(_fstat(descriptor).st_mode)
    except OSError:
        return True  # the call itself fails


_fstat = os.fstat  # as it was before it was wrapped


def _of_socket(event: str, arguments: tuple[Any, ...]) -> str | None:
    """None where nothing is looked up or waited for."""
    if event in ("socket.connect", "socket.bind", "socket.sendto"):
        opened, address = arguments[0], arguments[1]
        host = address[0] if isinstance(address, tuple) else None
        waits = event != "socket.bind" and opened.gettimeout() != 0 and opened.type in _WAITING
        return None if not waits and _is_number(host) else repr(address)
    host = arguments[0]
    return None if event == "socket.getaddrinfo" and _is_number(host) else repr(host)


_WAITING = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)


def _is_number(host: object) -> bool:
    """Also None and "", which are no names, and what is no address of the internet."""
    if not isinstance(host, str | bytes) or not host:
        return True
    text = host.decode(errors="replace") if isinstance(host, bytes) else host
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _of_path(given: Any) -> str | None:
    """None for a descriptor: what opened it was looked at."""
    if isinstance(given, int):
        return None
    return os.fsdecode(given) if isinstance(given, str | bytes | os.PathLike) else repr(given)


def _is_built_in(module: str) -> bool:
    return module in sys.builtin_module_names


def _frames() -> Iterator[FrameType]:
    """Innermost first, without those of this module."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename != __file__:
            yield frame
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(PACKAGE)


def _is_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    if name.startswith("<"):
        return True
    return not _is_ours(frame) and (name.startswith(_STANDARD) or any(s in name for s in _SITE))


_STANDARD = str(Path(os.__file__).parent)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename[len(PACKAGE) + 1 :]}:{frame.f_lineno} {code.co_name}"

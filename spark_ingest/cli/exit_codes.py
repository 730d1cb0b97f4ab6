"""How every verb ends, for scripts and for systemd; from 69 on the numbers of sysexits.h."""

from __future__ import annotations

import sys
from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    UNAVAILABLE = 69
    CANNOT_CREATE = 73
    PERMISSION = 77
    CONFIGURATION = 78
    INTERRUPTED = 130  # 128 + SIGINT, as shells count


MEANING = {
    ExitCode.OK: "ok",
    ExitCode.FAILURE: "failure",
    ExitCode.USAGE: "wrong usage of the command line",
    ExitCode.UNAVAILABLE: "something needed is not there: a package, a port, the broker's consent",
    ExitCode.CANNOT_CREATE: "a file cannot be created",
    ExitCode.PERMISSION: "no permission",
    ExitCode.CONFIGURATION: "the configuration is wrong",
}


class VerbError(Exception):
    """What a verb cannot do: text for the user, and how to end."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def of_os_error(error: OSError, what: str) -> VerbError:
    code = ExitCode.PERMISSION if isinstance(error, PermissionError) else ExitCode.CANNOT_CREATE
    return VerbError(code, f"{what}: {error.strerror or error}")


def print_error(text: str) -> None:
    print(text, file=sys.stderr)

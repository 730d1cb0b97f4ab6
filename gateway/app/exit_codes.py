"""How every verb ends, for scripts and for systemd. From 69 on the numbers are those of sysexits.h.

systemd's RestartPreventExitStatus=78 keeps a wrong configuration from becoming a restart loop.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    UNAVAILABLE = 69
    CANNOT_CREATE = 73
    RESTART = 75  # a temporary failure, which a service manager answers with a start
    PERMISSION = 77
    CONFIGURATION = 78
    INTERRUPTED = 130  # 128 + SIGINT, as shells count


MEANING = {
    ExitCode.OK: "ok",
    ExitCode.FAILURE: "failure",
    ExitCode.USAGE: "wrong usage of the command line",
    ExitCode.UNAVAILABLE: "something needed is not there: a port, the broker, a running gateway",
    ExitCode.CANNOT_CREATE: "a file cannot be created",
    ExitCode.RESTART: "ended by a command, to be started again",
    ExitCode.PERMISSION: "no permission",
    ExitCode.CONFIGURATION: "the configuration is wrong",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}

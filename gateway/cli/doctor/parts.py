"""Each part of the examination within a time limit: one that hangs or fails is a finding."""

from __future__ import annotations

import argparse
import os
import shlex
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.cli.doctor.apart import NoAnswerInTimeError, PartFailedError, apart
from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import Examined, Section
from gateway.cli.sources import configuration_of, used_path
from gateway.config import ConfigError, Configuration

CONFIGURATION_S_MAX = 10.0
PART_S_MAX = 30.0
DISK_ANSWERS_S_MAX = 10.0
# Beyond which a card that is only slow would have failed.
SYNC_S_MAX = 2.0

Examination = Callable[[Examined, argparse.Namespace], Section]


class UnreadableError(Exception):
    """The configuration file is not read: why is the section's finding."""

    def __init__(self, section: Section) -> None:
        super().__init__()
        self.section = section


def configuration_in_time(arguments: argparse.Namespace) -> Configuration:
    """Raises ConfigError, UnreadableError."""
    path = used_path(arguments.config)
    loaded: Configuration | ConfigError
    try:
        loaded = apart(partial(_loaded, arguments), CONFIGURATION_S_MAX)
    except NoAnswerInTimeError:
        what = f"{path} cannot be read: no answer within {CONFIGURATION_S_MAX:.0f} s"
        raise UnreadableError(_unreadable(what, path)) from None
    except PartFailedError as error:
        raise UnreadableError(_unreadable(f"{path} cannot be read: {error}", path)) from None
    if isinstance(loaded, ConfigError):
        raise loaded
    return loaded


def _loaded(arguments: argparse.Namespace) -> Configuration | ConfigError:
    try:
        return configuration_of(arguments, os.environ)
    except ConfigError as error:  # of whatever kind: as one that can be handed over
        return ConfigError(error.problems, error.left_out)


def _unreadable(what: str, path: Path | None) -> Section:
    section = Section("configuration", [("config", f"{path}, not read")])
    try:
        is_file = path is None or stat.S_ISREG(path.stat().st_mode)
    except OSError:
        is_file = True
    section.findings.append(
        Finding(
            Level.FAILURE,
            what if is_file else f"{path} is no file, but a pipe or a device",
            "a reload would not get further" if is_file else "name a file",
            f"ls -l {shlex.quote(str(path))}; findmnt -T {shlex.quote(str(path))}",
        )
    )
    return section


def in_time(
    name: str, examination: Examination, subject: Examined, arguments: argparse.Namespace
) -> Section:
    try:
        time_limit_s = PART_S_MAX + subject.configuration.settings.upstream.connect_timeout_s
        if name == "disk":
            _check_disk_answers(subject)
            time_limit_s = PART_S_MAX + SYNC_S_MAX * arguments.syncs
        return apart(partial(examination, subject, arguments), time_limit_s)
    except NoAnswerInTimeError:
        return _no_answer(name, subject)
    except PartFailedError as error:
        return Section(
            name,
            [(name, "not examined")],
            [
                Finding(
                    Level.FAILURE,
                    f"{name} could not be examined: {error}",
                    "what it needs is missing, or this is a fault of Tidegate: report it",
                    f"tidegate doctor --only {name} --json",
                )
            ],
        )


def _check_disk_answers(subject: Examined) -> None:
    from gateway.cli.doctor.disk import answers

    apart(partial(answers, subject.configuration.settings), DISK_ANSWERS_S_MAX)


def _no_answer(name: str, subject: Examined) -> Section:
    folder = subject.configuration.settings.gateway.state_dir
    if name in ("disk", "files"):
        what = f"the disk of {folder} does not answer"
        advice = "it hangs or is frozen: a card that fails, a network disk that is away, fsfreeze"
        command = f"sudo dmesg | tail -n 50; findmnt -T {shlex.quote(str(folder))}"
    elif name == "broker":
        what = f"the name {subject.configuration.settings.upstream.host!r} is not looked up in time"
        advice = "no name server answers: check the network and /etc/resolv.conf"
        command = "cat /etc/resolv.conf; resolvectl status"
    else:
        what, advice = f"{name} could not be examined in time", "something it asks does not answer"
        command = "sudo dmesg | tail -n 50"
    return Section(name, [(name, "no answer")], [Finding(Level.FAILURE, what, advice, command)])

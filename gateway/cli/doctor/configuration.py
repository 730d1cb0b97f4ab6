"""The configuration: right or not, and who may read what it names."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import Examined, Section, edit_command
from gateway.cli.service_user import SERVICE_USER, refusals
from gateway.cli.sources import USUAL_PATH
from gateway.config import ConfigError
from gateway.config.credential import (
    credential_of,
    is_secret,
    is_stored,
    named_files,
    stored_at,
)
from gateway.config.regular_file import read_regular
from gateway.config.settings import Settings


def wrong(error: ConfigError) -> Section:
    """Of a configuration that cannot be used: each mistake with the way to its place."""
    section = Section("configuration", [("config", f"wrong in {len(error.problems)} places")])
    for problem in error.problems:
        origin = problem.origin
        command = ""
        if origin.line is not None:
            command = edit_command(Path(origin.source), origin.line, origin.column or 1)
        elif not origin.source.startswith(("environment ", "command line")):
            command = f"sudo tidegate init {shlex.quote(origin.source)}"
        elif origin.source.startswith("environment "):
            command = f"unset {origin.source.removeprefix('environment ')}"
        section.findings.append(
            Finding(Level.FAILURE, str(problem), "correct it there, as it says", command)
        )
    return section


def examine(subject: Examined) -> Section:
    section = Section("configuration")
    path = subject.config_file
    section.lines.append(("config", "no file, all defaults" if path is None else str(path)))
    section.facts["file"] = None if path is None else str(path)
    if path is None:
        section.findings.append(
            Finding(
                Level.NOTE,
                f"there is no {USUAL_PATH}: all keys have their defaults",
                "a file with every key in it, explained, is a place to begin",
                f"sudo tidegate init {USUAL_PATH}",
            )
        )
    _check_files(subject.configuration.settings, section)
    if path is not None:
        for key, sentence, command in refusals(subject.configuration.settings, path):
            what = f"{key}: {sentence}" if key else sentence
            _add_finding(section, what, "let its group read it, no more", command)
    found = {finding.what.partition(": ")[0] for finding in section.findings}
    for warning in subject.configuration.warnings:
        key = warning.partition(": ")[2].partition(": ")[0]
        # Of a file that was looked at, more is known than that.
        if key not in found and (path is not None or not warning.startswith("no --config")):
            section.findings.append(Finding(Level.WARNING, warning, "", subject.edit(key)))
    return section


def _check_files(settings: Settings, section: Section) -> None:
    for key, path in named_files(settings).items():
        _check_file(key, path, is_secret(key), section)


def _check_file(key: str, path: Path, is_secret: bool, section: Section) -> None:
    quoted = shlex.quote(str(path))
    name = credential_of(path)
    try:
        mode = path.stat().st_mode
        read_regular(path, 1)
    except FileNotFoundError:
        if name is not None and is_stored(name) is not False:
            return  # systemd hands it over when it starts the service
        place = shlex.quote(str(stored_at(path)))
        _add_finding(
            section,
            f"{key}: {path} is not there",
            "type the secret, Enter and Ctrl-D" if is_secret else "copy it there",
            f"sudo install -D -m 0600 /dev/stdin {place}"
            if is_secret
            else f"sudo install -D -m 0644 YOUR_FILE {place}",
        )
    except PermissionError:
        if name is None:  # a credential is for the service alone
            _add_finding(
                section,
                f"{key}: {path} may not be read by this user",
                "let the service's group read it, or run this with sudo",
                f"sudo chgrp {SERVICE_USER} {quoted} && sudo chmod 0640 {quoted}",
            )
    except OSError as error:
        _add_finding(section, f"{key}: {path}: {error.strerror}", "name a file", f"ls -l {quoted}")
    else:
        if is_secret and mode & (stat.S_IROTH | stat.S_IWOTH) and name is None:
            _add_finding(
                section,
                f"{key}: {path} can be read by everybody on this machine",
                "take the right away, and change the secret if others use this machine",
                f"sudo chmod o-rwx {quoted}",
            )


def _add_finding(section: Section, what: str, advice: str, command: str) -> None:
    section.findings.append(Finding(Level.FAILURE, what, advice, command))

"""The state folder and what is in it: who may read and write it, and whether its times make sense.

Nothing is opened for writing. Names are short of what a path may have, so that each can be made.
"""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import SERVICE, Examined, Section
from gateway.host.causes import in_the_way, is_too_long

FILES_MAX = 10_000
# The longest name in the folder: a segment of the journal, kept as damaged.
NAME_BYTES = len("/journal/00000000000000000000-0000000000-00000000.segment.damaged")
AHEAD_S_MAX = 3600.0
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def examine(subject: Examined) -> Section:
    folder = subject.configuration.settings.gateway.state_dir.absolute()
    section = Section("files", [("files", str(folder))])
    if is_too_long(folder, NAME_BYTES):
        section.findings.append(
            Finding(
                Level.FAILURE,
                f"gateway.state_dir is too long: with the names of the files in it ({NAME_BYTES} "
                "bytes) a path would have more than 4095, or a name more than 255",
                "choose a shorter one",
                subject.edit("gateway.state_dir"),
            )
        )
        return section
    obstacle = in_the_way(folder)
    if obstacle is not None:
        section.findings.append(
            Finding(Level.FAILURE, obstacle, "", f"ls -ld {shlex.quote(str(folder))}")
        )
        return section
    found = list(_found(folder))
    section.facts["count"] = len(found)
    section.findings += _about_rights(folder, found)
    section.findings += _about_access(folder, found)
    section.findings += _about_times(found, time.time())
    return section


def _found(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    paths = [folder, *folder.glob("*"), *(folder / "journal").glob("*")]
    for path in paths[:FILES_MAX]:
        try:
            yield path, path.lstat()
        except OSError:  # gone meanwhile, or in a folder that we may not look into
            continue


def _about_rights(folder: Path, found: list[tuple[Path, os.stat_result]]) -> Iterator[Finding]:
    loose = [path for path, status in found if status.st_mode & OTHERS and _is_plain(status)]
    if loose:
        yield Finding(
            Level.WARNING,
            f"{len(loose)} files in {folder} may be read or written by other users: "
            f"{_names(folder, loose)}",
            "readings and passwords of sensors are in them; take the rights away",
            f"sudo chmod -R go-rwx {shlex.quote(str(folder))}",
        )


def _about_access(folder: Path, found: list[tuple[Path, os.stat_result]]) -> Iterator[Finding]:
    """Of another owner: a copy, a restore or a start by root leaves such files."""
    if not found:
        return
    owner = found[0][1].st_uid
    others = [path for path, status in found if status.st_uid != owner]
    closed = [path for path, _ in found if not os.access(path, os.R_OK | os.W_OK)]
    if others:
        yield Finding(
            Level.FAILURE,
            f"{len(others)} files in {folder} belong to another user than the folder: "
            f"{_names(folder, others)}",
            "the gateway could not open them again, and what they hold would not go out",
            f"sudo chown -R {owner} {shlex.quote(str(folder))}",
        )
    elif closed and owner == os.geteuid():
        yield Finding(
            Level.FAILURE,
            f"{len(closed)} files in {folder} may not be read and written: "
            f"{_names(folder, closed)}",
            "the gateway could not open them again, and what they hold would not go out",
            f"chmod -R u+rwX {shlex.quote(str(folder))}",
        )


def _about_times(found: list[tuple[Path, os.stat_result]], now: float) -> Iterator[Finding]:
    newest = max((status.st_mtime for _, status in found), default=now)
    if newest - now > AHEAD_S_MAX:
        shown = datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield Finding(
            Level.WARNING,
            f"files of the gateway are of {shown}, which is not yet: the clock was set back, or is "
            "not set since the machine started",
            "readings carry its time, and their age is taken by it",
            f"timedatectl; sudo systemctl restart {SERVICE}",
        )


def _is_plain(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def _names(folder: Path, paths: list[Path]) -> str:
    shown = [str(path.relative_to(folder)) for path in paths[:3]]
    return ", ".join(shown) + (", ..." if len(paths) > len(shown) else "")

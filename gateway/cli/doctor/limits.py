"""What a process may have: this one, and the gateway that runs, which may have been given less."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.gateway_process import GatewayProcess, limits_of, running
from gateway.cli.doctor.section import SERVICE, Examined, Section
from gateway.host import limits
from gateway.host.limits import FILE_BYTES_MIN, MEMORY_BYTES_MIN, THREADS_MIN, UNLIMITED, Limit
from gateway.host.needs import descriptors_needed

# What /proc/PID/limits calls them.
_IN_PROC = {
    limits.NOFILE: "Max open files",
    limits.NPROC: "Max processes",
    limits.AS: "Max address space",
    limits.DATA: "Max data size",
    limits.FSIZE: "Max file size",
    limits.STACK: "Max stack size",
    limits.CPU: "Max cpu time",
}
_INTERPRETER_BYTES = 32 * limits.MIB


def examine(subject: Examined) -> Section:
    section = Section("limits")
    settings = subject.configuration.settings
    needed = {
        limits.NOFILE: descriptors_needed(settings) + 3,
        limits.NPROC: THREADS_MIN + 1,
        limits.AS: MEMORY_BYTES_MIN + _INTERPRETER_BYTES,
        limits.DATA: MEMORY_BYTES_MIN + _INTERPRETER_BYTES,
        limits.FSIZE: FILE_BYTES_MIN,
        limits.STACK: limits.STACK_BYTES_MIN // 4,
        limits.CPU: UNLIMITED,
    }
    hard = {limit: limit.hard() for limit in needed}
    whose = "a process that is started here"
    pid = running(settings)
    if pid is not None:
        theirs = limits_of(GatewayProcess(pid, settings.gateway.state_dir))
        found = {limit: theirs[_IN_PROC[limit]] for limit in needed if _IN_PROC[limit] in theirs}
        if found:
            hard, whose = found, f"the gateway (process {pid})"
    section.facts |= {limit.name: value for limit, value in hard.items() if value != UNLIMITED}
    section.lines.append(("limits", f"{hard.get(limits.NOFILE)} open files for {whose}"))
    for limit, value in hard.items():
        if value != UNLIMITED and (needed[limit] == UNLIMITED or value < needed[limit]):
            section.findings.append(_too_small(limit, value, needed[limit], whose))
    section.findings += _about_threads()
    section.findings += _about_locale()
    return section


def _too_small(limit: Limit, value: int, needed: int, whose: str) -> Finding:
    needs = (
        "the kernel ends it after that time"
        if needed == UNLIMITED
        else f"it needs {limit.shown(needed)}"
    )
    return Finding(
        Level.FAILURE,
        f"{limit.name} of {whose} is {limit.shown(value)} ({limit.what}); {needs}",
        f"{limit.advice(None if needed == UNLIMITED else needed)}; of the service in a drop-in",
        f"sudo systemctl edit {SERVICE}",
    )


def _about_threads() -> Iterator[Finding]:
    found = limits.pids_max()
    if found is not None and found[0] - found[1] < THREADS_MIN:
        yield Finding(
            Level.WARNING,
            f"pids.max of the control group is {found[0]}, and {found[1]} threads are there "
            f"already: the gateway needs {THREADS_MIN}",
            "raise TasksMax=",
            f"sudo systemctl edit {SERVICE}",
        )


def _about_locale() -> Iterator[Finding]:
    """The doctor itself is executed again in UTF-8 mode, and keeps what the caller has."""
    wanted = os.environ.get("PYTHONIOENCODING", "").partition(":")[0].lower()
    if wanted and wanted.replace("-", "") != "utf8" and sys.flags.utf8_mode:
        yield Finding(
            Level.NOTE,
            f"the locale of this shell is not UTF-8 ({wanted}): letters of other languages in "
            "names of folders and topics are shown as \\x..",
            "export LC_ALL=C.UTF-8",
        )

"""The gateway that runs: what it reports of itself, and what its process shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gateway.admin.http.answers import STATUS_SCHEMA
from gateway.cli.asking import PATIENCE_S, NoAnswerError, ask_this, fetch, place_of, reachable
from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.gateway_process import GatewayProcess, examined, restart, running
from gateway.cli.doctor.section import Examined, Section
from gateway.config import Configuration

# Counters that no alarm has, with what they mean.
_COUNTED = {
    "tidegate_log_lines_lost_total": (
        "lines of the log were lost, because nobody read them in time",
        "see where the log goes: a pipe, a terminal or a journal that does not keep up",
    ),
    "tidegate_process_pause_seconds_total": (
        "seconds long the gateway stood still, the longest stops among them",
        "a suspended machine, SIGSTOP, or a processor or disk that is overloaded; see dmesg",
    ),
}


def examine(subject: Examined) -> Section:
    section = Section("gateway")
    settings = subject.configuration.settings
    pid = running(settings)
    section.facts["process"] = pid
    answered = _query(subject.configuration, section)
    if pid is None:
        state = "runs" if answered else "does not run"
    else:
        state = f"runs, process {pid}"
        folder = settings.gateway.state_dir.absolute()
        section.findings += examined(GatewayProcess(pid, folder))
    section.lines.append(("gateway", state))
    listen = settings.admin.listen
    if pid is not None and not answered and listen is not None and listen.port:
        section.findings.insert(
            0,
            Finding(
                Level.FAILURE,
                f"the gateway (process {pid}) does not answer on {reachable(listen)} within "
                f"{PATIENCE_S:.0f} s: it stands still, or another configuration is its own",
                "look what it waits for before it is started again",
                f"sudo cat /proc/{pid}/wchan; {restart(GatewayProcess(pid, Path()))}",
            ),
        )
    return section


def _query(configuration: Configuration, section: Section) -> bool:
    """Whether it answers; all that it reports is a finding."""
    try:
        answer = ask_this(configuration, "/api/status", STATUS_SCHEMA)
    except NoAnswerError:
        return False
    alarms = [str(alarm) for alarm in answer.get("alarms", [])]
    section.facts["alarms"] = alarms
    section.findings += [
        Finding(Level.WARNING, f"the gateway reports: {alarm}", "docs/troubleshooting.md")
        for alarm in alarms
    ]
    section.findings += _counted(_metrics(configuration), section)
    return True


def _counted(metrics: str, section: Section) -> Iterator[Finding]:
    for name, (what, advice) in _COUNTED.items():
        found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+]+)$", metrics, re.MULTILINE)
        count = sum(map(float, found))
        if found:
            section.facts[name] = count
        if count >= 1:
            yield Finding(Level.WARNING, f"{count:.0f} {what}", advice)


def _metrics(configuration: Configuration) -> str:
    try:
        return fetch(place_of(configuration), "/metrics")[1].decode(errors="replace")
    except NoAnswerError:
        return ""

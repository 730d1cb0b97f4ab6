"""`tidegate buffer`: how much waits, since when, how fast it comes and goes, what was dropped."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.admin.durations import duration
from gateway.admin.http.answers import BUFFER_SCHEMA
from gateway.app.exit_codes import ExitCode
from gateway.cli.buffer.on_disk import waiting
from gateway.cli.output import print_error, print_line
from gateway.cli.progress import Progress
from gateway.config import Configuration
from gateway.config.mounts import taken_bytes
from gateway.config.settings import MIB, Settings
from gateway.presence.readings import age_s
from gateway.transports.clock import now


def run(arguments: argparse.Namespace, configuration: Configuration) -> int:
    settings = configuration.settings
    from gateway.cli import asking  # brings http.client with it

    try:
        found = asking.ask_this(configuration, "/api/buffer", BUFFER_SCHEMA)
        answer = found | {"source": "gateway"}
        where = f"running, {asking.place_of(configuration).url}"
    except asking.NoAnswerError as reason:
        if not arguments.json:
            print_error(f"{reason}; read from files, which know no rates and no drops")
        answer = _from_files(settings) | {"source": "files"}
        where = f"files in {settings.gateway.journal_dir}"
    if arguments.json:
        print_line(json.dumps(answer, indent=2))
        return ExitCode.OK
    for name, value in described(answer, where):
        print_line(f"{name:<12}{value}")
    return ExitCode.OK


def _from_files(settings: Settings) -> dict[str, Any]:
    """What the gateway would say, as far as files know it; None for what they do not."""
    folder = settings.gateway.journal_dir
    depth, oldest_age_s = 0, 0.0
    progress = Progress(lambda count: f"reading {folder}: {count} readings")
    for reading in waiting(folder):
        depth += 1
        oldest_age_s = max(oldest_age_s, age_s(reading, now()))
        progress.at(depth)
    progress.end()
    return {
        "schema": BUFFER_SCHEMA,
        "gateway": settings.gateway.name,
        "condition": None,
        "depth": depth,
        "oldest_age_s": oldest_age_s if depth else None,
        "used_bytes": taken_bytes(folder),
        "budget_bytes": settings.journal.size_max_bytes,
        "fill": None,
        "in_per_s": None,
        "out_per_s": None,
        "drain_s": None,
        "drain_paused": None,
        "dropped": None,
    }


def described(answer: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """For people: what, and how it is."""
    yield "gateway", f"{answer['gateway']}, {where}"
    if answer["condition"] is not None:
        error = f": {answer['error']}" if answer["error"] else ""
        yield "journal", f"{answer['condition']}{error}"
        yield "broker", str(answer["upstream_state"])
        if answer["drain_paused"]:
            yield "drain", "paused by the operator"
    age = answer["oldest_age_s"]
    oldest = "" if age is None else f", the oldest for {duration(age)}"
    yield "waiting", f"{answer['depth']} readings{oldest}"
    yield "used", _used(answer)
    yield "rate", _rate(answer)
    if answer["depth"]:
        yield "drained in", _drained(answer)
    if answer["dropped"] is not None:
        dropped = [f"{reason} {count}" for reason, count in answer["dropped"].items() if count]
        yield "dropped", ", ".join(dropped) or "nothing"


def _used(answer: Mapping[str, Any]) -> str:
    used, budget = answer["used_bytes"] / MIB, answer["budget_bytes"] / MIB
    full = "" if answer["fill"] is None else f", {100 * answer['fill']:.0f} % full"
    return f"{used:.1f} of {budget:.1f} MiB{full}"


def _rate(answer: Mapping[str, Any]) -> str:
    if answer["in_per_s"] is None or answer["out_per_s"] is None:
        return "not known"
    return f"{answer['in_per_s']:.1f} in and {answer['out_per_s']:.1f} out a second"


def _drained(answer: Mapping[str, Any]) -> str:
    if answer["drain_s"] is not None:
        return duration(answer["drain_s"])
    return "not known" if answer["in_per_s"] is None else "never, at this rate"

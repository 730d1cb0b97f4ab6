"""`segments`: what is in the lake, by the footers alone: how much, how good, what is missing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from spark_ingest.cli.arguments import path
from spark_ingest.cli.exit_codes import ExitCode, VerbError, of_os_error, print_error
from spark_ingest.segments.footer import Footer, FooterError
from spark_ingest.segments.segment import missing_pyarrow, read_footer
from spark_ingest.segments.shelf import collectors_in, segment_numbers, segment_path

HELP = "list what each collector has written"
EXAMPLE = "python -m spark_ingest segments lake"


@dataclass(slots=True)
class Summary:
    collector: str
    segments: int = 0
    first_number: int | None = None
    next_number: int = 0
    missing: list[int] = field(default_factory=list)  # numbers between them
    messages: int = 0
    rows: int = 0
    repeated: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)  # rows by fault
    first_us: int | None = None
    last_us: int | None = None
    damaged: list[str] = field(default_factory=list)

    def add(self, footer: Footer) -> None:
        self.messages += footer.messages
        self.rows += footer.rows
        self.repeated += footer.repeated
        for fault, rows in footer.quarantined.items():
            self.quarantined[fault] = self.quarantined.get(fault, 0) + rows
        self.first_us = min(footer.first_us, self.first_us or footer.first_us)
        self.last_us = max(footer.last_us, self.last_us or footer.last_us)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lake", type=path, help="the folder that lake.path names")
    parser.add_argument("--json", action="store_true", help="one JSON object for each collector")


def run(arguments: argparse.Namespace) -> int:
    if (missing := missing_pyarrow()) is not None:
        raise VerbError(ExitCode.UNAVAILABLE, missing)
    try:
        summaries = [summary_of(arguments.lake, each) for each in collectors_in(arguments.lake)]
    except OSError as error:
        raise of_os_error(error, str(error.filename)) from None
    if not summaries:
        raise VerbError(ExitCode.FAILURE, f"{arguments.lake}: no collector has written here")
    for summary in summaries:
        print(json.dumps(asdict(summary)) if arguments.json else _line(summary))
        for problem in summary.damaged:
            print_error(problem)
    return ExitCode.FAILURE if any(each.damaged for each in summaries) else ExitCode.OK


def summary_of(lake: Path, collector: str) -> Summary:
    summary = Summary(collector)
    numbers = segment_numbers(lake, collector)
    for number in numbers:
        try:
            summary.add(read_footer(segment_path(lake, collector, number)))
        except (FooterError, OSError) as error:
            summary.damaged.append(str(error))
    summary.segments = len(numbers)
    if numbers:
        summary.first_number, summary.next_number = numbers[0], numbers[-1] + 1
        summary.missing = sorted({*range(numbers[0], numbers[-1])} - {*numbers})
    return summary


def _line(summary: Summary) -> str:
    parts = [
        f"{summary.collector}: {summary.segments} segments to number {summary.next_number - 1}",
        f"{summary.messages} messages, {summary.rows} values",
        f"from {_shown(summary.first_us)} to {_shown(summary.last_us)}",
    ]
    if summary.quarantined:
        faults = ", ".join(f"{rows} {fault}" for fault, rows in sorted(summary.quarantined.items()))
        parts.append(f"in quarantine {faults}")
    if summary.missing:
        parts.append(f"segments missing: {', '.join(map(str, summary.missing))}")
    return "; ".join(parts)


def _shown(unix_us: int | None) -> str:
    if unix_us is None:
        return "never"
    return f"{datetime.fromtimestamp(unix_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}Z"

"""`tidegate doctor`: examines what the gateway depends on, and says what to do about it.

Each part of it has an option; without any all of them are examined.
"""

import argparse
import json
import os
from dataclasses import asdict
from typing import Any

from gateway.cli.doctor.disk import DiskFacts, described, examine, facts_as_json
from gateway.cli.doctor.findings import Finding, Level, findings
from gateway.cli.doctor.syncs import SYNCS_DEFAULT, SYNCS_MAX, SYNCS_MIN
from gateway.cli.exit_codes import ExitCode
from gateway.cli.output import complain, say
from gateway.cli.sources import add_source_arguments, configuration_of
from gateway.config import ConfigError

SCHEMA = "tidegate.doctor/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument(
        "--disk",
        action="store_true",
        help="only the disk below gateway.state_dir: how long it takes to make something durable, "
        "whether it can be believed, and whether it has room for the journal; what is written for "
        "that is removed again. To try another folder: --set gateway.state_dir=DIR",
    )
    parser.add_argument(
        "--syncs",
        metavar="N",
        type=_count,
        default=SYNCS_DEFAULT,
        help=f"how often the disk is asked to make a reading durable, {SYNCS_MIN} to {SYNCS_MAX} "
        f"(default {SYNCS_DEFAULT})",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not SYNCS_MIN <= int(text[:9]) <= SYNCS_MAX:
        message = f"expected a whole number from {SYNCS_MIN} to {SYNCS_MAX}, got {text[:20]!r}"
        raise argparse.ArgumentTypeError(message)
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """1 if something was found that must be mended; warnings and notes are 0."""
    try:
        configuration = configuration_of(arguments, os.environ)
    except ConfigError as error:
        complain(str(error))
        return ExitCode.CONFIGURATION
    facts = examine(configuration.settings, arguments.syncs)
    found = findings(facts)
    is_ok = all(finding.level is not Level.FAILURE for finding in found)
    if arguments.json:
        say(json.dumps(_answer(facts, found, is_ok), indent=2))
    else:
        _print_lines(facts, found)
    return ExitCode.OK if is_ok else ExitCode.FAILURE


def _answer(facts: DiskFacts, found: list[Finding], is_ok: bool) -> dict[str, Any]:
    listed = [asdict(finding) | {"level": finding.level.value} for finding in found]
    return {"schema": SCHEMA, "ok": is_ok, "disk": facts_as_json(facts) | {"findings": listed}}


def _print_lines(facts: DiskFacts, found: list[Finding]) -> None:
    for name, value in described(facts):
        say(f"{name:<12}{value}")
    say("")
    for finding in found:
        say(f"{finding.level.value}: {finding.what}")
        if finding.advice:
            say(f"  {finding.advice}")
    if not found:
        say("ok")

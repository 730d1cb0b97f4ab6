"""Measure the gateway: build the generator, run the matrix, print the tables.

Each run has a fresh broker and a fresh gateway: MQTT sessions, subscriptions and warm caches of one
run must not help or hinder the next.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from hil.rig.mosquitto import BrokerError, find_mosquitto
from tests.bench import document, generator, part, tables
from tests.bench.awake import AwakeError, kept_awake
from tests.bench.gateway_process import command_from
from tests.bench.goals import Outcome
from tests.bench.machine import Machine, this_machine
from tests.bench.measuring import Request, measure
from tests.bench.part import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_UNAVAILABLE,
    interrupt,
    say,
)
from tests.bench.row import Row
from tests.bench.running import Setting
from tests.bench.scenarios import MATRIX, TUNED, chosen

EXIT_USAGE = 2

QUICK_SECONDS = 1.0
QUICK_REPEATS = 1
SECONDS_MAX = 3600
REPEATS_MAX = 1000


def main(words: Sequence[str]) -> int:
    parser = _parser()
    asked = parser.parse_args(words)
    try:
        rows_asked = chosen(asked.only, with_tuned=asked.broker == "tuned")
    except KeyError as error:
        names = " ".join(row.name for row in (*MATRIX, *TUNED))
        parser.error(f"no run begins with {error.args[0]!r}; there are: {names}")
    if asked.keep_awake and asked.write_docs:
        parser.error("--write-docs is for processors that sleep as usual")
    # A benchmark that is told to end must still stop what it started.
    signal.signal(signal.SIGTERM, interrupt)
    try:
        find_mosquitto()
        request = Request(rows_asked, *_how(asked, generator.build()))
        machine = this_machine(kept_awake=asked.keep_awake)
        with kept_awake() if asked.keep_awake else nullcontext():
            rows = measure(request)
        _tell(rows, machine, asked, part.command("tests.bench", words))
    except (BrokerError, generator.BuildError, AwakeError) as error:
        say(str(error))
        return EXIT_UNAVAILABLE
    except document.DocumentError as error:
        say(str(error))
        return EXIT_FAILURE
    except KeyboardInterrupt:
        say("interrupted; gateway and broker are stopped")
        return EXIT_INTERRUPTED
    return _exit_code(rows, goals_count=asked.strict)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measures the gateway against a real mosquitto. Wants the machine for itself.",
        epilog="Runs: " + " ".join(row.name for row in (*MATRIX, *TUNED)),
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"every run once, {QUICK_SECONDS:g} s each: to see that it works, not to compare",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only this run, or those whose name begins with this; may be repeated",
    )
    parser.add_argument("--repeats", type=_positive_int, metavar="N", help="runs per row (3)")
    parser.add_argument("--seconds", type=_positive, metavar="S", help="length of a run (5)")
    parser.add_argument(
        "--gateway-command",
        metavar="COMMAND",
        help="instead of this project's gateway; {config}, {port} and {broker_port} are filled in",
    )
    parser.add_argument(
        "--broker",
        choices=("default", "tuned"),
        default="default",
        help="tuned: some rows again with mosquitto's max_inflight_messages at 1000",
    )
    parser.add_argument(
        "--mqtt-version", type=int, choices=(3, 5), default=5, help="of our own MQTT client (5)"
    )
    parser.add_argument(
        "--keep-awake",
        action="store_true",
        help="processors do not sleep meanwhile, so that no hypervisor has to wake them up: less "
        "noise in a virtual machine; takes root",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there")
    parser.add_argument(
        "--write-docs", action="store_true", help="write two tables into docs/performance.md"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 when a goal is missed or unclear"
    )
    return parser


def _how(asked: argparse.Namespace, executable: Path) -> tuple[int, Setting]:
    """Repeats, and what is the same for every run."""
    return asked.repeats or (QUICK_REPEATS if asked.quick else 3), Setting(
        generator=executable,
        gateway_command=command_from(asked.gateway_command),
        seconds=asked.seconds or (QUICK_SECONDS if asked.quick else 5.0),
        mqtt_version=asked.mqtt_version,
    )


def _positive(text: str) -> float:
    return _in_range(text, float(text) if _is_number(text) else 0.0, SECONDS_MAX)


def _positive_int(text: str) -> int:
    return int(_in_range(text, int(text) if text.isdecimal() else 0, REPEATS_MAX))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _in_range(text: str, value: float, most: float) -> float:
    if not 0 < value <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number above 0 and at most {most:g}, got {text}"
        )
    return value


def _tell(rows: list[Row], machine: Machine, asked: argparse.Namespace, command: str) -> None:
    sys.stdout.write("\n\n".join(table.as_text() for table in tables.tables(rows)))
    sys.stdout.write(f"\n\n{tables.summary(rows)}\n")
    if asked.json is not None:
        result = {
            "command": command,
            "machine": asdict(machine),
            "rows": [row.as_json() for row in rows],
        }
        asked.json.write_text(json.dumps(result, indent=1) + "\n")
    if asked.write_docs:
        document.write_section(tables.section(rows, machine, command), "bench")


def _exit_code(rows: Sequence[Row], *, goals_count: bool) -> int:
    if any(row.errors for row in rows):
        return EXIT_FAILURE
    verdicts = [verdict for row in rows for verdict in row.verdicts]
    missed = any(verdict.outcome is not Outcome.PASS for verdict in verdicts)
    return EXIT_FAILURE if goals_count and missed else EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

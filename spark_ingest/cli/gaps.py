"""`gaps`: what is missing, into tables and on stdout."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from spark_ingest.cli.exit_codes import ExitCode
from spark_ingest.cli.with_spark import add_spark_arguments, spark_session, spark_settings
from spark_ingest.config import Settings
from spark_ingest.tables.tables import COMPLETENESS, GAPS, SILENCES

if TYPE_CHECKING:
    from spark_ingest.spark.audit import SilenceOptions

HELP = "find readings that never came, devices that fell silent, and hours that are not complete"
EXAMPLE = "python -m spark_ingest gaps --config ingest.toml --json"

SHOWN_MAX = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_spark_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object with all that is missing"
    )
    parser.add_argument(
        "--fail", action="store_true", help="exit with 1 if a reading is missing, for scripts"
    )


def run(arguments: argparse.Namespace) -> int:
    settings = spark_settings(arguments)
    with spark_session(settings) as spark:
        from spark_ingest.spark.upkeep import Upkeep

        tables = Upkeep(spark, settings.lake.folder.absolute()).audit(silence_options(settings))
        found = {name: table.read().to_pylist() for name, table in tables.items()}
    if arguments.json:
        print(json.dumps(found, default=lambda moment: moment.isoformat()))
    else:
        for line in described(found):
            print(line)
    return ExitCode.FAILURE if arguments.fail and found[GAPS] else ExitCode.OK


def silence_options(settings: Settings) -> SilenceOptions:
    from spark_ingest.spark.audit import SilenceOptions

    return SilenceOptions(settings.gaps.silence_periods, settings.gaps.period_s)


def described(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    lines = [
        f"gap: {each['gw']}, epoch {each['epoch']}: {each['missing']} readings, "
        f"{each['first_seq']} to {each['last_seq']}, "
        f"{_between(each['after_ts'], each['before_ts'])}"
        for each in found[GAPS][:SHOWN_MAX]
    ]
    lines += [
        f"silence: {each['device']} for {each['silent_s']:.0f} s from {_shown(each['since'])} "
        f"{'to ' + _shown(each['until']) if each['until'] else 'on'}, it speaks every "
        f"{each['period_s']:g} s"
        for each in sorted(found[SILENCES], key=lambda each: -each["silent_s"])[:SHOWN_MAX]
    ]
    hours = found[COMPLETENESS]
    readings, expected = sum(h["readings"] for h in hours), sum(h["expected"] for h in hours)
    percent = min(100.0, 100.0 * readings / expected) if expected else 100.0
    lines.append(
        f"missing readings: {sum(each['missing'] for each in found[GAPS])}, gaps: "
        f"{len(found[GAPS])}, silences: {len(found[SILENCES])}; "
        f"{percent:.2f} % of what is expected is there"
    )
    return lines


def _between(after: Any, before: Any) -> str:
    return f"before {_shown(before)}" if after is None else f"{_shown(after)} to {_shown(before)}"


def _shown(moment: Any) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"

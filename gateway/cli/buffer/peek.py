"""`tidegate buffer peek`: the next readings in the order in which they would go."""

import argparse
import json
from itertools import islice

from gateway.admin.durations import duration
from gateway.app.exit_codes import ExitCode
from gateway.cli.buffer.on_disk import waiting
from gateway.cli.numbers import whole_number
from gateway.cli.output import print_line
from gateway.config import Configuration
from gateway.config.spelling import printable, shortened
from gateway.core.values import Reading
from gateway.presence.readings import age_s, as_json, shown
from gateway.transports.clock import now

SCHEMA = "tidegate.buffer.peek/1"
COUNT_DEFAULT = 10
COUNT_MAX = 10_000
NAME_LENGTH_MAX = 60
HEAD = ("client", "topic", "QoS", "age", "bytes", "payload")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--count",
        metavar="N",
        type=whole_number(1, COUNT_MAX),
        default=COUNT_DEFAULT,
        help=f"how many at most, 1 to {COUNT_MAX} (default {COUNT_DEFAULT})",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS,
        help="answer in JSON, on stdout, with all of each payload",
    )


def run(arguments: argparse.Namespace, configuration: Configuration) -> int:
    settings = configuration.settings
    readings = list(islice(waiting(settings.gateway.journal_dir), arguments.count))
    if arguments.json:
        name = settings.gateway.name
        documents = [
            as_json(name, one) | {"age_s": age_s(one, now()), "shown": shown(one.payload)}
            for one in readings
        ]
        print_line(json.dumps({"schema": SCHEMA, "gateway": name, "readings": documents}, indent=2))
    elif readings:
        for line in _table([HEAD, *map(_row, readings)]):
            print_line(line)
    else:
        print_line("nothing waits")
    return ExitCode.OK


def _row(reading: Reading) -> tuple[str, ...]:
    return (
        printable(shortened(reading.client_id, NAME_LENGTH_MAX)),
        printable(shortened(reading.topic, NAME_LENGTH_MAX)),
        f"{reading.qos}{' retain' if reading.retain else ''}",
        duration(age_s(reading, now())),
        str(len(reading.payload)),
        shown(reading.payload),
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0  # nothing stands behind it
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]

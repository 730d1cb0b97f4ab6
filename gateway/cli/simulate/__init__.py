"""`tidegate simulate`: N sensors against a gateway, over real UDP, and how it went for them.

What a sensor cannot see is not judged: whether a reading that the gateway acknowledged arrived
anywhere is for who reads at the broker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.app.exit_codes import ExitCode
from gateway.cli.numbers import port_number
from gateway.cli.output import print_error, print_line
from gateway.cli.simulate.plan import (
    PAYLOAD_BYTES_MAX,
    SECONDS_MAX,
    SENSORS_MAX,
    SLEEP_S_MAX,
    Plan,
)
from gateway.config.settings import PROTECTION_SCHEMES

if TYPE_CHECKING:
    from gateway.cli.simulate.fleet import Fleet
    from gateway.core.access.device_keys import DeviceKey

EPILOG = """
Each sensor connects, registers sim/<id> for its readings, subscribes to
sim/<id>/set, and publishes at its interval. With --sleep it says DISCONNECT
with that duration when it has nothing more to say, wakes by PINGREQ to fetch
what came for it, and by CONNECT when it has a reading. A message to
sim/<id>/set, such as 30, is its new interval in seconds. --loss and --copies
are percent of the datagrams in both directions; the same --seed makes the
same dice.

With --protect each packet is in an envelope, by the key that has the sensor's
name in FILE; with --scheme by AES-CCM, which hides what is in it as well. The
file is made on the gateway's machine:
  (echo name; seq -f sim-%g 10) | tidegate keys import -
  tidegate keys export --output FILE

Each sensor needs a socket, thus a file: the limit of open files is raised as
far as it goes, and where that is not far enough the verb says what to do.

Exit code 0: every sensor connected and every reading with QoS 1 or 2 was
acknowledged. 1: not so. 2: sensors without a key in FILE. 69: no gateway
answers, there are not enough files or ports, or AES-CCM needs a package.
Ctrl-C ends it in order.
"""

Number = Callable[[str], float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    add, plan = parser.add_argument, Plan()
    add(
        "--gateway",
        metavar="HOST:PORT",
        type=_address,
        default=plan.gateway,
        help="where the gateway listens for sensors (default: 127.0.0.1:1883)",
    )
    for name, metavar, type_, help_ in (
        ("sensors", "N", _whole(1, SENSORS_MAX), "so many sensors"),
        ("seconds", "S", _decimal(0.1, SECONDS_MAX), "measure for so long"),
        ("interval", "S", _decimal(0.1, 3600), "seconds between two readings of a sensor"),
        ("sleep", "S", _whole(0, SLEEP_S_MAX), "sleep so many seconds at a time; 0 for never"),
        ("loss", "PCT", _decimal(0, 90), "percent of the datagrams that are lost"),
        ("copies", "PCT", _decimal(0, 100), "percent of the datagrams that arrive twice"),
        ("seed", "N", int, "of all random values"),
        ("payload", "BYTES", _whole(0, PAYLOAD_BYTES_MAX), "size of a reading"),
    ):
        default = getattr(plan, name)
        document = "SenML in CBOR" if default is None else f"{default:g}"
        add(
            f"--{name}", metavar=metavar, type=type_, default=default,
            help=f"{help_} (default: {document})",
        )  # fmt: skip
    add(
        "--qos",
        metavar="MIX",
        type=_mix,
        default=plan.qos,
        help="QoS of the sensors in turn, such as 1 or 0,1,1,2 (default: 0,1,2)",
    )
    add("--name", type=_name, default=plan.name, help="client ids are NAME-1 ... (default: sim)")
    add(
        "--keep-sessions",
        action="store_true",
        help="leave persistent sessions (clean=0) behind, as real sensors have them",
    )
    add(
        "--protect",
        metavar="FILE",
        type=Path,
        help="protect what they send and hear by their keys, as `tidegate keys export` writes them",
    )
    add(
        "--scheme",
        choices=PROTECTION_SCHEMES,
        default=plan.scheme,
        help=f"of --protect (default: {plan.scheme})",
    )
    add("--json", action="store_true", help="print only a summary, as JSON")


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.simulate.fleet import Fleet, SimulateError
    from gateway.cli.simulate.summary import summary_json, summary_lines

    plan = Plan(**{name: getattr(arguments, name) for name in Plan.__dataclass_fields__})
    keys: dict[str, DeviceKey] = {}
    if plan.protect is not None:
        from gateway.cli.simulate.keys import NoKeyError, keys_of, missing_package

        try:
            keys = keys_of(plan.protect, plan.names())
        except NoKeyError as error:
            print_error(f"tidegate simulate: {error}")
            return ExitCode.USAGE
        problem = missing_package(plan.scheme)
        if problem is not None:
            print_error(f"tidegate simulate: {problem}")
            return ExitCode.UNAVAILABLE
    fleet = Fleet(plan, keys)
    try:
        seconds = _perform(fleet)
    except SimulateError as error:
        print_error(f"tidegate simulate: {error}")
        return error.code
    if arguments.json:
        print_line(json.dumps(summary_json(fleet, seconds), indent=2))
    else:
        print_line("\n".join(summary_lines(fleet, seconds)))
    problem = fleet.problem()
    if problem is None:
        return ExitCode.OK
    print_error(problem)
    return ExitCode.FAILURE


def _perform(fleet: Fleet) -> float:
    import asyncio

    factory = None
    if sys.platform == "linux":
        with contextlib.suppress(ImportError):
            import uvloop

            factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(fleet.run())


# What the arguments may be


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        with contextlib.suppress(ValueError):
            if least <= int(text) <= most:
                return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")

    return parsed


def _decimal(least: float, most: float) -> Number:
    def parsed(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= float(text) <= most:
                return float(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")

    return parsed


def _mix(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) <= 100 and all(part in ("0", "1", "2") for part in parts):
        return tuple(int(part) for part in parts)
    raise argparse.ArgumentTypeError(f"{text!r} is not made of 0, 1 and 2, such as 0,1,1,2")


def _name(text: str) -> str:
    if 1 <= len(text.encode()) <= 12 and text.isprintable() and not set(text) & set("/+#"):
        return text
    raise argparse.ArgumentTypeError(f"expected 1 to 12 bytes, without / + and #, got {text!r}")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if colon and host and port.isascii() and port.isdigit():
        return host.removeprefix("[").removesuffix("]"), port_number(port)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no HOST:PORT, such as 10.0.0.5:1883 or [fd00::5]:1883"
    )

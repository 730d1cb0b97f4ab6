"""The options of `tidegate flash`, in sets, as its actions take them."""

import argparse
from pathlib import Path
from typing import Any

from gateway.cli.numbers import port_number, whole_number
from gateway.cli.sources import add_source_arguments
from gateway.flashing.settings import INTERVAL_S_MAX

INTERVAL_S_DEFAULT = 900
WAIT_S_DEFAULT = 60
WAIT_S_MAX = 3600
UART_MAX = 9  # which of them a board has is known by its description
COUNT_MAX = 1_000_000
PORT_DEFAULT = 1883  # UDP, registered for MQTT-SN


class _Set:
    """Options that may stand before an action or behind it: the one behind counts."""

    def __init__(
        self, parser: argparse.ArgumentParser, title: str, *, is_repeated: bool = False
    ) -> None:
        self._group = parser.add_argument_group(title)
        self._is_repeated = is_repeated

    def add(self, *names: str, **how: Any) -> None:
        if self._is_repeated:
            how["default"] = argparse.SUPPRESS
        self._group.add_argument(*names, **how)


def add_target_options(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    options = _Set(parser, "which board", is_repeated=is_repeated)
    options.add(
        "--port",
        metavar="PORT",
        help="its serial port, or the serial number of its USB; else the one that is plugged in",
    )
    options.add(
        "--drive",
        metavar="FOLDER",
        type=Path,
        help="where its drive is mounted; else it is looked for",
    )
    options.add("--board", metavar="NAME", help="what it is, such as pico-w; else it is asked")
    options.add(
        "--boards",
        metavar="FOLDER",
        type=Path,
        help="descriptions of boards (*.toml) instead of those that come along",
    )
    options.add("--dry-run", action="store_true", help="say what would be done, and do nothing")


def add_firmware_options(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    options = _Set(parser, "MicroPython", is_repeated=is_repeated)
    options.add(
        "--firmware",
        metavar="FILE",
        type=Path,
        help="MicroPython for the board: .bin, .uf2 or .hex",
    )
    options.add(
        "--cache",
        metavar="FOLDER",
        type=Path,
        help="where to look for it otherwise (default: ~/.cache/tidegate/firmware)",
    )
    options.add(
        "--reinstall", action="store_true", help="also if the board has MicroPython already"
    )


def add_node_options(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    options = _Set(parser, "the node", is_repeated=is_repeated)
    options.add("--name", metavar="ID", help="its MQTT-SN client id, 1 to 23 bytes")
    options.add("--topic", metavar="TOPIC", help="of its readings (default: sensors/ID)")
    options.add(
        "--interval",
        metavar="SECONDS",
        type=whole_number(1, INTERVAL_S_MAX),
        default=INTERVAL_S_DEFAULT,
        help=f"between readings, 1 to {INTERVAL_S_MAX} (default: {INTERVAL_S_DEFAULT})",
    )
    options.add(
        "--sensor",
        metavar="KIND[:KEY=VALUE,...]",
        action="append",
        type=sensor,
        help="what it measures with, such as internal, simulated or bme280:scl=22,sda=21; may be "
        "repeated",
    )
    options.add(
        "--gateway",
        metavar="HOST[:PORT]",
        action="append",
        type=gateway,
        help="where its gateway is; may be repeated for more of them, which are tried in turn",
    )
    options.add("--uart", metavar="N", type=whole_number(0, UART_MAX),
                help="its gateway is on the line of this UART")  # fmt: skip
    _add_secret_options(options)
    _add_file_options(options)


def _add_secret_options(options: _Set) -> None:
    options.add("--wifi", metavar="SSID", help="its wireless network")
    options.add(
        "--no-wifi",
        action="store_true",
        help="its network is another one, such as Ethernet, that the board joins by itself",
    )
    options.add(
        "--wifi-password-file",
        metavar="FILE",
        type=Path,
        help="without it TIDEGATE_WIFI_PASSWORD counts, or it is asked for",
    )
    options.add(
        "--secrets", metavar="FILE", type=Path, help="JSON: more secrets, such as update_key"
    )
    options.add(
        "--key",
        action="store_true",
        help="give it a key of its own, and the gateway of this machine the same; a node that has "
        "one keeps it",
    )


def _add_file_options(options: _Set) -> None:
    options.add(
        "--settings", metavar="FILE", type=Path, help="JSON: more settings, as the program has them"
    )
    options.add(
        "--program",
        metavar="FOLDER",
        type=Path,
        help="files of your own instead of the program that comes along, without settings",
    )
    options.add(
        "--into", metavar="FOLDER", type=Path, help="into this folder instead of onto a board"
    )
    options.add(
        "--enrol-to",
        metavar="FILE",
        type=Path,
        help="add the enrolment line to this file as well, for an inventory",
    )


def add_contact_options(parser: argparse.ArgumentParser, *, is_repeated: bool = False) -> None:
    options = _Set(parser, "first contact", is_repeated=is_repeated)
    options.add(
        "--wait",
        metavar="SECONDS",
        type=whole_number(0, WAIT_S_MAX),
        default=WAIT_S_DEFAULT,
        help=f"for the node to be heard, 0 for not at all (default: {WAIT_S_DEFAULT})",
    )
    options.add(
        "--hear",
        choices=("gateway", "line"),
        help="who hears it: the gateway at admin.listen, or this program on the board's own serial "
        "line; else the gateway if it answers, or the line if the node is on one",
    )
    add_source_arguments(parser, is_repeated=is_repeated)


def add_batch_options(parser: argparse.ArgumentParser) -> None:
    options = _Set(parser, "many boards")
    options.add(
        "--batch",
        action="store_true",
        help="one board after the other, as they are plugged in, until Ctrl-C; {} in --name "
        "becomes their number",
    )
    options.add(
        "--first",
        metavar="N",
        type=whole_number(0, COUNT_MAX),
        default=1,
        help="number of the first (default: 1)",
    )
    options.add("--count", metavar="N", type=whole_number(1, COUNT_MAX), help="end after so many")


def gateway(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT_DEFAULT)
    host = host.strip("[]")
    if not host or not port.isascii() or not port.isdigit():
        raise argparse.ArgumentTypeError(f"expected HOST or HOST:PORT, got {text!r}")
    return host, port_number(port)


def sensor(text: str) -> dict[str, object]:
    kind, _, details = text.partition(":")
    found: dict[str, object] = {"kind": kind}
    for detail in details.split(",") if details else ():
        key, equals, value = detail.partition("=")
        if not key or not equals:
            message = f"expected KIND or KIND:KEY=VALUE,KEY=VALUE, got {text!r}"
            raise argparse.ArgumentTypeError(message)
        is_number = value.isascii() and value.isdigit()
        found[key] = int(value) if is_number else value
    return found

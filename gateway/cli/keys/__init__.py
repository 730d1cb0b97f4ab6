"""`tidegate keys`: the keys of devices, in the file that the gateway reads."""

import argparse
from pathlib import Path

from gateway.cli.arguments import Actions, add_action
from gateway.cli.numbers import seconds_in
from gateway.cli.sources import add_source_arguments, usable_configuration

EPILOG = """
The keys are in security.keys_file of the configuration, without it in
device.keys of gateway.state_dir; run this as the gateway's user or with sudo. A
key is never an argument, where other users would see it: it is made here, or
read with --key-file. Only `show` and `export` print keys. A running gateway
takes the file with a reload (SIGHUP).
"""
ADD = """
Without --key-file a key of 16 random bytes is made. The client id is for lists
and labels; [[binding]] of the configuration says who may use which.
"""
ROTATE = """
Both keys are valid until `tidegate keys rotate NAME --finish`, or until the
time of --for is over: give the device its new key meanwhile.
"""
SHOW = """
The QR code has one line of text: tidegate:key/1? and name, client, sender,
epoch and key, as in the query of a URL; the key in hexadecimal digits. It needs
a package of the extra qr, and says how to install it.
"""
IMPORT = """
FILE has a head and a line for each device. Columns: name; and, if wanted,
client, sender, epoch, key, until, in any order. A key is made where the line
has none. All lines are checked first: one that is wrong changes nothing. What
`export` writes is read. A device that has a key already is refused.
"""
EXPORT = """
CSV, with all keys in it: keep it as you would keep them. --output makes a file
that others cannot read. Without names: all devices.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    add = _add_action(actions, "add", "give a device its first key", ADD)
    _add_name(add)
    add.add_argument("--client", metavar="ID", help="its client id (default: NAME)")
    _add_key_file(add)
    _add_action(actions, "list", "list the devices that have keys, without the keys")
    show = _add_action(actions, "show", "print the keys of a device", SHOW)
    _add_name(show)
    show.add_argument("--qr", action="store_true", help="the newest, as a QR code")
    rotate = _add_action(actions, "rotate", "give a device a further key", ROTATE)
    _add_name(rotate)
    rotate.add_argument(
        "--for",
        dest="overlap_s",
        metavar="TIME",
        type=duration_s,
        help="how long the one before stays valid, such as 90m, 12h or 7d (default: until "
        "--finish)",
    )
    rotate.add_argument("--finish", action="store_true", help="only the newest key stays valid")
    _add_key_file(rotate)
    revoke = _add_action(actions, "revoke", "take all keys of a device away")
    _add_name(revoke)
    taking = _add_action(actions, "import", "add the devices of a CSV file, all or none", IMPORT)
    taking.add_argument("file", metavar="FILE", type=Path, help="the CSV file, or - for stdin")
    export = _add_action(actions, "export", "write keys as CSV", EXPORT)
    export.add_argument("names", metavar="NAME", nargs="*", help="of these devices alone")
    export.add_argument("--output", metavar="FILE", type=Path, help="a new file, mode 0600")


def duration_s(text: str) -> int:
    """Raises ArgumentTypeError."""
    seconds = seconds_in(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"such as 90m, 12h or 7d, not {text[:20]!r}")
    return seconds


def _add_action(
    actions: Actions,
    name: str,
    what: str,
    end: str | None = None,
) -> argparse.ArgumentParser:
    action = add_action(actions, name, what, end)
    add_source_arguments(action)
    if name != "export":
        action.add_argument("--json", action="store_true", help="answer in JSON, on stdout")
    return action


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="of the device: 1 to 64 bytes; as PSK identity psk:NAME"
    )


def _add_key_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--key-file",
        metavar="FILE",
        help="holds the key, as 32 to 128 hexadecimal digits; - for stdin; else one is made",
    )


def run(arguments: argparse.Namespace) -> int:
    from gateway.app.exit_codes import ExitCode
    from gateway.cli.keys.actions import perform

    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    return perform(arguments, configuration.settings)

"""`tidegate join`: new sensors come into quarantine for a while, and are approved or rejected."""

import argparse
from collections.abc import Mapping
from typing import Any

from gateway.admin.durations import duration
from gateway.admin.http.answers import STATUS_SCHEMA
from gateway.app.exit_codes import ExitCode
from gateway.cli.arguments import Actions, add_action, add_password_file
from gateway.cli.live import add_live_arguments, ask_and_show
from gateway.cli.numbers import seconds_in
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import add_source_arguments
from gateway.config.settings import JOIN_S_MAX

SCHEMA = "tidegate.join/1"
FOR_S_DEFAULT = 120

EPILOG = """
With admission.permit = "listed" others than listed sensors hear: congestion.
While joining is open they come in, and may do nothing until you approve of
them; those that you reject are gone. A client id is no proof of who it is. It
asks for the password of the status page: the verb takes it from
admin.password_file, from --password-file, or as you type it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_live_arguments(parser)
    parser.epilog = f"{parser.epilog or ''}{EPILOG}"
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=seconds,
        default=FOR_S_DEFAULT,
        help=f"open it for so long, such as 90s or 4m, at most {JOIN_S_MAX}s; 0s closes it "
        f"(default: {FOR_S_DEFAULT}s)",
    )
    add_password_file(parser)
    actions = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="actions",
        description="Without one: joining is open for the time of --for.",
    )
    _add_action(actions, "list", "list the sensors that wait, and say how long joining is open")
    approve = _add_action(actions, "approve", "let one in that waits, for good")
    approve.add_argument(
        "--key",
        action="store_true",
        help="also give it a key of its own, as the action add of the verb keys does",
    )
    _add_action(actions, "reject", "end one that waits")


def _add_action(actions: Actions, name: str, what: str) -> argparse.ArgumentParser:
    """Options may stand before the action, or behind it."""
    action = add_action(actions, name, what)
    add_source_arguments(action, is_repeated=True)
    action.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="answer in JSON, on stdout"
    )
    if name != "list":
        add_password_file(action, argparse.SUPPRESS)
        action.add_argument("client", metavar="CLIENT", help="its client id")
    return action


def seconds(text: str) -> int:
    """Raises ArgumentTypeError."""
    asked = seconds_in(text)
    if asked is None or asked > JOIN_S_MAX:
        raise argparse.ArgumentTypeError(f"such as 90s or 4m, at most {JOIN_S_MAX}s, not {text!r}")
    return asked


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "list":
        return ask_and_show(arguments, "/api/status", STATUS_SCHEMA, {}, show)
    from gateway.cli import acting  # brings http.client with it

    if arguments.action is None:
        return acting.act_and_show(arguments, SCHEMA, "join", {"seconds": arguments.seconds})
    asked = {"client": arguments.client}
    code = acting.act_and_show(arguments, SCHEMA, f"join_{arguments.action}", asked)
    if code != ExitCode.OK or not getattr(arguments, "key", False):
        return code
    return _give_key(arguments)


def show(answer: Mapping[str, Any]) -> int:
    left = answer["join_left_s"]
    if left is None:
        print_error('all sensors may come in: admission.permit is "all"')
        return ExitCode.OK
    print_error(f"joining is open for {duration(left)}" if left else "joining is closed")
    for client in answer["waiting_clients"]:
        print_line(client)
    return ExitCode.OK


def _give_key(arguments: argparse.Namespace) -> int:
    from gateway.cli import keys

    added = argparse.Namespace(**vars(arguments))
    added.action, added.name, added.key_file = "add", arguments.client, None
    return keys.run(added)

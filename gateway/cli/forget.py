"""`tidegate forget`: a sensor's session is ended, and what the broker retains of it is cleared."""

import argparse

from gateway.cli.arguments import add_password_file
from gateway.cli.sources import add_source_arguments

SCHEMA = "tidegate.forget/1"
EPILOG = """
Its session, topic ids, subscriptions and what waits for it are gone, without
its will; its presence and its announcement for Home Assistant are cleared.
Readings of it on disk still go to the broker. It may come again as a new one.
It asks for the password of the status page: the verb takes it from
admin.password_file, from --password-file, or as you type it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    add_source_arguments(parser)
    parser.add_argument("client", metavar="CLIENT", help="its client id")
    parser.add_argument(
        "--retained",
        action="store_true",
        help="also of a sensor that is not known any more: clear what the broker retains of it",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_password_file(parser)


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli import acting  # brings http.client with it

    asked = {"client": arguments.client, "retained": arguments.retained}
    return acting.act_and_show(arguments, SCHEMA, "forget", asked)

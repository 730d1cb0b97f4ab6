"""`tidegate buffer`: what waits for the broker on disk, from the running gateway or from its files.

Nothing here changes a file: they are opened for reading only, also while a gateway writes to them.
What is set aside the running gateway sends again or deletes.
"""

import argparse

from gateway.app.exit_codes import ExitCode
from gateway.cli.arguments import add_action
from gateway.cli.buffer import aside, export, overview, peek
from gateway.cli.buffer.on_disk import BufferError
from gateway.cli.output import print_error
from gateway.cli.sources import add_source_arguments, usable_configuration

ACTIONS = {"peek": peek.run, "export": export.run, "aside": aside.run}
HELP = {
    "peek": "show the next readings that would go to the broker, and take none away",
    "export": "write all readings that wait as JSON lines, and take none away",
    "aside": "readings that the broker does not take: show, export, send again, delete",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")
    actions = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="actions",
        description="Without one: how much waits, since when, how fast it goes, and what was\n"
        "dropped; asked of the running gateway at admin.listen, or read from its files.",
    )
    for name, add in (
        ("peek", peek.add_arguments),
        ("export", export.add_arguments),
        ("aside", aside.add_arguments),
    ):
        action = add_action(actions, name, HELP[name])
        add_source_arguments(action, is_repeated=True)
        add(action)


def run(arguments: argparse.Namespace) -> int:
    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    try:
        return ACTIONS.get(arguments.action, overview.run)(arguments, configuration)
    except BufferError as error:
        print_error(f"tidegate buffer: {error}")
        return error.code

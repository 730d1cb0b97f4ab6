"""Which action of `tidegate flash` was asked for, and the module that performs it."""

import argparse

from gateway.app.exit_codes import ExitCode
from gateway.cli.flash.batch import batch
from gateway.cli.flash.boards import target_of
from gateway.cli.flash.listing import list_boards
from gateway.cli.flash.monitoring import monitor
from gateway.cli.flash.one_board import (
    flash_board,
    install_and_wait,
    left_running,
    provision_board,
)
from gateway.cli.flash.provisioning import node_of
from gateway.cli.flash.reporting import TerminalReport
from gateway.cli.flash.testing import test


def run(arguments: argparse.Namespace) -> int:
    """Raises FlashError."""
    report = TerminalReport()
    match arguments.action:
        case "list":
            return list_boards(arguments)
        case "install":
            target = target_of(arguments, report)
            with left_running(arguments, target):
                install_and_wait(arguments, target, None, report)
        case "provision":
            provision_board(arguments, report)
        case "monitor":
            return monitor(arguments)
        case "test":
            return test(arguments, report)
        case _ if arguments.batch:
            return batch(arguments, report)
        case _:
            flash_board(arguments, node_of(arguments), report)
    return ExitCode.OK

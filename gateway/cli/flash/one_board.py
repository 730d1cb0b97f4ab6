"""What is done to one board, in order: MicroPython, its program and settings, its first contact."""

import argparse
from contextlib import AbstractContextManager

from gateway.cli.flash.boards import (
    Target,
    kinds_of,
    started_again,
    target_of,
    wait_for_micropython,
)
from gateway.cli.flash.contact import client_query
from gateway.cli.flash.installing import install
from gateway.cli.flash.provisioning import (
    Node,
    kind_for_folder,
    node_of,
    program_for,
    provision,
)
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.kinds import Kind
from gateway.flashing.program import Program
from gateway.flashing.programs import needed_program
from gateway.flashing.report import Report

START_S_MAX = 30.0


def flash_board(arguments: argparse.Namespace, node: Node, report: Report) -> None:
    """MicroPython if it has none, then program, settings and first contact. Raises FlashError."""
    client_query(arguments)  # errors in its configuration are reported before a board is touched
    if arguments.into is not None:
        provision(arguments, node, program_for(node, kind_for_folder(arguments)), None, report)
        return
    target = target_of(arguments, report)
    report.print_line(described(target))
    is_whole = target.drive is not None and target.kind.install.method == "hex"
    with left_running(arguments, target):
        program = _program(node, target.kind)
        if target.identity is None or arguments.reinstall or is_whole:
            target = install_and_wait(arguments, target, program, report)
        provision(arguments, node, program, target, report)


def install_and_wait(
    arguments: argparse.Namespace, target: Target, program: Program | None, report: Report
) -> Target:
    """The board with MicroPython on it; a micro:bit also with its program, if there is one."""
    install(arguments, target, program, report)
    if arguments.dry_run:
        return target
    if target.port is None and target.kind.install.method == "hex":
        return target
    target = wait_for_micropython(target, kinds_of(arguments), START_S_MAX)
    report.print_line(f"{target.kind.title} has {target.identity}")
    return target


def provision_board(arguments: argparse.Namespace, report: Report) -> None:
    node = node_of(arguments)
    client_query(arguments)
    if arguments.into is not None:
        provision(arguments, node, program_for(node, kind_for_folder(arguments)), None, report)
        return
    target = target_of(arguments, report, by_port=True)
    if target.identity is None:
        assert target.port is not None
        text = f"{target.port.name} has no MicroPython that answers:  tidegate flash install"
        raise FlashError(Failure.ABSENT, f"{text}  puts it there")
    report.print_line(described(target))
    with left_running(arguments, target):
        provision(arguments, node, _program(node, target.kind), target, report)


def _program(node: Node, kind: Kind) -> Program:
    """The program; the tools that place it were found. Raises FlashError."""
    if kind.program != "tiny":
        needed_program("mpremote")
    return program_for(node, kind)


def left_running(
    arguments: argparse.Namespace, target: Target | None
) -> AbstractContextManager[None]:
    """A board that was stopped runs again after a failure, and after any dry run."""
    port = None if target is None or target.identity is None else target.port
    return started_again(port, always=arguments.dry_run)


def described(target: Target) -> str:
    where = target.port.name if target.port else target.drive.folder if target.drive else ""
    has = f"with {target.identity}" if target.identity else "without MicroPython that answers"
    if target.drive is not None and target.identity is None:
        has = "as a drive"
    return f"{where}: {target.kind.title}, {has}"

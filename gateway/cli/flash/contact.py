"""The first contact of a new node: at a gateway that runs, or on its own line."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from gateway.admin.clients import CLIENTS_SCHEMA
from gateway.cli.flash.boards import Target
from gateway.cli.live import printable
from gateway.cli.sources import configuration_of
from gateway.config import ConfigError, Configuration
from gateway.flashing.console import Console
from gateway.flashing.contact import (
    Ask,
    Contact,
    NotAskedError,
    Overheard,
    at_gateway,
    on_line,
)
from gateway.flashing.echo import round_trip_s
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.report import Report


def start_and_wait(
    arguments: argparse.Namespace, name: str, target: Target, report: Report
) -> Contact | None:
    """None if it is not to be waited for. Raises FlashError when nothing is received from it."""
    ask = client_query(arguments)
    if target.port is None:  # it has started by itself
        if arguments.wait == 0:
            return None
        contact = at_gateway(ask, name, arguments.wait, report, round_trip=round_trip_s)
    else:
        who = arguments.hear or _receiver(ask, target)
        with Console(target.port.device) as console:
            console.leave()
            if arguments.wait == 0:
                return None
            found = _contact_on_console(console, ask, who, name, target, arguments.wait, report)
        # The line is the gateway's from now on.
        contact = found or at_gateway(ask, name, arguments.wait, report, round_trip=round_trip_s)
    report.print_line(str(contact))
    return contact


def _contact_on_console(
    console: Console,
    ask: Ask,
    who: str,
    name: str,
    target: Target,
    patience_s: float,
    report: Report,
) -> Contact | None:
    """None for a node whose console is the gateway's line, when the gateway is to receive it."""
    is_tiny = target.kind.program == "tiny"
    if who == "line":
        contact = on_line(console, name, patience_s, report)
        if is_tiny:
            report.print_line(_configuration(target))
        return contact
    return None if is_tiny else _contact_with_output(console, ask, name, patience_s, report)


def _contact_with_output(
    console: Console, ask: Ask, name: str, patience_s: float, report: Report
) -> Contact:
    """What it prints meanwhile may show why nothing is received."""
    output = Overheard(console)
    try:
        return at_gateway(ask, name, patience_s, report, round_trip=round_trip_s, meanwhile=output)
    except FlashError:
        for line in output.lines:
            report.print_line(f"it said: {printable(line)}")
        raise


def _receiver(ask: Ask, target: Target) -> str:
    if target.kind.program != "tiny":
        return "gateway"
    try:
        ask("")
    except NotAskedError:
        return "line"
    return "gateway"


def _configuration(target: Target) -> str:
    assert target.port is not None
    lines = (
        "[[serial]]",
        f'port = "{target.port.name}"',
        "burst_bytes_max = 32",
        "frame_gap_ms = 5",
    )
    return "for the gateway's configuration:\n" + "\n".join(f"    {line}" for line in lines)


def client_query(arguments: argparse.Namespace) -> Ask:
    """Asks the gateway of the configuration. Raises FlashError if that is wrong."""
    from gateway.cli import asking  # brings http.client with it

    place = asking.place_of(_configuration_of(arguments))

    def ask(name: str) -> Mapping[str, Any]:
        try:
            return asking.ask(place, "/api/clients", CLIENTS_SCHEMA, {"id": name})
        except asking.NoAnswerError as reason:
            raise NotAskedError(str(reason)) from None

    return ask


def _configuration_of(arguments: argparse.Namespace) -> Configuration:
    try:
        return configuration_of(arguments, os.environ)
    except ConfigError as error:
        raise FlashError(Failure.WRONG, f"the gateway's configuration is wrong:\n{error}") from None

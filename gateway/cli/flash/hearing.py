"""The first contact of a new node: at a gateway that runs, or on its own line."""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from gateway.admin.clients import CLIENTS_SCHEMA
from gateway.cli.flash.boards import Target
from gateway.cli.live import printable
from gateway.cli.sources import configuration_of
from gateway.config import ConfigError
from gateway.config.settings import Settings
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


def hear_from(
    arguments: argparse.Namespace, name: str, target: Target | None, report: Report
) -> Contact | None:
    """None if nobody is to wait for it. Raises FlashError when it is not heard."""
    if arguments.wait == 0:
        return None
    ask = asker(arguments)
    port = None if target is None or target.port is None else target.port.device
    who = arguments.hear or _who_hears(ask, target)
    if who == "line":
        if port is None:
            raise FlashError(Failure.WRONG, "--hear line: the board has no port here")
        with Console(port) as console:
            contact = on_line(console, name, arguments.wait, report)
        if target is not None and target.kind.program == "tiny":
            report.say(_configuration(target))
    elif port is not None and target is not None and target.kind.program != "tiny":
        contact = _overheard(ask, name, port, arguments.wait, report)
    else:
        contact = at_gateway(ask, name, arguments.wait, report, round_trip=round_trip_s)
    report.say(str(contact))
    return contact


def _overheard(ask: Ask, name: str, port: str, patience_s: float, report: Report) -> Contact:
    """Its console is its own, so that what it prints there may say why it is not heard."""
    with Console(port) as console:
        said = Overheard(console)
        try:
            return at_gateway(
                ask, name, patience_s, report, round_trip=round_trip_s, meanwhile=said
            )
        except FlashError:
            for line in said.lines:
                report.say(f"it said: {printable(line)}")
            raise


def _who_hears(ask: Ask, target: Target | None) -> str:
    if target is None or target.port is None or target.kind.program != "tiny":
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


def asker(arguments: argparse.Namespace) -> Ask:
    """Asks the gateway of the configuration. Raises FlashError if that is wrong."""
    from gateway.cli import asking  # brings http.client with it

    settings = _settings(arguments)

    def ask(name: str) -> Mapping[str, Any]:
        try:
            return asking.ask(settings.admin.listen, "/api/clients", CLIENTS_SCHEMA, {"id": name})
        except asking.NoAnswerError as reason:
            raise NotAskedError(str(reason)) from None

    return ask


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        return configuration_of(arguments, os.environ).settings
    except ConfigError as error:
        raise FlashError(Failure.WRONG, f"the gateway's configuration is wrong:\n{error}") from None

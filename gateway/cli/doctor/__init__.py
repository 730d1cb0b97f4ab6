"""`tidegate doctor`: examines what the gateway depends on, and says what to do about it.

Without an option all parts are examined. Nothing is changed, and a gateway that runs is not
disturbed. `--listen` is no part, as it takes its time and a port. Each failure comes with the
command that fixes it, or that is the first step to that.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.called import runnable
from gateway.cli.doctor.commands import typed
from gateway.cli.doctor.disk import described, examine, facts_as_json
from gateway.cli.doctor.findings import Finding, Level, findings
from gateway.cli.doctor.section import Examined, Section
from gateway.cli.doctor.serial_ports import (
    examine_ports,
    ports_as_json,
    ports_described,
    serial_findings,
)
from gateway.cli.doctor.syncs import SYNCS_DEFAULT, SYNCS_MAX, SYNCS_MIN
from gateway.cli.doctor.wear import wear
from gateway.cli.numbers import whole_number
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import add_source_arguments, configuration_of, used_path
from gateway.config import ConfigError
from gateway.config.kinds import MismatchError
from gateway.config.serial_ports import SerialPort
from gateway.config.settings import Settings
from gateway.transports.serial.line import LineError

SCHEMA = "tidegate.doctor/1"
BAUD_MIN, BAUD_MAX = 50, 4_000_000
SECONDS_DEFAULT, SECONDS_MAX = 10, 3600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser)
    parser.add_argument(
        "--disk",
        action="store_true",
        help="only the disk below gateway.state_dir: how long it takes to make something durable, "
        "whether it can be believed, and whether it has room for the journal; what is written for "
        "that is removed again. To try another folder: --set gateway.state_dir=DIR",
    )
    parser.add_argument(
        "--syncs",
        metavar="N",
        type=whole_number(SYNCS_MIN, SYNCS_MAX),
        default=SYNCS_DEFAULT,
        help=f"how often the disk is asked to make a reading durable, {SYNCS_MIN} to {SYNCS_MAX} "
        f"(default {SYNCS_DEFAULT})",
    )
    parser.add_argument(
        "--serial",
        action="store_true",
        help="only the serial ports: their names, chips, who has them and who may; none is opened",
    )
    parser.add_argument(
        "--only",
        metavar="PART",
        choices=PARTS,
        help=f"only this part: {', '.join(PARTS)}",
    )
    _add_listening_arguments(parser)
    parser.add_argument("--json", action="store_true", help="answer in JSON, on stdout")


def _add_listening_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        metavar="PORT",
        type=_port,
        help="hear this serial port and say what speaks there: which framing, how many nodes, how "
        "much is damaged, or a console, or noise. Nothing is sent; some boards start again when "
        "their port is opened. Exit code 0 if it is MQTT-SN, 1 if not, 69 or 77 if the port is not "
        "to be had, as while a gateway has it",
    )
    parser.add_argument(
        "--baud",
        metavar="N",
        type=whole_number(BAUD_MIN, BAUD_MAX),
        help=f"for --listen, {BAUD_MIN} to {BAUD_MAX}; without it as configured for the port, "
        "or 115200",
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=whole_number(1, SECONDS_MAX),
        default=SECONDS_DEFAULT,
        help=f"for --listen, 1 to {SECONDS_MAX} (default {SECONDS_DEFAULT}); Ctrl-C ends it early",
    )


def _port(text: str) -> str:
    try:
        return SerialPort().read(text)
    except MismatchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(arguments: argparse.Namespace) -> int:
    """1 if something was found that must be fixed; warnings and notes are 0."""
    if arguments.listen is not None:
        return _listen(arguments)
    from gateway.cli.doctor import parts

    try:
        configuration = parts.configuration_in_time(arguments)
    except ConfigError as error:
        from gateway.cli.doctor.configuration import wrong

        _print_sections([wrong(error)], is_json=arguments.json)
        return ExitCode.CONFIGURATION
    except parts.UnreadableError as error:
        _print_sections([error.section], is_json=arguments.json)
        return ExitCode.CONFIGURATION
    subject = Examined(configuration, used_path(arguments.config))
    chosen = [name for name in PARTS if getattr(arguments, name, False) or name == arguments.only]
    examined = [parts.in_time(name, PARTS[name], subject, arguments) for name in chosen or PARTS]
    return ExitCode.OK if _print_sections(examined, is_json=arguments.json) else ExitCode.FAILURE


def _print_sections(sections: list[Section], *, is_json: bool) -> bool:
    """Whether nothing must be fixed."""
    found = [finding for section in sections for finding in section.findings]
    is_ok = all(finding.level is not Level.FAILURE for finding in found)
    if is_json:
        parts = {each.name: each.facts | _as_json(each.findings) for each in sections}
        print_line(json.dumps({"schema": SCHEMA, "ok": is_ok, **parts}, indent=2))
    else:
        _print_lines((line for each in sections for line in each.lines), found)
    return is_ok


def _disk(subject: Examined, arguments: argparse.Namespace) -> Section:
    facts = examine(subject.configuration.settings, arguments.syncs)
    found = [*findings(facts, subject.edit("gateway.state_dir")), *wear(facts.device)]
    return Section("disk", list(described(facts)), found, facts_as_json(facts))


def _files(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.files import examine

    return examine(subject)


def _limits(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.limits import examine

    return examine(subject)


def _gateway(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.running import examine

    return examine(subject)


def _serial(subject: Examined, _arguments: argparse.Namespace) -> Section:
    ports = examine_ports(subject.configuration.settings)
    return Section(
        "serial", list(ports_described(ports)), serial_findings(ports), ports_as_json(ports)
    )


# Each brings with it what it looks at; --help needs none of that.


def _configuration(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.configuration import examine

    return examine(subject)


def _clock(_patient: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.clock import examine

    return examine()


def _listeners(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.listeners import examine

    return examine(subject)


def _broker(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.broker import examine

    return examine(subject)


def _ingest(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.ingest import ingest_findings

    return Section("ingest", findings=ingest_findings(subject.configuration))


def _units(subject: Examined, _arguments: argparse.Namespace) -> Section:
    from gateway.cli.doctor.units import examine

    return examine(subject)


# In the order in which one would fix them: nothing is right with a wrong clock or a full disk.
PARTS: dict[str, Callable[[Examined, argparse.Namespace], Section]] = {
    "configuration": _configuration,
    "clock": _clock,
    "limits": _limits,
    "disk": _disk,
    "files": _files,
    "listeners": _listeners,
    "serial": _serial,
    "broker": _broker,
    "ingest": _ingest,
    "units": _units,
    "gateway": _gateway,
}


def _listen(arguments: argparse.Namespace) -> int:
    from gateway.cli.doctor import listening

    options = listening.options_for(arguments.listen, arguments.baud, _settings_if_right(arguments))
    try:
        content = listening.listen(options, arguments.seconds)
    except LineError as error:
        print_error(f"tidegate doctor: {listening.why_not(error, arguments.listen)}")
        return listening.failure_code(error)
    code = listening.exit_code(content)
    if arguments.json:
        document = listening.content_as_json(options, content)
        print_line(
            json.dumps({"schema": SCHEMA, "ok": code == ExitCode.OK, "heard": document}, indent=2)
        )
    else:
        _print_rows(listening.content_rows(options, content))
    return code


def _settings_if_right(arguments: argparse.Namespace) -> Settings | None:
    """A port can be heard without any configuration, and so with a wrong one."""
    try:
        return configuration_of(arguments, os.environ).settings
    except ConfigError:
        return None


def _as_json(found: list[Finding]) -> dict[str, Any]:
    commands = [{"level": each.level.value, "command": typed(each.command)} for each in found]
    document = [asdict(each) | more for each, more in zip(found, commands, strict=True)]
    return {"findings": document}


def _print_lines(lines: Iterable[tuple[str, str]], found: list[Finding]) -> None:
    _print_rows(lines)
    print_line("")
    for finding in sorted(found, key=lambda finding: list(Level).index(finding.level)):
        print_line(f"{finding.level.value}: {finding.what}")
        if finding.advice:
            print_line(runnable(f"  {finding.advice}"))
        if finding.command:
            print_line(f"  $ {typed(finding.command)}")
    if not found:
        print_line("ok")


def _print_rows(lines: Iterable[tuple[str, str]]) -> None:
    for name, value in lines:
        print_line(f"{name:<12}{value}")

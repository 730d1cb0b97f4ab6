"""`tidegate man`: the manual page, from the very words of --help, for man(1)."""

import argparse
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from gateway.app.exit_codes import MEANING, ExitCode
from gateway.cli.outline import Argument, Command, outline
from gateway.cli.output import put
from gateway.host.version import version

FILES = (
    ("/etc/tidegate/config.toml", "the configuration, if no --config names another one"),
    ("/var/lib/tidegate", "readings that wait, sessions and messages for sleepers"),
    ("/var/lib/tidegate/device.keys", "keys of devices, as the verb keys writes them"),
    ("/etc/credstore", "secrets that systemd hands to the service, as credential:NAME"),
)
SIGNALS = (
    ("TERM, INT", "End in order: nothing that was acknowledged is lost."),
    (
        "HUP",
        "Read the configuration again, apply what can be applied and say of every other key that "
        "it needs a restart. A wrong file changes nothing.",
    ),
)
ENVIRONMENT = (
    ("TIDEGATE_TABLE__KEY", "A key of the configuration, such as TIDEGATE_UPSTREAM__URL."),
    (
        "TIDEGATE_COMPILED",
        "no: run the sources, also of what was compiled. The first line of the log says what runs.",
    ),
    ("CREDENTIALS_DIRECTORY", "Where the secrets are that credential:NAME names; see systemd."),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "How systemd hears of the service; see sd_notify(3)."),
    ("SOURCE_DATE_EPOCH", "The date of this page, when it is written by `tidegate man`."),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # it takes none


def run(_arguments: argparse.Namespace) -> int:
    from gateway.cli.parsing import whole_parser

    put(page(outline(whole_parser()), version(), _today()))
    return ExitCode.OK


def _today() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(given) if given.isascii() and given.isdigit() else time.time()
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def page(program: Command, release: str, date: str) -> str:
    lines = [
        f'.TH TIDEGATE 1 "{date}" "Tidegate {_plain(release)}" "Tidegate"',
        ".nh",
        ".ad l",
        ".SH NAME",
        f"tidegate \\- {_roff(program.description.rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B tidegate",
        "VERB ...",
        ".SH DESCRIPTION",
        "Sensors speak MQTT\\-SN 1.2 to the gateway, by UDP or serial lines; it speaks MQTT 5 to "
        "one broker. What it has acknowledged is safe: readings wait on disk while the broker is "
        "away.",
        ".SH OPTIONS",
        *(line for option in program.options[1:] for line in _argument(option)),
        ".SH VERBS",
        *(line for verb in program.commands for line in _verb(verb)),
        *_pairs("FILES", FILES),
        *_pairs("ENVIRONMENT", ENVIRONMENT),
        *_pairs("SIGNALS", SIGNALS),
        *_pairs("EXIT STATUS", [(str(int(code)), meaning) for code, meaning in MEANING.items()]),
        ".SH SEE ALSO",
        ".BR mosquitto (8),",
        ".BR systemctl (1),",
        ".BR journalctl (1)",
    ]
    return "\n".join(lines) + "\n"


def _verb(command: Command) -> Iterator[str]:
    yield f".SS {_roff(' '.join(command.path))}"
    yield f".B {_roff(command.usage)}"
    yield ".PP"
    yield _roff(command.description)
    for title, arguments in command.groups:
        shown = [argument for argument in arguments if "--help" not in argument.names]
        if shown and title not in ("options", "positional arguments"):
            yield ".PP"
            yield _roff(f"{title[0].upper()}{title[1:]}:")
        for argument in shown:
            yield from _argument(argument)
    yield from _actions(command)
    yield from _as_it_stands(command.epilog)


def _actions(command: Command) -> Iterator[str]:
    for below in command.commands:
        yield ".TP"
        yield f".B {_roff(' '.join(below.path[1:]))}"
        yield _roff(below.help)
        yield from _own_arguments(command, below)
        yield from _actions(below)


def _own_arguments(command: Command, action: Command) -> Iterator[str]:
    """Of an action, but for those that its verb has as well."""
    shared = {(option.names, option.help) for option in command.options}
    own = [
        each
        for each in action.arguments
        if (each.names, each.help) not in shared and "--help" not in each.names
    ]
    if own:
        yield ".RS"
        for argument in own:
            yield from _argument(argument)
        yield ".RE"


def _argument(argument: Argument) -> Iterator[str]:
    value = argument.value or ""
    shown = [f"{name} {value}".rstrip() for name in argument.names] or [value]
    yield ".TP"
    yield f".B {_roff(', '.join(shown))}"
    yield _roff(argument.help)


def _as_it_stands(text: str) -> Iterator[str]:
    if text.strip():
        yield ".PP"
        yield ".nf"
        yield from (_roff(line) if line else ".sp" for line in text.strip("\n").split("\n"))
        yield ".fi"


def _pairs(title: str, pairs: "list[tuple[str, str]] | tuple[tuple[str, str], ...]") -> list[str]:
    lines = [f".SH {title}"]
    for name, meaning in pairs:
        lines += [".TP", f".B {_roff(name)}", _roff(meaning)]
    return lines


def _roff(text: str) -> str:
    """A hyphen that can be copied and typed, and no line that roff takes for a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped)


def _plain(text: str) -> str:
    return text.replace('"', "'").replace("\\", "")

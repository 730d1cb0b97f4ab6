"""`tidegate access`: what the rules of access say of a sensor, and rules of mosquitto's file."""

import argparse
import json
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.arguments import add_action
from gateway.cli.output import print_error, print_line, put
from gateway.cli.sources import add_source_arguments, usable_configuration
from gateway.config.settings import ACCESS_ACTIONS, Settings

SCHEMA = "tidegate.access/1"
CONNECT = "connect"
EXPLAIN = """
It reads the configuration, and needs no running gateway. Exit code 0: allowed;
1: forbidden.

example:
  tidegate access explain greenhouse-7 publish sensors/greenhouse-7/air
  tidegate access explain well subscribe 'sensors/#' --identity serial:serial0
  tidegate access explain tank connect --identity psk:tank
"""
IMPORT = """
Entries for the configuration, on stdout. A sensor of MQTT-SN has no user name,
so the rules of a user are for the client id of that name. Denials stand first,
as they win in mosquitto. Exit code 1: something in the file is wrong, and named.

example:
  tidegate access import /etc/mosquitto/acl >>/etc/tidegate/config.toml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    explain = add_action(actions, "explain", "say which rule decides for a sensor", EXPLAIN)
    add_source_arguments(explain)
    explain.add_argument("client", metavar="CLIENT", help="its client id")
    does = (CONNECT, *ACCESS_ACTIONS)
    explain.add_argument("does", metavar="WHAT", choices=does, help=f"one of {', '.join(does)}")
    explain.add_argument(
        "topic", metavar="TOPIC", nargs="?", help="topic, or filter for subscribe; not for connect"
    )
    explain.add_argument(
        "--identity", default="anonymous@udp0", help="how it is known (default: %(default)s)"
    )
    explain.add_argument("--json", action="store_true", help="one JSON object")
    taking = add_action(actions, "import", "turn mosquitto's acl_file into rules", IMPORT)
    taking.add_argument("file", metavar="FILE", type=Path, help="the acl_file of mosquitto")


def run(arguments: argparse.Namespace) -> int:
    return _import(arguments.file) if arguments.action == "import" else _explain(arguments)


def _explain(arguments: argparse.Namespace) -> int:
    from gateway.app.core_options import access_rules
    from gateway.core.access.rules import Action

    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    settings = configuration.settings
    if (arguments.topic is None) is not (arguments.does == CONNECT):
        has = "has no topic" if arguments.does == CONNECT else "needs a topic"
        print_error(f"{arguments.does} {has}")
        return ExitCode.USAGE
    if arguments.does == CONNECT:
        return _explain_connect(settings, arguments)
    rules = access_rules(settings)
    if rules is None:
        is_allowed, number, limits = True, None, ""
    else:
        verdict = rules.verdict(
            arguments.client, arguments.identity, Action(arguments.does), arguments.topic
        )
        is_allowed, number = verdict.is_allowed, verdict.rule
        limits = "" if number is None or not is_allowed else _limits(settings, number)
    if arguments.json:
        answer = {"schema": SCHEMA, "allowed": is_allowed, "rule": number}
        print_line(json.dumps(answer | {"client": arguments.client, "topic": arguments.topic}))
    else:
        word = "allowed" if is_allowed else "forbidden"
        print_line(f"{word}: {_reason(settings, number)}{limits}")
    return ExitCode.OK if is_allowed else ExitCode.FAILURE


def _explain_connect(settings: Settings, arguments: argparse.Namespace) -> int:
    from gateway.app.core_options import client_bindings

    bindings = client_bindings(settings)
    is_allowed, number = True, None
    if bindings is not None:
        verdict = bindings.verdict(arguments.client, arguments.identity)
        is_allowed, number = verdict.is_allowed, verdict.binding
    if bindings is None:
        reason = "there are no [[binding]] entries"
    elif number is None:
        reason = "no entry of [[binding]] has this client id or this identity"
    else:
        binding = settings.binding[number]
        who, names = ", ".join(binding.identities), ", ".join(binding.clients)
        reason = f"binding.{number} decides ({who}: {names})"
    if arguments.json:
        answer = {"schema": SCHEMA, "allowed": is_allowed, "binding": number}
        who_asks = {"client": arguments.client, "identity": arguments.identity}
        print_line(json.dumps(answer | who_asks))
    else:
        print_line(f"{'allowed' if is_allowed else 'forbidden'}: {reason}")
    return ExitCode.OK if is_allowed else ExitCode.FAILURE


def _reason(settings: Settings, number: int | None) -> str:
    if not settings.access:
        return "there are no [[access]] entries"
    if number is None:
        return f"no entry fits, and security.access_default is {settings.security.access_default}"
    rule = settings.access[number]
    who = ", ".join([*rule.clients, *rule.identities]) or "every sensor"
    return f"access.{number} decides ({who}: {', '.join(rule.topics)})"


def _limits(settings: Settings, number: int) -> str:
    rule = settings.access[number]
    found = []
    if rule.qos_max < 2:
        found.append(f"QoS {rule.qos_max} at most")
    if not rule.retain:
        found.append("not retained")
    if rule.payload_bytes_max is not None:
        found.append(f"{rule.payload_bytes_max} bytes at most")
    return f"; {', '.join(found)}" if found else ""


def _import(file: Path) -> int:
    from gateway.cli.access.mosquitto import rules_of

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print_error(f"{file}: {getattr(error, 'strerror', None) or 'no UTF-8 text'}")
        return ExitCode.FAILURE
    imported = rules_of(text)
    put(imported.toml(file.name))
    for line, problem in imported.problems:
        print_error(f"{file}:{line}: {problem}")
    return ExitCode.FAILURE if imported.problems else ExitCode.OK

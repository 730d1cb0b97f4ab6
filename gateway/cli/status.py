"""`tidegate status`: the whole gateway on one screen, with what needs attention at its end."""

import argparse
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from gateway.admin.durations import duration
from gateway.admin.http.answers import STATUS_SCHEMA
from gateway.app.exit_codes import ExitCode
from gateway.cli.called import runnable
from gateway.cli.live import add_live_arguments, ask_and_show, counted, printable
from gateway.cli.output import put
from gateway.cli.tables import terminal_columns
from gateway.config.settings import MIB

NAME_COLUMNS = 12
STATES_SHOWN = ("active", "awake", "asleep", "lost", "disconnected", "connecting")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_live_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    return ask_and_show(arguments, "/api/status", STATUS_SCHEMA, {}, show)


def show(answer: Mapping[str, Any]) -> int:
    width = terminal_columns()
    for name, text in described(answer):
        put(_line(name, text, width))
    return ExitCode.OK


def _line(name: str, text: str, width: int | None) -> str:
    if width is None:
        return f"{name:<{NAME_COLUMNS}}{text}\n"
    lines = wrap(text, max(20, width - NAME_COLUMNS)) or [""]
    return "".join(
        f"{name if number == 0 else '':<{NAME_COLUMNS}}{line}\n"
        for number, line in enumerate(lines)
    )


def described(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    up = duration(answer["uptime_s"])
    yield "gateway", f"{printable(answer['gateway'])}, Tidegate {answer['version']}, up for {up}"
    yield "broker", answer["upstream_state"]
    yield "", _upstream(answer)
    yield "clients", _clients(answer)
    yield "", _waiting(answer["outbox_messages"])
    yield "topics", _topics(answer)
    yield "journal", _journal(answer["journal"])
    if answer["ingest"]["is_on"]:
        yield "ingest", _ingest(answer["ingest"])
    yield "on MQTT", _presence(answer["notices"])
    yield "rates", _rates(answer)
    for number, link in enumerate(answer["links"]):
        received, sent = link["datagrams_received"], link["datagrams_sent"]
        where = f"{link['name']} {link['listening_on']}"
        damaged = _damaged(link.get("line"))
        yield "" if number else "links", f"{where}, {received} received, {sent} sent{damaged}"
    dropped = [f"{why} {n}" for why, n in answer["counters"]["dropped"].items() if n]
    yield "dropped", ", ".join(dropped) or "nothing"
    alarms = answer["alarms"]
    yield "alarms", runnable(alarms[0]) if alarms else "none"
    for alarm in alarms[1:]:
        yield "", runnable(alarm)


def _damaged(line: Mapping[str, Any] | None) -> str:
    """Of a serial line, frames that were no messages."""
    if line is None:
        return ""
    damaged = sum(line["frames"].values()) - line["frames"].get("good", 0)
    return f", {counted(damaged, 'frame')} damaged" if damaged else ""


def _upstream(answer: Mapping[str, Any]) -> str:
    in_flight, waiting = answer["upstream_in_flight"], answer["upstream_waiting"]
    return f"{in_flight} readings in flight, {waiting} wait in memory"


def _clients(answer: Mapping[str, Any]) -> str:
    by_state = answer["clients_by_state"]
    parts = [f"{by_state[state]} {state}" for state in STATES_SHOWN if by_state.get(state)]
    if answer["clients_overdue"]:
        parts.append(f"{answer['clients_overdue']} of these overdue")
    return ", ".join(parts) or "none yet"


def _waiting(messages: int) -> str:
    return f"{counted(messages, 'message')} {'waits' if messages == 1 else 'wait'} for them"


def _topics(answer: Mapping[str, Any]) -> str:
    subscriptions = counted(answer["subscriptions"], "filter")
    return (
        f"{subscriptions} subscribed, by {answer['covering_subscriptions']} at the broker; "
        f"{counted(answer['retained_messages'], 'retained message')}"
    )


def _journal(journal: Mapping[str, Any]) -> str:
    error = f" ({journal['error']})" if journal["error"] else ""
    age = journal["oldest_age_s"]
    oldest = "" if age is None else f", the oldest for {duration(age)}"
    return (
        f"{journal['condition']}{error}, {journal['depth']} readings wait{oldest}, "
        f"{100 * journal['fill']:.0f} % of {journal['budget_bytes'] / MIB:.0f} MiB used"
    )


def _ingest(ingest: Mapping[str, Any]) -> str:
    age, last_received_s = ingest["oldest_age_s"], ingest["heard_age_s"]
    oldest = "" if age is None else f", the oldest for {duration(age)}"
    last = (
        "nothing heard of it"
        if last_received_s is None
        else f"last heard {duration(last_received_s)} ago"
    )
    return (
        f"{ingest['kept']} readings kept until ingested{oldest}; {last}, "
        f"{ingest['ingested']} ingested, {ingest['sent_again']} sent again"
    )


def _presence(presence: Mapping[str, Any]) -> str:
    devices, announced = presence["devices"], presence["announced"]
    parts = ["no presence of devices" if devices is None else f"{counted(devices, 'device')} told"]
    if announced is not None:
        parts.append(f"{announced} announced to Home Assistant")
    if presence["waiting"]:
        parts.append(f"{presence['waiting']} due")
    return f"{', '.join(parts)}, at {printable(presence['topic'])}/"


def _rates(answer: Mapping[str, Any]) -> str:
    if answer["readings_per_s"] is None:
        return "not known yet"
    up, down = answer["readings_per_s"], answer["deliveries_per_s"]
    return f"{up:.1f} readings up and {down:.1f} messages down a second, in the last minute"

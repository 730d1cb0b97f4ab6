"""`tidegate topics`: each topic with its ids, who registered it, who hears it, what is retained."""

import argparse
from collections.abc import Mapping
from typing import Any

from gateway.admin.topics import TOPICS_SCHEMA
from gateway.app.exit_codes import ExitCode
from gateway.cli.clients import add_limit_argument
from gateway.cli.live import add_live_arguments, ask_and_show, printable, size
from gateway.cli.output import print_error, print_line, put
from gateway.cli.tables import Column, table, terminal_columns

COLUMNS = (
    Column("topic or filter", is_name=True),
    Column("predefined", 1, is_name=True),
    Column("registered by (id)", 2, is_name=True),
    Column("subscribed by (QoS)", 3, is_name=True),
    Column("at the broker", 4, is_name=True),
    Column("retained", 5, right=True),
)

HELP = """
columns:
  predefined     its number in the configuration, for all or for single clients
  registered by  the clients that have a number of their own for it
  subscribed by  the clients that hear it, with their QoS
  at the broker  the subscription of the gateway that brings it, with its QoS
  retained       size of the message that the broker retains
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{HELP}\n{parser.epilog or ''}"
    add_live_arguments(parser)
    parser.add_argument(
        "name", nargs="?", metavar="TOPIC", help="show this topic or filter with all its clients"
    )
    parser.add_argument("--prefix", metavar="TEXT", help="only those that begin with this")
    parser.add_argument("--after", metavar="TOPIC", help="go on behind this one")
    add_limit_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    wanted = {
        "name": arguments.name,
        "prefix": arguments.prefix,
        "after": arguments.after,
        "limit": arguments.limit,
    }
    query = {name: value for name, value in wanted.items() if value is not None}

    def show(answer: Mapping[str, Any]) -> int:
        if arguments.name is not None:
            return show_one(answer, arguments.name)
        return show_all(answer, is_filtered=query.keys() != {"limit"})

    return ask_and_show(arguments, "/api/topics", TOPICS_SCHEMA, query, show)


# A list


def show_all(answer: Mapping[str, Any], *, is_filtered: bool) -> int:
    topics = answer["topics"]
    if not topics:
        found = "no such topics" if is_filtered else "no sensor has a topic"
        print_line(f"{printable(answer['gateway'])}: {found}")
        return ExitCode.OK
    rows = [_row(topic) for topic in topics]
    put("".join(f"{line}\n" for line in table(COLUMNS, rows, terminal_columns())))
    if answer["more"]:
        least = "" if answer["more_is_exact"] else "at least "
        last = printable(topics[-1]["topic"])
        print_line(
            f"and {least}{answer['more']} more: --after {last!r} goes on, --limit shows more"
        )
    return ExitCode.OK


def _row(topic: Mapping[str, Any]) -> tuple[str, ...]:
    retained = topic["retained_bytes"]
    return (
        printable(topic["topic"]),
        _predefined(topic),
        _few(topic["registered_by"], "topic_id"),
        _few(topic["subscribed_by"], "qos"),
        _upstream(topic),
        "-" if retained is None else size(retained),
    )


def _predefined(topic: Mapping[str, Any]) -> str:
    own = topic["predefined_for"]
    if topic["predefined_id"] is None:
        return _few(own, "topic_id")
    return str(topic["predefined_id"]) + (f", {_few(own, 'topic_id')}" if own["count"] else "")


def _few(named: Mapping[str, Any], number: str) -> str:
    """`pump-1 (4)`, and of more than one the first and how many others."""
    if not named["count"]:
        return "-"
    first = named["clients"][0]
    others = f" and {named['count'] - 1} more" if named["count"] > 1 else ""
    return f"{printable(first['id'])} ({first[number]}){others}"


def _upstream(topic: Mapping[str, Any]) -> str:
    if topic["upstream_filter"] is None:
        return "-"
    qos = f"QoS {topic['upstream_qos']}"
    is_itself = topic["upstream_filter"] == topic["topic"]
    return qos if is_itself else f"{printable(topic['upstream_filter'])}, {qos}"


# One topic


def show_one(answer: Mapping[str, Any], name: str) -> int:
    if not answer["topics"]:
        print_error(f"tidegate topics: {answer['gateway']} knows no topic or filter {name!r}")
        return ExitCode.FAILURE
    topic = answer["topics"][0]
    number, retained = topic["predefined_id"], topic["retained_bytes"]
    put(f"topic          {printable(topic['topic'])}\n")
    put(f"predefined     {'no' if number is None else f'{number}, for all clients'}\n")
    put(f"at the broker  {_upstream(topic)}\n")
    put(f"retained       {'nothing' if retained is None else size(retained)}\n")
    for title, named, what in (
        ("predefined for single clients, with id", topic["predefined_for"], "topic_id"),
        ("registered by, with id", topic["registered_by"], "topic_id"),
        ("subscribed by, with QoS", topic["subscribed_by"], "qos"),
    ):
        put(f"\n{title}\n" if named["count"] else f"\n{title}: nobody\n")
        for client in named["clients"]:
            put(f"  {client[what]:>5}  {printable(client['id'])}\n")
        if named["count"] > len(named["clients"]):
            put(f"  and {named['count'] - len(named['clients'])} more\n")
    return ExitCode.OK

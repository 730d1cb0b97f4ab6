"""`tidegate clients`: who is awake, who sleeps until when, who is overdue or lost."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.admin.clients import CLIENTS_SCHEMA
from gateway.admin.durations import duration
from gateway.admin.http.queries import LIMIT_DEFAULT, LIMIT_MAX, OVERDUE, STATES
from gateway.app.exit_codes import ExitCode
from gateway.cli.live import add_live_arguments, ago, ask_and_show, clock, counted, printable, size
from gateway.cli.output import print_error, print_line, put
from gateway.cli.tables import Column, table, terminal_columns

COLUMNS = (
    Column("client", is_name=True),
    Column("state"),
    Column("heard ago", 2),
    Column("topics", 5, right=True),
    Column("subs", 4, right=True),
    Column("waiting", 1, right=True),
    Column("will", 6, is_name=True),
    Column("address", 3),
)

HELP = """
states:
  active        listens, and was heard within its keep-alive
  asleep until  sleeps until then; what comes for it waits here
  awake         fetches what waits for it
  overdue       should have been heard by now; nothing has changed for it yet
  lost          was silent past its tolerance; its will was published
  disconnected  sent DISCONNECT
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{HELP}\n{parser.epilog or ''}"
    add_live_arguments(parser)
    parser.add_argument("id", nargs="?", metavar="ID", help="show this client with all its topics")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--state",
        choices=STATES,
        metavar="STATE",
        help=f"only those in this state: {', '.join(STATES)}",
    )
    which.add_argument(
        "--overdue", action="store_true", help="only those that should have been heard by now"
    )
    parser.add_argument("--prefix", metavar="TEXT", help="only those whose id begins with this")
    parser.add_argument("--after", metavar="ID", help="go on behind this id")
    add_limit_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    wanted = {
        "id": arguments.id,
        "state": OVERDUE if arguments.overdue else arguments.state,
        "prefix": arguments.prefix,
        "after": arguments.after,
        "limit": arguments.limit,
    }
    query = {name: value for name, value in wanted.items() if value is not None}

    def show(answer: Mapping[str, Any]) -> int:
        if arguments.id is not None:
            return show_one(answer, arguments.id)
        return show_all(answer, is_filtered=query.keys() != {"limit"})

    return ask_and_show(arguments, "/api/clients", CLIENTS_SCHEMA, query, show)


def add_limit_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--limit",
        type=limit,
        default=LIMIT_DEFAULT,
        metavar="N",
        help=f"at most this many, 1 to {LIMIT_MAX} (default: {LIMIT_DEFAULT})",
    )


def limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= LIMIT_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {LIMIT_MAX}")


# A list


def show_all(answer: Mapping[str, Any], *, is_filtered: bool) -> int:
    clients = answer["clients"]
    if not clients:
        found = "no such clients" if is_filtered else "no sensor has connected"
        print_line(f"{printable(answer['gateway'])}: {found}")
        return ExitCode.OK
    rows = [_row(client, answer["time"]) for client in clients]
    put("".join(f"{line}\n" for line in table(COLUMNS, rows, terminal_columns())))
    if answer["more"]:
        last = clients[-1]["id"]
        print_line(
            f"and {answer['more']} more: --after {printable(last)!r} goes on, --limit shows more"
        )
    return ExitCode.OK


def _row(client: Mapping[str, Any], now_unix_s: float) -> tuple[str, ...]:
    return (
        printable(client["id"]),
        state_words(client, now_unix_s),
        duration(client["last_heard_s"]) if client["away_s"] is None else "-",
        str(client["topics"]),
        str(client["subscriptions"]),
        str(client["queued_messages"] or "-"),
        printable(client["will"]["topic"]) if client["will"] else "-",
        client["address"],
    )


def state_words(client: Mapping[str, Any], now_unix_s: float) -> str:
    """`asleep until 14:32:05`, `asleep, overdue by 3 s`, `lost 2 h 5 min ago`"""
    state = str(client["state"])
    if client["overdue"]:
        return f"{state}, overdue by {_short(client['overdue_s'])}"
    if client["asleep_until"] is not None:
        return f"{state} until {clock(client['asleep_until'], now_unix_s)}"
    if client["away_s"] is not None:
        return f"{state} {ago(client['away_s'])}"
    return state


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


# One client


def show_one(answer: Mapping[str, Any], client_id: str) -> int:
    if not answer["clients"]:
        print_error(f"tidegate clients: {answer['gateway']} knows no client {client_id!r}")
        return ExitCode.FAILURE
    client = answer["clients"][0]
    for name, value in described(client, answer["time"]):
        put(f"{name:<14}{value}\n")
    for title, rows in (
        ("topic ids of its own", [(each["id"], each["topic"]) for each in client["topic_ids"]]),
        (
            "predefined ids",
            [(each["id"], each["topic"]) for each in client["predefined_topic_ids"]],
        ),
        ("subscribed, with QoS", [(each["qos"], each["filter"]) for each in client["subscribed"]]),
    ):
        put(f"\n{title}\n" if rows else f"\n{title}: none\n")
        for number, name in rows:
            put(f"  {number:>5}  {printable(name)}\n")
    return ExitCode.OK


def described(client: Mapping[str, Any], now_unix_s: float) -> Iterator[tuple[str, str]]:
    will, sleep_s = client["will"], client["sleep_s"]
    yield "client", printable(client["id"])
    yield "state", state_words(client, now_unix_s)
    yield "address", f"{client['address']} on {client['link'] or 'a link that is no more'}"
    yield "last heard", ago(client["last_heard_s"])
    yield "keep-alive", f"{client['keep_alive_s']} s" if client["keep_alive_s"] else "none"
    yield "sleep", f"{sleep_s} s, as it said last" if sleep_s else "never"
    yield "session", "ends with its connection (clean)" if client["clean"] else "stays"
    waiting = client["queued_messages"]
    yield (
        "waiting",
        f"{counted(waiting, 'message')}, {size(client['queued_bytes'])}" if waiting else "nothing",
    )
    if client.get("given_up_messages"):  # a gateway of a former release does not say
        last = printable(client["given_up_topic"])
        yield "given up", f"{counted(client['given_up_messages'], 'message')}, the last on {last}"
    retained = ", retained" if will and will["retain"] else ""
    yield "will", f"{printable(will['topic'])}, QoS {will['qos']}{retained}" if will else "none"

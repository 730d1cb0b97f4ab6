"""How each kind of row goes into its table and comes back, and which rows make no sense.

The one place that knows both `gateway/core/state_records.py` and schema.sql.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import groupby
from typing import Any

from gateway.core.state_records import (
    AsideDeleted,
    AsideRecord,
    Change,
    ClientId,
    ClientRecord,
    DueWillDeleted,
    DueWillRecord,
    ExpiryRecord,
    FilterDeleted,
    FilterRecord,
    MessageDeleted,
    MessageRecord,
    PacketDeleted,
    PacketRecord,
    PacketsDeleted,
    PermitDeleted,
    PermitRecord,
    ProtectionDeleted,
    ProtectionRecord,
    RetainedDeleted,
    RetainedRecord,
    RunTimeRecord,
    SessionDeleted,
    SessionRecord,
    State,
    StateRecords,
    SubscriptionDeleted,
    SubscriptionRecord,
    TopicRecord,
    WaitingDeleted,
    WaitingRecord,
    WillRecord,
)
from gateway.core.values import contents_of

# Of a link that this configuration does not have.
NO_LINK = -1
# Half of what SQLite can hold, so that the one that counts on from a number that a flipped bit has
# made never gets to one that cannot be saved.
_POSITION_MAX = 1 << 62
_TIME_MAX = 1 << 52  # milliseconds
_IDENTIFIER_MAX = 0x0FFFFFFF  # of a subscription (MQTT 5, 3.8.2.1.2)

Row = tuple[object, ...]


# Out


@dataclass(frozen=True, slots=True)
class _Way:
    """How one kind of change is written; a row of parameters is good for all its statements."""

    parameters: Callable[[Any], Row]
    statements: tuple[str, ...]
    # Then those of them that these parameters are not None for.
    beside: tuple[tuple[Callable[[Any], Row | None], str], ...] = ()


def _message_row(row: MessageRecord) -> Row:
    message = (row.topic, row.payload, row.qos, row.retain, row.is_released)
    return (row.client_id, row.position, *message)


def _message_expiry_row(row: MessageRecord) -> Row | None:
    if row.expiry is None:
        return None
    contents = contents_of(row.topic, row.payload, row.qos)
    return (row.client_id, row.position, contents, *astuple(row.expiry))


def _retained_expiry_row(row: RetainedRecord) -> Row | None:
    if row.expiry is None:
        return None
    return (row.topic, _retained_contents(row.topic, row.payload), *astuple(row.expiry))


def _retained_contents(topic: str, payload: bytes) -> int:
    return contents_of(topic, payload, 0)  # the QoS may be known better later


def _subscription_row(row: SubscriptionRecord) -> Row:
    return (row.client_id, row.topic_filter, row.qos, row.topic_id_type, row.topic_id)


_WAYS: dict[type, _Way] = {
    SessionDeleted: _Way(
        lambda row: (row.client_id,),
        tuple(
            f"DELETE FROM {table} WHERE client_id = ?"
            for table in ("sessions", "topics", "subscriptions", "messages", "message_expiries")
        ),
    ),
    TopicRecord: _Way(
        lambda row: (row.client_id, row.topic_id, row.name),
        ("REPLACE INTO topics VALUES (?, ?, ?)",),
    ),
    SubscriptionRecord: _Way(
        _subscription_row, ("REPLACE INTO subscriptions VALUES (?, ?, ?, ?, ?)",)
    ),
    SubscriptionDeleted: _Way(
        lambda row: (row.client_id, row.topic_filter),
        ("DELETE FROM subscriptions WHERE client_id = ? AND topic_filter = ?",),
    ),
    MessageRecord: _Way(
        _message_row,
        ("REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)",),
        ((_message_expiry_row, "REPLACE INTO message_expiries VALUES (?, ?, ?, ?, ?, ?)"),),
    ),
    MessageDeleted: _Way(
        lambda row: (row.client_id, row.position),
        ("DELETE FROM messages WHERE client_id = ? AND position = ?",),
        (
            (
                lambda row: (row.client_id, row.position) if row.expires else None,
                "DELETE FROM message_expiries WHERE client_id = ? AND position = ?",
            ),
        ),
    ),
    RetainedRecord: _Way(
        lambda row: (row.topic, row.payload, row.qos, row.is_exact),
        ("REPLACE INTO retained VALUES (?, ?, ?, ?)",),
        (
            (
                lambda row: (row.topic,) if row.expiry is None else None,
                "DELETE FROM retained_expiries WHERE topic = ?",
            ),
            (_retained_expiry_row, "REPLACE INTO retained_expiries VALUES (?, ?, ?, ?, ?)"),
        ),
    ),
    RetainedDeleted: _Way(
        lambda row: (row.topic,),
        (
            "DELETE FROM retained WHERE topic = ?",
            "DELETE FROM retained_expiries WHERE topic = ?",
        ),
    ),
    PacketRecord: _Way(
        lambda row: (row.packet_id, row.contents, row.brought_by),
        ("REPLACE INTO packets VALUES (?, ?, ?)",),
    ),
    PacketDeleted: _Way(lambda row: (row.packet_id,), ("DELETE FROM packets WHERE packet_id = ?",)),
    PacketsDeleted: _Way(lambda _row: (), ("DELETE FROM packets",)),
    FilterRecord: _Way(lambda row: (row.topic_filter,), ("REPLACE INTO filters VALUES (?)",)),
    FilterDeleted: _Way(
        lambda row: (row.topic_filter,), ("DELETE FROM filters WHERE topic_filter = ?",)
    ),
    DueWillRecord: _Way(astuple, (f"REPLACE INTO due_wills VALUES ({'?, ' * 8}?)",)),
    DueWillDeleted: _Way(astuple, ("DELETE FROM due_wills WHERE client_id = ?",)),
    PermitRecord: _Way(astuple, ("REPLACE INTO permits VALUES (?)",)),
    PermitDeleted: _Way(astuple, ("DELETE FROM permits WHERE client_id = ?",)),
    WaitingRecord: _Way(astuple, ("REPLACE INTO waiting VALUES (?)",)),
    WaitingDeleted: _Way(astuple, ("DELETE FROM waiting WHERE client_id = ?",)),
    AsideRecord: _Way(astuple, (f"REPLACE INTO aside VALUES ({'?, ' * 11}?)",)),
    AsideDeleted: _Way(astuple, ("DELETE FROM aside WHERE number = ?",)),
    ProtectionRecord: _Way(astuple, (f"REPLACE INTO protection VALUES ({'?, ' * 7}?)",)),
    ProtectionDeleted: _Way(astuple, ("DELETE FROM protection WHERE sender_id = ? AND epoch = ?",)),
    RunTimeRecord: _Way(astuple, ("REPLACE INTO meta VALUES ('run_ms', ?)",)),
}


# What needs no more space on the disk than before, or hardly any.
_MAKING_ROOM = frozenset(
    {
        SessionDeleted,
        SubscriptionDeleted,
        MessageDeleted,
        RetainedDeleted,
        PacketDeleted,
        PacketsDeleted,
        FilterDeleted,
        DueWillDeleted,
        PermitDeleted,
        WaitingDeleted,
        AsideDeleted,
        SessionRecord,
        RunTimeRecord,
        ProtectionRecord,
        ProtectionDeleted,
    }
)


def makes_room(changes: Iterable[Change]) -> bool:
    return all(type(change) in _MAKING_ROOM for change in changes)


class RowWriter:
    def __init__(self, link_names: Sequence[str]) -> None:
        self._link_names = tuple(link_names)
        session = _Way(self._session_row, (f"REPLACE INTO sessions VALUES ({'?, ' * 12}?)",))
        self._ways: Mapping[type, _Way] = {**_WAYS, SessionRecord: session}

    def write(self, connection: sqlite3.Connection, changes: Iterable[Change]) -> None:
        """In order; neighbours of one kind by one statement."""
        for kind, some in groupby(changes, type):
            way, alike = self._ways[kind], list(some)
            rows = [way.parameters(change) for change in alike]
            for statement in way.statements:
                connection.executemany(statement, rows)
            for parameters, statement in way.beside:
                found = [row for change in alike if (row := parameters(change)) is not None]
                if found:
                    connection.executemany(statement, found)

    def _session_row(self, row: SessionRecord) -> Row:
        will: Row = (None, None, None, None)
        if row.will is not None:
            will = (row.will.topic, row.will.payload, row.will.qos, row.will.retain)
        is_known = 0 <= row.link < len(self._link_names)
        return (
            row.client_id,
            row.clean,
            self._link_names[row.link] if is_known else "",
            row.address,
            row.state.value,
            row.keep_alive_s,
            row.sleep_s,
            *will,
            row.next_topic_id,
            row.next_position,
        )


# Back


def _text(column: str) -> str:
    return f"typeof({column}) = 'text' AND {column} <> ''"


def _number(column: str, least: int, most: int) -> str:
    return f"typeof({column}) = 'integer' AND {column} BETWEEN {least} AND {most}"


def _octets(column: str) -> str:
    return f"typeof({column}) = 'blob'"


_STATES = ", ".join(f"'{state.value}'" for state in State)
_WILL = (
    f"{_text('will_topic')} AND {_octets('will_payload')} "
    f"AND {_number('will_qos', 0, 2)} AND {_number('will_retain', 0, 1)}"
)

_EXPIRY = (
    _number("contents", 0, 0xFFFFFFFF),
    _number("left_ms", 0, 0xFFFFFFFF * 1000),
    _number("run_ms", 0, _TIME_MAX),
    _number("unix_ms", 0, _TIME_MAX),
)

# What a row that makes sense fulfils, by table; those of clients after the clients.
_SOUND: dict[str, tuple[str, ...]] = {
    "sessions": (
        _text("client_id"),
        _number("clean", 0, 1),
        "typeof(link) = 'text'",
        _octets("address"),
        f"state IN ({_STATES})",
        _number("keep_alive_s", 0, 0xFFFF),
        _number("sleep_s", 0, 0xFFFF),
        f"(will_topic IS NULL OR {_WILL})",
        _number("next_topic_id", 0, 0x7FFFFFFF),
        _number("next_position", 0, _POSITION_MAX),
    ),
    "topics": (_number("topic_id", 1, 0xFFFF), _text("name")),
    "subscriptions": (
        _text("topic_filter"),
        _number("qos", 0, 2),
        _number("topic_id_type", 0, 3),
        _number("topic_id", 0, 0xFFFF),
    ),
    "messages": (
        _number("position", 0, _POSITION_MAX),
        _text("topic"),
        _octets("payload"),
        _number("qos", 1, 2),
        _number("retain", 0, 1),
        _number("is_released", 0, 1),
    ),
    "retained": (
        _text("topic"),
        _octets("payload"),
        _number("qos", 0, 2),
        _number("is_exact", 0, 1),
    ),
    "message_expiries": (_number("position", 0, _POSITION_MAX), *_EXPIRY),
    "retained_expiries": (_text("topic"), *_EXPIRY),
    "packets": (
        _number("packet_id", 1, 0xFFFF),
        _number("contents", 0, 0xFFFFFFFF),
        _number("brought_by", 0, _IDENTIFIER_MAX),
    ),
    "filters": (_text("topic_filter"),),
    "due_wills": (
        _text("client_id"),
        _text("topic"),
        _octets("payload"),
        _number("qos", 1, 2),
        _number("retain", 0, 1),
        _number("epoch", 1, 0x7FFFFFFF),
        _number("sequence", 0, 0x7FFFFFFFFFFFFFFF),
        _number("packet_id", 1, 0xFFFF),
        _number("unix_ms", 0, 0x7FFFFFFFFFFFFFFF),
    ),
    "permits": (_text("client_id"),),
    "waiting": (_text("client_id"),),
    "aside": (
        _number("number", 1, 0x7FFFFFFFFFFFFFFF),
        _text("client_id"),
        _text("topic"),
        _octets("payload"),
        _number("qos", 0, 2),
        _number("retain", 0, 1),
        _number("epoch", 0, 0x7FFFFFFF),
        _number("sequence", -1, 0x7FFFFFFFFFFFFFFF),
        _number("packet_id", 0, 0xFFFF),
        _number("unix_ms", 0, 0x7FFFFFFFFFFFFFFF),
        _number("set_aside_ms", 0, 0x7FFFFFFFFFFFFFFF),
        "typeof(reason) = 'text'",
    ),
    "protection": (
        f"{_octets('sender_id')} AND length(sender_id) = 8",
        _number("epoch", 0, 0xFFFF),
        _number("series", 0, 0xFFFF),
        _number("next_counter", 0, 0xFFFFFFFF),
        _number("received_series", 0, 0xFFFF),
        _number("bound", 0, 0xFFFFFFFF),
        # Schemes of protection/envelope.py, and tags of whole or, of HMAC, even size.
        "typeof(scheme) = 'integer' AND typeof(tag_bytes) = 'integer' AND (scheme, tag_bytes) IN "
        f"(VALUES (64, 8), (67, 16), {', '.join(f'(0, {size})' for size in range(8, 34, 2))})",
    ),
}
_OF_CLIENTS = ("topics", "subscriptions", "messages")
# An older Tidegate that ran since left these where it deleted what they belong to.
_STRAY = (
    "DELETE FROM message_expiries WHERE NOT EXISTS (SELECT 1 FROM messages WHERE "
    "messages.client_id = message_expiries.client_id "
    "AND messages.position = message_expiries.position)",
    "DELETE FROM retained_expiries WHERE topic NOT IN (SELECT topic FROM retained)",
)
_TEXTS = {
    "sessions": ("client_id", "link", "will_topic"),
    "topics": ("client_id", "name"),
    "subscriptions": ("client_id", "topic_filter"),
    "messages": ("client_id", "topic"),
    "retained": ("topic",),
    "message_expiries": ("client_id",),
    "retained_expiries": ("topic",),
    "filters": ("topic_filter",),
    "due_wills": ("client_id", "topic"),
    "permits": ("client_id",),
    "waiting": ("client_id",),
    "aside": ("client_id", "topic", "reason"),
}


def remove_nonsense(connection: sqlite3.Connection) -> int:
    """Rows that make no sense, and those of clients that are not there; returns how many.

    They go from the disk too: left there, the topics of a client whose own row is spoilt would be
    its topics again once it came back.
    """
    removed = 0
    for table, sound in _SOUND.items():
        where = f"({' AND '.join(sound)}) IS NOT TRUE"
        if table in _OF_CLIENTS:
            where += " OR client_id NOT IN (SELECT client_id FROM sessions)"
        removed += connection.execute(f"DELETE FROM {table} WHERE {where}").rowcount
    for statement in _STRAY:
        connection.execute(statement)
    return removed


def remove_undecodable(connection: sqlite3.Connection) -> int:
    """Texts that are not UTF-8, which SQLite keeps and Python will not read."""
    connection.create_function("is_undecodable", 1, _is_undecodable, deterministic=True)
    removed = 0
    for table, columns in _TEXTS.items():
        where = " OR ".join(f"is_undecodable(CAST({column} AS BLOB))" for column in columns)
        removed += connection.execute(f"DELETE FROM {table} WHERE {where}").rowcount
    return removed


def _is_undecodable(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


class RowReader:
    """Reads what `remove_nonsense` has left."""

    def __init__(self, connection: sqlite3.Connection, link_names: Sequence[str]) -> None:
        self._select = connection.execute
        self._run_ms = 0
        self._links = {name: number for number, name in enumerate(link_names) if name}

    def read(self) -> StateRecords:
        clients = {
            session.client_id: ClientRecord(
                session=session, topics=[], subscriptions=[], messages=[]
            )
            for session in self._sessions()
        }
        self._read_topics(clients)
        self._read_subscriptions(clients)
        self._read_messages(clients)
        retained = list(self._retained())
        select = self._select
        return StateRecords(
            clients=list(clients.values()),
            retained=retained,
            packets=[PacketRecord(*row) for row in select("SELECT * FROM packets ORDER BY 1")],
            filters=[name for (name,) in select("SELECT * FROM filters ORDER BY 1")],
            due_wills=list(self._due_wills()),
            permits=[ClientId(name) for (name,) in select("SELECT * FROM permits ORDER BY 1")],
            waiting=[ClientId(name) for (name,) in select("SELECT * FROM waiting ORDER BY 1")],
            aside=list(self.aside()),
            run_ms=max(self._run_ms, self._saved_run_ms()),
            protection=[ProtectionRecord(*row) for row in select("SELECT * FROM protection")],
        )

    def _sessions(self) -> Iterable[SessionRecord]:
        links = self._links
        for row in self._select("SELECT * FROM sessions ORDER BY client_id"):
            client_id, clean, link, address, state, keep_alive_s, sleep_s, *rest = row
            topic, payload, qos, retain, next_topic_id, next_position = rest
            yield SessionRecord(
                client_id=ClientId(client_id),
                clean=bool(clean),
                link=links.get(link, NO_LINK),
                address=address,
                state=State(state),
                keep_alive_s=keep_alive_s,
                sleep_s=sleep_s,
                will=WillRecord(topic=topic, payload=payload, qos=qos, retain=bool(retain))
                if topic is not None
                else None,
                next_topic_id=next_topic_id,
                next_position=next_position,
            )

    def aside(self) -> Iterable[AsideRecord]:
        """Readings that are set aside, the oldest first."""
        for number, client_id, topic, payload, qos, retain, *rest in self._select(
            "SELECT * FROM aside ORDER BY number"
        ):
            yield AsideRecord(number, ClientId(client_id), topic, payload, qos, bool(retain), *rest)

    def _due_wills(self) -> Iterable[DueWillRecord]:
        for client_id, topic, payload, qos, retain, *tag in self._select(
            "SELECT * FROM due_wills ORDER BY client_id"
        ):
            yield DueWillRecord(ClientId(client_id), topic, payload, qos, bool(retain), *tag)

    def _read_topics(self, clients: Mapping[ClientId, ClientRecord]) -> None:
        rows = self._select("SELECT * FROM topics ORDER BY client_id, topic_id")
        for client_id, topic_id, name in rows:
            client = clients[client_id]
            client.topics.append(TopicRecord(client.session.client_id, topic_id, name))

    def _read_subscriptions(self, clients: Mapping[ClientId, ClientRecord]) -> None:
        rows = self._select("SELECT * FROM subscriptions ORDER BY client_id, topic_filter")
        for client_id, *row in rows:
            client = clients[client_id]
            client.subscriptions.append(SubscriptionRecord(client.session.client_id, *row))

    def _retained(self) -> Iterable[RetainedRecord]:
        expiries = {
            topic: (contents, self._expiry(*times))
            for topic, contents, *times in self._select("SELECT * FROM retained_expiries")
        }
        for topic, payload, qos, is_exact in self._select("SELECT * FROM retained ORDER BY 1"):
            contents, expiry = expiries.get(topic, (0, None))
            is_its_own = expiry is not None and contents == _retained_contents(topic, payload)
            yield RetainedRecord(
                topic, payload, qos, bool(is_exact), expiry if is_its_own else None
            )

    def _expiry(self, left_ms: int, run_ms: int, unix_ms: int) -> ExpiryRecord:
        self._run_ms = max(self._run_ms, run_ms)
        return ExpiryRecord(left_ms, run_ms, unix_ms)

    def _saved_run_ms(self) -> int:
        where = f"name = 'run_ms' AND {_number('value', 0, _TIME_MAX)}"
        found = self._select(f"SELECT value FROM meta WHERE {where}").fetchone()
        return 0 if found is None else int(found[0])

    def _read_messages(self, clients: Mapping[ClientId, ClientRecord]) -> None:
        expiries = {
            (client_id, position): (contents, self._expiry(*times))
            for client_id, position, contents, *times in self._select(
                "SELECT * FROM message_expiries"
            )
        }
        rows = self._select("SELECT * FROM messages ORDER BY client_id, position")
        for client_id, position, topic, payload, qos, retain, is_released in rows:
            client = clients[client_id]
            expiry: ExpiryRecord | None = None
            if expiries and (client_id, position) in expiries:
                contents, found = expiries[client_id, position]
                expiry = found if contents == contents_of(topic, payload, qos) else None
            client.messages.append(
                MessageRecord(
                    client_id=client.session.client_id,
                    position=position,
                    topic=topic,
                    payload=payload,
                    qos=qos,
                    retain=bool(retain),
                    is_released=bool(is_released),
                    expiry=expiry,
                )
            )

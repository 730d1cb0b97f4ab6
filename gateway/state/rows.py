"""Rows between the core's values and SQLite's columns.

A row that makes no sense (a state that is none, a QoS of 7) is skipped and counted when it is
loaded: one bad row must not cost all others, nor stop the start.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.saved import (
    Change,
    ClientId,
    FilterGone,
    MessageGone,
    PacketGone,
    PacketsGone,
    RetainedGone,
    SavedClient,
    SavedFilter,
    SavedMessage,
    SavedPacket,
    SavedRetained,
    SavedSession,
    SavedState,
    SavedSubscription,
    SavedTopic,
    SavedWill,
    SessionGone,
    State,
    SubscriptionGone,
)

NO_LINK = -1
_OF_A_CLIENT = ("sessions", "topics", "subscriptions", "messages")

Columns = tuple[Any, ...]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    columns: Callable[[Any], Columns]


def _of_key(*names: str) -> Callable[[Any], Columns]:
    return lambda change: tuple(getattr(change, name) for name in names)


def _replace(table: str, *names: str) -> Statement:
    places = ", ".join("?" * len(names))
    return Statement(
        f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({places})", _of_key(*names)
    )


def _delete(table: str, *names: str) -> Statement:
    found_by = " AND ".join(f"{name} = ?" for name in names)
    return Statement(f"DELETE FROM {table} WHERE {found_by}", _of_key(*names))


# In this order within one transaction: what takes many rows away comes first.
STATEMENTS: dict[type, Statement] = {
    SavedTopic: _replace("topics", "client_id", "topic_id", "name"),
    SavedSubscription: _replace(
        "subscriptions", "client_id", "topic_filter", "qos", "topic_id_type", "topic_id"
    ),
    SubscriptionGone: _delete("subscriptions", "client_id", "topic_filter"),
    SavedMessage: _replace(
        *("messages", "client_id", "position", "topic", "payload", "qos", "retain", "is_released")
    ),
    MessageGone: _delete("messages", "client_id", "position"),
    SavedRetained: _replace("retained", "topic", "payload", "qos"),
    RetainedGone: _delete("retained", "topic"),
    SavedPacket: _replace("packets", "packet_id", "contents"),
    PacketGone: _delete("packets", "packet_id"),
    SavedFilter: _replace("filters", "topic_filter"),
    FilterGone: _delete("filters", "topic_filter"),
}

_SESSION = (
    "INSERT OR REPLACE INTO sessions (client_id, clean, link, address, state, keep_alive_s,"
    " sleep_s, will_topic, will_payload, will_qos, will_retain, next_topic_id, next_position)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def write(
    connection: sqlite3.Connection, changes: Iterable[Change], link_names: Sequence[str]
) -> None:
    """All changes, of which no two may be about the same key, but that rows of a client may come
    with its SessionGone: then they are of its next session.
    """
    by_kind: dict[type, list[Any]] = {}
    for change in changes:
        by_kind.setdefault(type(change), []).append(change)
    gone = [(each.client_id,) for each in by_kind.pop(SessionGone, ())]
    for table in _OF_A_CLIENT if gone else ():
        connection.executemany(f"DELETE FROM {table} WHERE client_id = ?", gone)
    if by_kind.pop(PacketsGone, None):
        connection.execute("DELETE FROM packets")
    sessions = by_kind.pop(SavedSession, [])
    if sessions:
        connection.executemany(_SESSION, [_of_session(each, link_names) for each in sessions])
    for kind, rows in by_kind.items():
        statement = STATEMENTS[kind]
        connection.executemany(statement.sql, list(map(statement.columns, rows)))


def _of_session(row: SavedSession, link_names: Sequence[str]) -> Columns:
    will = row.will
    return (
        *(row.client_id, row.clean, link_names[row.link], row.address, row.state.value),
        *(row.keep_alive_s, row.sleep_s),
        *((None,) * 4 if will is None else (will.topic, will.payload, will.qos, will.retain)),
        *(row.next_topic_id, row.next_position),
    )


class Loading:
    """Reads everything; `skipped` counts the rows that made no sense."""

    def __init__(self, connection: sqlite3.Connection, link_names: Sequence[str]) -> None:
        self.skipped = 0
        self._connection = connection
        self._links = {name: number for number, name in enumerate(link_names)}

    def load(self) -> SavedState:
        clients: dict[str, SavedClient] = {}
        for session in self._rows("sessions", "client_id", self._session):
            clients[session.client_id] = SavedClient(session, [], [], [])
        for topic in self._rows("topics", "client_id, topic_id", _topic):
            if topic.client_id in clients:
                clients[topic.client_id].topics.append(topic)
        for wish in self._rows("subscriptions", "client_id, topic_filter", _subscription):
            if wish.client_id in clients:
                clients[wish.client_id].subscriptions.append(wish)
        for message in self._rows("messages", "client_id, position", _message):
            if message.client_id in clients:
                clients[message.client_id].messages.append(message)
        return SavedState(
            list(clients.values()),
            list(self._rows("retained", "topic", _retained)),
            list(self._rows("packets", "packet_id", _packet)),
            [row.topic_filter for row in self._rows("filters", "topic_filter", _filter)],
        )

    def _rows(self, table: str, order: str, row_of: Callable[[Columns], Row]) -> Iterator[Row]:
        for columns in self._connection.execute(f"SELECT * FROM {table} ORDER BY {order}"):
            try:
                yield row_of(columns)
            except (ValueError, TypeError):
                self.skipped += 1

    def _session(self, columns: Columns) -> SavedSession:
        client_id, clean, link, address, state, keep_alive_s, sleep_s = columns[:7]
        will_topic, will_payload, will_qos, will_retain, next_topic_id, next_position = columns[7:]
        will = None
        if will_topic is not None:
            will = SavedWill(
                _text(will_topic), bytes(will_payload), _qos(will_qos), bool(will_retain)
            )
        return SavedSession(
            client_id=ClientId(_text(client_id)),
            clean=bool(clean),
            link=self._links.get(link, NO_LINK),
            address=bytes(address),
            state=State(state),
            keep_alive_s=_within(keep_alive_s, 0, 0xFFFF),
            sleep_s=_within(sleep_s, 0, 0xFFFF),
            will=will,
            next_topic_id=_within(next_topic_id, 0, 1 << 20),
            next_position=_within(next_position, 0, 1 << 62),
        )


def _topic(columns: Columns) -> SavedTopic:
    client_id, topic_id, name = columns
    return SavedTopic(ClientId(_text(client_id)), _within(topic_id, 1, 0xFFFE), _text(name))


def _subscription(columns: Columns) -> SavedSubscription:
    client_id, topic_filter, qos, topic_id_type, topic_id = columns
    return SavedSubscription(
        *(ClientId(_text(client_id)), _text(topic_filter), _qos(qos)),
        *(_within(topic_id_type, 0, 2), _within(topic_id, 0, 0xFFFF)),
    )


def _message(columns: Columns) -> SavedMessage:
    client_id, position, topic, payload, qos, retain, is_released = columns
    return SavedMessage(
        client_id=ClientId(_text(client_id)),
        position=_within(position, 0, 1 << 62),
        topic=_text(topic),
        payload=bytes(payload),
        qos=_within(qos, 1, 2),
        retain=bool(retain),
        is_released=bool(is_released),
    )


def _retained(columns: Columns) -> SavedRetained:
    topic, payload, qos = columns
    return SavedRetained(_text(topic), bytes(payload), _qos(qos))


def _packet(columns: Columns) -> SavedPacket:
    packet_id, contents = columns
    return SavedPacket(_within(packet_id, 1, 0xFFFF), int(contents))


def _filter(columns: Columns) -> SavedFilter:
    return SavedFilter(_text(columns[0]))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _qos(value: object) -> int:
    return _within(value, 0, 2)


def _within(value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(value)
    return value

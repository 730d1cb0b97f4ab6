"""Rows for the tests, one of each kind, and a model of what a database should hold."""

from __future__ import annotations

from dataclasses import astuple

from gateway.core.state_records import (
    Change,
    ClientId,
    DueWillGone,
    FilterGone,
    MessageGone,
    PacketGone,
    PacketsGone,
    PermitGone,
    RetainedGone,
    SavedClient,
    SavedDueWill,
    SavedFilter,
    SavedMessage,
    SavedPacket,
    SavedPermit,
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

ANN, BOB = ClientId("ann"), ClientId("bob")
LINKS = ("udp0", "udp1")
NOTHING = SavedState([], [], [], [])


def session(client_id: ClientId = ANN, state: State = State.ACTIVE, link: int = 0) -> SavedSession:
    return SavedSession(client_id, clean=False, link=link, address=b"\x02\x00\x07\x5b", state=state)


def topic(client_id: ClientId = ANN, topic_id: int = 1, name: str = "a/b") -> SavedTopic:
    return SavedTopic(client_id, topic_id, name)


def message(
    client_id: ClientId = ANN, position: int = 0, *, is_released: bool = False
) -> SavedMessage:
    return SavedMessage(client_id, position, "cmd", b"\x00open", 2, is_released=is_released)


FULL_SESSION = SavedSession(
    ANN,
    clean=True,
    link=1,
    address=b"\x0a\x00",
    state=State.ASLEEP,
    keep_alive_s=60,
    sleep_s=900,
    will=SavedWill("gone/änn", b"\xff\x00", 1, retain=True),
    next_topic_id=7,
    next_position=12,
)

DUE_WILL = SavedDueWill(ANN, "last/words", b"\x00gone", 2, True, 41, 7, 65535, 1 << 41)

# Every kind of row, every field another value than its default.
EVERY_ROW: list[Change] = [
    FULL_SESSION,
    session(BOB),
    SavedTopic(ANN, 6, "gewächshaus/temperatur"),
    SavedSubscription(ANN, "cmd/#", 2, topic_id_type=1, topic_id=9),
    SavedMessage(ANN, 11, "cmd/vent", b"\x00\x01", 2, retain=True, is_released=True),
    SavedRetained("site/mode", b"auto", 1, is_exact=False),
    SavedPacket(65535, 0xFFFFFFFF, 0x0FFFFFFF),
    SavedFilter("cmd/#"),
    DUE_WILL,
    SavedPermit(ANN),
]
EVERYTHING = SavedState(
    clients=[
        SavedClient(
            FULL_SESSION,
            [SavedTopic(ANN, 6, "gewächshaus/temperatur")],
            [SavedSubscription(ANN, "cmd/#", 2, topic_id_type=1, topic_id=9)],
            [SavedMessage(ANN, 11, "cmd/vent", b"\x00\x01", 2, retain=True, is_released=True)],
        ),
        SavedClient(session(BOB), [], [], []),
    ],
    retained=[SavedRetained("site/mode", b"auto", 1, is_exact=False)],
    packets=[SavedPacket(65535, 0xFFFFFFFF, 0x0FFFFFFF)],
    filters=["cmd/#"],
    due_wills=[DUE_WILL],
    permits=[ANN],
)

Rows = dict[tuple[object, ...], Change]


_GONE: dict[type, type] = {
    RetainedGone: SavedRetained,
    PacketGone: SavedPacket,
    FilterGone: SavedFilter,
    DueWillGone: SavedDueWill,
    PermitGone: SavedPermit,
}


def apply(rows: Rows, change: Change) -> None:
    """What `state/` promises, in its simplest form."""
    match change:
        case SessionGone(client_id):
            for key in [key for key in rows if key[0] == client_id]:
                del rows[key]
        case PacketsGone():
            for key in [key for key in rows if key[1] is SavedPacket]:
                del rows[key]
        case SubscriptionGone(client_id, name):
            rows.pop((client_id, SavedSubscription, name), None)
        case MessageGone(client_id, position):
            rows.pop((client_id, SavedMessage, position), None)
        case RetainedGone() | PacketGone() | FilterGone() | DueWillGone() | PermitGone():
            rows.pop((None, _GONE[type(change)], *astuple(change)), None)
        case _:
            rows[_key(change)] = change


def _key(change: Change) -> tuple[object, ...]:
    match change:
        case SavedSession(client_id):
            return (client_id, SavedSession, None)
        case SavedTopic(client_id, topic_id):
            return (client_id, SavedTopic, topic_id)
        case SavedSubscription(client_id, name):
            return (client_id, SavedSubscription, name)
        case SavedMessage(client_id, position):
            return (client_id, SavedMessage, position)
        case SavedRetained(name):
            return (None, SavedRetained, name)
        case SavedPacket(packet_id):
            return (None, SavedPacket, packet_id)
        case SavedFilter(name):
            return (None, SavedFilter, name)
        case SavedDueWill(client_id):
            return (None, SavedDueWill, client_id)
        case SavedPermit(client_id):
            return (None, SavedPermit, client_id)
        case _:
            raise AssertionError(change)


def rows_of(state: SavedState) -> Rows:
    rows: Rows = {}
    changes: list[Change] = [*state.retained, *state.packets, *map(SavedFilter, state.filters)]
    changes += [*state.due_wills, *map(SavedPermit, state.permits)]
    for client in state.clients:
        changes += [client.session, *client.topics, *client.subscriptions, *client.messages]
    for change in changes:
        apply(rows, change)
    return rows

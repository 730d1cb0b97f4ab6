"""Rows for the tests, one of each kind, and a model of what a database should hold."""

from __future__ import annotations

from dataclasses import astuple, replace

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

ANN, BOB = ClientId("ann"), ClientId("bob")
LINKS = ("udp0", "udp1")
NOTHING = StateRecords([], [], [], [])


def session(client_id: ClientId = ANN, state: State = State.ACTIVE, link: int = 0) -> SessionRecord:
    return SessionRecord(
        client_id, clean=False, link=link, address=b"\x02\x00\x07\x5b", state=state
    )


def topic(client_id: ClientId = ANN, topic_id: int = 1, name: str = "a/b") -> TopicRecord:
    return TopicRecord(client_id, topic_id, name)


def message(
    client_id: ClientId = ANN,
    position: int = 0,
    *,
    is_released: bool = False,
    expiry: ExpiryRecord | None = None,
) -> MessageRecord:
    return MessageRecord(
        client_id, position, "cmd", b"\x00open", 2, is_released=is_released, expiry=expiry
    )


FULL_SESSION = SessionRecord(
    ANN,
    clean=True,
    link=1,
    address=b"\x0a\x00",
    state=State.ASLEEP,
    keep_alive_s=60,
    sleep_s=900,
    will=WillRecord("gone/änn", b"\xff\x00", 1, retain=True),
    next_topic_id=7,
    next_position=12,
)

DUE_WILL = DueWillRecord(ANN, "last/words", b"\x00gone", 2, True, 41, 7, 65535, 1 << 41)

ASIDE = AsideRecord(
    number=3,
    client_id=BOB,
    topic="pumps/ü",
    payload=b"\x00\xff",
    qos=2,
    retain=True,
    epoch=41,
    sequence=17,
    packet_id=65535,
    unix_ms=1 << 41,
    set_aside_ms=1 << 42,
    reason="the broker answered PUBACK 0x87",
)

EXPIRY = ExpiryRecord(left_ms=0xFFFFFFFF * 1000, run_ms=1 << 40, unix_ms=1 << 41)
COMMAND = MessageRecord(
    ANN, 11, "cmd/vent", b"\x00\x01", 2, retain=True, is_released=True, expiry=EXPIRY
)
MODE = RetainedRecord(
    "site/mode", b"auto", 1, is_exact=False, expiry=ExpiryRecord(60_000, 1 << 39, 0)
)

# Every kind of row, every field another value than its default.
PROTECTION = ProtectionRecord(
    b"\x00\xfftank01", 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFF, 0xFFFFFFFF, 0x43, 16
)
EVERY_ROW: list[Change] = [
    FULL_SESSION,
    session(BOB),
    TopicRecord(ANN, 6, "gewächshaus/temperatur"),
    SubscriptionRecord(ANN, "cmd/#", 2, topic_id_type=1, topic_id=9),
    COMMAND,
    MODE,
    PacketRecord(65535, 0xFFFFFFFF, 0x0FFFFFFF),
    FilterRecord("cmd/#"),
    DUE_WILL,
    PermitRecord(ANN),
    WaitingRecord(BOB),
    PROTECTION,
    ASIDE,
]
EVERYTHING = StateRecords(
    clients=[
        ClientRecord(
            FULL_SESSION,
            [TopicRecord(ANN, 6, "gewächshaus/temperatur")],
            [SubscriptionRecord(ANN, "cmd/#", 2, topic_id_type=1, topic_id=9)],
            [COMMAND],
        ),
        ClientRecord(session(BOB), [], [], []),
    ],
    retained=[MODE],
    packets=[PacketRecord(65535, 0xFFFFFFFF, 0x0FFFFFFF)],
    filters=["cmd/#"],
    due_wills=[DUE_WILL],
    permits=[ANN],
    waiting=[BOB],
    protection=[PROTECTION],
    aside=[ASIDE],
    run_ms=1 << 40,  # the latest of which there is a trace
)

# What a version knew for which tables are missing that need no step.
ROWS_BEFORE: list[Change] = [
    replace(row, expiry=None) if isinstance(row, MessageRecord | RetainedRecord) else row
    for row in EVERY_ROW
    if not isinstance(row, AsideRecord | WaitingRecord | ProtectionRecord)
]
EVERYTHING_BEFORE = replace(
    EVERYTHING,
    clients=[
        replace(client, messages=[replace(each, expiry=None) for each in client.messages])
        for client in EVERYTHING.clients
    ],
    retained=[replace(each, expiry=None) for each in EVERYTHING.retained],
    waiting=[],
    protection=[],
    aside=[],
    run_ms=0,
)

Rows = dict[tuple[object, ...], Change]


_GONE: dict[type, type] = {
    RetainedDeleted: RetainedRecord,
    PacketDeleted: PacketRecord,
    FilterDeleted: FilterRecord,
    DueWillDeleted: DueWillRecord,
    PermitDeleted: PermitRecord,
    WaitingDeleted: WaitingRecord,
    ProtectionDeleted: ProtectionRecord,
    AsideDeleted: AsideRecord,
}


def apply(rows: Rows, change: Change) -> None:
    """What `state/` promises, in its simplest form."""
    match change:
        case SessionDeleted(client_id):
            for key in [key for key in rows if key[0] == client_id]:
                del rows[key]
        case PacketsDeleted():
            for key in [key for key in rows if key[1] is PacketRecord]:
                del rows[key]
        case SubscriptionDeleted(client_id, name):
            rows.pop((client_id, SubscriptionRecord, name), None)
        case MessageDeleted(client_id, position):
            rows.pop((client_id, MessageRecord, position), None)
        case (
            RetainedDeleted()
            | PacketDeleted()
            | FilterDeleted()
            | DueWillDeleted()
            | PermitDeleted()
            | WaitingDeleted()
            | ProtectionDeleted()
            | AsideDeleted()
        ):
            rows.pop((None, _GONE[type(change)], *astuple(change)), None)
        case _:
            rows[_key(change)] = change


_NAMED_BY: dict[type, str] = {
    RetainedRecord: "topic",
    PacketRecord: "packet_id",
    FilterRecord: "topic_filter",
    DueWillRecord: "client_id",
    PermitRecord: "client_id",
    WaitingRecord: "client_id",
    AsideRecord: "number",
}


def _key(change: Change) -> tuple[object, ...]:
    match change:
        case SessionRecord(client_id):
            return (client_id, SessionRecord, None)
        case TopicRecord(client_id, topic_id):
            return (client_id, TopicRecord, topic_id)
        case SubscriptionRecord(client_id, name):
            return (client_id, SubscriptionRecord, name)
        case MessageRecord(client_id, position):
            return (client_id, MessageRecord, position)
        case ProtectionRecord(sender_id, epoch):
            return (None, ProtectionRecord, sender_id, epoch)
    return (None, type(change), getattr(change, _NAMED_BY[type(change)]))


def rows_of(state: StateRecords) -> Rows:
    rows: Rows = {}
    changes: list[Change] = [*state.retained, *state.packets, *map(FilterRecord, state.filters)]
    changes += [
        *state.due_wills,
        *map(PermitRecord, state.permits),
        *map(WaitingRecord, state.waiting),
        *state.protection,
    ]
    changes += state.aside
    for client in state.clients:
        changes += [client.session, *client.topics, *client.subscriptions, *client.messages]
    for change in changes:
        apply(rows, change)
    return rows

"""Clients as they are shown: by /api/clients and by `tidegate clients`.

Ages and times are in seconds before or after the moment of the answer, and in Unix seconds where
they name a point in time. A will's payload and the messages that wait are nobody's business here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gateway.core.state_records import State

CLIENTS_SCHEMA = "tidegate.clients/1"


@dataclass(frozen=True, slots=True)
class WillShown:
    topic: str
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientShown:
    """`heard_s` is how long ago it was heard, counted from our start if it was before.

    `due_s` is how long until it should be heard again, negative if it is overdue, None where it
    said nothing of it. `away_s` is how long it has been disconnected or lost. `queued` messages
    wait for it, which count `queued_bytes` in `limits.outbox_bytes_max`. `given_up` it never
    acknowledged, the last one on `given_up_topic`.
    """

    client_id: str
    state: State
    link: str
    address: str
    clean: bool
    keep_alive_s: int
    sleep_s: int
    heard_s: float
    due_s: float | None
    away_s: float | None
    topics: int
    subscriptions: int
    queued: int
    queued_bytes: int
    will: WillShown | None
    given_up: int = 0
    given_up_topic: str = ""

    @property
    def is_overdue(self) -> bool:
        return self.due_s is not None and self.due_s < 0


@dataclass(frozen=True, slots=True)
class Details:
    """Of one client: the topic ids of its own, those of the configuration, what it hears."""

    topic_ids: Sequence[tuple[int, str]]
    predefined_ids: Sequence[tuple[int, str]]
    filters: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ClientsFound:
    """In the order that was asked for. `more` behind these match as well, `total` in all."""

    clients: Sequence[ClientShown]
    more: int = 0
    details: Details | None = None
    total: int = 0


def clients_json(gateway: str, found: ClientsFound, unix_s: float) -> dict[str, object]:
    clients = [client_json(client, unix_s) for client in found.clients]
    if found.details is not None:
        clients[0] |= _details_json(found.details)
    return {
        "schema": CLIENTS_SCHEMA,
        "gateway": gateway,
        "time": round(unix_s, 3),
        "clients": clients,
        "more": found.more,
        "total": found.total,
    }


def client_json(client: ClientShown, unix_s: float) -> dict[str, object]:
    due_s = client.due_s
    is_asleep = client.state is State.ASLEEP and due_s is not None
    return {
        "id": client.client_id,
        "state": client.state.value,
        "overdue": client.is_overdue,
        "overdue_s": None if due_s is None or due_s >= 0 else round(-due_s, 3),
        "due_s": None if due_s is None else round(due_s, 3),
        "asleep_until": round(unix_s + due_s, 3) if is_asleep and due_s is not None else None,
        "away_s": None if client.away_s is None else round(client.away_s, 3),
        "last_heard_s": round(client.heard_s, 3),
        "heard_at": round(unix_s - client.heard_s, 1),
        "due_at": None if due_s is None else round(unix_s + due_s, 1),
        "away_since": None if client.away_s is None else round(unix_s - client.away_s, 1),
        "link": client.link,
        "address": client.address,
        "clean": client.clean,
        "keep_alive_s": client.keep_alive_s,
        "sleep_s": client.sleep_s,
        "topics": client.topics,
        "subscriptions": client.subscriptions,
        "queued_messages": client.queued,
        "queued_bytes": client.queued_bytes,
        "will": None if client.will is None else asdict(client.will),
        "given_up_messages": client.given_up,
        "given_up_topic": client.given_up_topic or None,
    }


# Of a row, what is another second by second though nothing has happened: the times say the same.
AGES = ("overdue_s", "due_s", "asleep_until", "away_s", "last_heard_s")


def _details_json(details: Details) -> dict[str, object]:
    return {
        "topic_ids": [{"id": number, "topic": name} for number, name in details.topic_ids],
        "predefined_topic_ids": [
            {"id": number, "topic": name} for number, name in details.predefined_ids
        ],
        "subscribed": [{"filter": name, "qos": qos} for name, qos in details.filters],
    }

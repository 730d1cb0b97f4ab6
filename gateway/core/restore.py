"""What a previous run left, put back in its place before the first input.

A client that was connected still is, at the address it had: it is served without CONNECT, its topic
ids are known, and what waits for it goes on. One whose link is gone from the configuration is
disconnected; if its session was a clean one that is its end. So is one at whose address is an
identity that may not use its client id, and one that was plain on a link that is protected now.
Two clients at one address cannot be: the second is disconnected.

Limit: `clients_max` may be lower than before. Nobody is turned out; newcomers have to wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.acceptor import Acceptor
from gateway.core.clients.client_table import ClientTable
from gateway.core.downlink.downlink import Downlink
from gateway.core.effects import RecordRelease, Save
from gateway.core.events import Output
from gateway.core.mqtt.session import MqttSession
from gateway.core.options import EngineOptions
from gateway.core.session.session import ABSENT, Session
from gateway.core.session.topic_registry import Announced
from gateway.core.state_records import (
    ClientId,
    ClientRecord,
    Exchanges,
    SessionDeleted,
    State,
    StateRecords,
)
from gateway.core.values import Peer

# Clients with something waiting are served one after the other, not all in one burst.
SPREAD_S = 0.001


def restore(
    saved: StateRecords,
    client_table: ClientTable,
    downlink: Downlink,
    upstream: MqttSession,
    acceptor: Acceptor,
    options: EngineOptions,
    now: float,
) -> list[Output]:
    """Returns what is to be saved: the end of the sessions that are over."""
    effects: list[Output] = []
    waiting = 0
    hearing: list[ClientRecord] = []
    downlink.expiry_clock.go_on_from(saved.run_ms, now)
    for client in saved.clients:
        row = client.session
        at_address = client_table.on_link(row.link)
        peer = Peer(row.link, row.address)
        is_here = row.link >= 0 and row.address not in at_address
        is_here = is_here and acceptor.may_be_at(peer)
        is_here = is_here and not options.session.access.is_foreign(row.client_id, peer)
        session = acceptor.new_session(row.client_id, peer)
        if row.clean and (not is_here or row.state in ABSENT):
            session.topics.restore(client.topics, row.next_topic_id, Announced.NOTHING)
            acceptor.former_topics.note(row.client_id, session.topics)
            effects.append(Save(SessionDeleted(row.client_id)))
            continue
        session.restore(
            client,
            now,
            is_here=is_here,
            send_at=now + SPREAD_S * waiting,
            expiry_clock=downlink.expiry_clock,
        )
        waiting += session.outbound.waiting > 0
        client_table.sessions[row.client_id] = session
        hearing.append(client)
        if session.state in (State.ACTIVE, State.ASLEEP):
            client_table.enter(session)
            client_table.schedule(session)
        else:
            client_table.note_absence(session, now)
    subscriptions = (each for client in hearing for each in client.subscriptions)
    downlink.restore(subscriptions, saved.retained, now)
    upstream.restore(saved.packets, saved.filters)
    return effects


def restore_exchanges(
    exchanges: Mapping[ClientId, Exchanges], sessions: Mapping[ClientId, Session], now: float
) -> list[Output]:
    """What the journal knows of message ids; the sessions must be there already."""
    effects: list[Output] = []
    for client_id, known in exchanges.items():
        session = sessions.get(client_id)
        if session is None:  # nobody will release these
            effects += [RecordRelease(client_id, each) for each, _ in known.unreleased]
        else:
            session.restore_exchanges(known, now)
    return effects

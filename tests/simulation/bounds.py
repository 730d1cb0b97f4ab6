"""Promise 6: every table of the engine keeps within its limit, at every step."""

from __future__ import annotations

from gateway.core.engine import EngineOptions
from gateway.core.mqtt.backlog import READY_MAX
from gateway.core.mqtt.options import RECEIVE_MAX
from gateway.core.mqtt.publisher import HELD_MAX
from gateway.core.session.inbound import RECENT_MAX, RELEASES_MAX, UNACKNOWLEDGED_MAX
from gateway.core.session.session import Session
from gateway.core.state_records import PACKET_IDS, ClientId
from gateway.core.uplink.deferred import POSTPONED_MAX
from gateway.core.uplink.qos0_order import FOLLOWERS_MAX
from tests.simulation.disk import SEGMENT_BYTES
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.watch import broken

BOUNDED = "6 bounded"
TIMERS_PER_SESSION_MAX = 4
TIMERS_SPARE = 64
JOURNAL_EXCESS_SEGMENTS = 2


def check_bounds(gateway: GatewayHost, options: EngineOptions) -> None:
    engine = gateway.engine
    upstream, sessions = engine.upstream, engine.sessions
    in_flight = upstream.publisher.in_flight
    counted = {
        # Of a former life there may be some before the broker has said how many it takes.
        "readings on the wire": (
            len(in_flight),
            upstream.publisher._limit if upstream.publisher.is_open else PACKET_IDS,
        ),
        "QoS 2 from the broker": (len(upstream._receiver._unreleased), RECEIVE_MAX),
        "timers": (
            len(engine.client_table._timers),
            TIMERS_PER_SESSION_MAX * len(sessions) + TIMERS_SPARE,
        ),
        "sessions": (len(sessions), options.admission.clients_max),
    }
    # What was in flight when the broker's session was lost waits again, beyond what was refused.
    waiting_max = options.upstream.waiting_messages_max + upstream.publisher._limit
    if upstream.caution.is_on:  # what was held back, or next to go alone, waits again after a break
        waiting_max += HELD_MAX + 1
    counted["readings held back"] = (in_flight.held_count, HELD_MAX)
    in_memory_only = sum(reading.record < 0 for reading in in_flight.waiting)
    counted["waiting readings"] = (in_memory_only, waiting_max)
    uplink, backlog = engine.uplink, in_flight.backlog
    counted["postponed readings"] = (len(uplink._deferred), POSTPONED_MAX)
    counted["readings read back"] = (len(backlog.ready), READY_MAX)
    for qos0_order in uplink._qos0_order.behind.values():
        counted["readings behind one"] = (len(qos0_order), FOLLOWERS_MAX)
    # More than the budget while nothing else can be written to (storage/journal/space.py).
    journal_bytes_max = gateway.journal_bytes_max + JOURNAL_EXCESS_SEGMENTS * SEGMENT_BYTES
    # What was made when segments were larger counts as one of today's size.
    sizes = [each.size for each in gateway.journal._segment_index.segments]
    sizes += [each.size for each in gateway.journal._room.spares]
    journal_bytes_max += sum(max(size - SEGMENT_BYTES, 0) for size in sizes)
    counted["bytes of the journal"] = (gateway.journal._room.bytes, journal_bytes_max)
    queued = backlog._storing + backlog._readable + len(backlog.ready)
    # In files that are gone: counted as parked still, and as readable until they are passed over.
    out_of_reach = gateway.journal.numbers.out_of_reach if gateway.journal._gone else 0
    if not queued <= sum(backlog.of_clients.values()) <= queued + out_of_reach:
        broken(BOUNDED, f"{backlog.of_clients} parked, of whom {queued} are somewhere")
    for what, (count, limit) in counted.items():
        if count > limit:
            broken(BOUNDED, f"{what}: {count}, at most {limit}")
    for client_id, session in sessions.items():
        _check_client(client_id, session, options)


def _check_client(client_id: ClientId, session: Session, options: EngineOptions) -> None:
    inbound = session.inbound
    for what, count, limit in (
        ("unsettled", len(inbound.unacknowledged), UNACKNOWLEDGED_MAX),
        ("releases", len(inbound._awaiting_release or ()), RELEASES_MAX),
        ("recent ids", 0 if inbound.recent is None else len(inbound.recent), RECENT_MAX),
        ("outbox", session.outbound.waiting, options.session.outbox_messages_max + 1),
    ):
        if count > limit:
            broken(BOUNDED, f"{what} of {client_id}: {count}, at most {limit}")

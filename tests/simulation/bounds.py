"""Promise 6: every table of the engine keeps within its limit, at every step."""

from __future__ import annotations

from gateway.core.effects import ClientId
from gateway.core.engine import EngineRules
from gateway.core.mqtt.backlog import READY_MAX
from gateway.core.mqtt.options import RECEIVE_MAX
from gateway.core.session.inbound import RECENT_MAX, RELEASES_MAX, UNSETTLED_MAX
from gateway.core.session.session import Session
from gateway.core.state_records import PACKET_IDS
from gateway.core.uplink.deferred import POSTPONED_MAX
from gateway.core.uplink.qos0_order import FOLLOWERS_MAX
from tests.simulation.disk import SEGMENT_BYTES
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.watch import broken

BOUNDED = "6 bounded"
TIMERS_PER_SESSION_MAX = 4
TIMERS_SPARE = 64
JOURNAL_EXCESS_SEGMENTS = 2


def check_bounds(gateway: GatewayHost, rules: EngineRules) -> None:
    engine = gateway.engine
    upstream, sessions = engine.upstream, engine.sessions
    in_flight = upstream.readings.in_flight
    counted = {
        # Of a former life there may be some before the broker has said how many it takes.
        "readings on the wire": (
            len(in_flight),
            in_flight.window if upstream.readings.is_open else PACKET_IDS,
        ),
        "QoS 2 from the broker": (len(upstream._receiving._unreleased), RECEIVE_MAX),
        "timers": (
            len(engine.members._timers),
            TIMERS_PER_SESSION_MAX * len(sessions) + TIMERS_SPARE,
        ),
        "sessions": (len(sessions), rules.admission.clients_max),
    }
    # What was in flight when the broker's session was lost waits again, beyond what was refused.
    waiting_max = rules.upstream.waiting_messages_max + in_flight.window
    in_memory_only = sum(forward.record < 0 for forward in in_flight.waiting)
    counted["waiting readings"] = (in_memory_only, waiting_max)
    uplink, backlog = engine.uplink, in_flight.backlog
    counted["postponed readings"] = (len(uplink._postponed), POSTPONED_MAX)
    counted["readings read back"] = (len(backlog.ready), READY_MAX)
    for followers in uplink._followers.behind.values():
        counted["readings behind one"] = (len(followers), FOLLOWERS_MAX)
    # More than the budget while nothing else can be written to (storage/journal/space.py).
    journal_bytes_max = gateway.journal_bytes_max + JOURNAL_EXCESS_SEGMENTS * SEGMENT_BYTES
    counted["bytes of the journal"] = (gateway.journal._room.bytes, journal_bytes_max)
    parked = backlog._storing + backlog._readable + len(backlog.ready)
    # In files that are gone: counted as parked still, and as readable until they are passed over.
    out_of_reach = gateway.journal.numbers.out_of_reach if gateway.journal._gone else 0
    if not parked <= sum(backlog.of_clients.values()) <= parked + out_of_reach:
        broken(BOUNDED, f"{backlog.of_clients} parked, of whom {parked} are somewhere")
    for what, (count, limit) in counted.items():
        if count > limit:
            broken(BOUNDED, f"{what}: {count}, at most {limit}")
    for client_id, session in sessions.items():
        _check_client(client_id, session, rules)


def _check_client(client_id: ClientId, session: Session, rules: EngineRules) -> None:
    publishing = session.publishing
    for what, count, limit in (
        ("unsettled", len(publishing.unsettled), UNSETTLED_MAX),
        ("releases", len(publishing._awaiting_release or ()), RELEASES_MAX),
        ("recent ids", 0 if publishing.recent is None else len(publishing.recent), RECENT_MAX),
        ("outbox", session.delivering.waiting, rules.session.outbox_messages_max + 1),
    ):
        if count > limit:
            broken(BOUNDED, f"{what} of {client_id}: {count}, at most {limit}")

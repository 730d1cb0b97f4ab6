"""Promise 6: every table of the engine keeps within its limit, at every step."""

from __future__ import annotations

from gateway.engine import Engine, EngineRules
from gateway.session.publishing import RECENT_MAX, RELEASES_MAX, UNSETTLED_MAX
from gateway.upstream.rules import RECEIVE_MAX
from tests.simulation.watch import broken

BOUNDED = "6 bounded"
TIMERS_PER_SESSION_MAX = 4
TIMERS_SPARE = 64


def check_bounds(engine: Engine, rules: EngineRules) -> None:
    upstream, sessions = engine.upstream, engine.sessions
    in_flight = upstream.readings.in_flight
    counted = {
        "readings on the wire": (len(in_flight), in_flight.window),
        "QoS 2 from the broker": (len(upstream._receiving._unreleased), RECEIVE_MAX),
        "timers": (
            len(engine.members._timers),
            TIMERS_PER_SESSION_MAX * len(sessions) + TIMERS_SPARE,
        ),
        "sessions": (len(sessions), rules.admission.clients_max),
    }
    # What was in flight when the broker's session was lost waits again, beyond what was refused.
    waiting_max = rules.upstream.waiting_messages_max + in_flight.window
    counted["waiting readings"] = (len(in_flight.waiting), waiting_max)
    for client_id, session in sessions.items():
        publishing = session._publishing
        counted[f"unsettled of {client_id}"] = (len(publishing._unsettled), UNSETTLED_MAX)
        counted[f"releases of {client_id}"] = (
            len(publishing._awaiting_release or ()),
            RELEASES_MAX,
        )
        counted[f"recent ids of {client_id}"] = (len(publishing._recent), RECENT_MAX)
        outbox = (session.delivering.waiting, rules.session.outbox_messages_max + 1)
        counted[f"outbox of {client_id}"] = outbox
    for what, (count, limit) in counted.items():
        if count > limit:
            broken(BOUNDED, f"{what}: {count}, at most {limit}")

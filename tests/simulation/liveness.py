"""Promise 9: the gateway never stands still. What waits for something is named here, with what it
depends on; whatever that is, once it has been well for STILL_S, what waits must be gone.

Rule 1: looked at every few seconds of simulated time, in the middle of a world as well. What waits
        has a key, and waits as long as the same key is there. Of what may wait in a long queue the
        key has what changes when the queue moves.
Rule 2: the time counts only while all that it depends on is well: the disk neither fails, hangs,
        nor is slow or full; the connection to the broker is up; nobody has paused the drain.
        So it begins again when the loop of the gateway was late.
Rule 3: timers are exact, whatever hinders: none is in the past, and where there is work for a disk
        and no job one is set.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum

from gateway.core.engine import Engine
from gateway.core.mqtt.session import Phase
from gateway.core.session.outbox import Stage
from gateway.core.session.session import ABSENT, LISTENING, Session
from gateway.core.state_records import ClientId, State
from gateway.frames import Frame, Pingreq, Publish, Pubrel, Register
from gateway.storage.journal.numbers import JournalState
from tests.simulation.gateway_host import GatewayHost
from tests.simulation.model_broker import ModelBroker
from tests.simulation.owed_answers import HANDSHAKE, PING, READING, Key, OwedAnswers
from tests.simulation.watch import broken
from tests.simulation.world_rules import MQTT_CLIENT_ID

LIVENESS = "9 never stands still"
# Three times T_RETRY of sensors, and less than what makes them connect again.
STILL_S = 30.0
LATE_S = 0.001  # of a timer
WORK = "work of the disk"
NAMED_MAX = 120  # letters of each thing that is named


class Cause(Enum):
    """What may hinder the gateway from outside."""

    DISK = "the disk"
    FILES = "files"  # calls to them do not return, or they are not where they were
    BROKER = "the broker"  # away
    UPSTREAM = "the connection to the broker"
    DRAIN = "the drain is paused or clogged"
    ROOM = "the journal takes no more until the broker has taken some"
    FILTERS = "filters that go to the broker one after the other"


DISK = frozenset({Cause.DISK, Cause.FILES})
UPSTREAM = frozenset({Cause.UPSTREAM})
BOTH = DISK | UPSTREAM
ROOM = frozenset({Cause.ROOM})
NOTHING: frozenset[Cause] = frozenset()

_ASKING = (Publish, Register, Pubrel, Pingreq)  # what wants an answer of a client

Wait = tuple[tuple[Hashable, ...], frozenset[Cause]]


class LivenessWatch:
    def __init__(self, broker: ModelBroker) -> None:
        self.owed = OwedAnswers()
        self._broker = broker
        self._gateway: GatewayHost | None = None
        self._connection: object = None
        self._since: dict[Hashable, float] = {}  # what waits, since when
        self._well_since = dict.fromkeys(Cause, 0.0)
        self._started_at = 0.0
        self._was_late = False  # its loop
        self._sent_down: dict[str, int] = {}

    # What the world does

    def hinder(self, cause: Cause, until: float) -> None:
        self._well_since[cause] = max(self._well_since[cause], until)

    def relieve(self, cause: Cause, now: float) -> None:
        """What hindered ends sooner than was said."""
        self._well_since[cause] = min(self._well_since[cause], now)

    def ended(self) -> None:
        self.owed.ended()

    def said(self, client_id: str, frame: Frame) -> None:
        """The gateway sends this."""
        self.owed.said(client_id, frame)
        if isinstance(frame, _ASKING):
            self._sent_down[client_id] = self._sent_down.get(client_id, 0) + 1

    # The check

    def look(self, gateway: GatewayHost, now: float) -> None:
        """Raises BrokenPromiseError for what has stood still for too long."""
        self._note_causes(gateway, now)
        if not gateway.is_listening:
            self._since.clear()
            return
        was_late, self._was_late = self._was_late, gateway.late.is_late
        if was_late or self._was_late:
            self._started_at = now
        if self._was_late:
            return
        self._check_timers(gateway)
        _check_alarms(gateway)
        since: dict[Hashable, float] = {}
        for key, causes in self._all(gateway):
            begun = since[key] = self._since.get(key, now)
            self._check(key, begun, causes, now)
        self._since = since
        self.owed.excuse(lambda client_id, key: _is_excused(gateway.engine, client_id, key))
        for client_id, owed, begun in self.owed.all():
            needed = _causes_of(gateway.engine, client_id, owed)
            if needed is not None:
                self._check((*owed, "for", client_id), begun, needed, now)

    def unfinished(self, gateway: GatewayHost) -> list[str]:
        """What still waits, for the end of a world. Work of the disk by itself is none: files that
        are out of reach are looked for again and again.
        """
        waits = [_named(key) for key, _ in self._all(gateway) if key[0] != WORK]
        return waits + [f"{key[0]} for {client_id}" for client_id, key, _ in self.owed.all()]

    def _check(self, key: Hashable, begun: float, causes: frozenset[Cause], now: float) -> None:
        well_since = max((self._well_since[cause] for cause in causes), default=0.0)
        still_s = now - max(begun, well_since, self._started_at)
        if still_s > STILL_S:
            broken(LIVENESS, f"waits for {still_s:.1f} s: {_named(key)}")

    def _note_causes(self, gateway: GatewayHost, now: float) -> None:
        if gateway is not self._gateway:
            self._gateway, self._started_at = gateway, now
            self._sent_down.clear()
        if not self._broker.up:
            self._well_since[Cause.BROKER] = now
        connection = gateway.connection
        is_up = connection is not None and connection.is_open
        is_up = is_up and gateway.is_on and gateway.engine.upstream.phase is Phase.UP
        if not is_up or connection is not self._connection:
            self._connection = connection
            self._well_since[Cause.UPSTREAM] = now
        # That these queues move is looked at by itself.
        if not gateway.engine.upstream.subscriptions.acknowledged:
            self._well_since[Cause.FILTERS] = now
        if gateway.journal.numbers.state is not JournalState.OK:
            self._well_since[Cause.ROOM] = now

    def _check_timers(self, gateway: GatewayHost) -> None:
        engine, late = gateway.engine, gateway.late
        now = late.machine_now() - late.pauses.left_out_s  # by the clock of the core
        if engine.wake_at() < now - LATE_S:
            broken(LIVENESS, f"a timer of {engine.wake_at():.3f} s has not rung")
        for client_id, session in engine.sessions.items():
            wake_at = session.wake_at(engine.client_table.returned_at)
            if session.state not in ABSENT and wake_at < now - LATE_S:
                broken(LIVENESS, f"{client_id} wanted time at {wake_at:.3f} s")

    # What waits

    def _all(self, gateway: GatewayHost) -> Iterator[Wait]:
        yield from self._readings(gateway)
        yield from self._disk(gateway)
        yield from self._upstream(gateway)
        for client_id, session in gateway.engine.sessions.items():
            yield from self._client(client_id, session)

    def _readings(self, gateway: GatewayHost) -> Iterator[Wait]:
        uplink = gateway.engine.uplink
        in_flight = uplink._in_flight
        for reading, way in uplink.storing.items():
            yield ("being stored", way.name, reading), DISK
        for reading in uplink._qos0_order.behind:
            yield ("followed", reading), DISK
        for reading in uplink._deferred._readings:
            yield ("postponed", reading), UPSTREAM
        if not gateway.engine.upstream.publisher.is_open:
            return
        on_the_wire = [*in_flight.published.values(), *in_flight.released.values()]
        for reading in on_the_wire:
            yield ("in flight", reading), UPSTREAM if reading.upstream_qos == 1 else BOTH
        backlog, queue = in_flight.backlog, [*in_flight.waiting, *in_flight.qos_order.all()]
        queue += in_flight.held()
        queue += backlog.ready
        if queue or (backlog._readable and not backlog.is_paused):
            is_live = not backlog.of_clients and all(one.upstream_qos == 1 for one in on_the_wire)
            moves = len(queue), backlog._readable, frozenset(on_the_wire)
            causes = (UPSTREAM if is_live else BOTH) | {Cause.DRAIN}
            yield ("queue to the broker", moves), causes
        waiting = {id(each) for each in queue}
        pending_wills = gateway.engine._pending_wills
        for client_id, will in pending_wills._due.items():
            # What nobody takes is offered again by a timer.
            if id(will) not in waiting and client_id not in pending_wills._refused:
                yield ("will", will), BOTH

    def _disk(self, gateway: GatewayHost) -> Iterator[Wait]:
        committer, journal = gateway._committer, gateway.journal
        if journal._pending:
            yield ("not written yet", journal._pending[0][0]), DISK
        if journal._completions.is_any:
            yield ("marks of the journal", journal.numbers.groups), DISK
        if committer._waiting:
            yield ("waits for the journal", id(committer._waiting[0][1])), DISK
        if gateway.engine.uplink._backlog.is_reading:
            yield ("backlog asked for", gateway.engine.uplink._backlog._readable), DISK
        if committer._again:
            yield ("asked for again", committer._again), DISK
        for loop in (gateway._loop, gateway._state_loop):
            if loop.job is not None:
                yield (WORK, loop.job), DISK
        state = gateway._state
        if len(state._pending) or state._batch.changes:
            yield ("changes of state", state.numbers.commits), DISK
        for effect in state._pending._waiting[:1] or state._batch.waiting[:1]:
            yield ("waits for the state", id(effect)), DISK

    def _upstream(self, gateway: GatewayHost) -> Iterator[Wait]:
        upstream = gateway.engine.upstream
        if upstream.phase is not Phase.UP:
            # One that the broker ends soon may have come and gone since the last look.
            made = upstream.publisher.connection
            yield ("connection to the broker", made), DISK | {Cause.BROKER}
            return
        subscriptions = upstream.subscriptions
        if not subscriptions.acknowledged or subscriptions._stale or subscriptions._giving_up:
            moves = frozenset(subscriptions._asked), len(subscriptions._missing)
            yield ("subscriptions at the broker", moves), BOTH
        session = self._broker.sessions.get(MQTT_CLIENT_ID)
        for packet_id, outgoing in session.outgoing.items() if session is not None else ():
            yield ("from the broker", packet_id, id(outgoing), outgoing.released), BOTH

    def _client(self, client_id: ClientId, session: Session) -> Iterator[Wait]:
        outbound = session.outbound
        for held in session.held:
            yield ("withheld", client_id, id(held)), DISK
        current = outbound.outstanding
        if current is not None and current.stage in (Stage.SAVING, Stage.RELEASING):
            yield (current.stage.value, client_id, current.position), DISK
        elif session.state not in LISTENING or not session.is_address_validated:
            return
        elif current is not None:
            sent = self._sent_down.get(client_id, 0)
            yield ("not repeated", client_id, current.message_id, sent), NOTHING
        elif outbound._outbox:
            yield ("not begun", client_id, len(outbound._outbox)), NOTHING


def _check_alarms(gateway: GatewayHost) -> None:
    """Whoever has work for a disk has a job there, or a timer for the next one."""
    committer, state = gateway._committer, gateway._state
    is_due = gateway.journal.has_pending or bool(committer._waiting) or committer._reads
    if is_due and committer._is_idle.is_set() and committer._alarm is None:
        broken(LIVENESS, "the journal has work, and no timer is set")
    is_due = bool(len(state._pending) or state._pending.waiting)
    if is_due and state._flight is None and state._alarm is None:
        broken(LIVENESS, "changes of state are pending, and no timer is set")


def _is_excused(engine: Engine, client_id: str, key: Key) -> bool:
    """Whether nobody waits for this answer any more, by what the gateway knows."""
    name, message_id = key
    session = engine.sessions.get(ClientId(client_id))
    if session is None:
        return name != HANDSHAKE
    if session.state in ABSENT:
        return True
    match name:
        case "PINGRESP":
            is_fetching = session.state is State.AWAKE and session.outbound.waiting > 0
            return is_fetching or session.state is State.ASLEEP
        case "PUBACK or PUBREC":
            return message_id in (session.inbound._unheard or ())
        case "SUBACK":
            wish = (session._subscribing._wishes or {}).get(message_id)
            return wish is not None and not wish.is_awaited
        case _:
            return False


def _causes_of(engine: Engine, client_id: str, key: Key) -> frozenset[Cause] | None:
    """What an answer depends on; None for a reading in the queue to the broker, which may be long:
    that the queue moves is looked at by itself.
    """
    name, message_id = key
    if name == PING:
        return NOTHING
    if name == "SUBACK":
        return BOTH | {Cause.FILTERS}
    if name != READING:
        return DISK
    session = engine.sessions.get(ClientId(client_id))
    reading = None if session is None else (session.inbound._unacknowledged or {}).get(message_id)
    if reading is None:
        return ROOM
    if reading in engine.uplink.storing:
        return DISK | ROOM
    unacknowledged = engine.uplink._in_flight.unacknowledged()
    return None if any(each is reading for each in unacknowledged) else ROOM


def _named(key: Hashable) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return ", ".join(str(part)[:NAMED_MAX] for part in parts)

"""What is owed, to whom, and who has to act next: questions to the engine that change nothing.

Rule 1: whatever has waited for too long is visible here, by its oldest part: the head of a queue, a
        time that has passed, a session's own list. Nothing is counted or noted for a message.
Rule 2: each answer has a mark. The same mark at the next look means that nothing has moved. How
        long that may last is for who asks (watch.py while the gateway runs, a bound of simulated
        time in the simulator).
Rule 3: a wait by configuration is not owed: a reading that waits in memory for a broker that is
        away (`acknowledge = "upstream"`), a drain that the operator has paused, a message for a
        client that sleeps or is absent.
Rule 4: a place in no queue at all is the gateway's own fault, and so is a queue whose head nothing
        holds back. Both are found by asking where a thing is, not by what should have happened.

Limits: `owed` looks at the heads of a fixed number of queues. `LivenessSweep` visits
`SWEEP_SESSIONS` sessions at a look, so all of 100,000 in 100 looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from gateway.core.alarm_names import AlarmName
from gateway.core.engine import Engine
from gateway.core.mqtt.session import Phase
from gateway.core.session.outbox import Stage
from gateway.core.session.session import LISTENING, Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Reading, SubscribeTo

SWEEP_SESSIONS = 1000


class WaitsFor(Enum):
    """Who has to act next."""

    NOBODY = "nobody outside: the gateway itself"
    JOURNAL = "the journal's disk"
    STATE = "the state folder's disk"
    BROKER = "the broker's answer"
    ROOM = "the broker's connection, to take bytes"


class SameObject:
    """An object as a mark: the same one, not one that looks the same."""

    __slots__ = ("_it",)

    def __init__(self, it: object) -> None:
        self._it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameObject) and other._it is self._it


@dataclass(frozen=True, slots=True)
class OwedAnswer:
    """`what` is owed. `kind` tells apart what has the same name; it has not moved since a look
    whose `mark` of that kind was the same. `client_id`: to whom; None for the gateway as a whole.
    """

    name: AlarmName
    kind: str
    mark: object
    waits_for: WaitsFor
    what: str
    client_id: ClientId | None = None


class ReadingLocations:
    """Where readings are that no session has an answer for, at this look."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def holds(self, reading: Reading) -> bool:
        """Whether some queue has it, so that its oldest part answers for it."""
        engine = self._engine
        if reading in engine.uplink.storing or engine.upstream.publisher.in_flight.holds(reading):
            return True
        return reading in self._in_memory

    @cached_property
    def _in_memory(self) -> set[Reading]:
        """Only asked for what is on no disk and not on the wire under its own packet id."""
        in_flight = self._engine.upstream.publisher.in_flight
        return {
            *in_flight.waiting,
            *in_flight.held(),
            *in_flight.qos_order.all(),
            *in_flight.backlog.ready,
            *in_flight.published.values(),
            *in_flight.released.values(),
        }


# The gateway as a whole


def owed(engine: Engine, now: float) -> list[OwedAnswer]:
    """By it, as a whole: the heads of its queues."""
    return [one for look in _LOOKS for one in look(engine, now)]


def _timer(engine: Engine, now: float) -> Iterator[OwedAnswer]:
    wake_at = engine.wake_at()
    if wake_at < now:
        what = f"a timer of the sessions was due {now - wake_at:.0f} s ago"
        yield OwedAnswer(
            name=AlarmName.TIMER_OVERDUE,
            kind="timer",
            mark=wake_at,
            waits_for=WaitsFor.NOBODY,
            what=what,
        )


def _storing(engine: Engine, now: float) -> Iterator[OwedAnswer]:
    storing = engine.uplink.storing
    for reading in storing:
        what = (
            f"{len(storing)} readings wait for the journal, the oldest, of {reading.client_id}, "
            f"since {now - reading.received_at:.0f} s"
        )
        name = AlarmName.READING_WAITS_FOR_DISK
        yield OwedAnswer(
            name=name, kind="storing", mark=reading, waits_for=WaitsFor.JOURNAL, what=what
        )
        return


def _in_flight(engine: Engine, now: float) -> Iterator[OwedAnswer]:
    """What the broker has to answer: the oldest PUBLISH, and the oldest PUBREL."""
    readings = engine.upstream.publisher
    in_flight = readings.in_flight
    if not readings.is_open:
        return
    for kind, table in (("PUBACK or PUBREC", in_flight.published), ("PUBCOMP", in_flight.released)):
        for reading in table.values():
            waits_for = WaitsFor.BROKER
            if readings.is_recording(reading):
                waits_for = WaitsFor.JOURNAL
            elif in_flight.unanswered <= 0:  # it has answered all, and the place is not free
                waits_for = WaitsFor.NOBODY
            what = (
                f"{len(in_flight)} readings are at the broker and {len(in_flight.waiting)} wait; "
                f"{kind} for the oldest, of {reading.client_id}, has not come"
            )
            mark = (readings.connection, reading)
            yield OwedAnswer(
                name=AlarmName.UPLINK_STALLED, kind=kind, mark=mark, waits_for=waits_for, what=what
            )
            break


def _waiting(engine: Engine, now: float) -> Iterator[OwedAnswer]:
    """What could be sent to the broker, and is not."""
    readings = engine.upstream.publisher
    in_flight = readings.in_flight
    if not readings.is_open or not in_flight.has_waiting or readings.is_paused:
        return
    count = len(in_flight.waiting) + len(in_flight.backlog.ready) + in_flight.qos_order.count
    count += len(in_flight.held())
    if readings.is_congested:
        what = f"{count} readings wait until the broker takes what was written"
        yield OwedAnswer(
            name=AlarmName.UPLINK_STALLED,
            kind="room",
            mark=readings.connection,
            waits_for=WaitsFor.ROOM,
            what=what,
        )
        return
    caution = readings.caution
    is_asking = in_flight or caution.asks or caution.pings
    if caution.alone is not None or (caution.is_on and is_asking):
        return  # until the broker answers
    stranded = in_flight.could_go()
    if stranded is None and not in_flight and not caution.asks:
        stranded = in_flight.next_alone or _head_of_waiting(engine)
    if stranded is not None:
        what = f"{count} readings wait though the broker has room for them"
        yield OwedAnswer(
            name=AlarmName.UPLINK_STALLED,
            kind="waiting",
            mark=stranded,
            waits_for=WaitsFor.NOBODY,
            what=what,
        )


def _head_of_waiting(engine: Engine) -> Reading | None:
    """None where all that waits is suspected of ending the connection, and has to."""
    in_flight = engine.upstream.publisher.in_flight
    waiting = in_flight.waiting or in_flight.backlog.ready or in_flight.qos_order.all()
    return waiting[0] if waiting else None


def _alone(engine: Engine, _now: float) -> Iterator[OwedAnswer]:
    """What was sent alone: all else waits for the answer to it."""
    readings = engine.upstream.publisher
    caution = readings.caution
    alone = caution.alone
    if not readings.is_open or not caution.is_on:
        return
    if alone is not None:
        kind, client_id, name = alone.key
        what = f"the broker has not answered {kind} {client_id or name!r}, behind which all waits"
    elif caution.has_unread and caution.pings and readings.in_flight.has_waiting:
        what = "the broker has not answered a ping, for which what is to go alone waits"
    else:
        return
    yield OwedAnswer(
        name=AlarmName.UPLINK_STALLED,
        kind="alone",
        mark=(readings.connection, SameObject(alone)),
        waits_for=WaitsFor.BROKER,
        what=what,
    )


def _backlog(engine: Engine, _now: float) -> Iterator[OwedAnswer]:
    """What is queued on disk, while the broker is connected and the drain is not paused."""
    readings, custody = engine.upstream.publisher, engine.custody
    backlog = readings.in_flight.backlog
    if not readings.is_open:
        return
    if backlog.is_reading and not backlog.is_paused:
        what = f"{len(backlog)} readings on disk wait to be read back"
        yield OwedAnswer(
            name=AlarmName.BACKLOG_STALLED,
            kind="read",
            mark=backlog.reads,
            waits_for=WaitsFor.JOURNAL,
            what=what,
        )
    elif backlog.wants_more:
        what = f"{len(backlog)} readings on disk are not asked for, though the broker is there"
        yield OwedAnswer(
            name=AlarmName.BACKLOG_STALLED,
            kind="ask",
            mark=backlog.reads,
            waits_for=WaitsFor.NOBODY,
            what=what,
        )
    if custody.asked_first is not None:
        what = "readings that nobody ingested wait to be read again"
        name, mark = AlarmName.BACKLOG_STALLED, custody.asked_first
        yield OwedAnswer(name=name, kind="again", mark=mark, waits_for=WaitsFor.JOURNAL, what=what)


def _subscriptions(engine: Engine, _now: float) -> Iterator[OwedAnswer]:
    subscriptions = engine.upstream.subscriptions
    if engine.upstream.phase is not Phase.UP:
        return
    packet_id = subscriptions.unanswered
    if packet_id is not None:
        mark = (engine.upstream.publisher.connection, packet_id)
        what = "SUBACK or UNSUBACK has not come from the broker"
        yield OwedAnswer(
            name=AlarmName.SUBSCRIPTION_UNANSWERED,
            kind="answer",
            mark=mark,
            waits_for=WaitsFor.BROKER,
            what=what,
        )
    elif subscriptions.is_idle:
        what = "filters of clients are not asked for at the broker"
        yield OwedAnswer(
            name=AlarmName.SUBSCRIPTION_UNANSWERED,
            kind="ask",
            mark=None,
            waits_for=WaitsFor.NOBODY,
            what=what,
        )


def _will(engine: Engine, _now: float) -> Iterator[OwedAnswer]:
    will = engine.wills.oldest
    if will is not None and not ReadingLocations(engine).holds(will):
        what = f"the will of {will.client_id} is on its way nowhere"
        yield OwedAnswer(
            name=AlarmName.WILL_STALLED,
            kind="will",
            mark=will,
            waits_for=WaitsFor.NOBODY,
            what=what,
        )


_LOOKS: tuple[Callable[[Engine, float], Iterator[OwedAnswer]], ...] = (
    _timer,
    _storing,
    _in_flight,
    _waiting,
    _alone,
    _backlog,
    _subscriptions,
    _will,
)


# One client


def owed_to(
    engine: Engine, session: Session, now: float, places: ReadingLocations
) -> list[OwedAnswer]:
    """What a client waits for that no timer of its own will bring."""
    return [
        OwedAnswer(
            name=name,
            kind=kind,
            mark=mark,
            waits_for=waits_for,
            what=f"{what}, of {session.client_id}",
            client_id=session.client_id,
        )
        for name, kind, mark, waits_for, what in _of_session(engine, session, now, places)
    ]


_Found = tuple[AlarmName, str, object, WaitsFor, str]


def _of_session(
    engine: Engine, session: Session, now: float, places: ReadingLocations
) -> Iterator[_Found]:
    wake_at = session.wake_at()
    if wake_at < now:
        yield AlarmName.TIMER_OVERDUE, "timer", wake_at, WaitsFor.NOBODY, "a timer is overdue"
    if session.held:
        what = "an answer waits until it is saved"
        mark = SameObject(session.held[0])
        yield AlarmName.ANSWER_OVERDUE, "withheld", mark, WaitsFor.STATE, what
    if session.is_admitting:
        what = "CONNACK waits until it is saved"
        yield AlarmName.ANSWER_OVERDUE, "connack", SameObject(session.peer), WaitsFor.STATE, what
    if not session.inbound.is_idle:
        yield from _of_readings(session, places)
    for asked in session.asking():
        waits_for = _suback_waits_for(engine, asked)
        if waits_for is not None:
            kind = f"suback {asked.message_id}"
            yield AlarmName.ANSWER_OVERDUE, kind, SameObject(asked), waits_for, "SUBACK is owed"
    yield from _of_messages(session)


def _of_readings(session: Session, places: ReadingLocations) -> Iterator[_Found]:
    """A reading that some queue has is answered for by the head of that."""
    for reading in session.inbound.unacknowledged:
        if not places.holds(reading):
            what = f"PUBACK or PUBREC of message id {reading.message_id} is owed"
            yield AlarmName.ANSWER_OVERDUE, "reading", reading, WaitsFor.NOBODY, what
            break
    releasing = session.inbound.releasing
    if releasing is not None:
        mark = SameObject(releasing)
        yield AlarmName.ANSWER_OVERDUE, "pubcomp", mark, WaitsFor.JOURNAL, "PUBCOMP is owed"


def _suback_waits_for(engine: Engine, asked: SubscribeTo) -> WaitsFor | None:
    """None: for a broker that is away, which a timer ends (downlink/pending_subscriptions.py)."""
    downlink = engine.downlink
    if downlink.pending.is_saving(asked):
        return WaitsFor.STATE
    cover = downlink.subscriptions.cover_of(asked.topic_filter)
    if cover is None or not downlink.pending.is_waiting(asked, cover):
        return WaitsFor.NOBODY
    return WaitsFor.BROKER if engine.upstream.phase is Phase.UP else None


def _of_messages(session: Session) -> Iterator[_Found]:
    outbound = session.outbound
    if not outbound.waiting:
        if session.state is State.AWAKE:
            mark = session.last_received_at
            yield AlarmName.ANSWER_OVERDUE, "pingresp", mark, WaitsFor.NOBODY, "PINGRESP is owed"
        return
    current = outbound.outstanding
    if current is not None and (current.stage is Stage.SAVING or current.stage is Stage.RELEASING):
        what = "a message waits until it is saved"
        saved = (current.position, current.stage)
        yield AlarmName.DELIVERY_STALLED, "saving", saved, WaitsFor.STATE, what
    elif session.state in LISTENING and outbound.is_address_validated and not outbound.has_timer:
        # What is retained waits for its subscription to be saved; anything else for nothing.
        what = f"{outbound.waiting} messages wait and nothing is sent"
        head = SameObject(outbound.head)
        yield AlarmName.DELIVERY_STALLED, "waiting", head, WaitsFor.STATE, what


class LivenessSweep:
    """Goes through all sessions, some at a look."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._round: list[Session] = []

    def look(
        self, now: float, also: Iterable[ClientId], *, is_full: bool = False
    ) -> list[OwedAnswer]:
        """At the next ones, and at `also` once more; only at these if `is_full`."""
        engine, sessions = self._engine, self._engine.sessions
        chosen = {client_id: sessions[client_id] for client_id in also if client_id in sessions}
        for session in () if is_full else self._next():
            if not session.is_at_rest(now) and sessions.get(session.client_id) is session:
                chosen[session.client_id] = session
        places = ReadingLocations(engine)
        return [one for each in chosen.values() for one in owed_to(engine, each, now, places)]

    def _next(self) -> list[Session]:
        if not self._round:
            self._round = list(self._engine.sessions.values())
        chosen = self._round[-SWEEP_SESSIONS:]
        del self._round[-SWEEP_SESSIONS:]
        return chosen

"""The gateway as a value: every input in, every effect out, no I/O.

The engine knows which session a datagram belongs to, hands it there, and does what the session's
effects ask of the rest of the core: readings to the upstream session, subscriptions to the
downlink. What remains in the list it returns is for the shell, in order.

A `Send` that comes after a `Save` in what a session answers to one frame waits until that is
durable (`WhenSaved`): so a session says by the order of its effects what its answer promises.

Limits: each where it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.core import durability_gate, restore
from gateway.core.acceptor import Door
from gateway.core.clients.client_table import Members
from gateway.core.clients.half_open import Callers
from gateway.core.dispatch import Datagrams, Intake
from gateway.core.downlink.downlink import Downlink
from gateway.core.downlink.retained import Retained
from gateway.core.effects import (
    Admit,
    Arrived,
    Bequeath,
    ClientId,
    CompleteUpstream,
    ConnectUpstream,
    Effect,
    FinishRun,
    Forward,
    Granted,
    InGoodHands,
    Join,
    Kept,
    KeptRun,
    ProcessPauses,
    Reason,
    Refused,
    Released,
    ReleaseUpstream,
    Save,
    Send,
    Settled,
    State,
    StateChanged,
    SubscribeTo,
    SubscriptionRefused,
    Transmit,
    UnsubscribeFrom,
    UpstreamUp,
    WhenSaved,
    Withheld,
)
from gateway.core.mqtt.session import UpstreamSession
from gateway.core.operator import Desk
from gateway.core.options import EngineRules as EngineRules
from gateway.core.session.session import Session
from gateway.core.state_records import Exchanges, SavedState
from gateway.core.uplink.custody.custody import Custody
from gateway.core.uplink.pending_wills import Bequests
from gateway.core.uplink.uplink import Uplink


class Engine:
    def __init__(self, rules: EngineRules, pauses: ProcessPauses | None = None) -> None:
        """`pauses`: what the clock leaves out by which `now` is given."""
        self.members = Members()
        self.sessions = self.members.sessions
        self.upstream = UpstreamSession(rules.upstream, pauses)
        self.received: dict[type, int] = {}  # frames, by kind
        self._rules = rules
        self._saves = rules.saves
        self._bequests = bequests = Bequests(self.upstream.readings.tag)
        self.custody = Custody(rules.custody, self.upstream.readings.may_have_sent)
        if self.custody.is_on:
            self.upstream.subscriptions.want_always(self.custody.topic_filter)
        self.uplink = Uplink(
            *(self.sessions, self.upstream, rules.uplink, bequests, self._perform, self.custody)
        )
        retained = Retained(rules.retained_messages_max, rules.retained_bytes_max)
        self.downlink = Downlink(
            *(self.sessions, self.upstream, retained, rules.session),
            *(self.members.schedule, self._answer),
            saves=rules.saves,
        )
        self._door = Door(
            *(rules, self.members, self.downlink, self._perform, self._answer, self.received)
        )
        self.discovery = self._door.discovery
        self.desk = Desk(self.sessions, self._door, self.uplink, self.downlink)
        self._take = self.uplink.take
        self._intake = Intake(
            *(rules, self.members, self._door, self.received),
            *(self._take, self._perform, self._answer),
        )

    # From a former life

    def restore(self, saved: SavedState, now: float) -> list[Effect]:
        """What outlasts a restart beside readings; comes before `restore_readings`."""
        members, downlink, upstream = self.members, self.downlink, self.upstream
        effects = restore.restore(saved, members, downlink, upstream, self._door.new_session, now)
        self._bequests.restore(saved.due_wills, now)
        self._door.admission.restore(saved.permits)
        overheard = self._rules.upstream.overheard_filter
        if overheard is not None:
            effects += downlink.overhear(overheard)
        return self._perform(effects, now)

    def restore_readings(
        self,
        parked: Mapping[ClientId, int],
        received: list[Forward],
        exchanges: Mapping[ClientId, Exchanges],
        last_packet_id: int,
        now: float,
        kept: Sequence[KeptRun] = (),
    ) -> list[Effect]:
        """What the journal has; the sessions must be there already."""
        self.uplink.restore(parked, received, last_packet_id)
        effects = self.custody.restore(kept, now)
        effects += restore.restore_exchanges(exchanges, self.sessions, now)
        effects += self._bequests.received(received)
        return self._perform(effects, now)

    # From the sensors

    def receive(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """All that one look at a link brought, as (address, datagram) pairs."""
        return self._intake.receive(link, datagrams, now)

    def receive_group(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """What came by the group of a link: nobody's session hears of it."""
        return self.discovery.receive(link, datagrams, now)

    # From the broker

    def opened(self, now: float) -> list[Effect]:
        """The connection to the broker is there."""
        return self.upstream.opened(now)

    def receive_upstream(self, data: bytes, now: float) -> list[Effect]:
        """Octets from the broker, cut anywhere."""
        effects: list[Effect] = []
        for effect in self.upstream.receive(data, now):
            if type(effect) is Settled:  # nearly all there are, so they take no detour
                effects += self._settled(effect.forwards, now)
            elif type(effect) is Transmit:
                effects.append(effect)
            elif type(effect) is Arrived:
                effects += _arrived(self, effect, now)
            else:
                effects += self._perform([effect], now)
        if self.upstream.readings.in_flight.backlog.wants_more:
            effects += self.uplink.read_more()
        return effects

    def closed(self, now: float) -> list[Effect]:
        """The connection to the broker is gone."""
        self.upstream.closed()
        self.custody.closed()
        return self._perform(self.downlink.closed(now), now) + self.uplink.closed(now)

    @property
    def is_clogged(self) -> bool:
        return self.upstream.readings.is_clogged

    def clogged(self) -> None:
        """What was to be transmitted piles up in the shell: nothing more is, until `unclogged`."""
        self.upstream.readings.is_clogged = True

    def unclogged(self, now: float) -> list[Effect]:
        """There is room again."""
        self.upstream.readings.is_clogged = False
        return self.uplink.unclogged(now)

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        """Unix milliseconds at the zero of the monotonic clock, for the time stamps of readings."""
        self.upstream.readings.unix_ms_at_zero = unix_ms_at_zero

    def deafened(self, now: float) -> list[Effect]:
        """No sensor will be heard any more: what they might have acknowledged is saved."""
        return self._perform(self.downlink.save_late(), now)

    def stop(self, _now: float) -> list[Effect]:
        """Say goodbye to the broker."""
        return self.upstream.stop()

    # From the stores

    def stored(self, forwards: list[Forward], now: float) -> list[Effect]:
        """These readings are in the journal, durably."""
        return self.uplink.stored(forwards, now)

    def unsure(self, forwards: list[Forward], reason: Reason, now: float) -> list[Effect]:
        """The journal could not take these, but the next life may find them there."""
        return self.uplink.unsure(forwards, reason, now)

    def not_stored(self, forwards: list[Forward], reason: Reason, now: float) -> list[Effect]:
        """The journal could not take these readings."""
        return self.uplink.not_stored(forwards, reason, now)

    def dropped_oldest(self, dropped: Mapping[ClientId, int]) -> list[Effect]:
        """The journal gave up readings, so many of each client, to make room for new ones."""
        return self.uplink.dropped_oldest(dropped)

    def read_back(self, forwards: list[Forward], now: float) -> list[Effect]:
        """The answer to `ReadBacklog`."""
        return self.uplink.read_back(forwards, now)

    def in_reach_again(self, count: int) -> list[Effect]:
        """The journal can read so many parked readings that it could not reach for a while."""
        return self.uplink.in_reach_again(count)

    def read_again(self, forwards: list[Forward], now: float) -> list[Effect]:
        """The answer to `ReadAgain`."""
        return self.uplink.read_again(forwards, now)

    def durable(self, effects: list[Effect], now: float) -> list[Effect]:
        """What these waited for is durable."""
        return self._perform(effects, now)

    # Time

    def wake_at(self) -> float:
        """When `handle_time` is due, in the core's seconds; infinity for never."""
        # In pairs: compiled, that takes a tenth of what one call does.
        wake_at = min(self.upstream.wake_at(), self.uplink.wake_at())
        wake_at = min(wake_at, self.downlink.wake_at())
        wake_at = min(wake_at, self.members.wake_at())
        wake_at = min(wake_at, self._door.callers.due_at)
        wake_at = min(wake_at, self.discovery.due_at)
        wake_at = min(wake_at, self.custody.due_at)
        return min(wake_at, self._bequests.due_at)

    def stood_still(self, seconds: float, now: float) -> list[Effect]:
        """This process runs again since `now`, after `seconds` that its clock leaves out; comes
        before `handle_time`. Nobody is looked at: deadlines are extended where they are asked for.
        """
        self.members.returned_at = self._door.callers.returned_at = now
        self.discovery.stood_still(seconds, now)
        return self.upstream.stood_still(seconds, now)

    def handle_time(self, now: float) -> list[Effect]:
        effects = self.upstream.handle_time(now)
        effects += self.uplink.handle_time(now)
        effects += self.custody.handle_time(now)
        for will in self._bequests.offer(now):
            effects += self.uplink.take(will, now)
        effects += self._perform(self.downlink.handle_time(now), now)
        effects += self._door.callers.handle_time(now)
        effects += self.discovery.handle_time(now)
        returned_at = self.members.returned_at
        for session in self.members.due(now):
            effects += self._answer(session, session.handle_time(now, returned_at), now)
            self.members.schedule(session)
        return effects

    # From metrics and status

    def watch(self, hear: Callable[[Forward], None] | None) -> None:
        """Let `hear` see each reading as it is taken; None for nobody, which costs nothing."""
        take = self.uplink.take

        def watched(forward: Forward, now: float) -> list[Effect]:
            assert hear is not None
            hear(forward)
            return take(forward, now)

        self._take = self._intake.take = take if hear is None else watched

    @property
    def callers(self) -> Callers:
        """New clients that have said nothing after CONNECT."""
        return self._door.callers

    @property
    def wills(self) -> Bequests:
        """Of clients that are lost."""
        return self._bequests

    # What sessions and the upstream session ask for

    def _settled(self, forwards: list[Forward], now: float) -> list[Effect]:
        """What is in the journal is finished in runs, as it was sent in its order."""
        effects: list[Effect] = []
        self.uplink.spilling.settled_at = now
        sessions, bequests, custody = self.sessions, self._bequests, self.custody
        storing = self.uplink.storing
        first = count = 0
        has_custody = custody.is_on
        for forward in forwards:
            record = forward.record
            if record < 0 or forward in storing:  # else its session heard that it was stored
                session = sessions.get(forward.client_id)
                if session is not None:
                    effects += session.settled(forward)
            if bequests.is_any:
                effects += self._perform(bequests.settled(forward), now)
            if has_custody:
                effects += custody.settled(forward, now)
            elif record == first + count:
                count += 1
            elif record >= 0:
                if count:
                    effects.append(FinishRun(first, count))
                first, count = record, 1
        if count:
            effects.append(FinishRun(first, count))
        return effects

    def _perform(self, asked: list[Effect], now: float) -> list[Effect]:
        """Do what concerns the core; the rest is for the shell, in order."""
        if len(asked) == 1 and type(asked[0]) is Forward:  # most of all there are
            return self._take(asked[0], now)
        effects: list[Effect] = []
        saves = self._saves
        for effect in asked:
            if type(effect) is Send or (saves and type(effect) is Save):  # nearly all others
                effects.append(effect)
                continue
            performer = _PERFORMERS.get(type(effect))
            if performer is None:
                effects.append(effect)
            else:
                effects += performer(self, effect, now)
        return effects

    def _state_changed(self, news: StateChanged, now: float) -> list[Effect]:
        """A client that left has no address; a clean session ends with its connection."""
        if news.after not in (State.DISCONNECTED, State.LOST):
            return [news]
        session = self.sessions[news.client_id]
        self.members.leave_address(session)
        if session.clean:
            return [news, *self._door.discard(session, now)]
        self.members.note_absence(session, now)
        return [news]

    def _up(self, news: UpstreamUp, now: float) -> list[Effect]:
        self.downlink.opened(now)
        self._bequests.opened(now)
        self.custody.opened(session_present=news.session_present, now=now)
        return [news, *self.uplink.opened()]

    # What is saved

    def _save(self, effect: Save, _now: float) -> list[Effect]:
        return [effect] if self._saves else []

    def _when_saved(self, effect: WhenSaved, now: float) -> list[Effect]:
        return [effect] if self._saves else self._perform(effect.effects, now)

    def _answer(self, session: Session, asked: list[Effect], now: float) -> list[Effect]:
        """Do what a session asks for; of its frames those are withheld that promise what is not
        durable yet.
        """
        effects = self._perform(asked, now)
        return durability_gate.withhold(session, effects) if self._saves else effects


def _bequeath(engine: Engine, effect: Bequeath, now: float) -> list[Effect]:
    return engine._perform([*engine._bequests.begin(effect.will), effect.will], now)


def _released(engine: Engine, effect: Released, now: float) -> list[Effect]:
    session = engine.sessions.get(effect.client_id)
    return [] if session is None else session.released(effect.message_id, now)


def _subscribe(engine: Engine, effect: SubscribeTo, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.subscribe(effect, now), now)


def _unsubscribe(engine: Engine, effect: UnsubscribeFrom, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.unsubscribe(effect), now)


def _joined(engine: Engine, effect: Join, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.joined(effect.asked, now), now)


def _arrived(engine: Engine, effect: Arrived, now: float) -> list[Effect]:
    effects = engine.downlink.arrived(effect, now)
    if not engine._saves:
        effects = engine._perform(effects, now)
    if not engine.custody.is_on:
        return effects
    in_order = engine.upstream.readings.in_flight.in_order
    return engine.custody.arrived(effect, in_order, now) + effects


def _in_good_hands(engine: Engine, effect: InGoodHands, _now: float) -> list[Effect]:
    return engine.upstream.acknowledge(effect.arrived)


def _kept(engine: Engine, effect: Kept, now: float) -> list[Effect]:
    session = engine.sessions.get(effect.client_id)
    if session is None:
        return []
    effects = session.kept(effect, now)
    engine.members.schedule(session)
    return engine._answer(session, effects, now)


def _admit(engine: Engine, effect: Admit, now: float) -> list[Effect]:
    session = engine.sessions.get(effect.client_id)
    if session is None:
        return []
    effects = session.admitted(effect, now)
    engine.members.schedule(session)
    return engine._answer(session, effects, now)


def _let_go(engine: Engine, effect: Withheld, _now: float) -> list[Effect]:
    return durability_gate.let_go(engine.sessions.get(effect.client_id), effect)


def _granted(engine: Engine, effect: Granted, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.granted(effect), now)


def _subscription_refused(engine: Engine, effect: SubscriptionRefused, now: float) -> list[Effect]:
    own = engine._rules.upstream.own_filter
    if engine.custody.is_refused(effect) or effect.topic_filter == own:
        return [effect]
    effects = engine.downlink.refused(effect)
    return effects[:1] + engine._perform(effects[1:], now)


_PERFORMERS: dict[type, Callable[[Engine, Any, float], list[Effect]]] = {
    Forward: lambda engine, forward, now: engine._take(forward, now),
    Bequeath: _bequeath,
    Refused: lambda engine, refused, now: engine.uplink.refused(refused, now),
    ConnectUpstream: lambda engine, asked, now: engine.upstream.connect(asked, now),
    ReleaseUpstream: lambda engine, release, _: engine.upstream.readings.recorded(release),
    Released: _released,
    StateChanged: Engine._state_changed,
    UpstreamUp: Engine._up,
    SubscribeTo: _subscribe,
    UnsubscribeFrom: _unsubscribe,
    Join: _joined,
    InGoodHands: _in_good_hands,
    CompleteUpstream: lambda engine, news, _: engine.upstream.complete(news),
    Kept: _kept,
    Withheld: _let_go,
    Admit: _admit,
    Granted: _granted,
    SubscriptionRefused: _subscription_refused,
    Save: Engine._save,
    WhenSaved: Engine._when_saved,
}

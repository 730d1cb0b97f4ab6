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
from gateway.core.acceptor import Acceptor
from gateway.core.clients.client_table import ClientTable
from gateway.core.clients.half_open import HalfOpenClients
from gateway.core.dispatch import Datagrams, Dispatcher
from gateway.core.downlink.downlink import Downlink
from gateway.core.downlink.retained import Retained
from gateway.core.effects import (
    ClientId,
    ConnectRecorded,
    ConnectSaved,
    DeliveryComplete,
    DeliverySaved,
    Effect,
    FinishRun,
    HeldFrames,
    KeptRecords,
    ProcessPauses,
    Publication,
    PublishWill,
    Reading,
    ReadingRefused,
    ReadingsAcknowledged,
    Reason,
    ReceiptRecorded,
    ReleaseRecorded,
    Save,
    Send,
    State,
    StateChanged,
    SubscribeTo,
    SubscriptionGranted,
    SubscriptionRefused,
    SubscriptionSaved,
    Transmit,
    UnsubscribeFrom,
    UpstreamReleaseSaved,
    UpstreamUp,
    WhenSaved,
)
from gateway.core.mqtt.session import MqttSession
from gateway.core.operator import Operator
from gateway.core.options import EngineOptions as EngineOptions
from gateway.core.session.session import Session
from gateway.core.state_records import Exchanges, StateRecords
from gateway.core.uplink.custody.custody import Custody
from gateway.core.uplink.pending_wills import PendingWills
from gateway.core.uplink.uplink import Uplink


class Engine:
    def __init__(self, options: EngineOptions, pauses: ProcessPauses | None = None) -> None:
        """`pauses`: what the clock leaves out by which `now` is given."""
        self.client_table = ClientTable()
        self.sessions = self.client_table.sessions
        self.upstream = MqttSession(options.upstream, pauses)
        self.received: dict[type, int] = {}  # frames, by kind
        self._options = options
        self._saves = options.saves
        self._pending_wills = pending_wills = PendingWills(self.upstream.readings.tag)
        self.custody = Custody(options.custody, self.upstream.readings.may_have_sent)
        if self.custody.is_on:
            self.upstream.subscriptions.want_always(self.custody.topic_filter)
        self.uplink = Uplink(
            sessions=self.sessions,
            upstream=self.upstream,
            options=options.uplink,
            pending_wills=pending_wills,
            perform=self._perform,
            custody=self.custody,
        )
        retained = Retained(options.retained_messages_max, options.retained_bytes_max)
        self.downlink = Downlink(
            sessions=self.sessions,
            upstream=self.upstream,
            retained=retained,
            options=options.session,
            schedule=self.client_table.schedule,
            answer=self._answer,
            saves=options.saves,
        )
        self._acceptor = Acceptor(
            options=options,
            client_table=self.client_table,
            downlink=self.downlink,
            perform=self._perform,
            answer=self._answer,
            received=self.received,
        )
        self.discovery = self._acceptor.discovery
        self.operator = Operator(
            sessions=self.sessions,
            acceptor=self._acceptor,
            uplink=self.uplink,
            downlink=self.downlink,
        )
        self._take = self.uplink.take
        self._dispatcher = Dispatcher(
            options=options,
            client_table=self.client_table,
            acceptor=self._acceptor,
            received=self.received,
            take=self._take,
            perform=self._perform,
            answer=self._answer,
        )

    # From a former life

    def restore(self, saved: StateRecords, now: float) -> list[Effect]:
        """What outlasts a restart beside readings; comes before `restore_readings`."""
        client_table, downlink, upstream = self.client_table, self.downlink, self.upstream
        effects = restore.restore(
            saved, client_table, downlink, upstream, self._acceptor.new_session, now
        )
        self._pending_wills.restore(saved.due_wills, now)
        self._acceptor.admission.restore(saved.permits)
        own_topic = self._options.upstream.own_topic_filter
        if own_topic is not None:
            effects += downlink.subscribe_own_topic(own_topic)
        return self._perform(effects, now)

    def restore_readings(
        self,
        queued: Mapping[ClientId, int],
        received: list[Reading],
        exchanges: Mapping[ClientId, Exchanges],
        last_packet_id: int,
        now: float,
        kept: Sequence[KeptRecords] = (),
    ) -> list[Effect]:
        """What the journal has; the sessions must be there already."""
        self.uplink.restore(queued, received, last_packet_id)
        effects = self.custody.restore(kept, now)
        effects += restore.restore_exchanges(exchanges, self.sessions, now)
        effects += self._pending_wills.received(received)
        return self._perform(effects, now)

    # From the sensors

    def receive(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """All that one look at a link brought, as (address, datagram) pairs."""
        return self._dispatcher.receive(link, datagrams, now)

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
            if type(effect) is ReadingsAcknowledged:  # nearly all there are, so they take no detour
                effects += self._acknowledged(effect.readings, now)
            elif type(effect) is Transmit:
                effects.append(effect)
            elif type(effect) is Publication:
                effects += _publication_received(self, effect, now)
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
    def is_congested(self) -> bool:
        return self.upstream.readings.is_congested

    def congested(self) -> None:
        """The shell's buffer to the broker is full: nothing more is sent until `uncongested`."""
        self.upstream.readings.is_congested = True

    def uncongested(self, now: float) -> list[Effect]:
        """There is room again."""
        self.upstream.readings.is_congested = False
        return self.uplink.uncongested(now)

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        """Unix milliseconds at the zero of the monotonic clock, for the time stamps of readings."""
        self.upstream.readings.unix_ms_at_zero = unix_ms_at_zero

    def sensors_closed(self, now: float) -> list[Effect]:
        """No sensor will be heard any more: what they might have acknowledged is saved."""
        return self._perform(self.downlink.save_late(), now)

    def stop(self, _now: float) -> list[Effect]:
        """Say goodbye to the broker."""
        return self.upstream.stop()

    # From the stores

    def stored(self, readings: list[Reading], now: float) -> list[Effect]:
        """These readings are in the journal, durably."""
        return self.uplink.stored(readings, now)

    def indeterminate(self, readings: list[Reading], reason: Reason, now: float) -> list[Effect]:
        """The journal could not take these, but the next life may find them there."""
        return self.uplink.indeterminate(readings, reason, now)

    def not_stored(self, readings: list[Reading], reason: Reason, now: float) -> list[Effect]:
        """The journal could not take these readings."""
        return self.uplink.not_stored(readings, reason, now)

    def dropped_oldest(self, dropped: Mapping[ClientId, int]) -> list[Effect]:
        """The journal gave up readings, so many of each client, to make room for new ones."""
        return self.uplink.dropped_oldest(dropped)

    def read_back(self, readings: list[Reading], now: float) -> list[Effect]:
        """The answer to `ReadBacklog`."""
        return self.uplink.read_back(readings, now)

    def in_reach_again(self, count: int) -> list[Effect]:
        """The journal can read so many parked readings that it could not reach for a while."""
        return self.uplink.in_reach_again(count)

    def read_again(self, readings: list[Reading], now: float) -> list[Effect]:
        """The answer to `ReadAgain`."""
        return self.uplink.read_again(readings, now)

    def durable(self, effects: list[Effect], now: float) -> list[Effect]:
        """What these waited for is durable."""
        return self._perform(effects, now)

    # Time

    def wake_at(self) -> float:
        """When `handle_time` is due, in the core's seconds; infinity for never."""
        # In pairs: compiled, that takes a tenth of what one call does.
        wake_at = min(self.upstream.wake_at(), self.uplink.wake_at())
        wake_at = min(wake_at, self.downlink.wake_at())
        wake_at = min(wake_at, self.client_table.wake_at())
        wake_at = min(wake_at, self._acceptor.half_open.due_at)
        wake_at = min(wake_at, self.discovery.due_at)
        wake_at = min(wake_at, self.custody.due_at)
        return min(wake_at, self._pending_wills.due_at)

    def paused(self, seconds: float, now: float) -> list[Effect]:
        """This process runs again since `now`, after `seconds` that its clock leaves out; comes
        before `handle_time`. Nobody is looked at: deadlines are extended where they are asked for.
        """
        self.client_table.returned_at = self._acceptor.half_open.returned_at = now
        self.discovery.paused(seconds, now)
        return self.upstream.paused(seconds, now)

    def handle_time(self, now: float) -> list[Effect]:
        effects = self.upstream.handle_time(now)
        effects += self.uplink.handle_time(now)
        effects += self.custody.handle_time(now)
        for will in self._pending_wills.offer(now):
            effects += self.uplink.take(will, now)
        effects += self._perform(self.downlink.handle_time(now), now)
        effects += self._acceptor.half_open.handle_time(now)
        effects += self.discovery.handle_time(now)
        returned_at = self.client_table.returned_at
        for session in self.client_table.due(now):
            effects += self._answer(session, session.handle_time(now, returned_at), now)
            self.client_table.schedule(session)
        return effects

    # From metrics and status

    def watch(self, hear: Callable[[Reading], None] | None) -> None:
        """Let `hear` see each reading as it is taken; None for nobody, which costs nothing."""
        take = self.uplink.take

        def watched(reading: Reading, now: float) -> list[Effect]:
            assert hear is not None
            hear(reading)
            return take(reading, now)

        self._take = self._dispatcher.take = take if hear is None else watched

    @property
    def half_open(self) -> HalfOpenClients:
        """New clients that have said nothing after CONNECT."""
        return self._acceptor.half_open

    @property
    def wills(self) -> PendingWills:
        """Of clients that are lost."""
        return self._pending_wills

    # What sessions and the upstream session ask for

    def _acknowledged(self, readings: list[Reading], now: float) -> list[Effect]:
        """What is in the journal is finished in runs, as it was sent in its order."""
        effects: list[Effect] = []
        self.uplink.spill.settled_at = now
        sessions, pending_wills, custody = self.sessions, self._pending_wills, self.custody
        storing = self.uplink.storing
        first = count = 0
        has_custody = custody.is_on
        for reading in readings:
            record = reading.record
            if record < 0 or reading in storing:  # else its session heard that it was stored
                session = sessions.get(reading.client_id)
                if session is not None:
                    effects += session.acknowledged(reading)
            if pending_wills.is_any:
                effects += self._perform(pending_wills.acknowledged(reading), now)
            if has_custody:
                effects += custody.acknowledged(reading, now)
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
        if len(asked) == 1 and type(asked[0]) is Reading:  # most of all there are
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
        self.client_table.leave_address(session)
        if session.clean:
            return [news, *self._acceptor.discard(session, now)]
        self.client_table.note_absence(session, now)
        return [news]

    def _upstream_up(self, news: UpstreamUp, now: float) -> list[Effect]:
        self.downlink.opened(now)
        self._pending_wills.opened(now)
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
        return durability_gate.hold(session, effects) if self._saves else effects


def _publish_will(engine: Engine, effect: PublishWill, now: float) -> list[Effect]:
    return engine._perform([*engine._pending_wills.begin(effect.will), effect.will], now)


def _release_recorded(engine: Engine, effect: ReleaseRecorded, now: float) -> list[Effect]:
    session = engine.sessions.get(effect.client_id)
    return [] if session is None else session.released(effect.message_id, now)


def _subscribe(engine: Engine, effect: SubscribeTo, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.subscribe(effect, now), now)


def _unsubscribe(engine: Engine, effect: UnsubscribeFrom, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.unsubscribe(effect), now)


def _subscription_saved(engine: Engine, effect: SubscriptionSaved, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.subscription_saved(effect.asked, now), now)


def _publication_received(engine: Engine, effect: Publication, now: float) -> list[Effect]:
    effects = engine.downlink.arrived(effect, now)
    if not engine._saves:
        effects = engine._perform(effects, now)
    if not engine.custody.is_on:
        return effects
    in_order = engine.upstream.readings.in_flight.in_order
    return engine.custody.arrived(effect, in_order, now) + effects


def _delivery_complete(engine: Engine, effect: DeliveryComplete, _now: float) -> list[Effect]:
    return engine.upstream.acknowledge(effect.publication)


def _delivery_saved(engine: Engine, effect: DeliverySaved, now: float) -> list[Effect]:
    session = engine.sessions.get(effect.client_id)
    if session is None:
        return []
    effects = session.kept(effect, now)
    engine.client_table.schedule(session)
    return engine._answer(session, effects, now)


def _connect_saved(engine: Engine, effect: ConnectSaved, now: float) -> list[Effect]:
    session = engine.sessions.get(effect.client_id)
    if session is None:
        return []
    effects = session.admitted(effect, now)
    engine.client_table.schedule(session)
    return engine._answer(session, effects, now)


def _release_held(engine: Engine, effect: HeldFrames, _now: float) -> list[Effect]:
    return durability_gate.let_go(engine.sessions.get(effect.client_id), effect)


def _subscription_granted(engine: Engine, effect: SubscriptionGranted, now: float) -> list[Effect]:
    return engine._perform(engine.downlink.granted(effect), now)


def _subscription_refused(engine: Engine, effect: SubscriptionRefused, now: float) -> list[Effect]:
    own = engine._options.upstream.own_filter
    if engine.custody.is_refused(effect) or effect.topic_filter == own:
        return [effect]
    effects = engine.downlink.refused(effect)
    return effects[:1] + engine._perform(effects[1:], now)


_PERFORMERS: dict[type, Callable[[Engine, Any, float], list[Effect]]] = {
    Reading: lambda engine, reading, now: engine._take(reading, now),
    PublishWill: _publish_will,
    ReadingRefused: lambda engine, refused, now: engine.uplink.refused(refused, now),
    ConnectRecorded: lambda engine, asked, now: engine.upstream.connect(asked, now),
    ReceiptRecorded: lambda engine, release, _: engine.upstream.readings.recorded(release),
    ReleaseRecorded: _release_recorded,
    StateChanged: Engine._state_changed,
    UpstreamUp: Engine._upstream_up,
    SubscribeTo: _subscribe,
    UnsubscribeFrom: _unsubscribe,
    SubscriptionSaved: _subscription_saved,
    DeliveryComplete: _delivery_complete,
    UpstreamReleaseSaved: lambda engine, news, _: engine.upstream.complete(news),
    DeliverySaved: _delivery_saved,
    HeldFrames: _release_held,
    ConnectSaved: _connect_saved,
    SubscriptionGranted: _subscription_granted,
    SubscriptionRefused: _subscription_refused,
    Save: Engine._save,
    WhenSaved: Engine._when_saved,
}

"""Carries what the links bring into the engine, and what the engine answers out to the links.

One input, one pass: all frames that one look at a socket brought are handled, then their packets
to the broker leave in one write and their answers in one batch; what must survive power loss goes
to the journal and to the state store, whose answers are inputs again. Everything runs on one loop,
so no lock is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Protocol, get_args

from gateway.core.addresses import PROTECTED_MARK, split
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Broadcast,
    DropUpstream,
    Durable,
    Effect,
    JournalWork,
    ReadingTaken,
    Save,
    Send,
    SendDatagram,
    Transmit,
    UpstreamEndExplained,
    UpstreamUp,
    WhenSaved,
)
from gateway.core.engine import Engine
from gateway.core.events import Output
from gateway.core.state_records import Change, ClientId, Exchanges, StateRecords
from gateway.core.values import KeptRecords, Reading
from gateway.frames import Forwarded, encode
from gateway.host.slow_callbacks import SLOW_S, Callback, SlowCallbacks
from gateway.transports.clock import look, now, pauses

# A quarter of what makes the broker link give up a connection that takes nothing, and what of it
# may be left when the engine goes on.
CLOGGED_BYTES = 4 << 20
UNCLOGGED_BYTES = 2 << 20

# A timer that rings later than this waits until what came to the sockets meanwhile was handled:
# turns of the loop, in which it reads each of them, and at most so long while there is more.
LATE_RING_S = 0.1
READ_FIRST_TURNS = 3
READ_FIRST_S_MAX = 1.0


class SensorLink(Protocol):
    """A link to sensors, as the shell needs it."""

    address_bytes: int  # of each of its own addresses

    def send_all(self, datagrams: list[tuple[bytes, bytes]]) -> None: ...


class Group(Protocol):
    """All who listen to the group of a link, as the shell needs them."""

    def send(self, datagram: bytes, radius: int) -> None: ...


class BrokerConnection(Protocol):
    """The link to the broker, as the shell needs it."""

    def write(self, chunks: list[bytes]) -> None: ...
    def drop(self, reason: str) -> None: ...
    def accepted(self) -> None: ...
    def explained(self) -> None: ...
    def progressed(self) -> None: ...
    @property
    def awaits_progress(self) -> bool: ...
    @property
    def unsent_bytes(self) -> int: ...


# Looked up here once, as an access to a member of an enum costs as much as a call.
_SENSORS, _BROKER, _JOURNAL = Callback.SENSORS, Callback.BROKER, Callback.JOURNAL
_JOURNAL_WORK = frozenset(get_args(JournalWork))


class JournalWriter(Protocol):
    """The journal, as the shell needs it."""

    def perform(self, work: list[JournalWork]) -> None: ...


class StateWriter(Protocol):
    """The state store, as the shell needs it."""

    def save(self, change: Change) -> None: ...
    def when_saved(self, then: list[Durable]) -> None: ...


class Shell:
    _links: Sequence[SensorLink]
    _broker: BrokerConnection
    _journal: JournalWriter
    _state: StateWriter

    def __init__(
        self, engine: Engine, record: Callable[[Effect], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.sent: dict[type, int] = {}  # frames, by kind
        self._groups: Mapping[int, Group] = {}  # by link
        self._also_record: Callable[[Effect], None] | None = None
        self._on_reading: Callable[[Reading], object] | None = None  # each, while wanted
        # Whether there is more in the sockets of the sensors.
        self._has_unread: Callable[[], bool] = bool
        self.slow = SlowCallbacks()
        self._engine = engine
        self._record = record
        self._loop = loop
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = inf
        self._rings_at = inf
        self._is_deaf = False
        self._reading_first: asyncio.Handle | None = None
        self._turns_left = 0
        self._read_until = 0.0
        self._pauses = pauses.count  # that the engine knows of
        self._stood_still_s = pauses.seconds

    # From the daemon, before the first input: those that in turn need the shell

    def connect_links(
        self,
        links: Sequence[SensorLink],
        groups: Mapping[int, Group],
        has_unread: Callable[[], bool],
    ) -> None:
        """`groups`: by link. `has_unread`: whether there is more in the sockets of the sensors."""
        self._links, self._groups, self._has_unread = links, groups, has_unread

    def connect_broker(self, broker: BrokerConnection) -> None:
        self._broker = broker

    def connect_stores(self, journal: JournalWriter, state: StateWriter) -> None:
        self._journal, self._state = journal, state

    def report_to(
        self,
        record: Callable[[Effect], None],
        on_reading: Callable[[Reading], object] | None,
    ) -> None:
        """Others who want what is recorded, and each reading while it is reported."""
        self._also_record, self._on_reading = record, on_reading

    # From the links

    def on_datagrams(self, link: int, datagrams: list[tuple[bytes, bytes]]) -> None:
        if not self._is_deaf:
            at, began = now(), monotonic()
            self._perform(self._engine.receive(link, datagrams, at), _SENSORS, began)

    def on_identity(self, link: int, address: bytes) -> None:
        """Another identity than before is at this address; comes before what it sends."""
        if not self._is_deaf:
            at, began = now(), monotonic()
            self._perform(self._engine.identity_changed(link, address, at), _SENSORS, began)

    def used_addresses(self, link: int) -> set[bytes]:
        """Of the link's own: those at which, or behind which, a client has a session."""
        address_bytes = self._links[link].address_bytes
        return {address[:address_bytes] for address in self._engine.client_table.on_link(link)}

    def on_group_datagrams(self, link: int, datagrams: list[tuple[bytes, bytes]]) -> None:
        if not self._is_deaf:
            at, began = now(), monotonic()
            self._perform(self._engine.receive_group(link, datagrams, at), _SENSORS, began)

    def on_group_joined(self, link: int) -> None:
        self._engine.discovery.joined(link, now())
        self._set_alarm()

    def on_line_opened(self, link: int) -> None:
        """A serial line, on which only sensors can be."""
        self._engine.discovery.joined(link, now(), hears=False)
        self._set_alarm()

    def on_group_left(self, link: int) -> None:
        self._engine.discovery.left(link)

    def on_open(self) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.opened(at), _BROKER, began)

    def on_bytes(self, data: bytes) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.receive_upstream(data, at), _BROKER, began)
        if self._broker.awaits_progress and self._engine.has_progressed:
            self._broker.progressed()

    def on_room(self) -> None:
        """The broker takes what was written, having taken nothing for a while."""
        if self._engine.is_congested and self._broker.unsent_bytes <= UNCLOGGED_BYTES:
            at, began = now(), monotonic()
            self._perform(self._engine.uncongested(at), _BROKER, began)

    def on_closed(self, _reason: str, by_broker: bool) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.closed(at, by_broker=by_broker), _BROKER, began)

    # From the journal and the state store

    def on_stored(self, readings: list[Reading]) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.stored(readings, at), _JOURNAL, began)

    def on_indeterminate(self, readings: list[Reading], reason: Reason) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.indeterminate(readings, reason, at), _JOURNAL, began)

    def on_not_stored(self, readings: list[Reading], reason: Reason) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.not_stored(readings, reason, at), _JOURNAL, began)

    def on_backlog(self, readings: list[Reading]) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.read_back(readings, at), _JOURNAL, began)

    def on_read_again(self, readings: list[Reading]) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.read_again(readings, at), _JOURNAL, began)

    def on_in_reach_again(self, count: int) -> None:
        began = monotonic()
        self._perform(self._engine.in_reach_again(count, now()), _JOURNAL, began)

    def on_dropped_oldest(self, dropped: dict[ClientId, int]) -> None:
        began = monotonic()
        self._perform(self._engine.dropped_oldest(dropped, now()), _JOURNAL, began)

    def on_durable(self, then: list[Durable]) -> None:
        at, began = now(), monotonic()
        self._perform(self._engine.durable(then, at), Callback.STATE, began)

    # From the daemon

    def restore(
        self,
        saved: StateRecords,
        queued: Mapping[ClientId, int],
        received: list[Reading],
        exchanges: Mapping[ClientId, Exchanges],
        last_packet_id: int,
        kept: Sequence[KeptRecords],
    ) -> None:
        """What a previous run left; before the first input."""
        engine, at = self._engine, now()
        self._perform(engine.restore(saved, at))
        self._perform(
            engine.restore_readings(queued, received, exchanges, last_packet_id, at, kept)
        )

    def on_asked(self, outputs: Sequence[Output]) -> Sequence[Effect]:
        """What came of a request of the operator; returns what was performed."""
        at, began = now(), monotonic()
        effects = self._engine.asked(outputs, at)
        self._perform(effects, Callback.OPERATOR, began)
        return effects

    def set_serving(self, problem: str | None) -> None:
        """Say whether a reading that comes now could be taken; `problem`: why not."""
        self.on_asked(self._engine.discovery.set_serving(problem, now()))

    def deafen(self) -> None:
        """Whatever sensors say from now on is lost, as on the air."""
        self._is_deaf = True
        self._perform(self._engine.sensors_closed(now()))

    def save_counters(self) -> None:
        """Nothing is sent to sensors any more: what is saved of protected packets is exact."""
        for change in self._engine.protection_changes(is_end=True):
            self._state.save(change)

    def stop(self) -> None:
        """Send DISCONNECT and set no more alarms."""
        self._perform(self._engine.stop(now()))
        if self._alarm is not None:
            self._alarm.cancel()
        if self._reading_first is not None:
            self._reading_first.cancel()

    # Effects

    def _perform(
        self, effects: list[Effect], callback: Callback = Callback.OPERATOR, began: float = inf
    ) -> None:
        """`callback`: what is measured since `began`; nothing before and after sensors are served,
        when nobody waits.
        """
        packets: list[bytes] = []
        work: list[JournalWork] = []
        kinds: list[type] = []
        datagrams: dict[int, list[tuple[bytes, bytes]]] = {}  # by link
        link, batch = -1, []
        drop_reason: str | None = None
        for effect in effects:
            if type(effect) is Send:
                frame, peer = effect.frame, effect.peer
                if peer.link != link:
                    link = peer.link
                    batch = datagrams.setdefault(link, [])
                batch.append((peer.address, encode(frame)))
                kinds.append(type(frame))
            elif type(effect) is SendDatagram:
                self._send({effect.peer.link: [(effect.peer.address, effect.datagram)]})
            elif type(effect) is Transmit:
                packets.append(effect.packet)
            elif type(effect) in _JOURNAL_WORK:
                work.append(effect)  # type: ignore[arg-type]
            elif type(effect) is DropUpstream:
                drop_reason = effect.reason
            else:
                self._keep_or_tell(effect)
        self._count(kinds)
        self._hand_over(work, packets)
        self._send(datagrams)
        if drop_reason is not None:
            self._broker.drop(drop_reason)
        self._set_alarm()
        if monotonic() - began > SLOW_S:  # here, as it is asked after each batch
            self.slow.ended(callback, began)

    def _hand_over(self, work: list[JournalWork], packets: list[bytes]) -> None:
        if work:
            self._journal.perform(work)
        if packets:
            self._write(packets)

    def _count(self, kinds: list[type]) -> None:
        """Frames that are sent. Mostly many of a kind follow each other, and are one access."""
        sent, count = self.sent, 0
        for index, kind in enumerate(kinds):
            count += 1
            if index + 1 == len(kinds) or kinds[index + 1] is not kind:
                sent[kind] = sent.get(kind, 0) + count
                count = 0

    def _send(self, datagrams: dict[int, list[tuple[bytes, bytes]]]) -> None:
        """`datagrams`: by link."""
        for number, batch in datagrams.items():
            link = self._links[number]
            address_bytes = link.address_bytes
            for address, _ in batch:
                if len(address) != address_bytes:  # protected, or to a node behind a forwarder
                    batch = self._on_the_air(batch, address_bytes)
                    break
            link.send_all(batch)

    def _on_the_air(
        self, batch: list[tuple[bytes, bytes]], address_bytes: int
    ) -> list[tuple[bytes, bytes]]:
        """As it is on the link: protected first, and then in the encapsulation of a forwarder. What
        the link cannot have as an address was left by a former configuration; nothing is there.
        """
        engine = self._engine
        engine.look_at_keys()
        found: list[tuple[bytes, bytes]] = []
        for address, datagram in batch:
            if len(address) != address_bytes and address[-1:] == PROTECTED_MARK:
                sealed = engine.sealed(address, datagram)
                if sealed is None:
                    continue
                address, datagram = sealed
            if len(address) != address_bytes:
                behind = split(address, address_bytes)
                if behind is None:
                    continue
                address, node_id = behind
                datagram = encode(Forwarded(node_id, datagram))
            found.append((address, datagram))
        for change in engine.protection_changes():
            self._state.save(change)
        return found

    def _keep_or_tell(self, effect: Effect) -> None:
        if type(effect) is Save:
            self._state.save(effect.change)
        elif type(effect) is Broadcast:
            self._broadcast(effect)
        elif type(effect) is ReadingTaken:
            if self._on_reading is not None:
                self._on_reading(effect.reading)
        elif type(effect) is WhenSaved:
            self._state.when_saved(effect.then)
        else:
            if type(effect) is UpstreamUp:
                self._broker.accepted()
            elif type(effect) is UpstreamEndExplained:
                self._broker.explained()
            self._record(effect)
            if self._also_record is not None:
                self._also_record(effect)

    def _broadcast(self, effect: Broadcast) -> None:
        self._groups[effect.link].send(encode(effect.frame), effect.radius)
        self._count([type(effect.frame)])

    def _write(self, packets: list[bytes]) -> None:
        self._broker.write(packets)
        if self._broker.unsent_bytes > CLOGGED_BYTES:
            self._engine.congested()

    # Time

    def _set_alarm(self) -> None:
        """One timer for everything; to ring too early costs a look, so only sooner ones count."""
        wake_at = self._engine.wake_at()
        if wake_at >= self._alarm_at or self._reading_first is not None:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        at = now()
        self._alarm_at, self._rings_at = wake_at, max(wake_at, at)
        self._alarm = self._loop.call_later(self._rings_at - at, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, inf
        if now() - self._rings_at <= LATE_RING_S and look() == self._pauses:
            self._handle_time()
            return
        self._turns_left = READ_FIRST_TURNS
        self._read_until = self._loop.time() + READ_FIRST_S_MAX
        self._reading_first = self._loop.call_soon(self._read_first)

    def _read_first(self) -> None:
        """What waits in the sockets counts before any timer: once the loop has read them all."""
        self._turns_left -= 1
        if self._turns_left > 0 or (self._has_unread() and self._loop.time() < self._read_until):
            self._reading_first = self._loop.call_soon(self._read_first)
            return
        self._reading_first = None
        self._handle_time()

    def _handle_time(self) -> None:
        self.look_for_pause()
        at, began = now(), monotonic()
        self._perform(self._engine.handle_time(at), Callback.TIMER, began)

    def look_for_pause(self) -> None:
        """Also each second, because there may be no timer; the broker is not to wait for one."""
        if look() == self._pauses:
            return
        seconds = pauses.seconds - self._stood_still_s
        self._pauses, self._stood_still_s = pauses.count, pauses.seconds
        self._perform(self._engine.paused(seconds, now()))

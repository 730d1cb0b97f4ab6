"""What the shell and the links are to the engine, in virtual time: performs its effects, keeps one
alarm, and connects to the broker again after a delay. Journal and committer are the production
ones, on a disk that outlives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import cast

from gateway.core.downlink.pending_subscriptions import BROKER_PATIENCE_S
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    DropUpstream,
    Durable,
    Effect,
    Finish,
    FinishRun,
    JournalWork,
    ReceiptRecorded,
    RecordConnect,
    Save,
    Send,
    Transmit,
    WhenSaved,
)
from gateway.core.engine import Engine, EngineOptions
from gateway.core.events import Output
from gateway.core.mqtt.session import Phase
from gateway.core.process_pauses import BEAT_S
from gateway.core.state_records import ClientId
from gateway.core.uplink.uplink import _Way
from gateway.core.values import Reading
from gateway.frames import encode
from gateway.storage.journal.committer import JournalCallbacks, JournalCommitter
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalState
from gateway.storage.state.committer import StateCommitter
from gateway.storage.worker import Jobs
from tests.simulation.agenda import Agenda
from tests.simulation.disk import JOURNAL, STATE, Disk
from tests.simulation.late_loop import LateLoop
from tests.simulation.model_broker import ModelBroker
from tests.simulation.stream import Connection, nothing
from tests.simulation.virtual_loop import VirtualLoop

RECONNECT_S_MAX = 5.0
GOODBYE_S = 2.0  # the broker has heard it by then, or never will
UNIX_MS_AT_ZERO = 1.8e12


class GatewayHost:
    """One life of a gateway, which ends with `kill` or `stop`."""

    def __init__(
        self,
        rules_for: Callable[[int], EngineOptions],
        agenda: Agenda,
        dice: Random,
        broker: ModelBroker,
        disk: Disk,
        stream_delay_s_max: float,
    ) -> None:
        """`rules_for`: by the epoch that this life gets."""
        self.engine: Engine
        self.options: EngineOptions
        self.journal: Journal
        self.on_said: Callable[[Send], None] = nothing
        self.on_octets: Callable[[bytes], None] = nothing
        self.on_step: Callable[[], None] = nothing
        self.on_news: Callable[[Effect], None] = nothing
        self.on_stored: Callable[[list[Reading]], None] = nothing
        # Beside the reading: whether it is on its way to the broker meanwhile.
        self.on_indeterminate: Callable[[Reading, bool], None] = nothing
        self.on_unstored: Callable[[list[Reading]], None] = nothing
        self.on_saved: Callable[[Save], None] = nothing
        self.on_disk: Callable[[str], None] = nothing
        self.on_unanswered: Callable[[], None] = nothing  # a connection ended before CONNACK
        self.connection: Connection | None = None
        self.send: Callable[[bytes, bytes], None] = nothing
        self.is_on = False
        self.journal_bytes_max = disk.budget_bytes
        self._is_stopping = False
        self._rules_for = rules_for
        self._agenda = agenda
        self._dice = dice
        self._broker = broker
        self._disk = disk
        self._stream_delay_s_max = stream_delay_s_max
        self.late = LateLoop(agenda)
        self.unix_ms_at_zero = UNIX_MS_AT_ZERO
        self.beats = False  # whether its loop may be late
        self._pauses, self._stood_still_s = 0, 0.0
        self._alarm_at = inf
        self._is_answered = False
        self._reported_at = -inf  # that something is wrong with the journal, last
        # Since when a subscription may have waited for the broker; None while none does.
        self._awaited_since: float | None = None
        # As received by the broker, on record before the last CONNECT and not yet again since.
        self._doubted: set[Reading] = set()

    # Lives

    def start(self, *, cut: bool = False) -> None:
        """Open what a former life left. Raises PowerCutError, if it is `cut`, and JournalError."""
        disk, agenda = self._disk, self._agenda
        store, saved, epoch = disk.open_state()
        self.options = self._rules_for(epoch)
        self.engine = Engine(self.options, self.late.pauses)
        self.engine.set_wall_clock(self.unix_ms_at_zero)
        now = self.late.machine_now()
        self.journal, recovered = disk.open_journal(now, self.unix_ms_at_zero, cut=cut)
        self.journal.pauses = self.late.pauses
        # What a larger budget has left is there until it is drained.
        self.journal_bytes_max = max(disk.budget_bytes, self.journal._room.bytes)
        self._loop = VirtualLoop(
            agenda,
            lambda: disk.job_s(agenda.now),
            self.late,
            lambda: disk.hung_until(JOURNAL),
        )
        callbacks = JournalCallbacks(
            stored=self._stored,
            indeterminate=self._unsure,
            not_stored=self._not_stored,
            durable=self._durable,
            backlog=self._read_back,
            read_again=self._read_again,
            dropped_oldest=self._dropped_oldest,
            state_changed=self._journal_changed,
            in_reach_again=self._in_reach_again,
            out_of_reach=self._out_of_reach,
            lost=self._lost_readings,
        )
        self._committer = JournalCommitter(
            journal=self.journal,
            loop=_as_loop(self._loop),
            callbacks=callbacks,
            thread=_as_jobs(self._loop),
            look_s=disk.look_s,
        )
        self._state_loop = VirtualLoop(
            agenda,
            lambda: disk.job_s(agenda.now),
            self.late,
            lambda: disk.hung_until(STATE),
        )
        self._state = StateCommitter(
            store=store,
            saved=saved,
            loop=_as_loop(self._state_loop),
            on_durable=self._durable,
            thread=_as_jobs(self._state_loop),
        )
        self.is_on = True
        self._awaited_since = now
        self.on_disk(f"restored {saved}")
        if self.beats:
            self._beat()
        self._perform(self.engine.restore(saved, now))
        restore = self.engine.restore_readings
        self._perform(
            restore(
                recovered.queued,
                recovered.received,
                recovered.exchanges,
                recovered.last_packet_id,
                now,
                recovered.kept,
            )
        )
        self.on_disk(f"recovered {recovered.report}, parked {recovered.queued}")
        self._reconnect()

    def kill(self) -> None:
        """The program is gone without a word; what it has written to the broker still arrives."""
        self._leave_unanswered()
        self._let_go_of_broker()
        self._end()
        self._disk.kill(self._loop.job, self._state_loop.job)

    def cut_power(self) -> None:
        """The machine is gone."""
        self._leave_unanswered()
        self._end()
        self._disk.cut_power(self._loop.job, self._state_loop.job)

    def stop(self, stopped: Callable[[], None]) -> None:
        """SIGTERM: goodbye to the broker, and what is pending to the disk."""
        self.late.go_on(timers_first=True)
        self._leave_unanswered()
        self._perform(self.engine.stop(self.late.now()))
        self._is_stopping = True
        if self.connection is not None:
            self._let_go_of_broker()
            self._perform(self.engine.closed(self.late.now(), by_broker=False))
        self._committer._is_stopping = True
        self._wind_down(stopped)

    def _leave_unanswered(self) -> None:
        """The next life may not know which session the broker has."""
        if self._doubted or (self.connection is not None and not self._is_answered):
            self.on_unanswered()

    def _let_go_of_broker(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.lost_at_gateway = connection.to_gateway.deliver = nothing
            self._agenda.after(GOODBYE_S, connection.sever)

    def _wind_down(self, stopped: Callable[[], None]) -> None:
        """What `stop` of both committers does, which needs a loop of asyncio."""
        if not self.is_on:
            return
        if self._committer._is_idle.is_set() and not self._committer._begin():
            if self._state_loop.job is None:
                self._state._ring()
            if self._state_loop.job is None:
                self.journal.close()
                self._end()
                stopped()
                return
        self._agenda.after(0.01, self._wind_down, stopped)

    def _end(self) -> None:
        self.is_on = self._loop.is_on = self._state_loop.is_on = False
        self.late.is_over = True
        if self.connection is not None:
            self.connection.lost_at_gateway = nothing
            self.connection.sever()
            self.connection = None

    def unfinished(self) -> list[str]:
        """What waits in the uplink and on the disk."""
        uplink = self.engine.uplink
        backlog = self.engine.upstream.publisher.in_flight.backlog
        counted = {
            "being stored": len(uplink.storing),
            "postponed": len(uplink._deferred),
            "parked": sum(backlog.of_clients.values()),
            "in the journal": self.journal.numbers.depth,
            "kept": self.engine.custody.kept.count,
        }
        return [f"{count} readings {what}" for what, count in counted.items() if count]

    @property
    def is_on_its_own(self) -> bool:
        """Whether subscriptions may be accepted without the broker: it has been waited for, or is
        gone without anyone here knowing.
        """
        if self.connection is not None and not self.connection.is_open:
            return True
        since = self._awaited_since
        return since is not None and self.late.now() >= since + BROKER_PATIENCE_S

    # From the network

    @property
    def is_listening(self) -> bool:
        return self.is_on and not self._is_stopping

    @property
    def is_disk_hung(self) -> bool:
        """Whether some calls to files do not return."""
        return self._disk.is_hung(self._agenda.now)

    def has_reported(self, since: float) -> bool:
        """Whether it has reported since then that something is wrong with the journal, or still
        does.
        """
        numbers = self.journal.numbers
        is_bad = numbers.state is not JournalState.OK or bool(numbers.backlog_problem)
        return is_bad or self._reported_at >= since

    def pause_drain(self, *, is_paused: bool) -> None:
        """The operator asks for it."""
        if self.is_listening:
            self.ask(self.engine.operator.pause_drain(is_paused=is_paused))

    def clog(self, *, is_congested: bool) -> None:
        """The broker takes nothing for a while, or takes again what is written."""
        if not self.is_listening or self.engine.upstream.phase is not Phase.UP:
            return
        if is_congested:
            self.engine.congested()
        elif self.engine.is_congested:
            self._perform(self.engine.uncongested(self.late.now()))

    def receive(self, address: bytes, datagram: bytes) -> None:
        if self.is_listening:
            self._perform(self.engine.receive(0, [(address, datagram)], self.late.now()))

    def _receive_upstream(self, octets: bytes) -> None:
        if self.is_listening:
            self._perform(self.engine.receive_upstream(octets, self.late.now()))
            self._is_answered |= self.engine.upstream.phase is Phase.UP

    def _reconnect(self) -> None:
        if not self.is_listening:
            return
        if not self._broker.up:
            self._try_later()
            return
        connection = Connection(self._agenda, self._dice, self._stream_delay_s_max)
        self.connection = connection
        self._is_answered = False
        connection.to_gateway.deliver = partial(self.late.arrive, self._receive_upstream)
        connection.lost_at_gateway = partial(self.late.arrive, self._lost)
        self._broker.accept(connection)
        self._perform(self.engine.opened(self.late.now()))

    def _lost(self, connection: Connection) -> None:
        if connection is not self.connection or not self.is_listening:
            return
        self.connection = None
        if not self._is_answered:
            self.on_unanswered()
        if self._awaited_since is None:
            self._awaited_since = self.late.now()
        # The gateway cannot tell a network that resets it from a broker that does.
        self._perform(self.engine.closed(self.late.now(), by_broker=True))
        self._try_later()

    def _try_later(self) -> None:
        delay_s = 0.1 + self._dice.random() * RECONNECT_S_MAX
        self._agenda.after(delay_s, self.late.timer, self._reconnect)

    # From the disk

    def _durable(self, effects: list[Durable]) -> None:
        readings = self.engine.upstream.publisher
        if readings.is_open:
            releases = [one for one in effects if isinstance(one, ReceiptRecorded)]
            current = [one for one in releases if one.connection == readings._connection]
            self._doubted -= {one.reading for one in current}
        self._perform(self.engine.durable(effects, self.late.now()))

    def _stored(self, readings: list[Reading]) -> None:
        self.on_disk(f"stored {_payloads(readings)}")
        self.on_stored(readings)
        self._perform(self.engine.stored(readings, self.late.now()))

    def _unsure(self, readings: list[Reading], reason: Reason) -> None:
        self.on_disk(f"unsure {_payloads(readings)}, {reason.value}")
        storing = self.engine.uplink.storing
        for reading in readings:
            self.on_indeterminate(reading, storing[reading] is _Way.SPILLED)
        self._perform(self.engine.indeterminate(readings, reason, self.late.now()))

    def _not_stored(self, readings: list[Reading], reason: Reason) -> None:
        self.on_disk(f"not stored {_payloads(readings)}, {reason.value}")
        self.on_unstored(readings)
        self._perform(self.engine.not_stored(readings, reason, self.late.now()))

    def _read_back(self, readings: list[Reading]) -> None:
        self.on_disk(f"read back {_payloads(readings)}")
        self._perform(self.engine.read_back(readings, self.late.now()))

    def _read_again(self, readings: list[Reading]) -> None:
        self.on_disk(f"read again {_payloads(readings)}")
        self._perform(self.engine.read_again(readings, self.late.now()))

    def _in_reach_again(self, count: int) -> None:
        self.on_disk(f"in reach again {count}")
        self._perform(self.engine.in_reach_again(count, self.late.now()))

    def _out_of_reach(self, count: int, problem: str) -> None:
        self._reported_at = self._agenda.now
        self.on_disk(f"out of reach {count} {problem}")

    def _lost_readings(self, count: int, _where: str) -> None:
        self._reported_at = self._agenda.now
        self.on_disk(f"lost {count}")

    def _dropped_oldest(self, dropped: dict[ClientId, int]) -> None:
        self._perform(self.engine.dropped_oldest(dropped, self.late.now()))

    def _journal_changed(self, state: JournalState, problem: str) -> None:
        if state is not JournalState.OK:
            self._reported_at = self._agenda.now
        self.on_disk(f"journal {state.value} {problem}")

    # Effects

    def ask(self, outputs: Sequence[Output]) -> None:
        """What came of a request of the operator."""
        self._perform(self.engine.asked(outputs, self.late.now()))

    def _perform(self, effects: list[Effect]) -> None:
        packets: list[bytes] = []
        work: list[JournalWork] = []
        drop = False
        for effect in effects:
            if isinstance(effect, Transmit):
                packets.append(effect.packet)
            elif isinstance(effect, DropUpstream):
                drop = True
            elif isinstance(effect, JournalWork):
                self._note_doubt(effect)
                work.append(effect)
            else:
                self._perform_one(effect)
        if work:
            self._committer.perform(work)
        connection = self.connection
        if connection is not None and packets:
            octets = b"".join(packets)
            self.on_octets(octets)
            connection.to_broker.write(octets)
        if connection is not None and drop:
            self._drop(connection)
        if self.engine.upstream.phase is Phase.UP and not self.engine.downlink.pending:
            self._awaited_since = None
        self.on_step()
        self._set_alarm()

    def _perform_one(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            if not self._is_stopping:
                self.on_said(effect)
                self.send(effect.peer.address, encode(effect.frame))
        elif isinstance(effect, Save):
            self.on_saved(effect)
            self._state.save(effect.change)
        elif isinstance(effect, WhenSaved):
            self._state.when_saved(effect.then)
        else:
            self.on_news(effect)

    def _note_doubt(self, effect: JournalWork) -> None:
        if isinstance(effect, RecordConnect):
            in_flight = self.engine.upstream.publisher.in_flight
            self._doubted = {one for one in in_flight.released.values() if one.record >= 0}
        elif isinstance(effect, FinishRun):
            run = range(effect.record, effect.record + effect.count)
            self._doubted = {one for one in self._doubted if one.record not in run}
        elif isinstance(effect, Finish):
            self._doubted.discard(effect.reading)

    def _drop(self, connection: Connection) -> None:
        connection.lost_at_gateway = nothing
        connection.sever()
        self._agenda.after(0.0, self.late.arrive, self._lost, connection)

    # Time

    def _set_alarm(self) -> None:
        wake_at = self.engine.wake_at()
        if wake_at < self._alarm_at:
            self._alarm_at = wake_at
            self.late.at_core(wake_at, self._ring, wake_at)

    def _ring(self, alarm_at: float) -> None:
        if not self.is_listening or alarm_at != self._alarm_at:
            return
        if self.late.is_reading:
            self.late.after_reading = self._handle_time
        else:
            self._handle_time()

    def _handle_time(self) -> None:
        if self.is_listening:
            self._alarm_at = inf
            self._look_for_pause()
            self._perform(self.engine.handle_time(self.late.now()))

    def _beat(self) -> None:
        if self.is_on:
            self.late.pauses.beat(self.late.machine_now())
            self._look_for_pause()
            self._agenda.after(BEAT_S, self.late.timer, self._beat)

    def _look_for_pause(self) -> None:
        found = self.late.pauses
        now = self.late.now()
        if found.count == self._pauses or self._is_stopping:
            return
        seconds = found.seconds - self._stood_still_s
        self._pauses, self._stood_still_s = found.count, found.seconds
        self._perform(self.engine.paused(seconds, now))

    # The machine

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        """As it is now, by the machine's monotonic clock."""
        self.unix_ms_at_zero = unix_ms_at_zero
        if self.is_on:
            self.engine.set_wall_clock(unix_ms_at_zero)
            self.journal.unix_ms_at_zero = unix_ms_at_zero


def _as_loop(loop: VirtualLoop) -> asyncio.AbstractEventLoop:
    return cast(asyncio.AbstractEventLoop, loop)


def _as_jobs(loop: VirtualLoop) -> Jobs:
    return cast(Jobs, loop)


def _payloads(readings: list[Reading]) -> str:
    return ", ".join(
        f"{one.payload[:8]!r} #{one.record} {one.epoch}/{one.sequence} id {one.packet_id}"
        for one in readings
    )

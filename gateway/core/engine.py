"""The gateway as a value: every input in, every effect out, no I/O.

Each input is a method call. The engine takes it to the part that it concerns, and what that part
returns is applied by `_apply`, in order: events (events.py) go to the part that they concern, and
what remains are the effects that the shell performs. Parts never call the engine.

A `Send` that comes after a `Save` in what a session answers to one frame waits until that is
durable (`WhenSaved`): so a session states by the order of its effects what its answer promises.

Limits: each where it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from gateway.core import durability_gate, restore
from gateway.core.acceptor import Acceptor
from gateway.core.clients.client_table import ClientTable
from gateway.core.clients.half_open import HalfOpenClients
from gateway.core.dispatch import Datagrams, Dispatcher
from gateway.core.downlink.downlink import Downlink
from gateway.core.downlink.retained import Retained
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    AsideSaved,
    Broadcast,
    ConnectRecorded,
    ConnectSaved,
    DeliveryComplete,
    DeliverySaved,
    DiscoveryChanged,
    Dropped,
    DropUpstream,
    Durable,
    Effect,
    Finish,
    FinishRun,
    HeldFrames,
    IdShared,
    KeepRecord,
    OwnTopicBlocked,
    OwnTopicReceived,
    OwnTopicRefused,
    PropertiesIgnored,
    ReadAgain,
    ReadBacklog,
    ReadingTaken,
    Rebound,
    ReceiptRecorded,
    RecordConnect,
    RecordReceived,
    RecordRelease,
    ReleaseRecorded,
    Save,
    Send,
    SendDatagram,
    SetAside,
    StateChanged,
    Store,
    SubscriptionRefused,
    SubscriptionSaved,
    Transmit,
    Unqueue,
    UpstreamEndExplained,
    UpstreamRefused,
    UpstreamReleaseSaved,
    UpstreamUp,
    WhenSaved,
)
from gateway.core.events import (
    FilterRefused,
    FormerOutput,
    NamesNumbered,
    Output,
    PublishWill,
    ReadingRefused,
    ReadingsAcknowledged,
    ReadingSetAside,
    SessionOutput,
    SubscriptionGranted,
    UnsubscribeFrom,
)
from gateway.core.message_expiry import ExpiryClock
from gateway.core.mqtt.session import MqttSession
from gateway.core.operator import Operator
from gateway.core.options import EngineOptions as EngineOptions
from gateway.core.process_pauses import ProcessPauses
from gateway.core.session.session import ABSENT, Session
from gateway.core.state_records import (
    Change,
    ClientId,
    Exchanges,
    ProtectionRecord,
    SessionRecord,
    State,
    StateRecords,
)
from gateway.core.topic_options import OptionsByTopic
from gateway.core.uplink.custody.custody import Custody
from gateway.core.uplink.pending_wills import PendingWills
from gateway.core.uplink.uplink import Uplink
from gateway.core.values import KeptRecords, Peer, Publication, Reading, SubscribeTo

if TYPE_CHECKING:  # imported only where there are keys
    from gateway.core.protection.protection import Protection, ProtectionOptions


def protection_of(options: EngineOptions) -> Protection | None:
    if options.protection is None:
        return None
    from gateway.core.protection.protection import Protection

    admission = options.admission
    return Protection(
        options.protection, admission.connects_per_s_max, admission.connects_at_once_max
    )


class Engine:
    """One gateway. `now` is in seconds of a clock that never goes back and is the same for all
    calls; bytes of a peer raise nothing. What a call returns is performed before the next call.
    """

    def __init__(self, options: EngineOptions, pauses: ProcessPauses | None = None) -> None:
        """`pauses`: what the clock leaves out by which `now` is given."""
        self.client_table = ClientTable(options.host_of, options.admission)
        self.sessions = self.client_table.sessions
        topic_options = OptionsByTopic(
            options.uplink.default,
            options.uplink.overrides,
            options.uplink.discovery_prefix,
            options.upstream.topic_prefix,
            options.uplink.command_within_s,
        )
        self.upstream = MqttSession(options.upstream, topic_options, pauses)
        self.received: dict[type, int] = {}  # frames, by kind
        self._options = options
        self._saves = options.saves
        self._reports_readings = False
        publisher = self.upstream.publisher
        self._pending_wills = PendingWills(publisher)
        self.custody = Custody(options.custody, topic_options, publisher)
        if self.custody.is_on:
            self.upstream.subscriptions.want_always(self.custody.topic_filter)
        self.uplink = Uplink(
            sessions=self.sessions,
            publisher=publisher,
            topic_options=topic_options,
            spill_after_s=options.uplink.spill_after_s,
            pending_wills=self._pending_wills,
            custody=self.custody,
        )
        self.downlink = Downlink(
            client_table=self.client_table,
            upstream=self.upstream,
            topic_options=topic_options,
            expiry_clock=ExpiryClock(pauses or ProcessPauses()),
            retained=Retained(options.retained_messages_max, options.retained_bytes_max),
            options=options.session,
            saves=options.saves,
        )
        self.protection = protection_of(options)
        self._unused_protection: list[ProtectionRecord] = []
        self._acceptor = Acceptor(
            options=options,
            client_table=self.client_table,
            downlink=self.downlink,
            received=self.received,
        )
        self._contests = self._acceptor.contests
        self.discovery = self._acceptor.discovery
        self.shared_ids = self._acceptor.shared_ids
        self.operator = Operator(
            sessions=self.sessions,
            acceptor=self._acceptor,
            uplink=self.uplink,
            downlink=self.downlink,
            access=options.session.access,
        )
        self._dispatcher = Dispatcher(
            options=options,
            client_table=self.client_table,
            acceptor=self._acceptor,
            received=self.received,
            protection=self.protection,
        )

    # Restore after a restart

    def restore(self, saved: StateRecords, now: float) -> list[Effect]:
        """What outlasts a restart beside readings; comes before `restore_readings`."""
        outputs = restore.restore(
            saved,
            self.client_table,
            self.downlink,
            self.upstream,
            self._acceptor,
            self._options,
            now,
        )
        self._pending_wills.restore(saved.due_wills, now)
        self.uplink.aside.restore(saved.aside)
        self._acceptor.admission.restore(saved.permits, saved.waiting)
        outputs += self.operator.end_forbidden()
        if self.protection is None:
            self._unused_protection = list(saved.protection)
        else:
            outputs += [Save(each) for each in self.protection.restore(saved.protection)]
        return self._apply(outputs, now)

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
        outputs = self.uplink.restore(queued, received, last_packet_id)
        outputs += self.custody.restore(kept, now)
        outputs += restore.restore_exchanges(exchanges, self.sessions, now)
        outputs += self._pending_wills.received(received)
        return self._apply(outputs, now)

    def begin_protection(self, options: ProtectionOptions) -> list[Output]:
        """The first device has a key; nothing is done where packets can be protected already. What
        an earlier run knew of counters counts, as at a start.
        """
        if self.protection is not None:
            return []
        protection = protection_of(replace(self._options, protection=options))
        assert protection is not None, "there are options"
        self.protection = protection
        self._dispatcher.use_protection(protection)
        return [Save(each) for each in protection.restore(self._unused_protection)]

    # From the sensors

    def receive(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """All that one look at a link brought, as (address, datagram) pairs. `address`: bytes of
        the caller's own, of one length for each link, which come back in `Send`.
        """
        dispatcher = self._dispatcher
        self.look_at_keys()
        datagrams, effects = dispatcher.admitted(link, datagrams, now)
        at_link = self.client_table.on_link(link)
        for address, datagram in datagrams:
            session = at_link.get(address)
            outputs = dispatcher.dispatch(link, address, datagram, session, now)
            effects += self._apply(outputs, now)
        effects += dispatcher.ended(link)
        return effects

    def receive_group(self, link: int, datagrams: Datagrams, now: float) -> list[Effect]:
        """What came by the group of a link; no session takes part in that."""
        return self._apply(self.discovery.receive(link, datagrams, now), now)

    def identity_changed(self, link: int, address: bytes, now: float) -> list[Effect]:
        """Another identity is at this address; comes before what it sends."""
        return self._apply(self._acceptor.end_foreign_at(Peer(link, address)), now)

    # From the broker

    def opened(self, now: float) -> list[Effect]:
        """The connection to the broker is there."""
        return self._apply(self.upstream.opened(now), now)

    def receive_upstream(self, data: bytes, now: float) -> list[Effect]:
        """Bytes from the broker, cut anywhere."""
        effects = self._apply(self.upstream.receive(data, now), now)
        if self.uplink.wants_more:
            effects += self._apply(self.uplink.read_more(), now)
        return effects

    def closed(self, now: float, *, by_broker: bool) -> list[Effect]:
        """The connection to the broker is gone, or did not come about. `by_broker`: it ended it."""
        effects = self._apply(self.upstream.closed(now, by_broker=by_broker), now)
        self.custody.closed()
        return effects + self._apply([*self.downlink.closed(now), *self.uplink.closed(now)], now)

    @property
    def has_progressed(self) -> bool:
        """Whether the broker has acknowledged a reading on this connection."""
        return self.upstream.publisher.has_progressed

    @property
    def is_congested(self) -> bool:
        """Between `congested` and `uncongested`."""
        return self.upstream.publisher.is_congested

    def congested(self) -> None:
        """The shell's buffer to the broker is full: nothing more is sent until `uncongested`."""
        self.upstream.publisher.congest()

    def uncongested(self, now: float) -> list[Effect]:
        """There is room again."""
        self.upstream.publisher.uncongest()
        return self._apply(self.uplink.uncongested(now), now)

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        """Unix milliseconds at the zero of the monotonic clock, for the time stamps of readings and
        for messages of a former run.
        """
        self.upstream.publisher.set_wall_clock(unix_ms_at_zero)
        self.downlink.set_wall_clock(unix_ms_at_zero)

    def set_memory_scarce(self, is_scarce: bool) -> None:
        """Nothing new is to be kept in memory that can be elsewhere."""
        self._acceptor.admission.is_memory_scarce = is_scarce
        self.uplink.spare_memory(is_scarce)

    def sensors_closed(self, now: float) -> list[Effect]:
        """Nothing is received from sensors any more: what they might have acknowledged is saved."""
        return self._apply(self.downlink.save_late(), now)

    def look_at_keys(self) -> None:
        """Once before `sealed`, for all that is to be sent at once."""
        if self.protection is not None:
            self.protection.look_at_keys()

    def sealed(self, address: bytes, datagram: bytes) -> tuple[bytes, bytes] | None:
        """For the address of a protected peer: where to send it, and in its envelope. None where
        its key is there no more.
        """
        return None if self.protection is None else self.protection.seal(address, datagram)

    def protection_changes(self, *, is_end: bool = False) -> list[Change]:
        """What is to be saved of counters, after what was sent; `is_end`: nothing more will be."""
        if self.protection is None:
            return []
        return self.protection.at_end() if is_end else self.protection.take_changes()

    def stop(self, now: float) -> list[Effect]:
        """DISCONNECT to the broker."""
        return self._apply(self.upstream.stop(), now)

    # From the stores

    def stored(self, readings: list[Reading], now: float) -> list[Effect]:
        """These readings are in the journal, durably."""
        return self._apply(self.uplink.stored(readings, now), now)

    def indeterminate(self, readings: list[Reading], reason: Reason, now: float) -> list[Effect]:
        """The journal could not take these, but may be found to have them after a restart."""
        return self._apply(self.uplink.indeterminate(readings, reason, now), now)

    def not_stored(self, readings: list[Reading], reason: Reason, now: float) -> list[Effect]:
        """The journal could not take these readings."""
        return self._apply(self.uplink.not_stored(readings, reason, now), now)

    def dropped_oldest(self, dropped: Mapping[ClientId, int], now: float) -> list[Effect]:
        """The journal gave up readings, so many of each client, to make room for new ones."""
        return self._apply(self.uplink.dropped_oldest(dropped), now)

    def read_back(self, readings: list[Reading], now: float) -> list[Effect]:
        """The answer to `ReadBacklog`."""
        return self._apply(self.uplink.read_back(readings, now), now)

    def in_reach_again(self, count: int, now: float) -> list[Effect]:
        """The journal can read so many queued readings that it could not reach for a while."""
        return self._apply(self.uplink.in_reach_again(count), now)

    def read_again(self, readings: list[Reading], now: float) -> list[Effect]:
        """The answer to `ReadAgain`."""
        return self._apply(self.uplink.read_again(readings, now), now)

    def durable(self, then: Sequence[Durable], now: float) -> list[Effect]:
        """What these waited for is durable."""
        return self._apply(then, now)

    # From the operator

    def asked(self, outputs: Sequence[Output], now: float) -> list[Effect]:
        """What came of a request to `operator` or `discovery`."""
        return self._apply(outputs, now)

    def report_readings(self, *, is_on: bool) -> None:
        """Whether each reading is reported as it comes (`ReadingTaken`)."""
        self._reports_readings = is_on

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
        before `handle_time`. No session is looked at: deadlines are extended where they are asked
        for.
        """
        self.client_table.paused(now)
        self._acceptor.half_open.paused(now)
        self.discovery.paused(seconds, now)
        self.downlink.paused()
        return self._apply(self.upstream.paused(seconds, now), now)

    def handle_time(self, now: float) -> list[Effect]:
        """All timers that are due: retries, silence, sleep, what the broker owes an answer to."""
        effects = self._apply(self.upstream.handle_time(now), now)
        effects += self._apply(self.uplink.handle_time(now), now)
        effects += self._apply(self.custody.handle_time(now), now)
        for will in self._pending_wills.offer(now):
            effects += self._apply(self.uplink.take(will, now), now)
        effects += self._apply(self.downlink.handle_time(now), now)
        effects += self._apply(self._acceptor.half_open.handle_time(now), now)
        effects += self._apply(self.discovery.handle_time(now), now)
        returned_at = self.client_table.returned_at
        formers = self.client_table.formers
        for session in self.client_table.due(now):
            outputs = session.handle_time(now, returned_at)
            if formers and formers.get(session.client_id) is session:
                effects += self._apply_former(FormerOutput(session.client_id, outputs), now)
            else:
                effects += self._apply_session(session, outputs, now)
        return effects

    # From metrics and status

    @property
    def half_open(self) -> HalfOpenClients:
        """New clients that have sent nothing after CONNECT."""
        return self._acceptor.half_open

    @property
    def wills(self) -> PendingWills:
        """Of clients that are lost."""
        return self._pending_wills

    # What the parts return

    def _apply(self, outputs: Sequence[Output], now: float) -> list[Effect]:  # noqa: C901, PLR0915
        """Take events to the parts that they concern, and return the effects, in order.

        The kinds stand in the order of how many there are.
        """
        effects: list[Effect] = []
        for output in outputs:
            match output:
                case Send() | Transmit() | Store() | Dropped():
                    effects.append(output)
                case Save():
                    if self._saves and not self._contests.is_unsaved(output.change):
                        effects.append(output)
                case Reading():
                    effects += self._take(output, now)
                case ReadingsAcknowledged():
                    effects += self._apply(self.uplink.acknowledged(output.readings, now), now)
                case Publication():
                    effects += self._publication_received(output, now)
                case FinishRun() | Finish() | KeepRecord() | Unqueue():
                    effects.append(output)
                case (
                    DeliveryComplete()
                    | HeldFrames()
                    | ConnectSaved()
                    | DeliverySaved()
                    | ReleaseRecorded()
                    | SubscriptionSaved()
                    | ConnectRecorded()
                    | ReceiptRecorded()
                    | UpstreamReleaseSaved()
                    | AsideSaved()
                ):
                    effects += self._durable(output, now)
                case SessionOutput():
                    session = self.sessions[output.client_id]
                    effects += self._apply_session(session, output.outputs, now)
                case FormerOutput():
                    effects += self._apply_former(output, now)
                case WhenSaved():
                    if self._saves:
                        effects.append(output)
                    else:
                        effects += self._apply(output.then, now)
                case StateChanged():
                    effects.append(self._contests.seen(output))
                    effects += self._state_changed(output, now)
                case UpstreamUp():
                    effects.append(output)
                    effects += self._upstream_up(output, now)
                case ReadingRefused():
                    effects += self._apply(self.uplink.refused(output, now), now)
                case NamesNumbered():
                    effects += self._apply(self._acceptor.names_numbered(output.client_id), now)
                case ReadingSetAside():
                    effects += self._apply(self.uplink.set_aside(output, now), now)
                case PublishWill():
                    saved = self._pending_wills.begin(output.will)
                    effects += self._apply([*saved, output.will], now)
                case SubscribeTo():
                    effects += self._apply(self.downlink.subscribe(output, now), now)
                case UnsubscribeFrom():
                    effects += self._apply(self.downlink.unsubscribe(output), now)
                case SubscriptionGranted():
                    effects += self._apply(self.downlink.granted(output, now), now)
                case FilterRefused():
                    effects += self._filter_refused(output, now)
                case (
                    SendDatagram()
                    | Broadcast()
                    | DropUpstream()
                    | RecordConnect()
                    | RecordReceived()
                    | RecordRelease()
                    | ReadBacklog()
                    | ReadAgain()
                    | Rebound()
                    | IdShared()
                    | UpstreamRefused()
                    | UpstreamEndExplained()
                    | OwnTopicBlocked()
                    | OwnTopicRefused()
                    | SetAside()
                    | PropertiesIgnored()
                    | SubscriptionRefused()
                    | DiscoveryChanged()
                    | OwnTopicReceived()
                    | ReadingTaken()
                ):
                    effects.append(output)
                case _:
                    assert_never(output)
        return effects

    def _take(self, reading: Reading, now: float) -> list[Effect]:
        """A reading to the uplink."""
        outputs = self.uplink.take(reading, now)
        if self._reports_readings:
            return [ReadingTaken(reading), *self._apply(outputs, now)]
        if len(outputs) == 1:
            only = outputs[0]
            if type(only) is Transmit or type(only) is Store:  # nearly always
                return [only]
        return self._apply(outputs, now)

    def _apply_session(
        self, session: Session, outputs: Sequence[Output], now: float
    ) -> list[Effect]:
        """What a session returned. Frames in it that promise what is not durable yet are held."""
        effects = self._apply(outputs, now)
        if self._saves:
            effects = durability_gate.hold(session, effects)
        self.client_table.schedule(session)
        return effects

    def _apply_former(self, output: FormerOutput, now: float) -> list[Effect]:
        """What a former session returned, which is saved as that of a client that is there."""
        effects: list[Effect] = []
        is_same_device = self._contests.has_same_will(output.client_id)
        for each in output.outputs:
            match each:
                case Save(change=SessionRecord(state=State.LOST)) if self._contests.holds_will(
                    output.client_id
                ):
                    pass  # after a restart it is to be found lost again, with its will
                case Save():
                    effects += [each] if self._saves else []
                case StateChanged():
                    if not is_same_device:  # else it is not lost, but elsewhere
                        effects.append(each)
                    effects += self._apply(self._acceptor.former_moved(each.client_id, now), now)
                case PublishWill() if is_same_device:
                    self._contests.hold_will(output.client_id)
                case _:
                    effects += self._apply([each], now)
        former = self.client_table.formers.get(output.client_id)
        if former is not None:
            self.client_table.schedule(former)
        return effects

    def _durable(self, output: Durable, now: float) -> list[Effect]:  # noqa: C901
        """What was waited for is durable."""
        match output:
            case DeliveryComplete():
                return self._apply(self.upstream.acknowledge(output.publication), now)
            case HeldFrames():
                session = self.sessions.get(output.client_id)
                return [*durability_gate.let_go(session, output)]
            case ConnectSaved():
                session = self.sessions.get(output.client_id)
                if session is None:
                    return []
                return self._apply_session(session, session.admitted(output, now), now)
            case DeliverySaved():
                former = self.client_table.formers.get(output.client_id)
                effects: list[Effect] = []
                if former is not None and output.position < former.outbound.next_position:
                    kept = FormerOutput(output.client_id, former.kept(output, now))
                    effects = self._apply_former(kept, now)
                    if not self.sessions[output.client_id].is_continued:
                        return effects
                session = self.sessions.get(output.client_id)
                if session is None:
                    return effects
                return effects + self._apply_session(session, session.kept(output, now), now)
            case ReleaseRecorded():
                session = self.sessions.get(output.client_id)
                if session is None:
                    return []
                former = self.client_table.formers.get(output.client_id)
                if former is not None and not session.is_continued:
                    is_former = former.inbound.is_releasing(output.message_id)
                    session = former if is_former else session
                return self._apply(session.released(output.message_id, now), now)
            case SubscriptionSaved():
                return self._apply(self.downlink.subscription_saved(output.asked, now), now)
            case ConnectRecorded():
                return self._apply(self.upstream.connect(output, now), now)
            case ReceiptRecorded():
                return self._apply(self.upstream.publisher.recorded(output), now)
            case UpstreamReleaseSaved():
                return self._apply(self.upstream.complete(output), now)
            case AsideSaved():
                return self._apply(self.uplink.aside_saved(output.reading), now)
            case _:
                assert_never(output)

    def _state_changed(self, output: StateChanged, now: float) -> list[Effect]:
        """A client that left has no address; a clean session ends with its connection."""
        if output.after not in ABSENT:
            return []
        session = self.sessions[output.client_id]
        self.client_table.leave_address(session)
        contest = self._contests.of(output.client_id)
        if contest is not None:
            held = self._contests.left(contest, in_order=output.after is State.DISCONNECTED)
            effects = self._apply(self._acceptor.discard(session), now)
            if held is not None:
                effects += self._apply([PublishWill(held.reading(output.client_id, now))], now)
            if contest.is_will_due:
                effects += self._apply_session(contest.former, contest.former.row_again(), now)
            return effects
        if session.clean:
            return self._apply(self._acceptor.discard(session), now)
        self.client_table.note_absence(session, now)
        return []

    def _upstream_up(self, output: UpstreamUp, now: float) -> list[Effect]:
        self.downlink.opened(now)
        self._pending_wills.opened(now)
        self.custody.opened(session_present=output.session_present, now=now)
        return self._apply(self.uplink.opened(), now)

    def _publication_received(self, publication: Publication, now: float) -> list[Effect]:
        outputs = self.downlink.arrived(publication, now)
        if self.custody.is_on:
            return self._apply([*self.custody.arrived(publication, now), *outputs], now)
        return self._apply(outputs, now)

    def _filter_refused(self, output: FilterRefused, now: float) -> list[Effect]:
        is_own = output.topic_filter in self.upstream.subscriptions.own
        if self.custody.is_refused(output) or is_own:
            return [SubscriptionRefused(output.topic_filter, output.reason)]
        return self._apply(self.downlink.refused(output), now)

"""From the sensors to the broker: what a reading needs before it is acknowledged, and its way on.

A reading is acknowledged by whichever has it first, as its topic's rules allow: the broker, or the
journal. Its ways, by name:

- **straight**: to the broker at once, acknowledged when the broker has. With `auto` a QoS 1 reading
  that is unacknowledged for too long (spill.py), or when the connection breaks, is *spilled*:
  written to the journal as well, and the first of the two acknowledges it.
- **stored first**: QoS 2, and QoS 1 with `journal`: to the broker only when it is durable, or a
  crash would let its sensor send it a second time, under another tag.
- **queued on disk**: stored, and kept nowhere else, because the broker is away or others of its
  client are: it is read back in its turn (mqtt/backlog.py).

Rule 1: nothing of a client overtakes what it sent before, whatever way either takes, on the disk
        as well: it is read back in the order in which it was written. A QoS 0 reading follows
        those that are being stored, and is queued on disk behind those that are queued on disk.
Rule 2: without the journal (full, or failing) the broker alone must acknowledge; while it is away
        too, sensors receive congestion. What a failed write may have left there all the same is
        held before that (indeterminate_writes.py), and what its client sends next is refused.
Rule 3: what was acknowledged is not given up because the broker will not have it just now: it is
        offered again (deferred.py).
Rule 4: what is kept until it is ingested (custody/) is stored first, whatever its QoS above 0.
Rule 5: what was acknowledged and the broker refuses for good, and what it ends the connection for,
        is set aside (aside.py). What would be refused is refused before it is stored, so that a
        QoS 2 reading is not completed first.

Full: the journal by its budget; readings in memory by `inflight.py`. Beyond `OVERFLOW` readings
waiting in memory, all that follow are queued on disk until the backlog is gone. QoS 0 readings
behind one that is being stored by `qos0_order.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from math import inf

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Finish, FinishRun, ReadBacklog, Store, Transmit, Unqueue
from gateway.core.events import Output, ReadingRefused, ReadingSetAside
from gateway.core.mqtt.caution import reading_key
from gateway.core.mqtt.publisher import Publisher
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId
from gateway.core.topic_options import Acknowledge, OptionsByTopic, ReadingOptions
from gateway.core.topic_options import UplinkOptions as UplinkOptions
from gateway.core.uplink.aside import Aside
from gateway.core.uplink.custody.custody import Custody
from gateway.core.uplink.deferred import Deferred
from gateway.core.uplink.indeterminate_writes import IndeterminateWrites
from gateway.core.uplink.pending_wills import PendingWills
from gateway.core.uplink.qos0_order import Qos0Order
from gateway.core.uplink.spill import Spill, not_overtaken
from gateway.core.values import Reading
from gateway.frames import ReturnCode

OVERFLOW = 10_000
OVERFLOW_SCARCE = 1  # the same while memory is scarce


class _Way(Enum):
    """What becomes of a reading when it is durable."""

    PASS_ON = "to the broker"
    PARKED = "nothing, until it is read back"
    SPILLED = "nothing, it is on its way"


# To find a member in its class costs ten times what a name does.
_PASS_ON = _Way.PASS_ON
_PARKED = _Way.PARKED
_SPILLED = _Way.SPILLED


class Uplink:
    def __init__(
        self,
        *,
        sessions: Mapping[ClientId, Session],
        publisher: Publisher,
        topic_options: OptionsByTopic,
        spill_after_s: float,
        pending_wills: PendingWills,
        custody: Custody,
    ) -> None:
        self.taken = [0, 0, 0]  # readings, by QoS
        self._overflow = OVERFLOW  # compiled, a name of the module is looked up each time
        self._sessions = sessions
        self._publisher = publisher
        self._in_flight = publisher.in_flight
        self._backlog = publisher.in_flight.backlog
        self._options = topic_options
        self.spill = Spill(spill_after_s)
        self._pending_wills = pending_wills
        self._custody = custody
        self.storing: dict[Reading, _Way] = {}  # what becomes of them when they are durable
        self._indeterminate = IndeterminateWrites()  # of these, those that are stored again
        self._qos0_order = Qos0Order()
        self._storing_of = self._qos0_order.storing
        self._deferred = Deferred(self._in_flight)
        self.aside = Aside()
        self._caution = publisher.caution
        self._is_overflowing = False

    def spare_memory(self, is_scarce: bool) -> None:
        """While it is scarce, what could not go to the broker at once goes to the disk."""
        self._overflow = OVERFLOW_SCARCE if is_scarce else OVERFLOW

    # From the sessions

    def take(self, reading: Reading, now: float) -> list[Output]:
        """A reading: carry it to the broker, or keep it until that can be done."""
        qos = reading.qos
        self.taken[qos] += 1
        options = self._options.of(reading.topic)
        if self._caution.has_blocked and self._publisher.is_blocked(reading, now):
            return self.refused(self._publisher.blocked(reading), now)
        if (  # nearly always, so it takes no detour
            options.goes_straight[qos]
            and self._publisher.is_open
            and not (self._storing_of or self._backlog.of_clients or self._is_overflowing)
        ):
            if qos and options.spills and self.spill.due_at == inf:
                self.spill.expect(now)
            sent = self._publisher.publish(reading)
            return [sent] if type(sent) is Transmit else self._kept(reading, sent, now)
        if options.is_refused:
            return self._refuse(reading, Reason.RESERVED_TOPIC, now)
        if self._is_overflowing:
            self._end_overflow()
        if qos == 0:
            return self._take_qos_0(reading, options, now)
        if options.acknowledge is Acknowledge.UPSTREAM:
            return self._pass_on(reading, now)
        if options.goes_straight[qos] and self._publisher.is_open and not self._is_behind(reading):
            self.spill.expect(now)
            return self._pass_on(reading, now)
        return self._store_first(reading, now)

    # From the journal

    def restore(
        self, queued: Mapping[ClientId, int], received: list[Reading], last_packet_id: int
    ) -> list[Output]:
        """What the journal has at the start. What was set aside before a crash is finished."""
        self._backlog.restore(queued)
        known = [reading for reading in received if self.aside.has(reading)]
        received = [reading for reading in received if not self.aside.has(reading)]
        self._publisher.restore(received, last_packet_id)
        return [*map(Finish, known)]

    def stored(self, readings: list[Reading], now: float) -> list[Output]:
        """These are durable: acknowledge them, and let those go on that waited for it."""
        effects: list[Output] = []
        sessions, ways = self._sessions, self.storing
        for reading in readings:
            session = sessions.get(reading.client_id)
            if session is not None and reading.qos:
                effects += session.acknowledged(reading)
            if self._pending_wills.is_any:
                effects += self._pending_wills.acknowledged(reading)
            if self._indeterminate.is_any:
                self._indeterminate.let_go(reading)
            if self.aside.is_sending:
                effects += self.aside.stored(reading)
            way = ways.pop(reading)
            if way is _PASS_ON:
                effects += self._pass_on(reading, now, ahead=self._is_before_queued(reading))
                effects += self._let_follow(reading, now)
            elif way is _PARKED:
                effects += self._queued(reading, now)
        return effects + self.read_more()

    def indeterminate(self, readings: list[Reading], reason: Reason, now: float) -> list[Output]:
        """The write of these failed, and the disk may have them all the same."""
        effects: list[Output] = []
        for reading in readings:
            reading.record = -1
            if not self._hold(reading, now):
                effects += self._go_without(reading, reason, now)[1]
        return effects

    def not_stored(self, readings: list[Reading], reason: Reason, now: float) -> list[Output]:
        """These could not be written: the broker must acknowledge them, or sensors keep them."""
        effects: list[Output] = []
        refused: list[Reading] = []
        if reason is Reason.JOURNAL_FULL:
            effects += self._custody.make_room()
        for reading in readings:
            if reading in self._indeterminate:
                effects += self.indeterminate([reading], reason, now)
                continue
            reading.record = -1
            is_refused, answer = self._go_without(reading, reason, now)
            effects += answer
            if is_refused and reading not in self._pending_wills:
                refused.append(reading)
        for reading in reversed(refused):
            self._publisher.give_back(reading)
        return effects

    def read_back(self, readings: list[Reading], now: float) -> list[Output]:
        """Readings queued on disk, in order; none when the journal has no more."""
        self._backlog.read_back(readings)
        if not self.aside.tags:
            return self._pump(now)
        known = [reading for reading in readings if self.aside.has(reading)]
        self._backlog.leave_out(known)
        return [*map(Finish, known), *self._pump(now)]

    def read_again(self, readings: list[Reading], now: float) -> list[Output]:
        """Readings that the broker has taken and nobody ingested."""
        going, effects = self._custody.read_again(readings, now)
        return effects + [each for one in going for each in self._pass_on(one, now)]

    def in_reach_again(self, count: int) -> list[Output]:
        """So many readings on disk can be read back, whose file could not be opened before."""
        self._backlog.in_reach_again(count)
        return self.read_more()

    def dropped_oldest(self, dropped: Mapping[ClientId, int]) -> list[Output]:
        """The journal gave up readings queued on disk to make room for new ones."""
        for client_id, count in dropped.items():
            self._backlog.drop(client_id, count)
        return [
            Dropped(Reason.JOURNAL_FULL, client_id, "the oldest, to make room", count=count)
            for client_id, count in dropped.items()
        ]

    # From the upstream session

    def opened(self) -> list[Output]:
        """The broker is there, and what it had not acknowledged goes out again."""
        return self.read_more()

    def uncongested(self, now: float) -> list[Output]:
        """What waits may be written again."""
        return self._pump(now)

    def closed(self, now: float) -> list[Output]:
        """The broker is away: what it has not acknowledged is kept."""
        self._deferred.offer()
        self.spill.rest()
        return self._spill(self._spillable())

    @property
    def wants_more(self) -> bool:
        """Whether there is room for more of the backlog."""
        return self._backlog.wants_more

    def acknowledged(self, readings: list[Reading], now: float) -> list[Output]:
        """The broker has these for good. What is in the journal is finished in runs, as it was
        sent in its order.
        """
        outputs = self.aside.acknowledged(readings)
        self.spill.settled_at = now
        sessions, pending_wills, custody = self._sessions, self._pending_wills, self._custody
        storing = self.storing
        first = count = 0
        has_custody = custody.is_on
        for reading in readings:
            record = reading.record
            if record < 0 or reading in storing:  # else it was acknowledged when it was stored
                session = sessions.get(reading.client_id)
                if session is not None:
                    outputs += session.acknowledged(reading)
            if pending_wills.is_any:
                outputs += pending_wills.acknowledged(reading)
            if has_custody:
                outputs += custody.acknowledged(reading, now)
            elif record == first + count:
                count += 1
            elif record >= 0:
                if count:
                    outputs.append(FinishRun(first, count))
                first, count = record, 1
        if count:
            outputs.append(FinishRun(first, count))
        return outputs

    def read_more(self) -> list[Output]:
        """Ask for readings queued on disk while there is room for them."""
        if not self._publisher.is_open or not self._backlog.wants_more:
            return []
        self._backlog.is_reading = True
        return [ReadBacklog()]

    def refused(self, news: ReadingRefused, now: float) -> list[Output]:
        """The broker will not have a reading."""
        reading = news.reading
        dropped = Dropped(news.reason, reading.client_id, news.detail)
        is_final = news.return_code != ReturnCode.CONGESTION
        if is_final and reading in self._pending_wills:  # no sensor is there to be refused
            return self.set_aside(ReadingSetAside(reading, news.detail), now)
        if reading.record < 0 or reading in self.storing:
            return [dropped, *self._tell(reading, news.return_code, now), *self._finished(reading)]
        if news.return_code == ReturnCode.CONGESTION and self._deferred.take(reading, now):
            return [Dropped(news.reason, reading.client_id, news.detail, count=0)]
        return self._set_aside(reading, news.detail)

    def set_aside(self, news: ReadingSetAside, now: float) -> list[Output]:
        """The broker ends the connection for a reading. A sensor that waits for it is refused, and
        an operator can see it all the same.
        """
        reading = news.reading
        if self.aside.is_sending and self.aside.not_stored(reading):
            return []  # it is there still
        outputs = self._set_aside(reading, news.detail)
        if reading.record < 0 or reading in self.storing:
            detail = f"{reading.topic!r}: {news.detail}"
            outputs.append(Dropped(Reason.BROKER_REFUSED, reading.client_id, detail))
            outputs += self._tell(reading, ReturnCode.NOT_SUPPORTED, now)
        return outputs

    def _set_aside(self, reading: Reading, reason: str) -> list[Output]:
        return self.aside.take(reading, reason, self._publisher.unix_ms_now(reading))

    def aside_saved(self, reading: Reading) -> list[Output]:
        """It is durable there."""
        return self._finished(reading)

    # From the operator

    def send_aside(self, number: int, now: float) -> list[Output] | None:
        """Send a reading once more that was set aside; it stays there until the journal has it.
        None if it is not there.
        """
        reading = self.aside.send_again(number, now)
        if reading is None:
            return None
        self._caution.forgive(reading_key(reading))
        if reading.epoch in (0, self._publisher.epoch):  # its time stamp is made of that
            reading.received_at = min(now, self._publisher.came_at(reading.unix_ms))
        else:
            reading.machine_at = -1.0
        return [*self._store_first(reading, now), *self._pump(now)]

    def pause_drain(self, *, is_paused: bool) -> list[Output]:
        """Leave what is queued on disk where it is, or let it go on; what was read back goes on
        anyway.
        """
        self._backlog.is_paused = is_paused
        return self.read_more()

    # Time

    def wake_at(self) -> float:
        wake_at = min(self.spill.due_at, self._deferred.offer_at)
        return min(wake_at, self._indeterminate.store_at)

    def handle_time(self, now: float) -> list[Output]:
        effects: list[Output] = []
        if now >= self.spill.due_at:
            effects += self._spill(self.spill.take_due(self._spillable(), now))
        if now >= self._deferred.offer_at:
            self._deferred.offer()
            effects += self._pump(now)
        for reading in self._indeterminate.due(now):
            effects.append(Store(reading, is_queued=self.storing[reading] is _PARKED))
        return effects

    # Ways

    def _is_behind(self, reading: Reading) -> bool:
        """Whether others of its client, taken before it, are not on their way yet."""
        client_id = reading.client_id
        if self._is_overflowing or client_id in self._storing_of:
            return True
        return client_id in self._backlog.of_clients

    def _is_before_queued(self, reading: Reading) -> bool:
        """Of one that was being stored: others of its client came while the broker was away."""
        return reading.client_id in self._backlog.of_clients

    def _take_qos_0(self, reading: Reading, options: ReadingOptions, now: float) -> list[Output]:
        wanted = options.stores_qos_0
        if not self._publisher.is_open:
            wanted = wanted or options.stores_qos_0_offline
        elif reading.client_id in self._backlog.of_clients:
            # Of a topic that is never stored nothing is queued on disk that it could overtake.
            is_never_stored = options.acknowledge is Acknowledge.UPSTREAM
            wanted = wanted or not is_never_stored or options.stores_qos_0_offline
        if wanted:
            return self._store_first(reading, now)
        if reading.client_id not in self._storing_of or not self._publisher.is_open:
            return self._pass_on(reading, now)
        if self._qos0_order.follow(reading):
            return []
        return [Dropped(Reason.UNSETTLED_FULL, reading.client_id)]

    def _store_first(self, reading: Reading, now: float) -> list[Output]:
        client_id = reading.client_id
        if self._indeterminate.is_any and self._indeterminate.has_of(
            client_id
        ):  # it would overtake them
            return self._refuse(reading, Reason.JOURNAL_FAILED, now)
        refused = None if reading.epoch else self._publisher.too_large(reading)
        if refused is not None:
            return self.refused(refused, now)
        if not reading.epoch:
            self._publisher.tag(reading)
        session = self._sessions.get(client_id)
        older = [] if session is None else session.unacknowledged_but(reading)
        before = self._spill(filter(self._may_spill, older)) if older else []
        if (
            self._publisher.is_open
            and not self._is_overflowing
            and client_id not in self._backlog.of_clients
        ):
            self.storing[reading] = _PASS_ON
            self._qos0_order.begin(reading)
            return [*before, Store(reading)]
        self.storing[reading] = _PARKED
        self._backlog.enqueue(client_id)
        return [*before, Store(reading, is_queued=True)]

    def _queued(self, reading: Reading, now: float) -> list[Output]:
        """If none is queued on disk before it, it goes on as it is: to read it back costs twice as
        much.
        """
        backlog, waiting = self._backlog, self._in_flight.waiting
        may_go = self._publisher.is_open and not backlog.is_paused and len(waiting) < self._overflow
        if may_go and backlog.is_drained:
            backlog.not_queued(reading.client_id)
            return [Unqueue(reading.record), *self._pass_on(reading, now, ahead=True)]
        coalesce = self._options.of(reading.topic).coalesce_retained
        backlog.queued(reading, coalesce=coalesce)
        return []

    def _pass_on(self, reading: Reading, now: float, *, ahead: bool = False) -> list[Output]:
        sent = self._publisher.publish(reading, ahead=ahead or self._is_overflowing)
        if type(sent) is not Transmit:
            return self._kept(reading, sent, now)
        if reading.qos == 0 and reading.record >= 0:
            return [sent, Finish(reading)]  # nothing will say that it arrived
        return [sent]

    def _kept(self, reading: Reading, sent: Output | None, now: float) -> list[Output]:
        """The reading did not go out: it waits in memory, or it will not go."""
        if sent is None:
            outputs = self._pump(now) if self._caution.is_on else []
            if not self._is_overflowing and len(self._in_flight.waiting) >= self._overflow:
                self._begin_overflow()
            return outputs
        if type(sent) is ReadingRefused:
            return self.refused(sent, now)
        return [sent, *self._finished(reading)]

    def _hold(self, reading: Reading, now: float) -> bool:
        """Whether it shall be stored again: not a QoS 1 reading that may go on instead, nor one
        that is on its way already.
        """
        if self.storing[reading] is _SPILLED:
            return False
        may_go = reading.qos < 2 and self._may_do_without(reading)
        return not may_go and self._indeterminate.hold(reading, now)

    def _go_without(
        self, reading: Reading, reason: Reason, now: float
    ) -> tuple[bool, list[Output]]:
        """Without the journal (Rule 2); and whether it is refused."""
        self._indeterminate.let_go(reading)
        way = self.storing.pop(reading)
        if way is _SPILLED:
            self.spill.failed(now)
            return False, []
        if way is _PARKED:
            self._backlog.not_queued(reading.client_id)
        may_go = self._may_do_without(reading)
        effects = self._pass_on(reading, now) if may_go else self._refuse(reading, reason, now)
        return not may_go, effects + self._let_follow(reading, now)

    def _may_do_without(self, reading: Reading) -> bool:
        """Rule 2: the broker is there, and nothing of its client is overtaken."""
        client_id = reading.client_id
        if not self._publisher.is_open or client_id in self._backlog.of_clients:
            return False
        return self._qos0_order.is_first(reading)

    def _refuse(self, reading: Reading, reason: Reason, now: float) -> list[Output]:
        dropped = Dropped(reason, reading.client_id, reading.topic)
        is_hopeless = reason in (Reason.PAYLOAD_TOO_LARGE, Reason.RESERVED_TOPIC)
        code = ReturnCode.NOT_SUPPORTED if is_hopeless else ReturnCode.CONGESTION
        return [dropped, *self._tell(reading, code, now)]

    def _let_follow(self, reading: Reading, now: float) -> list[Output]:
        """The reading went on, or never will: those that waited behind it may go."""
        effects: list[Output] = []
        for follower in self._qos0_order.end(reading):
            effects += self._pass_on(follower, now, ahead=self._is_before_queued(follower))
        return effects

    def _begin_overflow(self) -> None:
        """The broker cannot follow: from now on everything goes through the journal, in order."""
        self._is_overflowing = True
        self._in_flight.put_ahead()

    def _end_overflow(self) -> None:
        """All that was queued on disk has gone on, and memory has room again."""
        if self._backlog.is_drained and len(self._in_flight.waiting) < self._overflow:
            self._is_overflowing = False

    # What is spilled

    def _spill(self, readings: Iterable[Reading]) -> list[Output]:
        due = list(readings)
        if due:
            held = [*self._in_flight.unacknowledged(), *self.storing]
            due = not_overtaken(due, held, self._backlog.of_clients)
        self.storing.update(dict.fromkeys(due, _SPILLED))
        return [Store(reading) for reading in due]

    def _spillable(self) -> Iterator[Reading]:
        """All that neither the broker has acknowledged nor the disk has, the oldest first."""
        return filter(self._may_spill, self._in_flight.unacknowledged())

    def _may_spill(self, reading: Reading) -> bool:
        if reading.qos == 0 or reading.record >= 0 or reading in self.storing:
            return False
        if self._in_flight.is_released(reading):
            return False  # the record would say that the broker has not received it
        return self._options.of(reading.topic).acknowledge is not Acknowledge.UPSTREAM

    # The backlog

    def _pump(self, now: float) -> list[Output]:
        return self._publisher.pump(now) + self.read_more()

    # What ends

    def _tell(self, reading: Reading, return_code: int, now: float) -> list[Output]:
        if self.aside.is_sending and self.aside.not_stored(reading):
            return []
        if reading in self._pending_wills:
            return self._pending_wills.refused(reading, return_code, now)
        session = self._sessions.get(reading.client_id)
        if session is None or reading.qos == 0:
            return []
        return session.refused(reading, return_code)

    def _finished(self, reading: Reading) -> list[Output]:
        return [Finish(reading)] if reading.record >= 0 else []

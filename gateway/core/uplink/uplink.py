"""From the sensors to the broker: what a reading needs before it is acknowledged, and its way on.

A reading is acknowledged by whichever has it first, as its topic's rules allow: the broker, or the
journal. Its ways, by name:

- **straight**: to the broker at once, acknowledged when settled. With `auto` a QoS 1 reading that
  is unsettled for too long (spill.py), or when the connection breaks, is *spilled*: written to
  the journal as well, and whoever is first acknowledges it.
- **stored first**: QoS 2, and QoS 1 with `journal`: to the broker only when it is durable, or a
  crash would let its sensor send it a second time, under another tag.
- **parked**: stored, and kept nowhere else, because the broker is away or others of its client are
  parked: it is read back in its turn (mqtt/backlog.py).

Rule 1: nothing of a client overtakes what it sent before, whatever way either takes, on the disk
        as well: it is read back in the order in which it was written. A QoS 0 reading follows
        those that are being stored, and is parked behind those that are parked.
Rule 2: without the journal (full, or failing) the broker alone must settle; while it is away too,
        sensors are told: congestion. What a failed write may have left there all the same is
        held before that (indeterminate_writes.py), and what its client sends next is refused.
Rule 3: what was acknowledged is not given up because the broker will not have it just now: it is
        offered again (deferred.py).
Rule 4: what is kept until it is ingested (custody/) is stored first, whatever its QoS above 0.

Full: the journal by its budget; readings in memory by `inflight.py`. Beyond `OVERFLOW` readings
waiting in memory, all that follow are parked until the backlog is gone. QoS 0 readings behind one
that is being stored by `qos0_order.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from math import inf

from gateway.core.effects import (
    ClientId,
    Dropped,
    Effect,
    Finish,
    Forward,
    ReadBacklog,
    Reason,
    Refused,
    Store,
    Transmit,
    Unpark,
)
from gateway.core.mqtt.session import UpstreamSession
from gateway.core.session.session import Session
from gateway.core.uplink.custody.custody import Custody
from gateway.core.uplink.deferred import Postponed
from gateway.core.uplink.indeterminate_writes import Unsure
from gateway.core.uplink.pending_wills import Bequests
from gateway.core.uplink.policy import Acknowledge, ReadingRules, RulesByTopic
from gateway.core.uplink.policy import UplinkRules as UplinkRules
from gateway.core.uplink.qos0_order import Followers
from gateway.core.uplink.spill import Spilling, not_overtaken
from gateway.frames import ReturnCode

OVERFLOW = 10_000


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
        sessions: Mapping[ClientId, Session],
        upstream: UpstreamSession,
        rules: UplinkRules,
        bequests: Bequests,
        perform: Callable[[list[Effect], float], list[Effect]],
        custody: Custody,
    ) -> None:
        self.taken = [0, 0, 0]  # readings, by QoS
        self._overflow = OVERFLOW  # compiled, a name of the module is looked up each time
        self._sessions = sessions
        self._readings = upstream.readings
        self._in_flight = upstream.readings.in_flight
        self._backlog = upstream.readings.in_flight.backlog
        self._readings.objection = self._objection
        self._rules = RulesByTopic(rules.default, rules.overrides)
        self.spilling = Spilling(rules.spill_after_s)
        self._bequests = bequests
        self._perform = perform
        self._custody = custody
        self._custody.keeps = lambda topic: self._rules.of(topic).keeps
        self.storing: dict[Forward, _Way] = {}  # what becomes of them when they are durable
        self._unsure = Unsure()  # of these, those that are stored again
        self._followers = Followers()
        self._storing_of = self._followers.storing
        self._postponed = Postponed(self._in_flight.wait_again)
        self._is_overflowing = False

    # From the sessions

    def take(self, forward: Forward, now: float) -> list[Effect]:
        """A reading: carry it to the broker, or keep it until that can be done."""
        qos = forward.qos
        self.taken[qos] += 1
        rules = self._rules.of(forward.topic)
        if (  # nearly always, so it takes no detour
            rules.goes_straight[qos]
            and self._readings.is_open
            and not (self._storing_of or self._backlog.of_clients or self._is_overflowing)
        ):
            if qos and rules.spills and self.spilling.due_at == inf:
                self.spilling.expect(now)
            sent = self._readings.publish(forward)
            return [sent] if type(sent) is Transmit else self._kept(forward, sent, now)
        if rules.is_refused:
            return self._refuse(forward, Reason.RESERVED_TOPIC, now)
        if self._is_overflowing:
            self._end_overflow()
        if qos == 0:
            return self._take_qos_0(forward, rules, now)
        if rules.acknowledge is Acknowledge.UPSTREAM:
            return self._pass_on(forward, now)
        if rules.goes_straight[qos] and self._readings.is_open and not self._is_behind(forward):
            self.spilling.expect(now)
            return self._pass_on(forward, now)
        return self._store_first(forward, now)

    # From the journal

    def restore(
        self, parked: Mapping[ClientId, int], received: list[Forward], last_packet_id: int
    ) -> None:
        """What a former life left in the journal."""
        self._backlog.restore(parked)
        self._readings.restore(received, last_packet_id)

    def stored(self, forwards: list[Forward], now: float) -> list[Effect]:
        """These are durable: acknowledge them, and let those go on that waited for it."""
        effects: list[Effect] = []
        sessions, ways = self._sessions, self.storing
        for forward in forwards:
            session = sessions.get(forward.client_id)
            if session is not None and forward.qos:
                effects += session.settled(forward)
            if self._bequests.is_any:
                effects += self._bequests.settled(forward)
            if self._unsure.is_any:
                self._unsure.let_go(forward)
            way = ways.pop(forward)
            if way is _PASS_ON:
                effects += self._pass_on(forward, now, ahead=self._is_before_parked(forward))
                effects += self._let_follow(forward, now)
            elif way is _PARKED:
                effects += self._parked(forward, now)
        return effects + self.read_more()

    def unsure(self, forwards: list[Forward], reason: Reason, now: float) -> list[Effect]:
        """The write of these failed, and the disk may have them all the same."""
        effects: list[Effect] = []
        for forward in forwards:
            forward.record = -1
            if not self._hold(forward, now):
                effects += self._go_without(forward, reason, now)[1]
        return effects

    def not_stored(self, forwards: list[Forward], reason: Reason, now: float) -> list[Effect]:
        """These could not be written: the broker must settle them, or their sensors keep them."""
        effects: list[Effect] = []
        refused: list[Forward] = []
        if reason is Reason.JOURNAL_FULL:
            effects += self._custody.make_room()
        for forward in forwards:
            if forward in self._unsure:
                effects += self.unsure([forward], reason, now)
                continue
            forward.record = -1
            is_refused, answer = self._go_without(forward, reason, now)
            effects += answer
            if is_refused and forward not in self._bequests:
                refused.append(forward)
        for forward in reversed(refused):
            self._readings.give_back(forward)
        return effects

    def read_back(self, forwards: list[Forward], now: float) -> list[Effect]:
        """Parked readings, in order; none when the journal has no more."""
        self._backlog.read_back(forwards)
        return self._pump(now)

    def read_again(self, forwards: list[Forward], now: float) -> list[Effect]:
        """Readings that the broker has taken and nobody ingested."""
        going, effects = self._custody.read_again(forwards, now)
        return effects + [each for one in going for each in self._pass_on(one, now)]

    def in_reach_again(self, count: int) -> list[Effect]:
        """So many parked readings can be read back, whose file could not be opened before."""
        self._backlog.in_reach_again(count)
        return self.read_more()

    def dropped_oldest(self, dropped: Mapping[ClientId, int]) -> list[Effect]:
        """The journal gave up parked readings to make room for new ones."""
        for client_id, count in dropped.items():
            self._backlog.drop(client_id, count)
        return [
            Dropped(Reason.JOURNAL_FULL, client_id, "the oldest, to make room", count=count)
            for client_id, count in dropped.items()
        ]

    # From the upstream session

    def opened(self) -> list[Effect]:
        """The broker is there, and what it had not settled goes out again."""
        return self.read_more()

    def unclogged(self, now: float) -> list[Effect]:
        """What waits may be written again."""
        return self._pump(now)

    def closed(self, now: float) -> list[Effect]:
        """The broker is away: what it has not settled is kept."""
        self._postponed.offer()
        self.spilling.rest()
        return self._spill(self._spillable())

    def read_more(self) -> list[Effect]:
        """Ask for parked readings while there is room for them."""
        if not self._readings.is_open or not self._backlog.wants_more:
            return []
        self._backlog.is_reading = True
        return [ReadBacklog()]

    def refused(self, news: Refused, now: float) -> list[Effect]:
        """The broker will not have a reading."""
        forward = news.forward
        dropped = Dropped(news.reason, forward.client_id, news.detail)
        if forward.record < 0 or forward in self.storing:
            return [dropped, *self._tell(forward, news.return_code, now), *self._finished(forward)]
        if news.return_code == ReturnCode.CONGESTION and self._postponed.take(forward, now):
            return [Dropped(news.reason, forward.client_id, news.detail, count=0)]
        return [dropped, *self._finished(forward)]

    # From the operator

    def pause_drain(self, *, is_paused: bool) -> list[Effect]:
        """Leave what is parked where it is, or let it go on; what was read back goes on anyway."""
        self._backlog.is_paused = is_paused
        return self.read_more()

    # Time

    def wake_at(self) -> float:
        wake_at = min(self.spilling.due_at, self._postponed.offer_at)
        return min(wake_at, self._unsure.store_at)

    def handle_time(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if now >= self.spilling.due_at:
            effects += self._spill(self.spilling.take_due(self._spillable(), now))
        if now >= self._postponed.offer_at:
            self._postponed.offer()
            effects += self._pump(now)
        for forward in self._unsure.due(now):
            effects.append(Store(forward, is_parked=self.storing[forward] is _PARKED))
        return effects

    # Ways

    def _is_behind(self, forward: Forward) -> bool:
        """Whether others of its client, taken before it, are not on their way yet."""
        client_id = forward.client_id
        if self._is_overflowing or client_id in self._storing_of:
            return True
        return client_id in self._backlog.of_clients

    def _is_before_parked(self, forward: Forward) -> bool:
        """Of one that was being stored: others of its client came while the broker was away."""
        return forward.client_id in self._backlog.of_clients

    def _take_qos_0(self, forward: Forward, rules: ReadingRules, now: float) -> list[Effect]:
        wanted = rules.stores_qos_0
        if not self._readings.is_open:
            wanted = wanted or rules.stores_qos_0_offline
        elif forward.client_id in self._backlog.of_clients:
            # Of a topic that is never stored nothing is parked that it could overtake.
            is_never_stored = rules.acknowledge is Acknowledge.UPSTREAM
            wanted = wanted or not is_never_stored or rules.stores_qos_0_offline
        if wanted:
            return self._store_first(forward, now)
        if forward.client_id not in self._storing_of or not self._readings.is_open:
            return self._pass_on(forward, now)
        if self._followers.follow(forward):
            return []
        return [Dropped(Reason.UNSETTLED_FULL, forward.client_id)]

    def _store_first(self, forward: Forward, now: float) -> list[Effect]:
        client_id = forward.client_id
        if self._unsure.is_any and self._unsure.has_of(client_id):  # it would overtake them
            return self._refuse(forward, Reason.JOURNAL_FAILED, now)
        if not forward.epoch:
            self._readings.tag(forward)
        session = self._sessions.get(client_id)
        older = [] if session is None else session.unsettled_but(forward)
        before = self._spill(filter(self._may_spill, older)) if older else []
        if (
            self._readings.is_open
            and not self._is_overflowing
            and client_id not in self._backlog.of_clients
        ):
            self.storing[forward] = _PASS_ON
            self._followers.begin(forward)
            return [*before, Store(forward)]
        self.storing[forward] = _PARKED
        self._backlog.park(client_id)
        return [*before, Store(forward, is_parked=True)]

    def _parked(self, forward: Forward, now: float) -> list[Effect]:
        """If none is parked before it, it goes on as it is: to read it back costs twice as much."""
        backlog, waiting = self._backlog, self._in_flight.waiting
        may_go = self._readings.is_open and not backlog.is_paused and len(waiting) < self._overflow
        if may_go and backlog.is_drained:
            backlog.not_parked(forward.client_id)
            return [Unpark(forward.record), *self._pass_on(forward, now, ahead=True)]
        coalesce = self._rules.of(forward.topic).coalesce_retained
        backlog.parked(forward, coalesce=coalesce)
        return []

    def _pass_on(self, forward: Forward, now: float, *, ahead: bool = False) -> list[Effect]:
        sent = self._readings.publish(forward, ahead=ahead or self._is_overflowing)
        if type(sent) is not Transmit:
            return self._kept(forward, sent, now)
        if forward.qos == 0 and forward.record >= 0:
            return [sent, Finish(forward)]  # nothing will say that it arrived
        return [sent]

    def _kept(self, forward: Forward, sent: Effect | None, now: float) -> list[Effect]:
        """The reading did not go out: it waits in memory, or it will not go."""
        if sent is None:
            if not self._is_overflowing and len(self._in_flight.waiting) >= self._overflow:
                self._begin_overflow()
            return []
        if type(sent) is Refused:
            return self.refused(sent, now)
        return [sent, *self._finished(forward)]

    def _hold(self, forward: Forward, now: float) -> bool:
        """Whether it shall be stored again: not a QoS 1 reading that may go on instead, nor one
        that is on its way already.
        """
        if self.storing[forward] is _SPILLED:
            return False
        may_go = forward.qos < 2 and self._may_do_without(forward)
        return not may_go and self._unsure.hold(forward, now)

    def _go_without(
        self, forward: Forward, reason: Reason, now: float
    ) -> tuple[bool, list[Effect]]:
        """Without the journal (Rule 2); and whether it is refused."""
        self._unsure.let_go(forward)
        way = self.storing.pop(forward)
        if way is _SPILLED:
            self.spilling.failed(now)
            return False, []
        if way is _PARKED:
            self._backlog.not_parked(forward.client_id)
        may_go = self._may_do_without(forward)
        effects = self._pass_on(forward, now) if may_go else self._refuse(forward, reason, now)
        return not may_go, effects + self._let_follow(forward, now)

    def _may_do_without(self, forward: Forward) -> bool:
        """Rule 2: the broker is there, and nothing of its client is overtaken."""
        client_id = forward.client_id
        if not self._readings.is_open or client_id in self._backlog.of_clients:
            return False
        return self._followers.is_first(forward)

    def _refuse(self, forward: Forward, reason: Reason, now: float) -> list[Effect]:
        dropped = Dropped(reason, forward.client_id, forward.topic)
        is_hopeless = reason in (Reason.PAYLOAD_TOO_LARGE, Reason.RESERVED_TOPIC)
        code = ReturnCode.NOT_SUPPORTED if is_hopeless else ReturnCode.CONGESTION
        return [dropped, *self._tell(forward, code, now)]

    def _let_follow(self, forward: Forward, now: float) -> list[Effect]:
        """The reading went on, or never will: those that waited behind it may go."""
        effects: list[Effect] = []
        for follower in self._followers.end(forward):
            effects += self._pass_on(follower, now, ahead=self._is_before_parked(follower))
        return effects

    def _begin_overflow(self) -> None:
        """The broker cannot follow: from now on everything goes through the journal, in order."""
        self._is_overflowing = True
        self._in_flight.put_ahead()

    def _end_overflow(self) -> None:
        """All that was parked has gone on, and memory has room again."""
        if self._backlog.is_drained and len(self._in_flight.waiting) < self._overflow:
            self._is_overflowing = False

    # What is spilled

    def _spill(self, forwards: Iterable[Forward]) -> list[Effect]:
        due = list(forwards)
        if due:
            held = [*self._in_flight.unsettled(), *self.storing]
            due = not_overtaken(due, held, self._backlog.of_clients)
        self.storing.update(dict.fromkeys(due, _SPILLED))
        return [Store(forward) for forward in due]

    def _spillable(self) -> Iterator[Forward]:
        """All that the broker has not settled and no disk has or shall have, the oldest first."""
        return filter(self._may_spill, self._in_flight.unsettled())

    def _may_spill(self, forward: Forward) -> bool:
        if forward.qos == 0 or forward.record >= 0 or forward in self.storing:
            return False
        if self._in_flight.is_released(forward):
            return False  # the record would say that the broker has not received it
        return self._rules.of(forward.topic).acknowledge is not Acknowledge.UPSTREAM

    # The backlog

    def _pump(self, now: float) -> list[Effect]:
        return self._perform(self._readings.pump(now), now) + self.read_more()

    def _objection(self, forward: Forward, now: float) -> Reason | None:
        """Why a reading that waited in the journal is not worth sending any more."""
        if forward.upstream_qos:  # the broker may have half of it
            return None
        rules = self._rules.of(forward.topic)
        if rules.expiry_s and self._readings.age_s(forward, now) > rules.expiry_s:
            return Reason.EXPIRED
        if rules.coalesce_retained and self._backlog.is_outdated(forward, self._readings.epoch):
            return Reason.COALESCED
        return None

    # What ends

    def _tell(self, forward: Forward, return_code: int, now: float) -> list[Effect]:
        if forward in self._bequests:
            return self._bequests.refused(forward, return_code, now)
        session = self._sessions.get(forward.client_id)
        if session is None or forward.qos == 0:
            return []
        return session.refused(forward, return_code)

    def _finished(self, forward: Forward) -> list[Effect]:
        return [Finish(forward)] if forward.record >= 0 else []

"""Readings that stay in the journal until an ingest says that it has them (`keep_until_ingested`).

A broker acknowledges and may lose all the same: with its disk, by a limit of its queues, or for
want of a subscriber. So a reading that it has taken is *kept* until a receipt (receipts.py) says
that it is ingested.

Rule 1: a receipt ends nothing but what the broker has taken. Whatever it says, the gateway is never
        worse off than one that keeps nothing.
Rule 2: a receipt for what was never given to the broker is believed in nothing.
Rule 3: a reading is sent again when it looks lost, not when the ingest is slow or away: if the
        ingest lives (`ALIVE_S`), and either has something that the broker took `timeout_s` later,
        or has had nothing of ours for that long; at once if the broker lost its sessions. Each time
        it waits twice as long, because what nobody ingests must not be sent for ever.
Rule 4: what is sent again has its delivery tag, and is neither retained nor QoS 2: it is old news
        for all but those who know it by its tag.

Limits: `AGAIN_MAX` readings are read and sent again at a time, and no more before
`AGAIN_EVERY_S`. What the table of kept ones (kept.py) or the journal does not take goes to the
broker unkept, and is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import inf

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Finish, FinishRun, KeepRecord, ReadAgain
from gateway.core.events import FilterRefused, Output
from gateway.core.mqtt.publisher import Publisher
from gateway.core.topic_options import OptionsByTopic
from gateway.core.uplink.custody.kept import KeptReadings, Run
from gateway.core.uplink.custody.receipts import Range, ReceiptError, read_receipt, receipt_topic
from gateway.core.values import KeptRecords, Publication, Reading

# Collectors repeat themselves every minute.
ALIVE_S = 180.0
LOOK_EVERY_S = 5.0
AGAIN_MAX = 128
AGAIN_EVERY_S = 1.0
# What had been taken by a broker that forgot us may be on its way to the ingest all the same.
GRACE_S = 10.0
WAIT_S_MAX = 86_400.0
GIVEN_UP_AT_ONCE = 1000
EARLY_MAX = 65_535  # packet ids: no more can be on the wire


@dataclass(frozen=True, slots=True)
class CustodyOptions:
    is_on: bool = False
    gateway_name: str = ""
    timeout_s: float = 300.0
    gives_way: bool = False  # in a full journal to new readings


@dataclass(slots=True)
class CustodyNumbers:
    """`unkept` readings are at the broker only, though they should have been kept; `given_up` ones
    made room for new ones, `unreadable` ones could not be read back.
    """

    ingested: int = 0
    sent_again: int = 0
    receipts: int = 0
    bad_receipts: int = 0
    unkept: int = 0
    given_up: int = 0
    unreadable: int = 0


class Custody:
    def __init__(
        self, options: CustodyOptions, topic_options: OptionsByTopic, publisher: Publisher
    ) -> None:
        self.is_on = options.is_on
        self.timeout_s = options.timeout_s
        self._look_every_s = min(LOOK_EVERY_S, options.timeout_s / 2)
        self.numbers = CustodyNumbers()
        self.kept = KeptReadings()
        self.last_received_at = -inf  # the last receipt, on this connection
        self.refusal: str | None = None  # of our subscription, by the broker
        self._options = options
        self._topic_options = topic_options
        self._publisher = publisher
        self._topic = receipt_topic(options.gateway_name)
        self._is_open = False
        self._early: set[tuple[int, int]] = set()  # ingested before the broker sent PUBACK
        self._asked: list[Run] = []  # from the journal
        self.due_at = inf  # when to look for what is overdue
        self._lost_at = -inf  # the broker's sessions
        self._progress_at = -inf  # something of ours was ingested
        self._ingested_up_to = -inf  # by the time at which the broker took it

    @property
    def asked_first(self) -> int | None:
        """The record of the first reading that the journal is to read again."""
        return self._asked[0].record if self._asked else None

    @property
    def topic_filter(self) -> str:
        return f"{self._topic}/#"

    def restore(self, runs: Iterable[KeptRecords], now: float) -> list[Output]:
        """What a previous run kept, perhaps by another configuration."""
        effects: list[Output] = []
        for each in runs:
            run = Run(
                epoch=each.epoch,
                first=each.first,
                record=each.record,
                count=each.count,
                taken_at=now,
            )
            if not self.is_on or not self.kept.add(run):
                effects.append(FinishRun(each.record, each.count))
        return effects

    # From the connection

    def opened(self, *, session_present: bool, now: float) -> None:
        self._is_open = True
        self.last_received_at = -inf
        self._progress_at = now
        if not session_present:
            self._lost_at = now
        self.due_at = now + self._look_every_s if self.is_on else inf

    def closed(self) -> None:
        self._is_open = False
        self.refusal = None
        self.due_at = inf

    def acknowledged(self, reading: Reading, now: float) -> list[Output]:
        """The broker has taken a reading, which may have to be kept nevertheless."""
        if not reading.qos or not self._topic_options.of(reading.topic).keeps:
            return [Finish(reading)] if reading.record >= 0 else []
        if reading.record < 0:
            self.numbers.unkept += 1
            return []
        identity = reading.epoch, reading.sequence
        if identity in self._early:
            self._early.remove(identity)
            self._note_ingested(1, now, now)
            return [Finish(reading)]
        run = Run(*identity, reading.record, 1, now, reading.again)
        if not self.kept.add(run):
            self.numbers.unkept += 1
            return [Finish(reading)]
        return [] if reading.again else [KeepRecord(reading.record)]

    def is_refused(self, news: FilterRefused) -> bool:
        """Whether it is ours that the broker refuses."""
        if not self.is_on or news.topic_filter != self.topic_filter:
            return False
        self.refusal = news.reason
        return True

    def arrived(self, publication: Publication, now: float) -> list[Output]:
        """From the broker, perhaps a receipt; asked where custody is on."""
        topic, payload = publication.message.topic, publication.message.payload
        if topic != self._topic and not topic.startswith(f"{self._topic}/"):
            return []
        if not payload:
            return []  # somebody cleared a retained one
        try:
            ranges = read_receipt(payload)
            self._check(ranges)
        except ReceiptError as error:
            self.numbers.bad_receipts += 1
            return [Dropped(Reason.BAD_RECEIPT, None, str(error))]
        self.numbers.receipts += 1
        if not publication.is_replay:
            self.last_received_at = now
        self._note_early(ranges)
        effects: list[Output] = []
        for epoch, (first, last) in ranges:
            for run in self.kept.take(epoch, first, last + 1):
                self._note_ingested(run.count, run.taken_at, now)
                effects.append(FinishRun(run.record, run.count))
        return effects

    def _check(self, ranges: list[tuple[int, Range]]) -> None:
        """Rule 2."""
        for epoch, (_, last) in ranges:
            if not self._publisher.may_have_sent(epoch, last):
                raise ReceiptError(
                    f"nothing was ever sent as {epoch}/{last}; is there another gateway named "
                    f"{self._options.gateway_name}?"
                )

    def _note_early(self, ranges: list[tuple[int, Range]]) -> None:
        """The broker may have passed on what is on the wire before it acknowledges it."""
        said: dict[int, list[Range]] = {}
        for epoch, each in ranges:
            said.setdefault(epoch, []).append(each)
        for of_epoch in said.values():
            of_epoch.sort()
        for _, reading in self._publisher.in_flight.in_order():
            of_epoch = said.get(reading.epoch, [])
            place = bisect_right(of_epoch, (reading.sequence, inf)) - 1
            if place < 0 or reading.sequence > of_epoch[place][1] or reading.record < 0:
                continue
            if len(self._early) >= EARLY_MAX:
                self._early.clear()
            self._early.add((reading.epoch, reading.sequence))

    def _note_ingested(self, count: int, taken_at: float, now: float) -> None:
        self.numbers.ingested += count
        self._progress_at = now
        self._ingested_up_to = max(self._ingested_up_to, taken_at)

    # From the journal

    def read_again(self, readings: list[Reading], now: float) -> tuple[list[Reading], list[Output]]:
        """The answer to `ReadAgain`: what goes out once more, and what follows at once."""
        asked, self._asked = self._asked, []
        if not self._is_open:
            return [], []
        self.due_at = now + AGAIN_EVERY_S
        if not readings:
            return [], self._give_up_unreadable(asked)
        going: list[Reading] = []
        for reading in readings:
            sequence = reading.sequence
            for run in self.kept.take(reading.epoch, sequence, sequence + 1):
                reading.again = run.again + 1
                reading.retain, reading.qos, reading.upstream_qos = False, 1, 1  # Rule 4
                going.append(reading)
        self.numbers.sent_again += len(going)
        return going, []

    def _give_up_unreadable(self, asked: list[Run]) -> list[Output]:
        effects: list[Output] = []
        for run in asked:
            for taken in self.kept.take(run.epoch, run.first, run.end):
                self.numbers.unreadable += taken.count
                effects.append(FinishRun(taken.record, taken.count))
        return effects

    def make_room(self) -> list[Output]:
        """The journal is full: the oldest go, if that is what the operator wants."""
        if not self._options.gives_way:
            return []
        effects: list[Output] = []
        for run in _first_of(self.kept, GIVEN_UP_AT_ONCE):
            self.kept.take(run.epoch, run.first, run.end)
            self.numbers.given_up += run.count
            effects.append(FinishRun(run.record, run.count))
        return effects

    # Time

    def handle_time(self, now: float) -> list[Output]:
        if now < self.due_at:
            return []
        self.due_at = now + self._look_every_s
        if self._asked or now - self.last_received_at > ALIVE_S:
            return []
        overdue = (run for run in self.kept if self._is_overdue(run, now))
        self._asked = _first_of(overdue, AGAIN_MAX)
        numbers = [run.record + index for run in self._asked for index in range(run.count)]
        return [ReadAgain(tuple(numbers))] if numbers else []

    def _is_overdue(self, run: Run, now: float) -> bool:
        """Rule 3."""
        if run.taken_at < self._lost_at:
            return now >= self._lost_at + min(GRACE_S, self.timeout_s)
        wait_s = min(self.timeout_s * 2.0 ** min(run.again, 30), WAIT_S_MAX)
        if self._ingested_up_to - run.taken_at >= wait_s:
            return True
        return now - max(run.taken_at, self._progress_at) >= wait_s


def _first_of(runs: Iterable[Run], count: int) -> list[Run]:
    """So many readings, or all."""
    found: list[Run] = []
    for run in islice(runs, count):
        found.append(run.part(run.first, min(run.end, run.first + count)))
        count -= found[-1].count
        if not count:
            break
    return found

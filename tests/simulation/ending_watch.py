"""Promise 11: what the broker does not take costs nothing else, and is not lost where it was
acknowledged.

A broker may end the connection for what it does not take. The gateway finds out what that was: it
costs a few connections in a run of the gateway, and what is found is set aside. Of what the broker
takes nothing is set aside or refused, unless trouble ended connections as often as the gateway
needs to believe that: such an *innocent* is counted, and excused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gateway.core.effects import Effect, SetAside, SubscriptionRefused
from gateway.core.engine import Engine
from gateway.core.mqtt.caution import BLOCK_S, SHORT_MAX, STRIKES_MAX
from gateway.core.state_records import AsideRecord, Change
from tests.simulation.model_broker import ModelBroker
from tests.simulation.plan import Plan, PlannedReading, will_of
from tests.simulation.watch import broken

ENDINGS = "11 what the broker does not take"
# Connections that a cause costs: one that had lasted, those in which it was not alone, and those in
# which it was.
ENDED = "the broker ended"  # begins the reason of what is set aside for that
EACH_MAX = 1 + SHORT_MAX + STRIKES_MAX


class EndingWatch:
    def __init__(
        self, plan: Plan, broker: ModelBroker, aside_on_disk: Callable[[], list[AsideRecord]]
    ) -> None:
        """`aside_on_disk`: what a power cut now would leave of what is set aside."""
        self._plan = plan
        self._broker = broker
        self._aside_on_disk = aside_on_disk
        self._readings = {each.payload: each for each in plan.readings}
        self._wills = {will_of(one.client_id)[1] for one in plan.sensors}
        self._ended_before: Counter[str] = Counter()  # connections, in former runs
        self._began_at = 0.0
        self._found_at: dict[str, float] = {}  # in this run: causes that are blocked since then
        self.set_aside: Counter[bytes] = Counter()
        self.refused: set[bytes] = set()
        self.innocents: set[bytes] = set()

    def has_durably(self, payload: bytes) -> bool:
        return any(record.payload == payload for record in self._aside_on_disk())

    # At the gateway

    def told(self, news: Effect, now: float) -> None:
        if isinstance(news, SubscriptionRefused) and news.reason.startswith(ENDED):
            self._found_at[f"SUBSCRIBE {news.topic_filter}"] = now
        elif isinstance(news, SetAside) and news.record.reason.startswith(ENDED):
            self._found_at[f"PUBLISH {news.record.topic}"] = now

    def saved(self, change: Change, breaks: int) -> None:
        """`breaks`: connections that trouble has ended so far."""
        if not isinstance(change, AsideRecord):
            return
        self.set_aside[change.payload] += 1
        reading = self._readings.get(change.payload)
        if reading is not None:
            self._judge(reading, breaks, f"{reading} is set aside: {change.reason}")
        elif change.payload not in self._wills:
            broken(ENDINGS, f"{change} is nothing that came")

    def restored(self, engine: Engine, now: float) -> None:
        """Another run: it must know what is set aside, and may try all of it again."""
        self._check_bound(now)
        self._check_known(engine)
        self._ended_before = Counter(self._broker.ended)
        self._began_at = now
        self._found_at.clear()

    # At the broker

    def ended(self, cause: str, now: float) -> None:
        """It ends a connection. What was found to be the cause before is blocked for a while."""
        found_at = self._found_at.get(cause)
        block_s = BLOCK_S if self._plan.block_s is None else self._plan.block_s
        if found_at is not None and now < found_at + block_s:
            broken(
                ENDINGS, f"{cause} was found to be a cause at {found_at:.3f} s, and ends another"
            )

    # At the sensor

    def was_refused(self, reading: PlannedReading, breaks: int) -> None:
        self.refused.add(reading.payload)
        self._judge(reading, breaks, f"{reading} is refused")

    # At the end

    def check_end(self, engine: Engine, now: float) -> None:
        self._check_bound(now)
        self._check_known(engine)

    def _judge(self, reading: PlannedReading, breaks: int, evidence: str) -> None:
        if self._plan.is_taken(reading):
            self.innocents.add(reading.payload)
            if breaks < STRIKES_MAX:
                broken(ENDINGS, evidence)

    def _check_known(self, engine: Engine) -> None:
        known, durable = engine.uplink.aside.records, self._aside_on_disk()
        if list(known.values()) != durable:
            broken(ENDINGS, f"{known} are known to be set aside, on the disk are {durable}")

    def _check_bound(self, now: float) -> None:
        """The connections that the broker ended in this run."""
        ended = self._broker.ended - self._ended_before
        trials = 0.0 if self._plan.block_s is None else (now - self._began_at) / self._plan.block_s
        if ended.total() > len(ended) * (EACH_MAX + trials):
            broken(ENDINGS, f"the broker ended {ended.total()} connections: {dict(ended)}")

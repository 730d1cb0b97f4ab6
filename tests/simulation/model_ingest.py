"""What stands behind the broker: collectors that make readings durable and publish receipts.

They have a session at the broker that outlasts them, as real ones have. A broker that loses its
sessions loses what waited there, though it has acknowledged it; before the calm it may drop
messages by itself as well, as one does whose queue has a limit. Which collector of two gets a
message the dice decide.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from tests.simulation.agenda import Agenda
from tests.simulation.model_broker import (
    BrokerSession,
    ModelBroker,
    Publication,
    Subscription,
    Tag,
)
from tests.simulation.plan import CALM_AT_S, Plan
from tests.simulation.watch import broken

INGESTED = "8 kept until ingested"
CLIENT_ID = "ingest"
COLLECTORS = 2
LOOK_EVERY_S = 1.0
AT_ONCE = 5  # messages a look brings
REPEAT_EVERY_S = 20.0
FILTERS = ("r/#", "w/#")


class ModelIngest:
    def __init__(
        self, plan: Plan, broker: ModelBroker, agenda: Agenda, tell: Callable[[str], None]
    ) -> None:
        self.durable: set[Tag] = set()
        self.dropped: set[Tag] = set()  # by the broker, though it had acknowledged them
        self._plan = plan
        self._broker = broker
        self._agenda = agenda
        self._tell = tell
        self._dice = Random(len(plan.readings))
        self._has: list[set[Tag]] = [set() for _ in range(COLLECTORS)]
        self._told_at = [0.0] * COLLECTORS
        if plan.keeps:
            agenda.after(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        now = self._agenda.now
        is_away = any(at <= now < at + lasts_s for at, lasts_s in self._plan.ingest_away)
        if self._broker.up and not is_away:
            self._take(self._session())
            for number, told_at in enumerate(self._told_at):
                if now - told_at >= REPEAT_EVERY_S:
                    self._say(number)
        self._agenda.after(LOOK_EVERY_S, self._look)

    def _session(self) -> BrokerSession:
        """Ours at the broker, or a new one."""
        session = self._broker.sessions.setdefault(CLIENT_ID, BrokerSession())
        for topic_filter in FILTERS:
            session.subscriptions.setdefault(topic_filter, Subscription(1, False, None))
        return session

    def _take(self, session: BrokerSession) -> None:
        changed = set()
        for _ in range(min(AT_ONCE, len(session.queue))):
            tag = session.queue.popleft().publication.tag
            if tag is None:
                continue
            if self._agenda.now < CALM_AT_S and self._dice.random() < self._plan.ingest_drops:
                self._tell(f"the broker drops {tag}")
                self.dropped.add(tag)
                continue
            number = self._dice.randrange(COLLECTORS)
            self._has[number].add(tag)
            self.durable.add(tag)
            changed.add(number)
        for number in changed:
            self._say(number)

    def _say(self, number: int) -> None:
        self._told_at[number] = self._agenda.now
        epochs: dict[str, list[list[int]]] = {}
        for _, epoch, sequence in sorted(self._has[number]):
            epochs.setdefault(epoch, []).append([int(sequence)] * 2)
        payload = json.dumps({"v": 1, "epochs": epochs}).encode()
        topic = f"tidegate/ingest/gw/ack/c{number}"
        self._broker.route(Publication(topic, payload, 1, retain=True))

    def check_end(self, acknowledged: dict[bytes, set[Tag]]) -> None:
        """By payload, the tags of what sensors were told is safe."""
        for payload, tags in acknowledged.items():
            if self._plan.keeps and not tags & self.durable:
                broken(INGESTED, f"{payload!r} was acknowledged as {sorted(tags)} and is nowhere")

"""When a reading counts as safe, and how long it is worth keeping: by its topic.

The first of the operator's filters that matches a topic decides; else the gateway's own rules do.

Limit: rules are remembered for `TOPICS_MAX` topics; when there are more, all are found anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from gateway.routing.topic_tree import TopicTree

TOPICS_MAX = 20_000


class Acknowledge(Enum):
    """Who must have a QoS 1 or 2 reading before its sensor hears of success."""

    AUTO = "auto"  # the broker or the disk, whichever is first
    JOURNAL = "journal"  # the disk
    UPSTREAM = "upstream"  # the broker


@dataclass(frozen=True, slots=True)
class ReadingRules:
    acknowledge: Acknowledge = Acknowledge.UPSTREAM
    expiry_s: float = 0.0  # 0: never
    coalesce_retained: bool = False
    stores_qos_0: bool = False
    stores_qos_0_offline: bool = False


class RulesByTopic:
    def __init__(
        self, default: ReadingRules, overrides: Sequence[tuple[str, ReadingRules]] = ()
    ) -> None:
        self._default = default
        self._overrides = overrides
        self._places: TopicTree[int] = TopicTree()
        for place, (topic_filter, _) in reversed(list(enumerate(overrides))):
            self._places.put(topic_filter, place)
        self._known: dict[str, ReadingRules] = {}

    def of(self, topic: str) -> ReadingRules:
        return self._known.get(topic) or self._find(topic)

    def _find(self, topic: str) -> ReadingRules:
        places = [place for _, place in self._places.above(topic)]
        rules = self._overrides[min(places)][1] if places else self._default
        if len(self._known) >= TOPICS_MAX:
            self._known.clear()
        self._known[topic] = rules
        return rules

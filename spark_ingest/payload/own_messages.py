"""What is on a collector's topics and is no reading: what gateways say of themselves. Pure.

A gateway says on topics of its own how it and its devices are, and announces them to Home Assistant
(docs/mqtt.md). Who collects `#` gets that too. It would be in quarantine, or in bronze as values
that nobody measured; so it is acknowledged and left out.

Rule: what names the client that sent it is a reading, whatever its topic. All tags of readings do,
those of QoS 0 too; what a gateway says of itself names the gateway alone.

Limits: what is found out of a topic is kept for TOPICS_MAX of them, then found out again.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_ingest.payload.record import Delivery
from spark_ingest.payload.topic_filters import matches

TOPICS_MAX = 10_000


class LeavingOut:
    def __init__(self, topic_filters: Sequence[str]) -> None:
        self._filters = topic_filters
        self._by_topic: dict[str, bool] = {}

    def leaves_out(self, delivery: Delivery) -> bool:
        if any(name == "client" for name, _ in delivery.properties):
            return False
        found = self._by_topic.get(delivery.topic)
        if found is None:
            if len(self._by_topic) >= TOPICS_MAX:
                self._by_topic.clear()
            found = any(matches(each, delivery.topic) for each in self._filters)
            self._by_topic[delivery.topic] = found
        return found

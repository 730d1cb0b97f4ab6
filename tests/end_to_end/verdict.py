"""What was acknowledged, held against what arrived: lost, twice, out of order, misrouted.

Arrivals are first freed of repeats as a consumer does it, by their tag. What then comes twice is a
fault, but for the readings in `excused`, whose copies no gateway could know:
- at QoS 1, when the network copied the first PUBLISH, or brought it behind its own repeat: it has
  no DUP and looks like a new reading;
- when the gateway was killed between PUBLISH and acknowledgement, and its settings do not have it
  write first: at QoS 1 in `auto`, at both in `upstream`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass

from hil.rig.witness import Seen, Tag
from tests.support.patient_sensor import Reading

SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    acknowledged: int
    arrivals: int
    repeats_by_tag: int
    lost: tuple[bytes, ...]
    twice: tuple[bytes, ...]
    excused: tuple[bytes, ...]
    out_of_order: tuple[bytes, ...]
    under_another_topic: tuple[bytes, ...]
    tags_of_several: tuple[Tag, ...]

    @property
    def faults(self) -> str:
        """Empty if there is none."""
        named = {
            "lost": self.lost,
            "twice": self.twice,
            "out of order": self.out_of_order,
            "under another topic": self.under_another_topic,
            "one tag for several readings": self.tags_of_several,
        }
        return "; ".join(
            f"{len(found)} {name}: {list(found[:SHOWN_MAX])}"
            for name, found in named.items()
            if found
        )

    def __str__(self) -> str:
        return (
            f"{self.acknowledged:,} acknowledged, {len(self.lost)} lost, "
            f"{self.arrivals:,} arrivals, {self.repeats_by_tag} repeats by tag, "
            f"{len(self.twice)} twice, {len(self.excused)} twice for a reason, "
            f"{len(self.out_of_order)} out of order, "
            f"{len(self.under_another_topic)} under another topic"
        )


def verdict(readings: Iterable[Reading], seen: Iterable[Seen], excused: Set[bytes]) -> Verdict:
    """Payloads must be different, and their order that of `readings` for each topic."""
    arrivals = list(seen)
    acknowledged = {reading.payload: reading for reading in readings}
    by_tag: dict[Tag, Seen] = {}
    several = []
    for each in arrivals:
        first = by_tag.setdefault(each.tag, each)
        if (first.topic, first.payload) != (each.topic, each.payload):
            several.append(each.tag)
    came = Counter(each.payload for each in by_tag.values())  # in the order of first arrival
    again = [payload for payload, times in came.items() if times > 1]
    return Verdict(
        acknowledged=len(acknowledged),
        arrivals=len(arrivals),
        repeats_by_tag=len(arrivals) - len(by_tag),
        lost=tuple(payload for payload in acknowledged if payload not in came),
        twice=tuple(payload for payload in again if payload not in excused),
        excused=tuple(payload for payload in again if payload in excused),
        out_of_order=tuple(_overtaken(acknowledged, came)),
        under_another_topic=tuple(
            each.payload
            for each in by_tag.values()
            if each.payload in acknowledged and each.topic != acknowledged[each.payload].topic
        ),
        tags_of_several=tuple(several),
    )


def _overtaken(acknowledged: dict[bytes, Reading], arrived: Iterable[bytes]) -> Iterable[bytes]:
    """Those that arrived after a later one of their topic."""
    place = {payload: number for number, payload in enumerate(acknowledged)}
    latest: dict[str, int] = {}
    for payload in arrived:
        if payload not in place:
            continue
        topic = acknowledged[payload].topic
        if place[payload] < latest.get(topic, -1):
            yield payload
        latest[topic] = max(place[payload], latest.get(topic, -1))

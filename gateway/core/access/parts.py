"""Whether a client may hear anything at all of a filter that is wider than its rights.

That is so if there is a topic in the filter that the client may subscribe to and receive, each by
the first rule that fits. It is searched level by level: at a level where the filter has a wildcard,
each name that a rule has there is tried, and one that none has.

A rule that covers all that is left of the filter ends the list of those that count. As soon as all
of a list say the same no further level is looked at, which is nearly always at the first one.

Full: the question is as hard as any (a denial with `+` is a clause of a formula). After so many
steps as `WORK_MAX` the answer is no, as for what is forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.config.topic_filters import covers_levels

WORK_MAX = 50_000  # filters of rules looked at, one level of each
WILD = ("+", "#")
REST = ["#"]
NONE_OF_THESE = "\0"  # a level that no filter has: it is in no topic
NO_TOPIC = [""]


@dataclass(frozen=True, slots=True)
class Part:
    """A filter of a rule, without placeholders. `number`: which rule, counted from 0."""

    number: int
    levels: Sequence[str]
    is_allowed: bool


@dataclass(frozen=True, slots=True)
class Right:
    """Of one action: the parts that count, in the order of the rules, and what holds without."""

    parts: Sequence[Part]
    default: bool

    def cut(self, wanted: Sequence[str], depth: int) -> Right:
        """Without those behind one that decides all that is left."""
        for place, each in enumerate(self.parts):
            if covers_levels(_rest(each.levels, depth), wanted):
                return Right(self.parts[:place], each.is_allowed)
        return self

    @property
    def verdict(self) -> bool | None:
        """Of all topics that are left; None where it depends on the topic."""
        if all(each.is_allowed is self.default for each in self.parts):
            return self.default
        return None

    def at_end(self, depth: int) -> bool:
        """Of the topic that has so many levels."""
        for each in self.parts:
            rest = _rest(each.levels, depth)
            if not rest or rest == REST:
                return each.is_allowed
        return self.default

    def by_name(self, depth: int) -> dict[str, list[Part]]:
        """Those that go on with a name at this level, and under NONE_OF_THESE those that do with
        any name.
        """
        found: dict[str, list[Part]] = {NONE_OF_THESE: []}
        for each in self.parts:
            rest = _rest(each.levels, depth)
            if rest:
                name = NONE_OF_THESE if rest[0] in WILD else rest[0]
                found.setdefault(name, []).append(each)
        return found


class PartSearch:
    def __init__(self, topic_filter: str) -> None:
        self._wanted = topic_filter.split("/")
        self._work = 0

    def finds(self, subscribe: Right, receive: Right) -> bool:
        """Whether there is a topic of the filter for which both say yes."""
        return self._finds([self._of_first(subscribe), self._of_first(receive)], 0, [])

    def _of_first(self, right: Right) -> Right:
        """A wildcard at the first level matches no `$` (MQTT 5, 4.7.2)."""
        if not self._wanted[0].startswith("$"):
            return right
        named = [each for each in right.parts if each.levels[0] not in WILD]
        return Right(named, right.default)

    def _finds(self, rights: Sequence[Right], depth: int, topic: list[str]) -> bool:
        wanted = _rest(self._wanted, depth)
        if topic == NO_TOPIC and not wanted:
            return False
        self._work += sum(len(each.parts) for each in rights)
        if self._work > WORK_MAX:
            return False
        rights = [each.cut(wanted, depth) for each in rights]
        verdicts = [each.verdict for each in rights]
        if False in verdicts:
            return False
        if None not in verdicts:
            return True
        may_end = depth > 0 and wanted == REST and topic != NO_TOPIC
        if may_end and all(each.at_end(depth) for each in rights):
            return True
        return self._goes_on(rights, wanted[0], depth, topic)

    def _goes_on(self, rights: Sequence[Right], wanted: str, depth: int, topic: list[str]) -> bool:
        named = [each.by_name(depth) for each in rights]
        names = [wanted]
        if wanted in WILD:
            names = list(dict.fromkeys(name for each in named for name in each))
            names = [each for each in names if depth or not each.startswith("$")]
        for name in names:
            below = [
                Right(_joined(by_name, name), right.default)
                for right, by_name in zip(rights, named, strict=True)
            ]
            if self._finds(below, depth + 1, [*topic, name]):
                return True
        return False


def _joined(by_name: dict[str, list[Part]], name: str) -> Sequence[Part]:
    wild = by_name[NONE_OF_THESE]
    if name == NONE_OF_THESE or name not in by_name:
        return wild
    return sorted([*wild, *by_name[name]], key=_number)


def _number(part: Part) -> int:
    return part.number


def _rest(levels: Sequence[str], depth: int) -> Sequence[str]:
    """What is left of a filter after so many levels of a topic that it matches so far."""
    if levels[-1] == "#" and depth >= len(levels):
        return REST
    return levels[depth:]

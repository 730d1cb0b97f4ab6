"""Access rules: the first that fits a client, an action and a topic decides, else the default.

Rule 1: a filter may have `{client}` and `{identity}` within a level. One that is empty, begins with
        `$`, or has `/`, `+` or `#` in it, fits no such filter: it would be another filter than the
        operator wrote.
Rule 2: a subscription is allowed if each topic that it could bring is: rules are looked at in
        their order, one that covers the filter decides, and one that denies a part of it is a
        refusal. Where several rules allow parts that together are all of it, it is refused: let the
        client subscribe to the parts.
        A wider one may be narrowed instead (HEAR_PART): of what it brings a client hears the
        topics that it may subscribe to and receive (HEAR).
Rule 3: what a rule allows has its limits of QoS, retain flag and size; a message beyond them is
        refused, and no later rule is asked.

What was found is kept for `VERDICTS_MAX` clients and topics; of more all are found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType

from gateway.config.patterns import CLIENT, IDENTITY, matches
from gateway.config.topic_filters import covers, overlaps
from gateway.core.topic_trie import TopicTree

if TYPE_CHECKING:  # most narrow nothing
    from gateway.core.access.parts import Part

VERDICTS_MAX = 20_000
UNFIT = frozenset("/+#")


# Text, whose hash is kept; that of a member of an Enum is not.
Action = NewType("Action", str)
PUBLISH = Action("publish")
SUBSCRIBE = Action("subscribe")
RECEIVE = Action("receive")
WILL = Action("will")
QOS_MINUS_ONE = Action("qos_minus_one")
ACTIONS = (PUBLISH, SUBSCRIBE, RECEIVE, WILL, QOS_MINUS_ONE)
# What is asked as well, of no rule's: may it subscribe to a topic and receive it, and is there such
# a topic in a filter?
HEAR = Action("hear")
HEAR_PART = Action("hear_part")


@dataclass(frozen=True, slots=True)
class AccessRule:
    """`clients`, `identities`: patterns, of which one must fit; without any all do. `filters`: of
    topics, of which one must match. Limits are of what it allows; sizes in bytes.
    """

    filters: Sequence[str]
    is_allowed: bool = True
    clients: Sequence[str] = ()
    identities: Sequence[str] = ()
    actions: Sequence[Action] = ACTIONS
    qos_max: int = 2
    may_retain: bool = True
    payload_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`rule`: which one decided, counted from 0; None for the default."""

    is_allowed: bool
    rule: int | None = None
    qos_max: int = 2
    may_retain: bool = True
    payload_bytes_max: int | None = None

    def allows(self, qos: int, payload_bytes: int, *, retain: bool) -> bool:
        """Whether such a message may pass."""
        if not self.is_allowed or qos > self.qos_max or (retain and not self.may_retain):
            return False
        return self.payload_bytes_max is None or payload_bytes <= self.payload_bytes_max


NO = Verdict(False)


class AccessRules:
    def __init__(self, rules: Iterable[AccessRule], *, is_allowed: bool) -> None:
        """`is_allowed`: the default."""
        self._rules = list(rules)
        self._default = Verdict(is_allowed)
        self._verdicts = [
            Verdict(each.is_allowed, number, each.qos_max, each.may_retain, each.payload_bytes_max)
            for number, each in enumerate(self._rules)
        ]
        # By filter, with `+` for a level that has a placeholder: the rules that have it.
        self._places: TopicTree[list[int]] = TopicTree()
        for number, each in enumerate(self._rules):
            for topic_filter in each.filters:
                self._put(_widened(topic_filter), number)
        self._denying = [number for number, each in enumerate(self._rules) if not each.is_allowed]
        self._found: dict[tuple[str, str, str, Action], Verdict] = {}

    def _put(self, topic_filter: str, number: int) -> None:
        kept = self._places.get(topic_filter)
        if kept is None:
            self._places.put(topic_filter, [number])
        elif kept[-1] != number:
            kept.append(number)

    def verdict(self, client_id: str, identity: str, action: Action, topic: str) -> Verdict:
        """For one topic; for a subscription `topic` is its filter, and each topic counts that it
        could bring.
        """
        key = (topic, client_id, identity, action)
        return self._found.get(key) or self._find(key)

    def _find(self, key: tuple[str, str, str, Action]) -> Verdict:
        topic, client_id, identity, action = key
        if action == HEAR:
            subscribe = self.verdict(client_id, identity, SUBSCRIBE, topic)
            receive = self.verdict(client_id, identity, RECEIVE, topic)
            verdict = receive if subscribe.is_allowed else NO
        elif action == HEAR_PART:
            verdict = Verdict(self._has_part(client_id, identity, topic))
        else:
            number = self._deciding(topic, _Asked(client_id, identity, action))
            verdict = self._default if number is None else self._verdicts[number]
        if len(self._found) >= VERDICTS_MAX:
            self._found.clear()
        self._found[key] = verdict
        return verdict

    def _has_part(self, client_id: str, identity: str, topic_filter: str) -> bool:
        from gateway.core.access.parts import PartSearch, Right

        subscribe, receive = (
            Right(
                self._parts(topic_filter, _Asked(client_id, identity, each)),
                self._default.is_allowed,
            )
            for each in (SUBSCRIBE, RECEIVE)
        )
        return PartSearch(topic_filter).finds(subscribe, receive)

    def _parts(self, topic_filter: str, asked: _Asked) -> list[Part]:
        """What the rules say of topics in a filter, as far as they fit who asks."""
        from gateway.core.access.parts import Part

        found: list[Part] = []
        for number, rule in enumerate(self._rules):
            if asked.is_of(rule):
                named = (asked.named(each) for each in rule.filters)
                found += [
                    Part(number, each.split("/"), rule.is_allowed)
                    for each in named
                    if each is not None and overlaps(each, topic_filter)
                ]
        return found

    def _deciding(self, topic: str, asked: _Asked) -> int | None:
        candidates = {number for _, numbers in self._places.above(topic) for number in numbers}
        if asked.action == SUBSCRIBE:
            candidates.update(self._denying)
        rules = self._rules
        fitting = (each for each in sorted(candidates) if asked.is_decided_by(rules[each], topic))
        return next(fitting, None)


@dataclass(frozen=True, slots=True)
class _Asked:
    client_id: str
    identity: str
    action: Action

    def is_of(self, rule: AccessRule) -> bool:
        """Whether the rule is for this client and action."""
        return (
            self.action in rule.actions
            and _is_one_of(rule.clients, self.client_id)
            and _is_one_of(rule.identities, self.identity)
        )

    def named(self, topic_filter: str) -> str | None:
        """A rule's filter, with the names of who asks; None if it then fits nothing."""
        return _named(_named(topic_filter, CLIENT, self.client_id), IDENTITY, self.identity)

    def is_decided_by(self, rule: AccessRule, topic: str) -> bool:
        if not self.is_of(rule):
            return False
        may_be_part = self.action == SUBSCRIBE and not rule.is_allowed
        for each in rule.filters:
            named = self.named(each)
            if named is None:
                continue
            if covers(named, topic) or (may_be_part and overlaps(named, topic)):
                return True
        return False


def _widened(topic_filter: str) -> str:
    levels = topic_filter.split("/")
    return "/".join("+" if CLIENT in each or IDENTITY in each else each for each in levels)


def _named(topic_filter: str | None, placeholder: str, name: str) -> str | None:
    if topic_filter is None or placeholder not in topic_filter:
        return topic_filter
    if not name or name.startswith("$") or not UNFIT.isdisjoint(name):
        return None
    return topic_filter.replace(placeholder, name)


def _is_one_of(patterns: Sequence[str], text: str) -> bool:
    return not patterns or any(matches(each, text) for each in patterns)

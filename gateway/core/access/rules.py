"""Access rules: the first that fits a client, an action and a topic decides, else the default.

Rule 1: a filter may have `{client}` and `{identity}` within a level. One that is empty, begins with
        `$`, or has `/`, `+` or `#` in it, fits no such filter: it would be another filter than the
        operator wrote.
Rule 2: a subscription is allowed if each topic that it could bring is: rules are looked at in
        their order, one that covers the filter decides, and one that denies a part of it is a
        refusal. Where several rules allow parts that together are all of it, it is refused: let the
        client subscribe to the parts.
Rule 3: what a rule allows has its limits of QoS, retain flag and size; a message beyond them is
        refused, and no later rule is asked.

What was found is kept for `VERDICTS_MAX` clients and topics; of more all are found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from gateway.config.patterns import matches
from gateway.config.topic_filters import covers, overlaps
from gateway.core.topic_trie import TopicTree

VERDICTS_MAX = 20_000
CLIENT, IDENTITY = "{client}", "{identity}"
UNFIT = frozenset("/+#")


class Action(Enum):
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    RECEIVE = "receive"
    WILL = "will"
    QOS_MINUS_ONE = "qos_minus_one"


ALL_ACTIONS = frozenset(Action)


@dataclass(frozen=True, slots=True)
class AccessRule:
    """`clients`, `identities`: patterns, of which one must fit; without any all do. `filters`: of
    topics, of which one must match. Limits are of what it allows; sizes in bytes.
    """

    filters: Sequence[str]
    is_allowed: bool = True
    clients: Sequence[str] = ()
    identities: Sequence[str] = ()
    actions: frozenset[Action] = ALL_ACTIONS
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


@dataclass(frozen=True, slots=True)
class Peer:
    """A client, and what its peer is known as."""

    client_id: str
    identity: str


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
        self._found: dict[tuple[Peer, Action, str], Verdict] = {}

    def _put(self, topic_filter: str, number: int) -> None:
        kept = self._places.get(topic_filter)
        if kept is None:
            self._places.put(topic_filter, [number])
        elif kept[-1] != number:
            kept.append(number)

    def verdict(self, peer: Peer, action: Action, topic: str) -> Verdict:
        """For one topic; for a subscription that is each topic that it could bring."""
        key = (peer, action, topic)
        return self._found.get(key) or self._find(key)

    def _find(self, key: tuple[Peer, Action, str]) -> Verdict:
        peer, action, topic = key
        if action is Action.SUBSCRIBE:
            verdict = self._of_filter(peer, topic)
        else:
            verdict = self._of_topic(peer, action, topic)
        if len(self._found) >= VERDICTS_MAX:
            self._found.clear()
        self._found[key] = verdict
        return verdict

    def _of_topic(self, peer: Peer, action: Action, topic: str) -> Verdict:
        candidates = {number for _, numbers in self._places.above(topic) for number in numbers}
        for number in sorted(candidates):
            if self._fits(number, peer, action) and any(
                covers(each, topic) for each in self._filters(number, peer)
            ):
                return self._verdicts[number]
        return self._default

    def _of_filter(self, peer: Peer, topic_filter: str) -> Verdict:
        for number, rule in enumerate(self._rules):
            if not self._fits(number, peer, Action.SUBSCRIBE):
                continue
            for each in self._filters(number, peer):
                if covers(each, topic_filter) or (
                    not rule.is_allowed and overlaps(each, topic_filter)
                ):
                    return self._verdicts[number]
        return self._default

    def _fits(self, number: int, peer: Peer, action: Action) -> bool:
        rule = self._rules[number]
        return (
            action in rule.actions
            and _is_one_of(rule.clients, peer.client_id)
            and _is_one_of(rule.identities, peer.identity)
        )

    def _filters(self, number: int, peer: Peer) -> Iterable[str]:
        for each in self._rules[number].filters:
            named = _named(_named(each, CLIENT, peer.client_id), IDENTITY, peer.identity)
            if named is not None:
                yield named


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

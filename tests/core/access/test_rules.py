"""Access rules against an evaluator that looks at each rule and each topic by itself."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.access.rules import (
    ACTIONS,
    PUBLISH,
    RECEIVE,
    SUBSCRIBE,
    VERDICTS_MAX,
    WILL,
    AccessRule,
    AccessRules,
    Action,
    Verdict,
)
from tests.core.topics import EVERY_NAME_DEEP, filters, matches, names

CLIENTS = ("a", "b", "a/b", "", "+", "$s", "#")
PATTERNS = ("*", "a", "b*", "*b", "a*b", "")

some_filters = st.one_of(
    filters,
    st.sampled_from(
        ["{client}", "a/{client}", "{client}/#", "{identity}/+", "a/{client}{identity}"]
    ),
)
some_rules = st.builds(
    AccessRule,
    filters=st.lists(some_filters, max_size=3),
    is_allowed=st.booleans(),
    clients=st.lists(st.sampled_from(PATTERNS), max_size=2),
    identities=st.lists(st.sampled_from(PATTERNS), max_size=2),
    actions=st.lists(st.sampled_from(ACTIONS)),
    qos_max=st.integers(0, 2),
    may_retain=st.booleans(),
    payload_bytes_max=st.one_of(st.none(), st.integers(0, 3)),
)


@dataclass(frozen=True)
class Peer:
    client_id: str
    identity: str


peers = st.builds(Peer, st.sampled_from(CLIENTS), st.sampled_from(CLIENTS))


def is_plain(name: str) -> bool:
    return name != "" and name[0] != "$" and not any(each in name for each in "/+#")


def spelled(topic_filter: str, peer: Peer) -> str | None:
    for placeholder, name in (("{client}", peer.client_id), ("{identity}", peer.identity)):
        if placeholder in topic_filter:
            if not is_plain(name):
                return None
            topic_filter = topic_filter.replace(placeholder, name)
    return topic_filter


def fits(rule: AccessRule, peer: Peer, action: Action) -> bool:
    def one_of(patterns: Sequence[str], text: str) -> bool:
        return not patterns or any(fnmatch.fnmatchcase(text, each) for each in patterns)

    return (
        action in rule.actions
        and one_of(rule.clients, peer.client_id)
        and one_of(rule.identities, peer.identity)
    )


def decided(all_rules: list[AccessRule], peer: Peer, action: Action, topic: str) -> int | None:
    for number, rule in enumerate(all_rules):
        given = [spelled(each, peer) for each in rule.filters]
        if fits(rule, peer, action) and any(
            each is not None and matches(each, topic) for each in given
        ):
            return number
    return None


@settings(max_examples=300)
@given(st.lists(some_rules, max_size=5), st.booleans(), peers, st.sampled_from(ACTIONS), names)
def test_the_first_rule_that_fits_decides(
    all_rules: list[AccessRule], default: bool, peer: Peer, action: Action, topic: str
) -> None:
    access = AccessRules(all_rules, is_allowed=default)
    if action == SUBSCRIBE:
        action = RECEIVE
    found = access.verdict(peer.client_id, peer.identity, action, topic)
    expected = decided(all_rules, peer, action, topic)
    assert found.rule == expected
    assert found.is_allowed is (default if expected is None else all_rules[expected].is_allowed)
    assert access.verdict(peer.client_id, peer.identity, action, topic) is found, "remembered"


@settings(max_examples=300)
@given(st.lists(some_rules, max_size=4), st.booleans(), peers, filters)
def test_what_a_subscription_brings_is_allowed(
    all_rules: list[AccessRule], default: bool, peer: Peer, topic_filter: str
) -> None:
    """Never wider than the rules; narrower only where several rules allow parts."""
    access = AccessRules(all_rules, is_allowed=default)
    topics = [each for each in EVERY_NAME_DEEP if matches(topic_filter, each)]
    by_rule = [decided(all_rules, peer, SUBSCRIBE, each) for each in topics]
    allowed = [default if one is None else all_rules[one].is_allowed for one in by_rule]
    found = access.verdict(peer.client_id, peer.identity, SUBSCRIBE, topic_filter)
    if found.is_allowed:
        assert all(allowed)
    elif all(allowed) and topics:
        assert len(set(by_rule)) > 1, "parts of it, by several rules"


@pytest.mark.parametrize(
    ("topic_filter", "is_allowed"),
    [
        ("sensors/tank/#", True),
        ("sensors/tank/level", True),
        ("sensors/+/level", False),
        ("sensors/tank/secret/#", False),
        ("sensors/tank/+", False),
        ("all/x", True),
        ("#", False),
        ("other", False),
    ],
)
def test_a_wildcard_wider_than_the_grant_is_refused(topic_filter: str, is_allowed: bool) -> None:
    access = AccessRules(
        [
            AccessRule(["sensors/tank/secret", "sensors/tank/secret/#"], is_allowed=False),
            AccessRule(["sensors/{client}/#", "all/#"]),
        ],
        is_allowed=False,
    )
    if topic_filter == "sensors/tank/#":
        access = AccessRules([AccessRule(["sensors/{client}/#"])], is_allowed=False)
    peer = Peer("tank", "anonymous@udp")
    assert (
        access.verdict(peer.client_id, peer.identity, SUBSCRIBE, topic_filter).is_allowed
        is is_allowed
    )


def test_limits_are_of_the_message() -> None:
    verdict = Verdict(True, 0, qos_max=1, may_retain=False, payload_bytes_max=10)
    assert verdict.allows(1, 10, retain=False)
    assert not verdict.allows(2, 10, retain=False)
    assert not verdict.allows(1, 10, retain=True)
    assert not verdict.allows(1, 11, retain=False)
    assert not Verdict(False).allows(0, 0, retain=False)
    assert Verdict(True).allows(2, 1 << 20, retain=True)


def test_what_is_remembered_has_a_limit() -> None:
    access = AccessRules([], is_allowed=True)
    for number in range(VERDICTS_MAX + 10):
        access.verdict("a", "", PUBLISH, str(number))
    assert len(access._found) == 10


def test_very_many_rules_and_messages_are_as_the_evaluator_says() -> None:
    random = Random(46)
    words = ["a", "b", "c", "{client}", "+"]
    all_rules = [
        AccessRule(
            ["/".join(random.choices(words, k=random.randint(1, 3))) + random.choice(["", "/#"])],
            is_allowed=random.random() < 0.5,
            clients=random.choice([[], ["a*"], ["b"], ["*c*"]]),
            actions=random.choice([ACTIONS, [PUBLISH]]),
        )
        for _ in range(200)
    ]
    access = AccessRules(all_rules, is_allowed=False)
    for _ in range(2000):
        peer = Peer(random.choice(["a", "b", "abc", "d"]), "")
        action = random.choice([PUBLISH, RECEIVE, WILL])
        topic = "/".join(random.choices(["a", "b", "c", "d", "abc"], k=random.randint(1, 4)))
        found = access.verdict(peer.client_id, peer.identity, action, topic)
        assert found.rule == decided(all_rules, peer, action, topic)

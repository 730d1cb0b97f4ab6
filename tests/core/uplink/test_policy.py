"""Which rules hold for a reading: the first filter that matches its topic decides."""

from __future__ import annotations

import pytest

from gateway.core.uplink import policy
from gateway.core.uplink.policy import Acknowledge, ReadingRules, RulesByTopic

UPSTREAM = ReadingRules(Acknowledge.UPSTREAM)
JOURNAL = ReadingRules(Acknowledge.JOURNAL)
AUTO = ReadingRules(Acknowledge.AUTO)


def test_the_first_filter_that_matches_decides() -> None:
    rules = RulesByTopic(AUTO, [("a/+", JOURNAL), ("a/#", UPSTREAM), ("a/b", UPSTREAM)])
    assert rules.of("a/b") is JOURNAL
    assert rules.of("a/b/c") is UPSTREAM
    assert rules.of("b") is AUTO


def test_of_a_filter_that_is_given_twice_the_first_counts() -> None:
    rules = RulesByTopic(AUTO, [("a", JOURNAL), ("a", UPSTREAM)])
    assert rules.of("a") is JOURNAL


def test_rules_are_remembered_for_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "TOPICS_MAX", 2)
    rules = RulesByTopic(AUTO, [("a", JOURNAL)])
    assert [rules.of(topic) for topic in "abca"] == [JOURNAL, AUTO, AUTO, JOURNAL]
    assert len(rules._known) <= 2


@pytest.mark.parametrize(
    ("rules", "straight", "spills"),
    [
        (AUTO, (True, True, False), True),
        (JOURNAL, (True, False, False), True),
        (UPSTREAM, (True, True, True), False),
        (ReadingRules(Acknowledge.AUTO, stores_qos_0=True), (False, True, False), True),
    ],
)
def test_which_readings_go_to_the_broker_at_once(
    rules: ReadingRules, straight: tuple[bool, bool, bool], spills: bool
) -> None:
    assert rules.goes_straight == straight
    assert rules.spills is spills

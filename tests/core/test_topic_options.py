"""Which rules hold for a reading: the first filter that matches its topic decides."""

from __future__ import annotations

import pytest

from gateway.core import topic_options
from gateway.core.topic_options import Acknowledge, OptionsByTopic, ReadingOptions

UPSTREAM = ReadingOptions(Acknowledge.UPSTREAM)
JOURNAL = ReadingOptions(Acknowledge.JOURNAL)
AUTO = ReadingOptions(Acknowledge.AUTO)


def test_the_first_filter_that_matches_decides() -> None:
    options = OptionsByTopic(AUTO, [("a/+", JOURNAL), ("a/#", UPSTREAM), ("a/b", UPSTREAM)])
    assert options.of("a/b") is JOURNAL
    assert options.of("a/b/c") is UPSTREAM
    assert options.of("b") is AUTO


def test_of_a_filter_that_is_given_twice_the_first_counts() -> None:
    options = OptionsByTopic(AUTO, [("a", JOURNAL), ("a", UPSTREAM)])
    assert options.of("a") is JOURNAL


def test_rules_are_remembered_for_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_options, "TOPICS_MAX", 2)
    options = OptionsByTopic(AUTO, [("a", JOURNAL)])
    assert [options.of(topic) for topic in "abca"] == [JOURNAL, AUTO, AUTO, JOURNAL]
    assert len(options._known) <= 2


@pytest.mark.parametrize(
    ("options", "straight", "spills"),
    [
        (AUTO, (True, True, False), True),
        (JOURNAL, (True, False, False), True),
        (UPSTREAM, (True, True, True), False),
        (ReadingOptions(Acknowledge.AUTO, stores_qos_0=True), (False, True, False), True),
    ],
)
def test_which_readings_go_to_the_broker_at_once(
    options: ReadingOptions, straight: tuple[bool, bool, bool], spills: bool
) -> None:
    assert options.goes_straight == straight
    assert options.spills is spills

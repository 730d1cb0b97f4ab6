"""Which text is a topic filter, and which filter leaves a later one nothing to decide."""

import pytest
from hypothesis import given

from gateway.config.kinds import MismatchError, TopicFilter
from gateway.config.topic_filters import covers, overlaps
from tests.core import topics

KIND = TopicFilter(100)


@pytest.mark.parametrize(
    "text", ["a", "/", "a//b", "+", "#", "+/+", "a/+/b", "a/#", "/#", "$SYS/#", "a" * 100, "a b"]
)
def test_what_mqtt_calls_a_filter_is_taken(text: str) -> None:
    assert KIND.read(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "a#", "#a", "#/a", "a/b#", "a+", "+a/b", "a\0", "a\n", "$share/g/a", "$share", "a" * 101],
)
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(MismatchError, match=r"expected (a topic filter|text of) "):
        KIND.read(text)


@pytest.mark.parametrize("raw", [7, None, ["a"]])
def test_a_filter_is_text(raw: object) -> None:
    with pytest.raises(MismatchError):
        KIND.read(raw)


def test_a_filter_has_as_many_levels_as_brokers_take() -> None:
    kind = TopicFilter(1000)
    assert kind.read("/" * 127)
    with pytest.raises(MismatchError):
        kind.read("/" * 128)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("#", "#"),
        ("#", "a/b"),
        ("#", "+/#"),
        ("a/#", "a"),
        ("a/#", "a/b/c"),
        ("a/#", "a/+"),
        ("a/#", "a/#"),
        ("a/+", "a/b"),
        ("+/b", "a/b"),
        ("+", "a"),
        ("a/+/c", "a/+/c"),
        ("+/+/#", "a/+/#"),
        ("$SYS/#", "$SYS/a"),
    ],
)
def test_a_filter_covers_what_matches_no_other_topics(wide: str, narrow: str) -> None:
    assert covers(wide, narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a", "b"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/+", "a"),
        ("a/+", "a/#"),
        ("a/b", "a/+"),
        ("+/b", "a/+"),
        ("+", "#"),
        ("+/#", "#"),
        ("a/+/c", "a/b"),
        ("#", "$SYS/a"),
        ("+/a", "$SYS/a"),
    ],
)
def test_a_filter_that_leaves_a_topic_does_not_cover(wide: str, narrow: str) -> None:
    assert not covers(wide, narrow)


@given(topics.filters, topics.filters)
def test_two_filters_overlap_where_a_topic_matches_both(one: str, other: str) -> None:
    assert overlaps(one, other) is any(
        topics.matches(one, each) and topics.matches(other, each) for each in topics.EVERY_NAME_DEEP
    )

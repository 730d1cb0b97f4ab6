"""Topic filters, with the examples of MQTT 5, 4.7."""

from __future__ import annotations

import pytest

from spark_ingest.payload.topic_filters import FILTER_BYTES_MAX, LEVELS_MAX, is_filter, matches


@pytest.mark.parametrize(
    ("topic_filter", "topic", "does"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("a/b", "a/b", True),
        ("a/b", "a", False),
        ("a/b", "a/c", False),
        ("#", "a/b", True),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
    ],
)
def test_it_matches_as_the_broker_does(topic_filter: str, topic: str, does: bool) -> None:
    assert matches(topic_filter, topic) is does


@pytest.mark.parametrize("text", ["#", "+", "a/+/b/#", "/", "a//b", "$SYS/#", "ä/b"])
def test_these_are_filters(text: str) -> None:
    assert is_filter(text)


@pytest.mark.parametrize(
    "text",
    ["", "a#", "#/a", "a/b+", "a/#/b", "$share/g/a", "a\nb", "x" * (FILTER_BYTES_MAX + 1),
     "/" * LEVELS_MAX],
)  # fmt: skip
def test_these_are_none(text: str) -> None:
    assert not is_filter(text)

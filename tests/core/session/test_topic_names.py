"""Which names and filters may pass: rows as on the air."""

from __future__ import annotations

import pytest

from gateway.core.session.topic_names import LEVELS_MAX, topic_filter, topic_name

BYTES_MAX = 512

ALLOWED = [
    "a",
    "a/b",
    "/",
    "//a//",
    "sensors/wohnzimmer/größe",
    "温度/1",
    "\U0001f321",  # outside the basic plane
    "\ufeffa",  # a byte order mark is a character
    " a b ",
    "$SYS/x",
    "x" * BYTES_MAX,
    "/".join("a" * LEVELS_MAX),
]
FORBIDDEN = {
    "empty": b"",
    "too long": b"x" * (BYTES_MAX + 1),
    "too long in bytes": "ß".encode() * (BYTES_MAX // 2) + b"x",
    "too many levels": b"/" * LEVELS_MAX,
    "no UTF-8": b"a\xff",
    "cut UTF-8": "ß".encode()[:1],
    "overlong UTF-8": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "NUL": b"a\x00b",
    "control character": b"a\x1fb",
    "DEL": b"a\x7fb",
    "C1 control character": "a\u009fb".encode(),
    "non-character of the block": "a\ufdd0b".encode(),
    "non-character U+FFFF": "a\uffffb".encode(),
    "non-character of plane 1": "a\U0001fffeb".encode(),
    "non-character of plane 16": "a\U0010ffffb".encode(),
}
WILDCARDS = ["+", "#", "a/+", "+/b", "a/+/c", "a/#", "/#", "+/+", "+/#", "/+"]
BAD_WILDCARDS = ["a#", "#a", "a/#/b", "#/", "a+", "+a", "a/+b/c", "##", "++", "a/b#"]


@pytest.mark.parametrize("name", ALLOWED, ids=ascii)
def test_what_mqtt_takes_is_a_name_and_a_filter(name: str) -> None:
    assert topic_name(name.encode(), BYTES_MAX) == name
    assert topic_filter(name.encode(), BYTES_MAX) == name


@pytest.mark.parametrize("raw", FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_mqtt_forbids_is_neither(raw: bytes) -> None:
    assert topic_name(raw, BYTES_MAX) is None
    assert topic_filter(raw, BYTES_MAX) is None


@pytest.mark.parametrize("given", WILDCARDS)
def test_wildcards_are_for_filters_only(given: str) -> None:
    assert topic_filter(given.encode(), BYTES_MAX) == given
    assert topic_name(given.encode(), BYTES_MAX) is None


@pytest.mark.parametrize("given", BAD_WILDCARDS)
def test_a_wildcard_stands_alone_in_its_level_and_hash_last(given: str) -> None:
    assert topic_filter(given.encode(), BYTES_MAX) is None
    assert topic_name(given.encode(), BYTES_MAX) is None


def test_shared_subscriptions_are_refused_and_only_they() -> None:
    """All clients share one MQTT session, so they would share nothing."""
    assert topic_filter(b"$share", BYTES_MAX) is None
    assert topic_filter(b"$share/group/a", BYTES_MAX) is None
    assert topic_filter(b"$shared/a", BYTES_MAX) == "$shared/a"
    assert topic_name(b"$share/group/a", BYTES_MAX) == "$share/group/a"

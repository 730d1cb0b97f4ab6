"""Which values a device has, as far as its readings say."""

from __future__ import annotations

from gateway.core.state_records import ClientId
from gateway.presence.catalogue import (
    ABSENT_READINGS,
    ABSENT_S,
    ABSENT_TOPIC_S,
    UNIT_CHANGES_MAX,
    UNIT_MIXED,
    VALUES_OF_ONE_MAX,
    Catalogue,
    Kind,
)
from gateway.presence.values import Value

TANK = ClientId("tank")


def test_a_device_that_names_without_end_is_announced_with_a_stated_number() -> None:
    catalogue = Catalogue()
    for number in range(VALUES_OF_ONE_MAX + 1):
        catalogue.learn(TANK, "t", [Value(f"v{number}", 1.0)])
    assert len(catalogue.of(TANK)) == VALUES_OF_ONE_MAX


def test_a_value_that_comes_as_two_kinds_is_a_text_from_then_on() -> None:
    catalogue = Catalogue()
    assert catalogue.learn(TANK, "t", [Value("v", 1.0, "m")])
    assert catalogue.learn(TANK, "t", [Value("v", "open")])
    for value in (1.0, True, "shut"):
        assert not catalogue.learn(TANK, "t", [Value("v", value)])
    (known,) = catalogue.of(TANK)
    assert (known.kind, known.unit) == (Kind.TEXT, "m")


def test_a_unit_is_the_last_one_that_was_named_within_limits() -> None:
    catalogue = Catalogue()
    catalogue.learn(TANK, "t", [Value("v", 1.0)])
    assert catalogue.learn(TANK, "t", [Value("v", 1.0, "m")])
    assert not catalogue.learn(TANK, "t", [Value("v", 1.0)])
    for number in range(UNIT_CHANGES_MAX):
        unit = ("km", "m")[number % 2]
        assert catalogue.learn(TANK, "t", [Value("v", 1.0, unit)])
        assert [each.unit for each in catalogue.of(TANK)] == [unit]
    assert catalogue.learn(TANK, "t", [Value("v", 1.0, "cm")])
    assert [each.unit for each in catalogue.of(TANK)] == [UNIT_MIXED]
    assert not catalogue.learn(TANK, "t", [Value("v", 1.0, "m")])


def test_a_value_that_does_not_come_any_more_is_forgotten() -> None:
    catalogue = Catalogue()
    catalogue.learn(TANK, "t", [Value("old", 1.0), Value("seldom", 1.0)], 0.0)
    step = ABSENT_S / (ABSENT_READINGS - 1)
    news = [
        catalogue.learn(TANK, "t", [Value("new", 1.0)], step * number)
        for number in range(ABSENT_READINGS - 1)
    ]
    assert news.count(True) == 1
    catalogue.learn(TANK, "t", [Value("new", 1.0), Value("seldom", 1.0)], ABSENT_S + step)
    assert {each.name for each in catalogue.of(TANK)} == {"new", "seldom"}


def test_so_are_the_values_of_a_topic_that_brings_nothing_any_more() -> None:
    catalogue = Catalogue()
    catalogue.learn(TANK, "old", [Value("v", 1.0)], 0.0)
    assert catalogue.learn(TANK, "new", [Value("v", 1.0)], 1.0)
    assert not catalogue.learn(TANK, "new", [Value("v", 1.0)], ABSENT_TOPIC_S - 1)
    assert catalogue.learn(TANK, "new", [Value("v", 1.0)], ABSENT_TOPIC_S)
    assert [each.topic for each in catalogue.of(TANK)] == ["new"]


def test_a_value_that_comes_as_null_is_still_there() -> None:
    catalogue = Catalogue()
    catalogue.learn(TANK, "t", [Value("v", 1.0)], 0.0)
    step = ABSENT_S / (ABSENT_READINGS - 1)
    for number in range(ABSENT_READINGS + 10):
        assert not catalogue.learn(TANK, "t", [], step * number, ["v"])
    assert [each.name for each in catalogue.of(TANK)] == ["v"]

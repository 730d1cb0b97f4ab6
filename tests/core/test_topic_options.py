"""Which rules hold for a reading: the first filter that matches its topic decides."""

from __future__ import annotations

import pytest

from gateway.core import topic_options
from gateway.core.topic_options import REFUSED, Acknowledge, OptionsByTopic, ReadingOptions
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.topics import Topics

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


# Home Assistant's configuration of gateways and their devices


def is_refused(topic: str, discovery_prefix: str | None, topic_prefix: str = "") -> bool:
    return OptionsByTopic(AUTO, (), discovery_prefix, topic_prefix).of(topic) is REFUSED


@pytest.mark.parametrize("prefix", ["homeassistant", "ha/discovery"])
@pytest.mark.parametrize("gateway", ["gh", "green house", "a/b", "ä"])
def test_what_the_gateway_announces_is_refused_to_sensors(prefix: str, gateway: str) -> None:
    documents = DiscoveryDocuments(Topics("", gateway), prefix, gateway, "1")
    for topic in (documents.topic_of_gateway, documents.topic_of("s1"), documents.topic_of("")):
        assert is_refused(topic, prefix)
        assert not is_refused(topic, None)
        assert not is_refused(topic, "another")


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("homeassistant/device/tidegate_gh/config", True),
        ("homeassistant/device/tidegate_/config", True),
        # Home Assistant has one id for this and for `online` of the device above.
        ("homeassistant/binary_sensor/tidegate_gh/online/config", True),
        ("homeassistant/sensor/tidegate_gh_2fs1/config", True),
        ("homeassistant//tidegate_gh/config", True),
        ("homeassistant/device/tidegate_gh", True),
        # Of other objects.
        ("homeassistant/device/pump/config", False),
        ("homeassistant/device/tidegate/config", False),
        ("homeassistant/sensor/pump/tidegate_gh/config", False),
        ("homeassistant/device/Tidegate_gh/config", False),
        ("homeassistant/status", False),
        ("homeassistant/tidegate_gh", False),
        ("homeassistant", False),
        ("homeassistant2/device/tidegate_gh/config", False),
        ("a/homeassistant/device/tidegate_gh/config", False),
        ("/homeassistant/device/tidegate_gh/config", False),
    ],
)
def test_of_discovery_only_ids_of_gateways_are_refused(topic: str, expected: bool) -> None:
    assert is_refused(topic, "homeassistant") is expected


@pytest.mark.parametrize(
    ("topic_prefix", "topic", "expected"),
    [
        ("site/", "homeassistant/device/tidegate_gh/config", False),
        ("site/", "device/tidegate_gh/config", False),
        ("site/ha/", "device/tidegate_gh/config", True),
        ("site/ha/", "device/pump/config", False),
        ("site/", "ha/device/tidegate_gh/config", True),
        ("site/ha", "/device/tidegate_gh/config", True),
        ("sit", "e/ha/device/tidegate_gh/config", True),
        ("site/ha/device/", "tidegate_gh/config", True),
        ("site/ha/device/", "pump/config", False),
        ("site/ha/device/tide", "gate_gh/config", True),
        ("site/ha/device/tidegate_gh/", "config", True),
        ("site/hat/", "device/tidegate_gh/config", False),
    ],
)
def test_the_topic_counts_as_the_broker_has_it(
    topic_prefix: str, topic: str, expected: bool
) -> None:
    assert is_refused(topic, "site/ha", topic_prefix) is expected


# How long a command is worth delivering


def test_a_command_has_its_own_time_where_no_filter_gives_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_options, "TOPICS_MAX", 2)
    asked: list[str] = []

    def command_within_s(topic: str) -> float:
        asked.append(topic)
        return 5.0 if topic.endswith("/set") else 0.0

    filters = [("a/#", ReadingOptions(deliver_within_s=9.0)), ("b/#", JOURNAL)]
    options = OptionsByTopic(AUTO, filters, command_within_s=command_within_s)
    assert options.limits_delivery
    assert options.deliver_within_s("a/set") == 9.0
    for _ in range(2):
        assert options.deliver_within_s("b/set") == 5.0
        assert options.deliver_within_s("c") == 0.0
    assert asked == ["b/set", "c"]
    assert options.deliver_within_s("d/set") == 5.0
    assert len(options._known_within) == 1


def test_without_commands_only_a_filter_limits_delivery() -> None:
    assert not OptionsByTopic(AUTO, [("a", JOURNAL)]).limits_delivery
    options = OptionsByTopic(AUTO, [("a", ReadingOptions(deliver_within_s=9.0))])
    assert options.limits_delivery
    assert (options.deliver_within_s("a"), options.deliver_within_s("b")) == (9.0, 0.0)

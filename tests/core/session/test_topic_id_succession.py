"""Where the topic ids of a session begin, so that an old id never names another topic."""

from __future__ import annotations

import pytest

from gateway.app.core_options import LIVES_TOLD_APART, first_topic_id
from gateway.core.effects import Save
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session.options import PredefinedTopics
from gateway.core.session.topic_registry import FEW_TOPICS, Announced, TopicRegistry
from gateway.core.state_records import TopicRecord
from gateway.frames import (
    Connack,
    Connect,
    Puback,
    Publish,
    Regack,
    Register,
    ReturnCode,
    TopicIdType,
)
from tests.core.session.client import DEV1
from tests.support.engine_bench import Bench

CLEAN = Connect(b"s1", 60, clean_session=True)


def test_a_clean_session_numbers_behind_the_one_it_replaces() -> None:
    bench = Bench()
    bench.say(b"here", CLEAN)
    assert bench.say(b"here", Register(0, 1, b"a")) == [Regack(1, 1, 0)]
    assert bench.say(b"here", CLEAN) == [Connack(0)]  # a copy, made on the way
    assert bench.say(b"here", Register(0, 2, b"b")) == [Regack(2, 2, 0)]
    unknown = Puback(1, 3, ReturnCode.INVALID_TOPIC_ID)
    assert bench.say(b"here", Publish(1, 3, b"for a", 1)) == [unknown]


@pytest.mark.parametrize(("first_id", "given"), [(0xFFFE - 4, 0xFFFE - 4), (0xFFFE - 3, 1)])
def test_topic_ids_begin_again_before_they_run_out(first_id: int, given: int) -> None:
    registry = TopicRegistry(PredefinedTopics(), topics_max=4, first_id=first_id)
    assert registry.register("a") == given
    assert registry.next_id == given + 1


def test_the_topics_of_a_former_life_are_found_among_gaps_and_are_not_saved_again() -> None:
    registry = TopicRegistry(PredefinedTopics(), topics_max=10, first_id=20)
    rows = [TopicRecord(DEV1, topic_id, f"t{topic_id}") for topic_id in (9, 2, 3)]
    registry.restore(rows, 1, Announced.NUMBER)
    assert [registry.number(name) for name in ("t9", "new", "newer")] == [9, 20, 21]
    for topic_id, name in ((2, "t2"), (3, "t3"), (9, "t9"), (20, "new"), (4, None), (22, None)):
        assert registry.topic_of(topic_id, TopicIdType.NORMAL) == name
    assert registry.take_fresh(DEV1) == [
        Save(TopicRecord(DEV1, 20, "new")),
        Save(TopicRecord(DEV1, 21, "newer")),
    ]
    assert registry.take_fresh(DEV1) == []


def test_a_gateway_that_restarted_numbers_elsewhere() -> None:
    options = EngineOptions(MqttOptions("gh", 2, "tidegate-gh"), first_topic_id=first_topic_id(2))
    bench = Bench(options)
    bench.say(b"here", CLEAN)
    assert bench.say(b"here", Register(0, 1, b"a")) == [Regack(513, 1, 0)]


def test_the_first_life_numbers_from_1_and_all_lives_within_the_topic_ids() -> None:
    assert first_topic_id(1) == 1
    firsts = {first_topic_id(epoch) for epoch in range(1, 500)}
    assert len(firsts) == LIVES_TOLD_APART
    assert max(firsts) < 0xFFFF


def test_ids_that_begin_again_are_found_before_those_of_a_former_life() -> None:
    registry = TopicRegistry(PredefinedTopics(), topics_max=10)
    registry.restore([TopicRecord(DEV1, 0xFFFD, "old")], 1, Announced.NUMBER)
    assert [registry.number(name) for name in ("new", "newer")] == [1, 2]
    for topic_id, name in ((1, "new"), (2, "newer"), (0xFFFD, "old")):
        assert registry.topic_of(topic_id, TopicIdType.NORMAL) == name


def test_many_topics_are_found_by_name_and_so_are_those_that_follow() -> None:
    registry = TopicRegistry(PredefinedTopics(), topics_max=100)
    names = [f"t{number}" for number in range(3 * FEW_TOPICS)]
    assert [registry.number(name) for name in names] == list(range(1, len(names) + 1))
    assert [registry.number(name) for name in names] == list(range(1, len(names) + 1))

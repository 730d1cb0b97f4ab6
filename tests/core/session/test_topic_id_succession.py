"""Where the topic ids of a session begin, so that an old id never names another topic."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from gateway.app.core_options import EPOCHS_TOLD_APART, first_topic_id
from gateway.core.clients import former_topics
from gateway.core.effects import Save
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session import topic_registry
from gateway.core.session.options import PredefinedTopics
from gateway.core.session.topic_registry import FEW_TOPICS, Announced, FormerIds, TopicRegistry
from gateway.core.state_records import ClientId, SessionRecord, TopicRecord
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Regack,
    Register,
    ReturnCode,
    TopicIdType,
)
from tests.core.session.client import DEV1
from tests.support.engine_bench import Bench
from tests.support.state_bench import StateBench

CLEAN = Connect(b"s1", 60, clean_session=True)


@pytest.mark.guarantee("2")
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
    options = EngineOptions(
        MqttOptions("gh", 2, "tidegate-gh"), first_topic_id=first_topic_id(7, 2)
    )
    bench = Bench(options)
    bench.say(b"here", CLEAN)
    assert bench.say(b"here", Register(0, 1, b"a")) == [Regack(65, 1, 0)]


def test_the_first_run_numbers_from_1_and_the_next_ones_within_a_byte() -> None:
    firsts = [first_topic_id(99, run) for run in range(1, 15)]
    assert firsts[:4] == [1, 65, 129, 193]
    assert firsts[13] == 1
    assert all(abs(one - next_) >= 64 for one, next_ in pairwise(firsts[:13]))
    between = [last - first for first, last in pairwise(sorted(firsts[:13]))]
    assert min(between) == topic_registry.UNSAVED_IDS
    assert max(firsts) + 62 == 255


def test_where_rows_may_be_lost_a_run_numbers_where_no_other_does() -> None:
    firsts = {first_topic_id(epoch, None) for epoch in range(500)}
    assert len(firsts) == EPOCHS_TOLD_APART
    assert 256 < min(firsts) <= max(firsts) < 0x8000 - 256


def ended(bench: Bench, *names: bytes, leave: bool = True) -> list[int]:
    """The topic ids in a clean session that registers these, and ends."""
    bench.say(b"here", Connect(b"s1", 10, clean_session=True))
    ids = [bench.register(b"here", name) for name in names]
    if leave:
        assert Disconnect() in bench.say(b"here", Disconnect())
    else:
        bench.wake(bench.at + 20.0)
    assert not bench.engine.sessions
    return ids


@pytest.mark.guarantee("2")
@pytest.mark.parametrize("leave", [False, True])
def test_after_a_clean_session_that_ended_an_old_id_names_no_other_topic(*, leave: bool) -> None:
    bench = Bench()
    assert ended(bench, b"a", leave=leave) == [1]
    bench.say(b"here", CLEAN)
    assert bench.register(b"here", b"b") == 2
    unknown = Puback(1, 3, ReturnCode.INVALID_TOPIC_ID)
    assert bench.say(b"here", Publish(1, 3, b"for a", 1)) == [unknown]
    assert bench.register(b"here", b"a") == 1
    assert bench.say(b"here", Publish(1, 4, b"for a", 1)) == [Puback(1, 4, 0)]


def test_the_same_names_have_the_same_ids_in_each_session() -> None:
    bench = Bench()
    assert [ended(bench, b"a", b"b") for _ in range(3)] == [[1, 2]] * 3
    assert ended(bench, b"c", b"b") == [3, 2]
    assert ended(bench, b"d", b"a", b"c") == [4, 1, 3]


def test_a_clean_session_that_a_restart_ended_is_numbered_behind_as_well() -> None:
    bench = StateBench()
    bench.say(b"here", CLEAN)
    assert bench.register(b"here", b"a") == 1
    bench.holds_disk = True
    bench.say(b"here", Disconnect())
    bench.rows.lose_power()
    (row,) = [each for each in bench.rows.durable.values() if isinstance(each, SessionRecord)]
    bench.rows.durable["Session", "s1"] = replace(row, link=-1)  # no more in the configuration
    bench.holds_disk = False
    bench.restart()
    assert not bench.engine.sessions
    bench.say(b"here", CLEAN)
    following = 2 + topic_registry.UNSAVED_IDS
    assert [bench.register(b"here", name) for name in (b"b", b"a")] == [following, 1]


def test_of_more_than_can_be_kept_the_first_client_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(former_topics, "NAMES_MAX", 3)
    table = former_topics.FormerTopics()
    for number in range(3):
        registry = TopicRegistry(PredefinedTopics(), topics_max=4)
        for name in ("a", "b")[: 1 + number % 2]:
            registry.register(name)
        table.note(ClientId(f"c{number}"), registry)
    assert table.take(ClientId("c0")) is None
    assert table.take(ClientId("c1")) == FormerIds({"a": 1, "b": 2}, 3)
    assert table.take(ClientId("c2")) == FormerIds({"a": 1}, 2)
    table.note(ClientId("c3"), TopicRegistry(PredefinedTopics(), topics_max=4))
    assert table.take(ClientId("c3")) is None


def test_of_more_names_than_are_kept_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_registry, "FORMER_IDS_MAX", 2)
    former = FormerIds({"a": 1, "b": 2}, 3)
    registry = TopicRegistry(PredefinedTopics(), topics_max=9, former=former)
    assert [registry.number(name) for name in ("c", "a")] == [3, 1]
    assert registry.former_ids() == FormerIds({"a": 1, "c": 3}, 4)


def test_ids_that_begin_again_leave_out_those_of_former_names() -> None:
    former = FormerIds({"a": 1, "b": 0xFFFD, "c": 3}, 0xFFFE)
    registry = TopicRegistry(PredefinedTopics(), topics_max=4, former=former)
    assert [registry.number(name) for name in ("x", "a", "y", "b")] == [2, 1, 4, 0xFFFD]


def test_where_no_id_is_left_that_no_former_name_had_one_of_those_is_given() -> None:
    former = FormerIds({f"t{number}": 0xFFFE - number for number in range(4)}, 0xFFFB)
    registry = TopicRegistry(PredefinedTopics(), topics_max=3, former=former)
    assert [registry.number(name) for name in ("x", "t3")] == [1, 0xFFFB]


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

"""What the broker retains, as far as we know it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.downlink.retained import FULL, NEW, SAME, KeepResult, Retained
from gateway.core.effects import Save
from gateway.core.events import Output
from gateway.core.message_expiry import ExpiryClock
from gateway.core.process_pauses import ProcessPauses
from gateway.core.state_records import Change, RetainedDeleted, RetainedRecord
from gateway.core.values import Message
from tests.core.topics import matches, names


def message(topic: str, payload: bytes, qos: int = 1) -> Message:
    return Message(topic, payload, qos, retain=True)


def kept(retained: Retained, topic: str, payload: bytes, qos: int = 1) -> KeepResult:
    return retained.keep(message(topic, payload, qos), is_exact=True)[0]


def saved(effects: list[Output]) -> list[Change]:
    return [each.change for each in effects if isinstance(each, Save)]


def store(messages_max: int = 10, bytes_max: int = 1000) -> Retained:
    return Retained(messages_max, bytes_max)


def test_a_first_and_a_changed_value_are_new_and_a_repeated_one_is_the_same() -> None:
    retained = store()
    assert kept(retained, "a", b"1") is NEW
    assert kept(retained, "a", b"1") is SAME
    assert kept(retained, "a", b"2") is NEW
    assert retained.matching("#", 0, 0.0) == [message("a", b"2")]
    assert retained.size_bytes == len("a" + "2")


def test_the_same_value_at_another_quality_is_kept_at_that() -> None:
    retained = store()
    retained.keep(message("a", b"1", qos=0), is_exact=True)
    assert kept(retained, "a", b"1", qos=2) is SAME
    assert retained.matching("a", 0, 0.0) == [message("a", b"1", qos=2)]


def test_a_value_that_our_subscription_lowered_is_kept_back_from_who_asks_for_more() -> None:
    retained = store()
    assert retained.keep(message("a", b"1", qos=0), is_exact=False)[0] is NEW
    retained.keep(message("b", b"1", qos=0), is_exact=True)
    assert retained.matching("#", 0, 0.0) == [message("a", b"1", qos=0), message("b", b"1", qos=0)]
    assert retained.matching("#", 1, 0.0) == [message("b", b"1", qos=0)]


@pytest.mark.parametrize(
    ("steps", "found", "row"),
    [
        # QoS and whether it is exact, as it comes; at which QoS it was had before it came last.
        ([(0, False), (0, False)], SAME, None),
        ([(0, False), (1, False)], KeepResult(0), RetainedRecord("a", b"1", 1, is_exact=False)),
        ([(0, False), (0, True)], KeepResult(0), RetainedRecord("a", b"1", 0)),
        ([(1, False), (2, True)], KeepResult(1), RetainedRecord("a", b"1", 2)),
        ([(1, False), (0, False)], SAME, None),  # we subscribe at a lower QoS than before
        ([(1, True), (0, False)], SAME, None),
        ([(1, True), (0, True)], SAME, RetainedRecord("a", b"1", 0)),  # published so
        ([(0, True), (1, False)], SAME, RetainedRecord("a", b"1", 1, is_exact=False)),
        ([(1, True), (2, True)], SAME, RetainedRecord("a", b"1", 2)),
    ],
)
def test_a_value_that_is_known_better_than_before_is_new_to_those_that_asked_for_more(
    steps: list[tuple[int, bool]], found: KeepResult, row: RetainedRecord | None
) -> None:
    retained = store()
    for qos, is_exact in steps:
        last, effects = retained.keep(message("a", b"1", qos), is_exact=is_exact)
    assert last == found
    assert saved(effects) == ([] if row is None else [row])


def test_an_empty_payload_clears_its_topic() -> None:
    retained = store()
    retained.keep(message("a", b"1"), is_exact=True)
    assert kept(retained, "a", b"") is NEW
    assert "a" not in retained
    assert retained.size_bytes == 0
    assert kept(retained, "a", b"") is SAME


def test_beyond_the_number_of_messages_a_further_topic_is_not_kept() -> None:
    retained = store(messages_max=1)
    retained.keep(message("a", b"1"), is_exact=True)
    assert kept(retained, "b", b"1") is FULL
    assert kept(retained, "a", b"2") is NEW
    assert retained.topics_under("#") == ["a"]


def test_a_value_that_outgrows_the_room_is_not_left_in_its_old_form() -> None:
    retained = store(bytes_max=10)
    assert kept(retained, "a", b"123456789") is NEW
    assert kept(retained, "a", b"1234567890") is FULL
    assert len(retained) == 0
    assert retained.size_bytes == 0


def test_what_is_not_confirmed_after_a_doubt_is_forgotten() -> None:
    retained = store()
    for topic in ("same", "changed", "gone", "cleared"):
        retained.keep(message(topic, b"1"), is_exact=True)
    retained.require_validation()
    assert len(retained) == 4, "kept while nobody knows"
    assert kept(retained, "same", b"1") is SAME
    assert kept(retained, "changed", b"2") is NEW
    retained.keep(message("cleared", b""), is_exact=True)
    assert saved(retained.forget_unconfirmed()) == [RetainedDeleted("gone")]
    assert sorted(retained.topics_under("#")) == ["changed", "same"]
    assert retained.forget_unconfirmed() == []


def test_forgetting_what_was_never_kept_changes_nothing() -> None:
    retained = store()
    retained.keep(message("a", b"1"), is_exact=True)
    retained.forget("b")
    assert retained.size_bytes == 2


def test_what_changes_is_to_be_saved() -> None:
    retained = store(bytes_max=10)
    for payload, qos, change in (
        (b"1", 1, RetainedRecord("a", b"1", 1)),
        (b"1", 1, None),
        (b"1", 0, RetainedRecord("a", b"1", 0)),
        (b"2", 0, RetainedRecord("a", b"2", 0)),
        (b"", 0, RetainedDeleted("a")),
        (b"", 0, None),
        (b"1", 0, RetainedRecord("a", b"1", 0)),
        (b"too long for it", 0, RetainedDeleted("a")),
        (b"too long for it", 0, None),
    ):
        _, effects = retained.keep(message("a", payload, qos), is_exact=True)
        assert saved(effects) == ([] if change is None else [change])


def test_what_a_former_life_kept_is_there_until_the_broker_has_had_time_to_confirm_it() -> None:
    retained = store(messages_max=2)
    retained.restore(
        [RetainedRecord(topic, b"1", 1, is_exact=False) for topic in ("same", "gone", "too many")],
        ExpiryClock(ProcessPauses()),
        0.0,
    )
    assert retained.matching("#", 2, 0.0) == []
    assert retained.matching("#", 0, 0.0) == [message("same", b"1"), message("gone", b"1")]
    assert retained.size_bytes == len("same1gone1")
    assert kept(retained, "same", b"1") == KeepResult(1), "known better now"
    assert saved(retained.forget_unconfirmed()) == [RetainedDeleted("gone")]


@given(st.lists(st.tuples(names, st.binary(max_size=8))), st.sampled_from(["#", "a/+", "$s/#"]))
def test_it_holds_the_last_values_within_its_limits(
    given_values: list[tuple[str, bytes]], topic_filter: str
) -> None:
    retained, model = store(messages_max=5, bytes_max=40), dict[str, bytes]()
    for topic, payload in given_values:
        word = kept(retained, topic, payload)
        model.pop(topic, None)
        if payload and word is not FULL:
            model[topic] = payload
        assert len(retained) == len(model) <= 5
        assert retained.size_bytes == sum(len(key) + len(value) for key, value in model.items())
        assert retained.size_bytes <= 40
    found = {each.topic: each.payload for each in retained.matching(topic_filter, 0, 0.0)}
    assert found == {key: value for key, value in model.items() if matches(topic_filter, key)}

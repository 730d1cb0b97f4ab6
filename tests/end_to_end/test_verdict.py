"""The judge of the chaos finds each fault, or no chaos would."""

from __future__ import annotations

import pytest

from hil.rig.witness import Seen, Tag
from tests.end_to_end.verdict import Verdict, verdict
from tests.support.patient_sensor import Reading


def acknowledged(*payloads: bytes, topic: str = "a") -> list[Reading]:
    return [Reading(topic, payload, 1, b"", sent_at=0.0) for payload in payloads]


def seen(*arrivals: tuple[bytes, int], topic: str = "a") -> list[Seen]:
    return [Seen(topic, payload, Tag("gw", 1, seq), 0.0) for payload, seq in arrivals]


def found(arrivals: list[Seen], excused: frozenset[bytes] = frozenset()) -> Verdict:
    return verdict(acknowledged(b"0", b"1", b"2"), arrivals, excused)


def test_all_in_order_is_without_fault_and_so_are_repeats_under_the_same_tag() -> None:
    each_once = seen((b"0", 0), (b"1", 1), (b"2", 2))
    assert found(each_once).faults == ""
    repeated = found([*each_once, *each_once[1:]])
    assert repeated.faults == ""
    assert repeated.repeats_by_tag == 2


@pytest.mark.parametrize(
    ("arrivals", "fault"),
    [
        (((b"0", 0), (b"2", 2)), "1 lost: [b'1']"),
        (((b"0", 0), (b"1", 1), (b"1", 5), (b"2", 2)), "1 twice: [b'1']"),
        (((b"0", 0), (b"2", 2), (b"1", 1)), "1 out of order: [b'1']"),
        (((b"2", 2), (b"0", 0), (b"1", 1)), "2 out of order: [b'0', b'1']"),
        (((b"0", 0), (b"1", 1), (b"2", 1)), "1 lost: [b'2']; 1 one tag for several readings"),
    ],
)
def test_each_fault_is_found(arrivals: tuple[tuple[bytes, int], ...], fault: str) -> None:
    assert found(seen(*arrivals)).faults.startswith(fault)


def test_who_is_excused_may_come_twice_and_may_not_be_lost_or_late() -> None:
    twice = seen((b"0", 0), (b"1", 1), (b"1", 5), (b"2", 2))
    excused = frozenset({b"1", b"2"})
    assert found(twice, excused).faults == ""
    assert found(twice, excused).excused == (b"1",)
    assert found(twice[:3], excused).faults == "1 lost: [b'2']"


def test_a_reading_that_comes_under_another_topic_is_a_fault_though_it_came_under_its_own() -> None:
    right = seen((b"0", 0), (b"1", 1), (b"2", 2))
    misrouted = [*right, *seen((b"1", 3), topic="b")]
    excused = frozenset({b"1"})
    assert found(misrouted, excused).faults == "1 under another topic: [b'1']"


def test_topics_have_orders_of_their_own() -> None:
    readings = acknowledged(b"0", b"2") + acknowledged(b"1", topic="b")
    late = [*seen((b"1", 1), topic="b"), *seen((b"0", 0), (b"2", 2))]
    assert verdict(readings, late, frozenset()).faults == ""

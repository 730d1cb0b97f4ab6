"""What is said of devices, when, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.presence.availability import (
    AGAIN_S,
    DEPARTED_MAX,
    DEPARTED_S,
    REFRESH_S,
    ROUND_SCANS,
    SLICE_MIN,
)
from gateway.presence.topics import Topics, level, plain_name
from tests.presence.devices import Fleet


def test_a_device_is_said_once_while_nothing_changes() -> None:
    fleet = Fleet()
    fleet.asleep("tank", 10.0, 600)
    (said,) = fleet.documents(10.0)
    assert said == {
        "client": "tank",
        "state": "asleep",
        "until": "1970-01-01T00:10:10Z",
        "lost_at": "1970-01-01T00:11:10Z",
        "last_seen": "1970-01-01T00:00:10Z",
        "link": "udp0",
    }
    for now in range(11, 600, 10):
        assert fleet.said(float(now)) == []


def test_a_device_that_wakes_for_a_moment_is_said_once_with_its_next_time() -> None:
    fleet = Fleet()
    fleet.asleep("tank", 0.0, 600)
    fleet.said(0.0)
    fleet.wakes_up("tank", 590.0)
    (said,) = fleet.documents(590.0)
    assert said["until"] == "1970-01-01T00:19:50Z"


def test_a_device_that_is_awake_and_speaks_is_said_again_once_a_minute() -> None:
    fleet = Fleet()
    session = fleet.awake("tank", 0.0)
    assert fleet.states(0.0) == {"tank": "awake"}
    said = 0
    for now in range(1, 601):
        session.last_received_at = float(now)
        said += len(fleet.said(float(now)))
    assert said == 600 // REFRESH_S


def test_overdue_then_lost_are_said_as_they_happen() -> None:
    fleet = Fleet()
    session = fleet.asleep("tank", 0.0, 100)
    fleet.said(0.0)
    assert fleet.said(100.0) == []
    assert fleet.states(100.1) == {"tank": "overdue"}
    session.handle_time(111.0)
    assert fleet.states(111.0) == {"tank": "lost"}


def test_what_somebody_should_see_goes_before_what_goes_on() -> None:
    fleet = Fleet()
    for number in range(20):
        fleet.asleep(f"s{number}", 0.0, 1000)
    late = fleet.asleep("late", 0.0, 50)
    fleet.said(0.0)
    fleet.awake("new", 60.0)
    for number in range(20):
        fleet.wakes_up(f"s{number}", 60.0)
    late.handle_time(61.0)
    fleet.awake("newer", 61.0)
    order = [message.client_id for message in fleet.said(61.0)]
    assert order[0] == "late"
    assert set(order[1:3]) == {"new", "newer"}
    assert len(order) == 23


def test_a_new_connection_makes_everything_due_and_those_not_well_first() -> None:
    fleet = Fleet()
    for number in range(5):
        fleet.asleep(f"s{number}", 0.0, 1000)
    lost = fleet.asleep("lost", 0.0, 100)
    lost.handle_time(120.0)
    fleet.said(120.0)
    assert fleet.said(120.0) == []
    fleet.board.connected()
    order = [message.client_id for message in fleet.said(121.0)]
    assert order[0] == "lost"
    assert len(order) == 6


def test_a_device_that_is_forgotten_is_cleared_once() -> None:
    fleet = Fleet()
    fleet.asleep("tank", 0.0)
    fleet.said(0.0)
    del fleet.sessions[ClientId("tank")]
    (message,) = fleet.said(1.0)
    assert (message.topic, message.payload) == ("tidegate/greenhouse/clients/tank", b"")
    assert fleet.said(2.0) == []


def test_one_without_a_session_to_come_back_to_is_lost_for_a_week_then_forgotten() -> None:
    fleet = Fleet()
    fleet.awake("tank", 0.0)
    fleet.said(0.0)
    del fleet.sessions[ClientId("tank")]
    fleet.board.departed(ClientId("tank"), State.LOST, Peer(0, b"tank"), 10.0)
    assert fleet.states(10.0) == {"tank": "lost"}
    assert fleet.said(10.0 + DEPARTED_S - 1) == []
    (message,) = fleet.said(11.0 + DEPARTED_S)
    assert message.payload == b""


def test_one_that_comes_back_is_awake_again() -> None:
    fleet = Fleet()
    fleet.board.departed(ClientId("tank"), State.LOST, None, 10.0)
    assert fleet.states(10.0) == {"tank": "lost"}
    fleet.awake("tank", 20.0)
    assert fleet.states(20.0) == {"tank": "awake"}
    assert fleet.said(DEPARTED_S * 2) != []
    assert ClientId("tank") in fleet.sessions


def test_of_those_that_left_the_oldest_gives_way() -> None:
    fleet = Fleet()
    for number in range(DEPARTED_MAX + 5):
        fleet.board.departed(ClientId(f"s{number}"), State.LOST, None, float(number))
    names = {str(message.client_id) for message in fleet.said(2000.0)}
    assert names == {f"s{number}" for number in range(5, DEPARTED_MAX + 5)}


def test_what_was_said_is_said_again_after_hours() -> None:
    fleet = Fleet()
    fleet.awake("tank", 0.0, keep_alive_s=0)
    fleet.said(0.0)
    assert fleet.said(AGAIN_S) == []
    assert len(fleet.said(AGAIN_S + 1)) == 1


def test_what_a_former_life_left_was_not_heard_in_this_one() -> None:
    fleet = Fleet()
    fleet.asleep("tank", 5.0)
    fleet.board.started_at = 5.0
    assert fleet.documents(5.0)[0]["last_seen"] is None
    fleet.wakes_up("tank", 300.0)
    assert fleet.documents(300.0)[0]["last_seen"] == "1970-01-01T00:05:00Z"


def test_it_counts_how_devices_stand() -> None:
    fleet = Fleet()
    fleet.awake("one", 0.0)
    fleet.asleep("two", 0.0, 5)
    fleet.board.scan(6.0)
    assert {each.value: count for each, count in fleet.board.counts.items()} == {
        "awake": 1,
        "overdue": 1,
    }


def test_many_devices_are_looked_at_in_slices_and_all_of_them_in_a_round() -> None:
    fleet = Fleet()
    for number in range(3 * SLICE_MIN):
        fleet.asleep(f"s{number}", 0.0)
    seen = set()
    for _ in range(3):
        notices = fleet.said(1.0)
        assert len(notices) <= SLICE_MIN
        seen |= {message.client_id for message in notices}
    assert seen == set(fleet.sessions)
    assert ROUND_SCANS >= 3


def test_a_device_forgotten_during_a_round_is_cleared_with_the_next() -> None:
    fleet = Fleet()
    for number in range(3 * SLICE_MIN):
        fleet.asleep(f"s{number}", 0.0)
    for _ in range(3):
        fleet.said(1.0)
    fleet.said(2.0)
    last = ClientId(f"s{3 * SLICE_MIN - 1}")
    fleet.wakes_up(last, 3.0)
    del fleet.sessions[last]
    assert [fleet.said(4.0), fleet.said(4.0)] == [[], []]
    assert sum(fleet.board.counts.values()) == 3 * SLICE_MIN - 1
    (cleared,) = fleet.said(5.0)
    assert (cleared.client_id, cleared.payload) == (last, b"")


def test_a_session_in_place_of_another_is_seen() -> None:
    fleet = Fleet()
    fleet.asleep("tank", 0.0)
    fleet.said(0.0)
    del fleet.sessions[ClientId("tank")]
    fleet.awake("tank", 1.0)
    assert fleet.states(1.0) == {"tank": "awake"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("waskgf"), st.integers(0, 90))))
def test_whatever_happens_the_broker_knows_it_in_the_end(
    happenings: list[tuple[str, str, int]],
) -> None:
    fleet, now = Fleet(), 0.0
    known: dict[str, str] = {}

    def receive() -> None:
        for message in fleet.said(now):
            known[str(message.client_id)] = message.payload.decode()

    for name, what, wait_s in happenings:
        now += wait_s
        session = fleet.sessions.get(ClientId(name))
        if what == "w":
            fleet.awake(name, now)
        elif what == "a":
            fleet.asleep(name, now, 30)
        elif what == "g" and session is not None:
            session.handle_time(now)
        elif what == "f":
            fleet.sessions.pop(ClientId(name), None)
        elif what == "k":
            fleet.board.connected()
        if what != "s":
            receive()
    receive()
    said = {name for name, payload in known.items() if payload}
    assert said == set(fleet.sessions)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("tank", "tank"), ("a/b", "a%2Fb"), ("+", "%2B"), ("#", "%23"), ("%2F", "%252F"), ("é", "é")],
)
def test_an_id_is_one_level_of_a_topic(text: str, expected: str) -> None:
    assert Topics("p/", "g").client(text) == f"p/tidegate/g/clients/{expected}"


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_two_ids_are_never_the_same_level_or_name(ids: list[str]) -> None:
    one, other = ids
    assert level(one) != level(other)
    assert plain_name(one) != plain_name(other)
    assert not {"+", "#", "/", "\0"} & set(level(one))

"""What is said of devices, when, and in which order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import Disconnect
from gateway.presence.availability import (
    AGAIN_S,
    CONNECTIONLESS_MAX,
    DEPARTED_MAX,
    DEPARTED_S,
    FOUND_MAX,
    REFRESH_S,
    ROUND_SCANS,
    SLICE_MIN,
    VISIT_S_MAX,
    VISITOR_AVAILABLE_S,
    VISITORS_MAX,
    FixedTimes,
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
        "available": True,
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
    assert fleet.states(10.0 + DEPARTED_S - 1) == {"tank": "lost"}, "once in some hours"
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


def test_the_oldest_gives_way_after_a_restart_as_well() -> None:
    fleet = Fleet()
    row = ["lost", "1", [], [0.0, 0.0, 0.0], False, True, True]
    for number in range(DEPARTED_MAX + 5):
        fleet.board.restore(ClientId(f"s{number}"), list(row), 0.0)
    names = {str(message.client_id) for message in fleet.said(0.0)}
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


# Visitors


def visit(fleet: Fleet, now: float, stay_s: float = 0.1, name: str = "tank") -> None:
    """A client connects, and disconnects at once: its session is gone with that."""
    client_id = ClientId(name)
    fleet.awake(name, now)
    fleet.board.came(client_id, now)
    del fleet.sessions[client_id]
    fleet.board.departed(client_id, State.DISCONNECTED, Peer(0, b""), now + stay_s)


def is_available(fleet: Fleet, now: float) -> bool | None:
    """As it is published; None while nothing is."""
    found = [document["available"] for document in fleet.documents(now)]
    return found[-1] if found else None


def test_one_that_visits_is_available_a_day_until_its_habit_is_known() -> None:
    fleet = Fleet()
    visit(fleet, 0.0)
    (said,) = fleet.documents(1.0)
    assert (said["state"], said["available"]) == ("disconnected", True)
    assert is_available(fleet, VISITOR_AVAILABLE_S - 1) is not False
    assert is_available(fleet, VISITOR_AVAILABLE_S + 1) is False
    assert is_available(fleet, VISITOR_AVAILABLE_S + 60) is None, "once"


def test_one_that_keeps_its_habit_is_never_unavailable_and_one_that_does_not_soon_is() -> None:
    fleet = Fleet()
    found: set[bool | None] = set()
    for number in range(100):
        visit(fleet, 600.0 * number)
        found |= {is_available(fleet, 600.0 * number + part) for part in (1, 300, 599)}
    assert found <= {True, None}
    last = 600.0 * 99
    assert is_available(fleet, last + 3 * 600) is None
    assert is_available(fleet, last + 3 * 600 + REFRESH_S + 1) is False
    visit(fleet, last + 5000)
    assert is_available(fleet, last + 5001) is True


def test_a_night_without_visits_is_a_habit_as_well() -> None:
    fleet = Fleet()
    now, found = 0.0, set()
    for day in range(12):
        for _ in range(96):
            visit(fleet, now)
            found.add(is_available(fleet, now + 1))
            now += 600.0
        for _ in range(8):
            now += 3600.0
            found.add(is_available(fleet, now))
        if day == 0:
            found.clear()  # of the first one nothing is known
    assert found <= {True, None}


def test_one_that_was_here_for_long_has_left_when_it_disconnects() -> None:
    fleet = Fleet()
    visit(fleet, 0.0, stay_s=VISIT_S_MAX + 1)
    assert is_available(fleet, VISIT_S_MAX + 2) is False


def test_one_with_a_session_visits_as_well() -> None:
    fleet = Fleet()
    session = fleet.awake("tank", 0.0)
    fleet.board.came(ClientId("tank"), 0.0)
    session.receive(Disconnect(None), 0.1)
    fleet.board.departed(ClientId("tank"), State.DISCONNECTED, None, 0.1)
    assert is_available(fleet, 1.0) is True
    assert is_available(fleet, VISITOR_AVAILABLE_S - 1) is not False
    assert is_available(fleet, VISITOR_AVAILABLE_S + 1) is False


def test_one_that_is_lost_as_often_as_it_comes_is_available_once_that_is_known() -> None:
    fleet = Fleet()
    client_id = ClientId("tank")
    found: list[bool | None] = []
    for number in range(6):
        now = 1000.0 * number
        fleet.awake("tank", now)
        fleet.board.came(client_id, now)
        fleet.documents(now)
        del fleet.sessions[client_id]
        fleet.board.departed(client_id, State.LOST, None, now + 90)
        found.append(is_available(fleet, now + 91))
    assert found == [False, False, False, True, True, True]
    fleet.board.came(client_id, 6000.0)
    fleet.board.departed(client_id, State.LOST, None, 6090.0, State.ASLEEP)
    assert is_available(fleet, 6091.0) is False, "it said when it would come"


def test_the_operator_says_who_visits() -> None:
    fleet = Fleet(FixedTimes({ClientId("tank"): 100.0}, ()))
    visit(fleet, 0.0, stay_s=1000.0)
    assert is_available(fleet, 1001.0) is True
    assert is_available(fleet, 1101.0) is False


PATTERNS = FixedTimes(
    {ClientId("tank"): 50.0},
    [("t*", 100.0), ("tank-2", 1.0), ("d*", 0.0), ("w*", None), ("wi*", 9.0)],
)


def test_the_operator_says_how_long_by_pattern() -> None:
    found = [PATTERNS.of(ClientId(name)) for name in ("tank", "tank-2", "tap", "door", "window")]
    assert found == [50.0, 100.0, 100.0, 0.0, None]
    fleet = Fleet(PATTERNS)
    visit(fleet, 0.0, stay_s=1000.0, name="tap")
    assert is_available(fleet, 1001.0) is True
    assert is_available(fleet, 1101.0) is False
    visit(fleet, 2000.0, name="door")
    assert is_available(fleet, 2001.0) is False, "at once, though it visits"
    visit(fleet, 3000.0, name="window")
    assert is_available(fleet, 3001.0) is True


def test_a_sleeper_that_is_lost_stays_for_the_time_that_is_set() -> None:
    fleet = Fleet(PATTERNS)
    session = fleet.asleep("tap", 0.0, sleep_s=600)
    assert is_available(fleet, 599.0) is True
    session.handle_time(10_000.0)
    assert session.state is State.LOST
    fleet.board.departed(ClientId("tap"), State.LOST, None, 10_000.0, State.ASLEEP)
    assert is_available(fleet, 10_001.0) is True
    assert is_available(fleet, 10_101.0) is False


def test_one_without_a_connection_stays_for_the_time_that_is_set() -> None:
    fleet = Fleet(PATTERNS)
    client_id = ClientId("topic:yard/rain")
    assert fleet.board.received_without_connection(client_id, 0.0)
    assert is_available(fleet, 99.0) is True
    assert is_available(fleet, 101.0) is False


def test_of_patterns_only_so_many_answers_are_kept() -> None:
    fixed = FixedTimes({}, [("t*", 1.0)])
    for number in range(FOUND_MAX + 10):
        assert fixed.of(ClientId(f"t{number}")) == 1.0


def test_habits_are_bounded() -> None:
    fleet = Fleet()
    for number in range(VISITORS_MAX + 1):
        fleet.board.came(ClientId(f"s{number}"), 0.0)
    rows = dict(fleet.board.take_rows())
    assert rows == {ClientId("s0"): ()}, "the oldest gives way"
    fleet.board.departed(ClientId("s0"), State.DISCONNECTED, None, 1.0)
    assert fleet.documents(2.0)[0]["available"] is False


def test_a_sensor_without_a_connection_is_awake_while_it_keeps_its_habit() -> None:
    fleet = Fleet()
    door = ClientId("topic:door")
    for number in range(6):
        for burst_s in (0.0, 0.5):
            assert fleet.board.received_without_connection(door, 1000.0 * number + burst_s)
        assert fleet.states(1000.0 * number + 1) == {door: "awake"}
        assert fleet.states(1000.0 * number + 1) == {}
    assert fleet.states(5000.0 + 3 * 1000 + REFRESH_S + 1) == {door: "lost"}
    fleet.board.received_without_connection(door, 9000.0)
    assert fleet.states(9000.1) == {door: "awake"}
    fleet.board.connected()
    assert fleet.states(9000.2) == {door: "awake"}, "a new connection"
    assert fleet.states(8999.0 + DEPARTED_S) == {door: "lost"}
    (cleared,) = fleet.said(9001.0 + DEPARTED_S)
    assert (cleared.client_id, cleared.payload) == (door, b"")


def test_sensors_without_a_connection_are_bounded() -> None:
    fleet = Fleet()
    fleet.asleep("topic:tank", 0.0)
    assert not fleet.board.received_without_connection(ClientId("topic:tank"), 1.0)
    for number in range(CONNECTIONLESS_MAX):
        assert fleet.board.received_without_connection(ClientId(f"topic:{number}"), 1.0)
    assert not fleet.board.received_without_connection(ClientId("topic:x"), 1.0)
    fleet.asleep("topic:1", 2.0)
    assert fleet.states(2.0)["topic:1"] == "asleep", "it has connected"


def restarted(fleet: Fleet) -> Fleet:
    other = Fleet()
    other.board.started_at = 5.0
    for client_id, row in fleet.board.take_rows():
        if row:
            other.board.restore(client_id, json.loads(json.dumps(row)), 5.0)
    return other


def test_habits_are_known_after_a_restart() -> None:
    fleet = Fleet()
    door = ClientId("topic:door")
    for number in range(6):
        visit(fleet, 600.0 * number)
        fleet.board.received_without_connection(door, 600.0 * number)
    assert len(fleet.documents(3001.0)) == 2
    other = restarted(fleet)
    assert other.board.knows(door)
    documents = {each["client"]: each for each in other.documents(6.0)}
    assert documents["tank"]["state"] == "disconnected"
    assert documents["topic:door"]["state"] == "awake"
    assert {each["available"] for each in documents.values()} == {True}
    assert {each["last_seen"] for each in documents.values()} == {None}
    assert is_available(other, 5.0 + 3 * 600) is None
    assert is_available(other, 6.0 + 3 * 600 + REFRESH_S) is False


def test_one_that_was_gone_is_gone_after_a_restart() -> None:
    fleet = Fleet()
    visit(fleet, 0.0)
    assert is_available(fleet, VISITOR_AVAILABLE_S + 1) is False
    other = restarted(fleet)
    assert is_available(other, 6.0) is False
    for _ in range(2):
        fleet.board.forget(ClientId("tank"))
    assert dict(fleet.board.take_rows()) == {ClientId("tank"): ()}
    assert [message.payload for message in fleet.said(VISITOR_AVAILABLE_S + 2)] == [b""]


def test_a_visitor_with_a_session_is_none_without_it_after_a_restart() -> None:
    fleet = Fleet()
    fleet.awake("tank", 0.0)
    fleet.board.came(ClientId("tank"), 0.0)
    fleet.board.departed(ClientId("tank"), State.DISCONNECTED, None, 0.1)
    ((client_id, row),) = fleet.board.take_rows()
    other = Fleet()
    with pytest.raises(ValueError, match="session"):
        other.board.restore(client_id, list(row), 5.0)
    other.awake("tank", 0.0)
    other.board.restore(client_id, list(row), 5.0)
    assert is_available(other, 6.0) is True


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

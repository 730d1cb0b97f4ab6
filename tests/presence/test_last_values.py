"""Last values of devices: merged over readings, published at each change, kept over restarts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.state_records import ClientId
from gateway.presence import last_values as module
from gateway.presence.last_values import (
    CHANGE_S_MAX,
    CHANGES_MAX,
    GAPS_UNTIL_UNKNOWN,
    NO_RULE,
    NOTES_MAX,
    PENDING_MAX,
    READINGS_UNTIL_UNKNOWN,
    LastValues,
    Received,
    ValueRule,
)
from gateway.presence.standing import GAPS_MAX, Rhythm
from gateway.presence.unit_conversion import converted
from gateway.presence.values import Value

TANK = ClientId("tank")
TOPIC = "tank/senml"
AT_ZERO = 1.8e9


class Bench:
    def __init__(self, values_max: int = 64, characters_max: int = 255, **rules: ValueRule) -> None:
        """`rules`: by name."""
        self.values = LastValues(
            values_max=values_max,
            characters_max=characters_max,
            rule_of=lambda _client_id, _topic, name: rules.get(name, NO_RULE),
        )
        self.values.unix_s_at_zero = AT_ZERO
        self.at = 0.0

    def receive(self, document: object, topic: str = TOPIC, client: ClientId = TANK) -> None:
        payload = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.values.receive(client, topic, payload, self.at)
        self.values.decode(1)

    def document(self, client: ClientId = TANK) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.values.document(client) or b"{}")
        return found

    def of(self, topic: str = TOPIC) -> dict[str, object]:
        found: dict[str, object] = self.document().get(topic, {})
        return found

    def changes(self) -> list[dict[str, Any]]:
        found = []
        while (change := self.values.next_change(self.at)) is not None:
            found.append(json.loads(change.payload))
        return found

    def restarted(self, after_s: float = 10.0, **rules: ValueRule) -> Bench:
        other = Bench(**rules)  # type: ignore[arg-type]  # mypy takes them for the limits
        other.values.unix_s_at_zero = AT_ZERO + self.at + after_s
        for client_id, row in self.values.take_rows():
            other.values.restore(client_id, row, 0.0)
        return other


def test_a_value_stays_until_a_newer_one_comes() -> None:
    bench = Bench()
    bench.receive({"t": 1, "bat": 90, "door": True})
    bench.at = 60.0
    bench.receive({"t": 2})
    bench.receive(b"7", "tank/level")
    assert bench.document() == {
        TOPIC: {"t": 2, "bat": 90, "door": True},
        "tank/level": {"": 7},
        "#times": {
            TOPIC: {
                "t": "2027-01-15T08:01:00Z",
                "bat": "2027-01-15T08:00:00Z",
                "door": "2027-01-15T08:00:00Z",
            },
            "tank/level": {"": "2027-01-15T08:01:00Z"},
        },
    }
    assert bench.values.document(ClientId("unknown")) == b""


def test_numbers_are_published_as_they_were_written() -> None:
    bench = Bench()
    bench.receive(b'{"bat":80,"big":9007199254740993,"d":0.12345678901234567890123}')
    text = '{"bat":80,"big":9007199254740993,"d":0.12345678901234567890123}'
    assert text in bench.values.document(TANK).decode()
    other = bench.restarted()
    assert text in other.values.document(TANK).decode()


def test_null_makes_a_value_unknown_at_once_and_is_none_before() -> None:
    bench = Bench()
    bench.receive(b'{"t":null,"h":40}')
    assert bench.of() == {"h": 40}
    bench.receive(b'{"t":21.5}')
    assert bench.changes() == []
    for unknown in (b'{"t":null}', b'{"t":NaN}'):
        bench.receive(unknown)
        assert [change[TOPIC]["t"] for change in bench.changes()] == [None]
        bench.receive(b'{"t":21.5}')
        assert [change[TOPIC]["t"] for change in bench.changes()] == [21.5]


def test_what_came_with_each_reading_and_does_not_any_more_is_unknown() -> None:
    bench = Bench()
    for number in range(GAPS_MAX + 1):
        bench.receive({"old": number, "t": number})
    for number in range(GAPS_UNTIL_UNKNOWN + READINGS_UNTIL_UNKNOWN):
        bench.receive({"new": number, "t": number})
        assert bench.of()["old"] == GAPS_MAX
    bench.values.take_received()
    bench.receive({"new": 1, "t": 1})
    assert bench.of() == {"old": None, "t": 1, "new": 1}
    assert bench.values.take_fresh() == [TANK]
    (received,) = bench.values.take_received()
    assert received == Received(TANK, TOPIC, [Value("new", 1), Value("t", 1)], [])


def test_what_comes_each_twelfth_time_is_expected_then() -> None:
    bench = Bench()
    for number in range(12 * (GAPS_MAX + 1)):
        bench.receive({"t": number} | ({"bat": 90} if number % 12 == 0 else {}))
    for _ in range(12 * GAPS_UNTIL_UNKNOWN - 2):
        bench.receive({"t": 1})
    assert bench.of()["bat"] == 90
    for _ in range(READINGS_UNTIL_UNKNOWN + 12):
        bench.receive({"t": 1})
    assert bench.of()["bat"] is None


def test_what_comes_when_it_changes_stays() -> None:
    bench = Bench()
    for quiet in (0, 30, 2, 100, 1, 5, 400, 0, 3, 700):
        bench.receive({"t": 1, "door": quiet % 2 == 0})
        for _ in range(quiet):
            bench.receive({"t": 1})
    for _ in range(3000):
        bench.receive({"t": 1})
    assert bench.of()["door"] is True


def test_a_topic_that_came_regularly_while_the_device_goes_on_is_unknown() -> None:
    bench = Bench()
    for number in range(40):
        bench.at = 60.0 * number
        bench.receive({"t": 1, "none": None}, "new" if number > 10 else "old")
        bench.receive({"x": 1}, "odd") if number in (1, 2, 7) else None
    assert (bench.of("old"), bench.of("new"), bench.of("odd")) == ({"t": None}, {"t": 1}, {"x": 1})


def test_a_device_that_is_silent_as_a_whole_keeps_its_values() -> None:
    bench = Bench()
    for number in range(20):
        bench.at = 60.0 * number
        bench.receive({"t": 1}, "one")
        bench.receive({"t": 1}, "two")
    bench.at += 1e6
    bench.values.expire(bench.at)
    bench.receive({"t": 2}, "one")
    assert (bench.of("one"), bench.of("two")) == ({"t": 2}, {"t": None})


def test_the_operator_says_when_a_value_expires() -> None:
    bench = Bench(t=ValueRule(expire_after_s=100.0))
    bench.receive({"t": 1, "h": 1})
    bench.values.expire(100.0)
    assert bench.of() == {"t": 1, "h": 1}
    bench.values.take_fresh()
    bench.values.take_received()
    bench.values.expire(100.1)
    assert bench.of() == {"t": None, "h": 1}
    assert (bench.values.take_fresh(), bench.values.take_received()) == ([TANK], [])
    bench.values.expire(200.0)
    assert bench.values.take_fresh() == [], "once"
    bench.at = 300.0
    bench.receive({"t": 2})
    other = bench.restarted(after_s=101.0, t=ValueRule(expire_after_s=100.0))
    other.values.expire(0.0)
    assert other.of()["t"] is None


def test_a_pulse_is_published_whole_however_short_it_is() -> None:
    bench = Bench()
    bench.receive({"on": False, "mode": "a", "t": 1})
    for on in (True, False, True, True, False):
        bench.receive({"on": on, "t": 2})
    assert [change[TOPIC]["on"] for change in bench.changes()] == [True, False, True, False]
    bench.receive(b'[{"n":"on","vb":true},{"n":"on","vb":false},{"n":"on","vb":true}]')
    assert [change[TOPIC]["on"] for change in bench.changes()] == [True, False, True]
    bench.receive({"mode": "b", "t": 3})
    assert [change[TOPIC]["mode"] for change in bench.changes()] == ["b"]


def test_changes_that_could_not_be_published_are_bounded_and_grow_old() -> None:
    bench = Bench()
    for number in range(CHANGES_MAX + 4):
        bench.receive({"on": number % 2 == 0})
    assert bench.values.has_changes
    assert len(bench.changes()) == CHANGES_MAX
    assert "more changes" in bench.values.take_notes()[0]
    bench.receive({"on": True})
    bench.at += CHANGE_S_MAX + 1
    assert bench.changes() == []
    assert not bench.values.has_changes


def test_a_button_is_an_event_each_time() -> None:
    bench = Bench(pressed=ValueRule(is_event=True), count=ValueRule(is_event=True))
    for _ in range(2):
        bench.receive({"action": "single", "pressed": True, "count": 3, "t": 1})
    events = bench.changes()
    assert [each["event_type"] for each in events] == ["single", "true", "3"] * 2
    assert events[0] == {
        "event_type": "single",
        "topic": TOPIC,
        "name": "action",
        "at": "2027-01-15T08:00:00Z",
    }


def test_a_number_that_hardly_changes_is_not_published() -> None:
    bench = Bench(t=ValueRule(min_change=0.5))

    def is_fresh(document: object) -> bool:
        bench.receive(document)
        return bool(bench.values.take_fresh())

    assert is_fresh({"t": 20.0})
    assert not is_fresh({"t": 20.4})
    assert is_fresh({"t": 20.5})
    assert not is_fresh({"t": 20.1})
    assert is_fresh({"t": None})
    assert not is_fresh({"t": None})
    assert is_fresh({"t": 20.1})
    assert not is_fresh({"t": 20.2})
    bench.receive({"h": 40})
    assert bench.values.take_fresh() == [TANK]
    (received,) = bench.values.take_received()
    assert received.values == [Value("t", 20.2), Value("h", 40)], "all that came meanwhile"
    assert is_fresh({"h": 40}), "each reading without a rule"
    assert bench.of()["t"] == 20.2


def test_an_older_value_replaces_no_newer_one() -> None:
    bench = Bench()
    bench.at = 1000.0
    bench.receive([{"n": "t", "v": 3}])
    bench.receive([{"n": "t", "v": 1, "t": -60}, {"n": "h", "v": 5, "t": -60}])
    assert bench.of() == {"t": 3, "h": 5}
    assert bench.document()["#times"][TOPIC]["h"] == "2027-01-15T08:15:40Z"
    bench.receive([{"n": "t", "v": 2, "bt": AT_ZERO + 990}])
    assert bench.of()["t"] == 3
    for wrong in (AT_ZERO + 5000, AT_ZERO - 1e6, 1e9, 5):
        bench.receive([{"n": "t", "v": wrong, "t": wrong}])
        assert bench.of()["t"] == wrong, "the clock of its sensor is wrong"


def test_a_value_in_another_unit_is_converted_to_the_first() -> None:
    bench = Bench()
    bench.receive([{"n": "t", "v": 21.5}])
    bench.receive([{"n": "t", "u": "Cel", "v": 21.5}])
    bench.receive([{"n": "t", "u": "K", "v": 294.65}])
    assert bench.of() == {"t": 21.5}
    assert "converted to Cel" in bench.values.take_notes()[0]
    bench.values.take_fresh()
    bench.values.take_received()
    bench.receive([{"n": "t", "u": "lx", "v": 5}])
    assert bench.of() == {"t": 5}
    assert bench.values.take_fresh() == [TANK]
    assert bench.values.take_received() == [Received(TANK, TOPIC, [Value("t", 5, "lx")], [])]
    assert "the new unit is used" in bench.values.take_notes()[0]
    assert bench.values.left_out is None


@pytest.mark.parametrize(
    ("value", "unit", "to", "expected"),
    [
        (21.5, "Cel", "K", 294.65),
        (3300, "mV", "V", 3.3),
        (1.5, "h", "min", 90),
        (36, "km/h", "m/s", 10),
        (1013.25, "hPa", "Pa", 101325),
        (1, "m", "V", None),
        (1, "", "V", None),
    ],
)
def test_units_of_one_quantity_become_each_other(
    value: float, unit: str, to: str, expected: float | None
) -> None:
    assert converted(value, unit, to) == expected


def test_what_is_left_out_is_named_once() -> None:
    bench = Bench(values_max=3, characters_max=10, secret=ValueRule(hide=True))
    bench.receive({"a": 1, "b": 2, "secret": 3})
    bench.receive({"c": 3})
    bench.receive({"d": 4})
    bench.receive({"d": 5, "a": 6})
    assert bench.of() == {"a": 6, "b": 2, "secret": 3, "c": 3}
    (note,) = bench.values.take_notes()
    assert "'tank' on 'tank/senml': more than 3 values" in note
    bench.receive({"a": "x" * 11})
    bench.receive(b"\xff\x00", "tank/raw")
    bench.receive({"1": 1, "2": 2, "3": 3, "4": 4})
    assert [note.rpartition(": ")[2][:12] for note in bench.values.take_notes()] == [
        "more than 10",
        "neither SenM",
    ]
    assert bench.values.left_out is not None
    assert bench.values.left_out.endswith("and 1 more")
    assert bench.values.take_notes() == []


def test_hidden_values_use_up_no_place() -> None:
    names = [f"hidden{number}" for number in range(5)]
    bench = Bench(values_max=6, **dict.fromkeys(names, ValueRule(hide=True)))  # type: ignore[arg-type]  # mypy takes them for the limits
    bench.receive(dict.fromkeys(names, 1))
    bench.receive({f"n{number}": 1 for number in range(6)})
    assert len(bench.of()) == 11
    assert bench.values.left_out is None
    (received,) = bench.values.take_received()
    assert {value.name for value in received.values} == {f"n{number}" for number in range(6)}
    assert received.unknown == []


def test_a_null_says_that_its_value_is_still_there() -> None:
    bench = Bench(t=ValueRule(min_change=5.0))
    bench.receive({"t": 1, "h": 1})
    bench.values.take_received()
    bench.receive({"t": None, "h": None, "new": None})
    bench.receive({"h": 2})
    (received,) = bench.values.take_received()
    assert received == Received(TANK, TOPIC, [Value("h", 2)], ["t"])
    bench.receive({"t": 2})
    assert bench.values.take_fresh() == [TANK]
    bench.receive({"t": 3})
    assert bench.values.take_fresh() == []
    (received,) = bench.values.take_received()
    assert received.values == [Value("t", 3)], "also where it is not published"


def test_limits_of_devices_and_notes_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEVICES_MAX", 2)
    bench = Bench()
    for name in ("a", "b", "c"):
        bench.receive({"t": 1}, client=ClientId(name))
    assert bench.values.devices == ["a", "b"]
    assert "more than 2 devices" in str(bench.values.left_out)
    for number in range(NOTES_MAX + 5):
        bench.receive(b"\xff\x00", f"raw/{number}")
    assert len(bench.values.take_notes()) == NOTES_MAX


def test_readings_that_come_faster_than_they_are_decoded_give_way() -> None:
    bench = Bench()
    for number in range(PENDING_MAX + 1):
        bench.values.receive(TANK, TOPIC, b"%d" % number, 0.0)
    assert bench.values.has_pending
    bench.values.decode(2 * PENDING_MAX)
    assert not bench.values.has_pending
    assert bench.of() == {"": PENDING_MAX}
    assert "more readings came" in str(bench.values.left_out)


def test_a_device_that_is_forgotten_has_no_values() -> None:
    bench = Bench(on=ValueRule(expire_after_s=10.0))
    other = ClientId("other")
    for client in (TANK, other):
        bench.receive({"on": True}, client=client)
        bench.receive({"on": False}, client=client)
    bench.values.forget(TANK)
    bench.values.forget(TANK)
    assert bench.document() == {}
    assert bench.values.take_fresh() == [other]
    assert [each.client_id for each in bench.values.take_received()] == [other]
    assert (len(bench.changes()), bench.changes()) == (1, [])
    rows = dict(bench.values.take_rows())
    assert (rows[TANK], bool(rows[other])) == ("", True)
    bench.values.expire(100.0)
    assert bench.document(other)[TOPIC] == {"on": None}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b/c"]),
            st.dictionaries(
                st.sampled_from("xyz"),
                st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            ),
        ),
        max_size=20,
    )
)
def test_a_restart_changes_nothing(readings: list[tuple[str, dict[str, object]]]) -> None:
    bench = Bench()
    for topic, values in readings:
        bench.at += 60.0
        bench.receive(values, topic)
    other = bench.restarted()
    assert other.document() == bench.document()
    for each in (bench, other):
        each.at += 0.0
        each.receive({"x": 1}, "a")
    assert {**other.document(), "#times": 0} == {**bench.document(), "#times": 0}


def test_a_board_that_is_in_1970_again_knows_its_values() -> None:
    bench = Bench()
    bench.receive({"t": 1})
    other = LastValues(values_max=64, characters_max=255)
    for client_id, row in bench.values.take_rows():
        other.restore(client_id, row, 5.0)
    assert json.loads(other.document(TANK)) == {
        TOPIC: {"t": 1},
        "#times": {TOPIC: {"t": "1970-01-01T00:00:05Z"}},
    }


def test_a_rhythm_is_known_after_some_gaps_and_an_outage_is_none() -> None:
    rhythm = Rhythm()
    assert rhythm.usual() is None
    for gap in (10.0, 11.0, 9.0):
        rhythm.note(gap)
    assert (rhythm.usual(), rhythm.regular(0)) == (11.0, None)
    for gap in (10.0, 5000.0, 10.0, 10.0, 12.0, 10.0):
        rhythm.note(gap)
    assert (rhythm.usual(), rhythm.regular(0), len(rhythm.gaps)) == (12.0, 12.0, GAPS_MAX)
    rhythm.note(4000.0)
    assert rhythm.regular(0) is None

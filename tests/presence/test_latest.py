"""What sensors said last: kept within bounds, whatever they say and however many they are."""

from __future__ import annotations

import json
import tracemalloc

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.presence import latest as module
from gateway.presence.latest import (
    DECODED_MAX,
    GIVE_WAY,
    NAMES_MAX,
    POINTS_MAX,
    SERIES_MAX,
    SERIES_OF_ONE_MAX,
    Latest,
    series_json,
)

SENML = b'[{"n":"t","u":"Cel","v":%d},{"n":"h","v":40},{"n":"b","v":3.1}]'


def said(client: str, topic: str, payload: bytes = b"1", at: float = 0.0) -> Reading:
    return Reading(ClientId(client), topic, payload, 1, False, 0, 0, at)


def test_the_newest_is_kept_with_the_past_of_its_numbers() -> None:
    latest = Latest()
    for number in range(POINTS_MAX + 5):
        latest.receive(said("well", "t", SENML % number, float(number)))
        latest.beat()
    (series,) = latest.of("well")
    (shown,) = series_json([series], now=40.0, unix_s=1000.0)
    assert (shown["count"], shown["heard_at"]) == (POINTS_MAX + 5, 996.0)
    values = shown["values"]
    assert isinstance(values, list)
    assert (values[0]["value"], values[0]["unit"]) == (float(POINTS_MAX + 4), "Cel")
    assert values[0]["past"] == [float(each) for each in range(5, POINTS_MAX + 5)]


def test_what_comes_faster_than_the_beat_is_one_point() -> None:
    latest = Latest()
    for number in range(10):
        latest.receive(said("well", "t", b"%d" % number))
    latest.beat()
    (series,) = latest.of("well")
    assert list(series.points[""]) == [9.0]


def test_texts_have_no_past_and_numbers_a_few_names() -> None:
    latest = Latest()
    many = {f"n{number}": number for number in range(NAMES_MAX + 3)}
    latest.receive(said("well", "many", json.dumps(many).encode()))
    latest.receive(said("well", "text", b"on"))
    latest.receive(said("well", "huge", b"1e300"))
    latest.beat()
    series = {series.topic: series.points for series in latest.of("well")}
    assert (len(series["many"]), series["text"]) == (NAMES_MAX, {})
    assert list(series["huge"][""]) != []


def test_the_topics_of_one_sensor_are_bounded_and_the_oldest_gives_way() -> None:
    latest = Latest()
    for number in range(SERIES_OF_ONE_MAX + 3):
        latest.receive(said("well", f"t/{number}", at=float(number)))
    topics = [series.topic for series in latest.of("well")]
    assert topics == [f"t/{number}" for number in range(SERIES_OF_ONE_MAX + 2, 2, -1)]
    assert len(latest) == SERIES_OF_ONE_MAX


def test_when_it_is_full_those_heard_the_longest_ago_give_way() -> None:
    latest = Latest()
    for number in range(SERIES_MAX):
        latest.receive(said(f"s{number}", "t", at=float(number)))
    latest.receive(said("late", "t", at=1e6))
    assert latest.of("late") == []
    latest.beat()
    assert len(latest) == SERIES_MAX - SERIES_MAX // GIVE_WAY
    latest.receive(said("late", "t", at=1e6))
    assert len(latest.of("late")) == 1
    assert latest.of("s0") == []


def test_a_beat_reads_no_more_than_it_has_time_for_and_the_next_one_the_rest() -> None:
    latest = Latest()
    for number in range(DECODED_MAX + 1):
        latest.receive(said(f"s{number}", "t"))
    latest.beat()
    assert [len(latest.of(f"s{number}")[0].points) for number in (0, DECODED_MAX)] == [1, 0]
    latest.beat()
    assert len(latest.of(f"s{DECODED_MAX}")[0].points) == 1


def test_a_forgotten_sensor_has_said_nothing() -> None:
    latest = Latest()
    latest.receive(said("well", "t"))
    latest.forget(ClientId("well"))
    latest.beat()
    assert (len(latest), latest.of("well"), latest.found("", 5)) == (0, [], ([], 0))


def test_topics_and_sensors_are_found_by_any_part_of_their_names_the_newest_first() -> None:
    latest = Latest()
    latest.receive(said("Well", "site/level", at=1.0))
    latest.receive(said("tank", "site/LEVEL", at=3.0))
    latest.receive(said("door", "site/open", at=2.0))
    found, total = latest.found("level", 1)
    assert ([each.client_id for each in found], total) == (["tank"], 2)
    found, total = latest.found("wel", 9)
    assert ([each.topic for each in found], total) == (["site/level"], 1)


def test_ten_thousand_sensors_cost_what_the_module_says() -> None:
    tracemalloc.start()
    latest = Latest()
    for number in range(10_000):
        latest.receive(said(f"sensor-{number:05}", f"site/sensor-{number:05}", SENML % number))
    for _ in range(10_000 // DECODED_MAX):
        latest.beat()
    used, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "12 MiB for 10,000" in (module.__doc__ or "")
    assert used < 12 << 20

"""What the demo concludes from what it sees: latencies, confirmations, repeats, the verdict."""

from __future__ import annotations

import json

import pytest

from gateway.cli.demo.screen import line_for
from gateway.cli.demo.seen import (
    LATENCIES_MAX,
    Clock,
    CommandConfirmed,
    CommandSent,
    Event,
    Notice,
    PresenceChanged,
    ReadingArrived,
    Seen,
    SensorSeen,
)
from gateway.cli.demo.summary import summary_json, summary_lines
from gateway.cli.sensors import senml
from gateway.cli.sensors.client_effects import (
    Acknowledged,
    ConversationEnded,
    EndReason,
    FellAsleep,
    Retransmitted,
)
from gateway.cli.sensors.sensor import Published, Refused, Unreadable


def a_view(sensors: int = 2) -> Seen:
    names = [f"sensor-{number}" for number in range(1, sensors + 1)]
    return Seen({name: SensorSeen(name, qos=1) for name in names})


def a_payload(time_s: float, interval_s: float = 1.0) -> bytes:
    measured = (senml.Measurement("temperature", "Cel", 21.5),)
    interval = senml.Measurement("interval", "s", interval_s)
    return senml.encode(senml.Pack("sensor-1/", time_s, (*measured, interval)))


def arrives(
    seen: Seen, *, taken: float, now: float, name: str = "sensor-1", interval_s: float = 1.0
) -> list[Event]:
    return seen.message(f"demo/{name}", a_payload(taken, interval_s), 1, now)


def test_the_latency_is_the_age_of_the_reading_when_it_arrives() -> None:
    seen = a_view()
    (event,) = arrives(seen, taken=100.0, now=100.25)
    assert isinstance(event, ReadingArrived)
    assert event.latency_s == 0.25
    arrives(seen, taken=101.0, now=102.0)
    arrives(seen, taken=103.0, now=103.5)
    sensor = seen.sensors["sensor-1"]
    assert (sensor.latency_last_s, sensor.latency_p50_s(), sensor.latency_max_s) == (0.5, 0.5, 1.0)


def test_it_keeps_a_bounded_number_of_latencies() -> None:
    seen = a_view()
    for second in range(LATENCIES_MAX + 10):
        arrives(seen, taken=second, now=second + 0.1)
    assert len(seen.sensors["sensor-1"].latencies_s) == LATENCIES_MAX
    assert seen.sensors["sensor-1"].readings == LATENCIES_MAX + 10


def test_a_reading_that_comes_twice_is_counted_once_and_noticed() -> None:
    seen = a_view()
    arrives(seen, taken=100.0, now=100.1)
    assert arrives(seen, taken=100.0, now=100.2) == [Notice("sensor-1", "a reading came twice")]
    assert (seen.sensors["sensor-1"].readings, seen.sensors["sensor-1"].repeats) == (1, 1)


def test_a_command_is_confirmed_by_a_later_report_with_its_interval() -> None:
    seen = a_view()
    sensor = seen.sensors["sensor-1"]
    assert seen.command(sensor, b"2", 100.0, ours=True) == [CommandSent("sensor-1", "2", True)]
    before = arrives(seen, taken=99.9, now=100.1, interval_s=2.0)
    assert len(before) == 1  # measured before the command: says nothing about it
    assert len(arrives(seen, taken=100.2, now=100.2, interval_s=1.0)) == 1
    events = arrives(seen, taken=100.3, now=100.5, interval_s=2.0)
    assert events[1:] == [CommandConfirmed("sensor-1", "2", 0.5)]
    assert len(arrives(seen, taken=102.3, now=102.4, interval_s=2.0)) == 1  # once is enough
    assert sensor.commands_confirmed == 1


def test_a_command_of_the_user_is_seen_at_the_broker_and_confirmed_too() -> None:
    seen = a_view()
    assert seen.message("demo/sensor-1/set", b"3.0", 0, 100.0) == [
        CommandSent("sensor-1", "3.0", False)
    ]
    assert seen.sensors["sensor-1"].commanded_by_user
    # The sensor had it before we knew of it.
    events = arrives(seen, taken=99.999, now=100.002, interval_s=3.0)
    assert isinstance(events[1], CommandConfirmed)


def test_a_command_that_is_no_interval_is_never_confirmed() -> None:
    seen = a_view()
    seen.message("demo/sensor-1/set", b"\x1b[2Jsoon", 0, 100.0)
    (notice,) = seen.sensor_event("sensor-1", Refused("?[2Jsoon"))
    text = "refused the command '?[2Jsoon': not a number of seconds"
    assert notice == Notice("sensor-1", text)
    assert len(arrives(seen, taken=100.1, now=100.2)) == 1
    command = seen.sensors["sensor-1"].command
    assert command is not None
    assert (command.text, command.refused) == ("?[2Jsoon", True)


def test_strange_topics_and_payloads_are_no_readings() -> None:
    seen = a_view()
    assert seen.message("demo/hello", b"world", 0, 100.0) == []
    (notice,) = seen.message("demo/sensor-1", b"\xff", 0, 100.0)
    assert isinstance(notice, Notice)
    assert seen.sensors["sensor-1"].readings == 0


def test_a_reading_that_was_acknowledged_and_did_not_arrive_is_missing() -> None:
    seen = a_view()
    seen.sensor_event("sensor-1", Published())
    seen.sensor_event("sensor-1", Acknowledged(b""))
    assert not seen.all_arrived()
    arrives(seen, taken=100.0, now=100.1)
    assert seen.all_arrived()


def test_retransmissions_reconnects_and_unreadable_datagrams_are_counted() -> None:
    seen = a_view()
    seen.sensor_event("sensor-1", Retransmitted())
    (notice,) = seen.sensor_event("sensor-1", ConversationEnded(EndReason.SILENCE))
    assert notice == Notice("sensor-1", "connects again: no answer")
    (notice,) = seen.sensor_event("sensor-1", Unreadable("length byte is 0"))
    assert notice == Notice("sensor-1", "got an unreadable datagram: length byte is 0")
    sensor = seen.sensors["sensor-1"]
    assert (sensor.retransmitted, sensor.reconnects, sensor.unreadable) == (1, 1, 1)


def test_what_the_gateway_says_of_a_sleeper_is_news_when_it_changes() -> None:
    seen = Seen({"sensor-1": SensorSeen("sensor-1", 1, sleeps=True), "s2": SensorSeen("s2", 1)})
    until = "asleep until 14:32:05"
    assert seen.presence("sensor-1", until) == [PresenceChanged("sensor-1", until)]
    assert seen.presence("sensor-1", until) == []
    overdue = PresenceChanged("sensor-1", "overdue by 0.1 s")
    assert seen.presence("sensor-1", "overdue by 0.1 s") == [overdue]
    assert seen.presence("sensor-1", "overdue by 0.4 s") == []
    assert seen.sensors["sensor-1"].presence == "overdue by 0.4 s"
    assert seen.presence("demo-probe", "active") == []
    assert seen.presence("s2", "active") == [], "it never sleeps"


def test_a_command_to_one_that_sleeps_is_said_to_wait() -> None:
    seen = Seen({"sensor-1": SensorSeen("sensor-1", 1, sleeps=True)})
    sensor = seen.sensors["sensor-1"]
    seen.presence("sensor-1", "active")
    (awake,) = seen.command(sensor, b"5", 100.0, ours=True)
    assert line_for(awake) == "down  demo/sensor-1/set  5"
    seen.presence("sensor-1", "asleep until 14:32:05")
    (asleep,) = seen.command(sensor, b"5", 101.0, ours=True)
    assert line_for(asleep) == "down  demo/sensor-1/set  5  (waits: asleep until 14:32:05)"
    seen.sensor_event("sensor-1", FellAsleep(3))
    text = "\n".join(summary_lines(seen))
    assert "Asleep: 1 sensors, 1 times; they obeyed 0 commands after waking" in text


# The verdict


def test_the_verdict_names_the_sensors_that_were_not_heard() -> None:
    seen = a_view(sensors=9)
    arrives(seen, taken=100.0, now=100.1)
    problem = seen.missing()
    assert problem is not None
    assert "sensor-2, sensor-3, sensor-4, sensor-5, sensor-6 and 3 more" in problem
    assert "way down" in problem


def test_readings_of_all_sensors_without_a_confirmed_command_are_half_of_it() -> None:
    seen = a_view(sensors=1)
    arrives(seen, taken=100.0, now=100.1)
    assert seen.missing() == "The way down is missing: no command was confirmed by a sensor."


def test_both_ways_are_a_success() -> None:
    seen = a_view(sensors=1)
    seen.command(seen.sensors["sensor-1"], b"2", 100.0, ours=True)
    arrives(seen, taken=100.1, now=100.2, interval_s=2.0)
    assert seen.missing() is None
    assert summary_json(seen, 1.0, None)["ok"] is True


def test_the_summary_tells_both_ways_in_numbers() -> None:
    seen = a_view(sensors=1)
    seen.command(seen.sensors["sensor-1"], b"2", 100.0, ours=True)
    arrives(seen, taken=100.1, now=100.2, interval_s=2.0)
    text = "\n".join(summary_lines(seen))
    assert "1 readings from 1 of 1 sensors" in text
    assert "1 commands, 1 obeyed" in text
    summary = json.loads(json.dumps(summary_json(seen, 1.0, None)))
    assert summary["sensors"][0]["latency_max_ms"] == pytest.approx(100.0, abs=0.01)


def test_the_clock_agrees_with_itself() -> None:
    clock = Clock.started()
    first = clock.unix()
    assert clock.unix() >= first > 1_700_000_000

"""The simulated device: what it measures, what it obeys, and the payload it makes."""

from __future__ import annotations

import math
from random import Random

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.sensors import senml
from gateway.cli.sensors.client_effects import Acknowledged, Send
from gateway.cli.sensors.readings import indoor_walks
from gateway.cli.sensors.sensor import (
    INTERVAL_MAX_S,
    INTERVAL_MIN_S,
    News,
    Obeyed,
    Published,
    Refused,
    SimulatedSensor,
    interval_in,
    printable,
)
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Regack,
    Suback,
    decode,
    encode,
)

UNIX_OFFSET_S = 1_700_000_000.0


def a_sensor(seed: int = 1, qos: int = 1) -> SimulatedSensor:
    return SimulatedSensor("sensor-1", qos, 1.0, UNIX_OFFSET_S, Random(seed))


def a_running_sensor() -> SimulatedSensor:
    """Its first reading, taken at 10.0, is acknowledged; topic id 6 is for commands."""
    sensor = a_sensor()
    sensor.client.engine.message_id = 0
    sensor.start(now=10.0)
    for answer in (Connack(0), Suback(6, 1, 0, qos=1), Regack(5, 2, 0), Puback(5, 3, 0)):
        sensor.receive(encode(answer), now=10.0)
    assert not sensor.client.has_readings
    return sensor


def packs_in(news: list[News]) -> list[senml.Pack]:
    frames = [decode(item.datagram) for item in news if isinstance(item, Send)]
    return [senml.decode(frame.payload) for frame in frames if isinstance(frame, Publish)]


# Measuring


def test_it_measures_when_the_conversation_is_complete_and_not_before() -> None:
    sensor = a_sensor()
    sensor.client.engine.message_id = 0
    assert sensor.start(now=10.0) == [Send(encode(Connect(b"sensor-1", 60)))]
    sensor.receive(encode(Connack(0)), now=10.0)
    assert Published() in sensor.receive(encode(Suback(6, 1, 0, qos=1)), now=10.5)
    news = sensor.receive(encode(Regack(5, 2, 0)), now=10.6)
    assert [pack.time_s for pack in packs_in(news)] == [UNIX_OFFSET_S + 10.5]


def test_it_measures_at_its_interval() -> None:
    sensor = a_running_sensor()
    first = sensor.measure_at
    assert first is not None
    assert 10.0 < first <= 11.0  # the second reading comes early, so that sensors spread
    assert sensor.handle_time(now=first - 0.001) == []
    assert Published() in sensor.handle_time(now=first)
    assert sensor.measure_at == first + 1.0


def test_a_reading_carries_what_was_measured_and_the_interval() -> None:
    sensor = a_running_sensor()
    assert sensor.measure_at is not None
    (pack,) = packs_in(sensor.handle_time(sensor.measure_at))
    assert pack.base_name == "sensor-1/"
    units = [(m.name, m.unit) for m in pack.measurements]
    assert units == [
        ("temperature", "Cel"),
        ("humidity", "%RH"),
        ("battery", "V"),
        ("interval", "s"),
    ]
    assert pack.value("interval") == 1.0


def test_the_same_seed_measures_the_same() -> None:
    walks, again, other = indoor_walks(Random(3)), indoor_walks(Random(3)), indoor_walks(Random(4))
    assert walks == again
    assert walks != other
    measured = [walk.measure(Random(5)) for walk in walks]
    assert measured == [walk.measure(Random(5)) for walk in again]


def test_what_it_measures_stays_plausible_for_a_day() -> None:
    dice = Random(1)
    temperature, humidity, battery = indoor_walks(dice)
    for _ in range(20_000):
        assert 15 < temperature.measure(dice).value < 27
        assert 25 < humidity.measure(dice).value < 75
        assert 2.4 < battery.measure(dice).value < 3.3


# Commands


def test_a_command_changes_the_interval_and_is_reported_at_once() -> None:
    sensor = a_running_sensor()
    news = sensor.receive(encode(Publish(6, 9, b"2.5", qos=1)), now=10.1)
    assert Obeyed(2.5) in news
    assert Send(encode(Puback(6, 9, 0))) in news
    assert [pack.value("interval") for pack in packs_in(news)] == [2.5]
    assert sensor.measure_at == pytest.approx(12.6)


@pytest.mark.parametrize(
    "payload", [b"", b"soon", b"0", b"-1", b"nan", b"inf", b"3601", b"0.09", b"\xff", b"1" * 17]
)
def test_a_command_that_is_no_interval_is_refused_and_changes_nothing(payload: bytes) -> None:
    sensor = a_running_sensor()
    due = sensor.measure_at
    news = sensor.receive(encode(Publish(6, 9, payload, qos=1)), now=10.1)
    assert [item for item in news if isinstance(item, Refused)]
    assert packs_in(news) == []
    assert (sensor.interval_s, sensor.measure_at) == (1.0, due)


@pytest.mark.parametrize("seconds", [INTERVAL_MIN_S, 2.0, INTERVAL_MAX_S])
def test_an_interval_within_the_limits_is_taken(seconds: float) -> None:
    assert interval_in(f" {seconds:g}\n".encode()) == seconds


@given(st.binary(max_size=40))
def test_any_command_is_an_interval_or_refused(payload: bytes) -> None:
    seconds = interval_in(payload)
    assert seconds is None or INTERVAL_MIN_S <= seconds <= INTERVAL_MAX_S


def test_what_a_stranger_sent_is_shown_without_control_characters() -> None:
    assert printable(b"\x1b[31mred\x07\xff") == "?[31mred?\ufffd"
    assert len(printable(b"x" * 1000)) <= 16


def test_after_stop_it_leaves_and_measures_no_more() -> None:
    sensor = a_running_sensor()
    assert sensor.stop(now=20.0) == [Send(encode(Disconnect()))]
    news = sensor.handle_time(now=21.0)
    assert Published() not in news
    assert not [item for item in news if isinstance(item, Acknowledged)]


# SenML

ROW = senml.Pack("s/", 1_700_000_000.5, (senml.Measurement("t", "Cel", 21.5),))
ROW_HEX = (
    "81"  # an array of one record
    "a5"  # a map of five
    "21 62732f"  # -2 base name "s/"
    "22 fb41d954fc40200000"  # -3 base time
    "00 6174"  # 0 name "t"
    "01 6343656c"  # 1 unit "Cel"
    "02 fb4035800000000000"  # 2 value 21.5
)


def test_a_pack_is_written_as_rfc_8428_says() -> None:
    assert senml.encode(ROW).hex() == ROW_HEX.replace(" ", "")
    assert senml.decode(bytes.fromhex(ROW_HEX)) == ROW


def test_a_time_of_the_first_record_counts_from_the_base_time() -> None:
    payload = cbor2.dumps([{-3: 1_700_000_000, 0: "t", 2: 1, 6: -5}])
    assert senml.decode(payload).time_s == 1_699_999_995


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        7,
        [7],
        [{0: "t"}],
        [{0: 1, 2: 1}],
        [{0: "t", 2: True}],
        [{0: "t", 2: "x"}],
        [{0: "t", 2: math.nan}],
        [{0: "t", 2: 2**70}],
        [{-2: 5, 0: "t", 2: 1}],
        [{-3: "now", 0: "t", 2: 1}],
        [{0: "t", 2: 1}, 9],
        [{0: "t", 2: 1}] * 65,
    ],
)
def test_what_is_no_pack_is_refused(value: object) -> None:
    with pytest.raises(senml.SenmlError):
        senml.decode(cbor2.dumps(value))


@pytest.mark.parametrize("cut", range(len(bytes.fromhex(ROW_HEX))))
def test_a_cut_pack_is_refused(cut: int) -> None:
    with pytest.raises(senml.SenmlError):
        senml.decode(bytes.fromhex(ROW_HEX)[:cut])


def test_octets_after_the_pack_are_refused() -> None:
    with pytest.raises(senml.SenmlError, match="bytes after"):
        senml.decode(bytes.fromhex(ROW_HEX) + b"\x00")


@given(st.binary(max_size=80))
def test_any_payload_is_a_pack_or_refused(payload: bytes) -> None:
    try:
        pack = senml.decode(payload)
    except senml.SenmlError:
        return
    assert pack.measurements


def test_deeply_nested_cbor_is_refused() -> None:
    with pytest.raises(senml.SenmlError):
        senml.decode(b"\x81" * 20_000)

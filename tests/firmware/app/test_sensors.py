"""Drivers at simulated buses, with the values of the data sheets."""

from __future__ import annotations

from typing import Any

import pytest

from firmware.app.sensors import bme280
from firmware.app.sensors.ds18b20 import crc8
from firmware.app.sensors.kinds import made
from tests.firmware.app.simulated_buses import (
    RAW_HUMIDITY,
    RAW_PRESSURE,
    RAW_TEMPERATURE,
    Bme280,
    Ds18b20,
    H,
    P,
    Pins,
    T,
)

Spec = dict[str, Any]


def measured(spec: Spec, board: object) -> list[tuple[str, str, int, int]]:
    sensor = made(spec, board)
    assert sensor.start() < 1000
    return list(sensor.read())


# DS18B20


@pytest.mark.parametrize(
    ("raw", "celsius"),  # table 1 of the data sheet
    [
        (0x07D0, 125.0),
        (0x0550, 85.0),
        (0x0191, 25.0625),
        (0x00A2, 10.125),
        (0x0008, 0.5),
        (0x0000, 0.0),
        (0xFFF8 - 0x10000, -0.5),
        (0xFF5E - 0x10000, -10.125),
        (0xFE6F - 0x10000, -25.0625),
        (0xFC90 - 0x10000, -55.0),
    ],
)
def test_ds18b20_measures_what_its_data_sheet_says(raw: int, celsius: float) -> None:
    ((name, unit, digits, places),) = measured({"kind": "ds18b20", "pin": 4}, Ds18b20(raw))
    assert (name, unit) == ("temperature", "Cel")
    assert digits / 10**places == celsius


def test_ds18b20_says_what_the_data_sheet_asks_for() -> None:
    bus = Ds18b20(0x0191)
    measured({"kind": "ds18b20", "pin": 4, "bits": 9}, bus)
    assert [each.hex() for each in bus.traffic] == ["cc", "4e00001f", "cc", "44", "cc", "be"]


def test_ds18b20_with_fewer_bits_is_faster_and_coarser() -> None:
    waits = [
        made({"kind": "ds18b20", "pin": 4, "bits": bits}, Ds18b20(0)).start()
        for bits in (9, 10, 11, 12)
    ]
    assert waits == [94, 188, 376, 752]
    ((_, _, digits, _),) = measured({"kind": "ds18b20", "pin": 4, "bits": 9}, Ds18b20(0x0191))
    assert digits == 250_000


def test_ds18b20_by_its_rom_is_the_only_one_that_answers() -> None:
    rom = bytes.fromhex("28ff641e0016033c")
    spec: Spec = {"kind": "ds18b20", "pin": 4, "name": "soil", "rom": rom.hex()}
    assert measured(spec, Ds18b20(16, rom)) == [("soil", "Cel", 10_000, 4)]
    with pytest.raises(OSError, match="damaged"):
        measured(spec, Ds18b20(16, b"another."))


def test_ds18b20_damaged_absent_or_without_power_is_an_error() -> None:
    spec: Spec = {"kind": "ds18b20", "pin": 4}
    bus = Ds18b20(0x0191)
    sensor = made(spec, bus)
    sensor.start()
    for bit in range(8):
        bus.flip = 1 << bit
        with pytest.raises(OSError, match="damaged"):
            sensor.read()
    bus.flip = 0
    bus.has_converted = False
    with pytest.raises(OSError, match="lost its power"):
        sensor.read()
    bus.is_there = False
    with pytest.raises(OSError, match="nobody on the bus"):
        sensor.start()


def test_a_wire_held_down_is_no_zero_degrees() -> None:
    class HeldDown(Ds18b20):
        def readinto(self, buffer: bytearray) -> None:
            buffer[:] = bytes(len(buffer))

    with pytest.raises(OSError, match="damaged"):
        measured({"kind": "ds18b20", "pin": 4}, HeldDown(0))


def test_the_check_is_that_of_the_application_note() -> None:
    assert crc8(bytearray.fromhex("021cb801000000")) == 0xA2  # Maxim AN27, its example


# BME280


def test_bme280_measures_the_example_of_the_data_sheet() -> None:
    found = measured({"kind": "bme280", "scl": 1, "sda": 2, "name": "air"}, Bme280())
    assert found[:2] == [("air.temperature", "Cel", 2508, 2), ("air.pressure", "Pa", 100653, 0)]
    assert found[2][:2] == ("air.humidity", "%RH")


def test_bme280_is_asked_for_one_measurement_and_sleeps_again() -> None:
    bus = Bme280()
    measured({"kind": "bme280", "scl": 1, "sda": 2}, bus)
    assert bus.traffic == [(0xF2, b"\x01"), (0xF4, b"\x25")]


def humidity_as_float(raw: int, t_fine: int) -> float:
    """Appendix 8.1, the formula in floats."""
    h1, h2, h3, h4, h5, h6 = H
    fine = t_fine - 76800.0
    value = (raw - (h4 * 64.0 + h5 / 16384.0 * fine)) * (
        h2 / 65536.0 * (1.0 + h6 / 67108864.0 * fine * (1.0 + h3 / 67108864.0 * fine))
    )
    value *= 1.0 - h1 * value / 524288.0
    return min(max(value, 0.0), 100.0)


def test_the_formula_in_whole_numbers_is_that_in_floats() -> None:
    for raw_temperature in range(400_000, 600_000, 20_000):
        _, t_fine = bme280.temperature_of(T, raw_temperature)
        for raw in range(20_000, 50_000, 1_000):
            whole = bme280.humidity_of(H, raw, t_fine)
            assert abs(whole / 10 - humidity_as_float(raw, t_fine)) < 0.1
    _, t_fine = bme280.temperature_of(T, RAW_TEMPERATURE)
    assert bme280.pressure_of(P, RAW_PRESSURE, t_fine) == 100653
    assert 30 < humidity_as_float(RAW_HUMIDITY, t_fine) < 60


def test_bmp280_has_no_humidity() -> None:
    found = measured({"kind": "bme280", "scl": 1, "sda": 2}, Bme280(0x58))
    assert [name for name, *_ in found] == ["temperature", "pressure"]


def test_bme280_absent_of_another_kind_slow_or_unmeasured_is_an_error() -> None:
    spec: Spec = {"kind": "bme280", "scl": 1, "sda": 2}
    with pytest.raises(OSError, match="19"):
        made({**spec, "address": 0x77}, Bme280())
    with pytest.raises(OSError, match="no BME280"):
        made(spec, Bme280(0x61))
    slow = Bme280()
    slow.is_slow = True
    with pytest.raises(OSError, match="still measuring"):
        measured(spec, slow)
    with pytest.raises(OSError, match="measured nothing"):
        made(spec, Bme280()).read()


# Others


def test_a_voltage_is_the_median_times_the_divider() -> None:
    spec: Spec = {"kind": "adc", "pin": 34, "name": "battery", "times": 2}
    pins = Pins(1_850_000, 900_000, 1_850_400, 1_849_000, 1_850_000, 1_850_100, 3_000_000)
    assert measured(spec, pins) == [("battery", "V", 3700, 3)]


def test_the_chip_has_a_thermometer() -> None:
    assert measured({"kind": "internal"}, Pins(0)) == [("chip", "Cel", 253, 1)]


def test_the_simulated_one_walks_in_steps() -> None:
    sensor = made({"kind": "simulated", "value": 5.0, "step": 0.1}, None)
    values = [sensor.read()[0][2] for _ in range(50)]
    assert max(abs(a - b) for a, b in zip([500, *values], values, strict=False)) <= 10
    assert len(set(values)) > 5


@pytest.mark.parametrize("spec", [{"kind": "rain"}, {"kind": "ds18b20", "pin": 1, "bits": 13}])
def test_wrong_settings_say_what_would_be_right(spec: Spec) -> None:
    with pytest.raises(ValueError, match=r"^(kind: one of adc, |bits: 9 to 12)"):
        made(spec, Ds18b20(0))

"""What Home Assistant calls the units of SenML.

The left side is RFC 8428, table 1, and RFC 8798, table 1, as far as Home Assistant has the unit;
the right side was read in Home Assistant 2025.4 (`components/sensor/const.py`). A unit that is not
here is passed on as it is, without a device class.
"""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """None: Home Assistant is not told."""

    unit: str | None = None
    device_class: str | None = None
    state_class: str | None = "measurement"


MEANINGS = {
    "Cel": Meaning("°C", "temperature"),
    "K": Meaning("K", "temperature"),
    "%RH": Meaning("%", "humidity"),
    "%EL": Meaning("%", "battery"),
    "EL": Meaning("s", "duration"),
    "V": Meaning("V", "voltage"),
    "mV": Meaning("mV", "voltage"),
    "A": Meaning("A", "current"),
    "mA": Meaning("mA", "current"),
    "W": Meaning("W", "power"),
    "kW": Meaning("kW", "power"),
    "VA": Meaning("VA", "apparent_power"),
    "var": Meaning("var", "reactive_power"),
    "J": Meaning("J", "energy", "total"),
    "Wh": Meaning("Wh", "energy", "total_increasing"),
    "kWh": Meaning("kWh", "energy", "total_increasing"),
    "Pa": Meaning("Pa", "pressure"),
    "hPa": Meaning("hPa", "pressure"),
    "lx": Meaning("lx", "illuminance"),
    "W/m2": Meaning("W/m²", "irradiance"),
    "dBm": Meaning("dBm", "signal_strength"),
    "Hz": Meaning("Hz", "frequency"),
    "MHz": Meaning("MHz", "frequency"),
    "m": Meaning("m", "distance"),
    "mm": Meaning("mm", "distance"),
    "cm": Meaning("cm", "distance"),
    "km": Meaning("km", "distance"),
    "m2": Meaning("m²", "area"),
    "m3": Meaning("m³", "volume_storage"),
    "l": Meaning("L", "volume_storage"),
    "m3/s": Meaning("m³/s"),
    "l/s": Meaning("L/s"),
    "m/s": Meaning("m/s", "speed"),
    "km/h": Meaning("km/h", "speed"),
    "kg": Meaning("kg", "weight"),
    "g": Meaning("g", "weight"),
    "s": Meaning("s", "duration"),
    "ms": Meaning("ms", "duration"),
    "min": Meaning("min", "duration"),
    "h": Meaning("h", "duration"),
    "ug/m3": Meaning("µg/m³"),
    "pH": Meaning(None, "ph"),
    "ppm": Meaning("ppm"),
    "ppb": Meaning("ppb"),
    "%": Meaning("%"),
    "/": Meaning(),
    "count": Meaning(),
    "": Meaning(),
}


def meaning_of(unit: str) -> Meaning:
    return MEANINGS.get(unit) or Meaning(unit)

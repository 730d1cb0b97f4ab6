"""What the units and names of values are for Home Assistant.

Units: RFC 8428, table 1, and RFC 8798, table 1, as far as Home Assistant has them, and other
spellings of them. A unit that is not here is passed on as it is, without a device class. No value
is ever converted: the unit says what the number is.

Names count only where a value has no unit: those that are in use for one quantity in one unit, and
those that end in their unit, as in `temp_f` or `co2_ppm`. "pressure" or "voltage" alone are not
among them, because devices send them in several units.

The micro sign is U+00B5 here: every Home Assistant takes it, newer ones replace it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gateway.config.home_assistant_rules import only_unit_of
from gateway.presence.catalogue import UNIT_MIXED


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
    "mW": Meaning("mW", "power"),
    "kW": Meaning("kW", "power"),
    "VA": Meaning("VA", "apparent_power"),
    "kVA": Meaning("kVA", "apparent_power"),
    "var": Meaning("var", "reactive_power"),
    "kvar": Meaning("kvar", "reactive_power"),
    "varh": Meaning("varh", "reactive_energy", "total_increasing"),
    "kvarh": Meaning("kvarh", "reactive_energy", "total_increasing"),
    "J": Meaning("J", "energy", "total"),
    "Wh": Meaning("Wh", "energy", "total_increasing"),
    "kWh": Meaning("kWh", "energy", "total_increasing"),
    "Pa": Meaning("Pa", "pressure"),
    "hPa": Meaning("hPa", "pressure"),
    "kPa": Meaning("kPa", "pressure"),
    "bar": Meaning("bar", "pressure"),
    "mbar": Meaning("mbar", "pressure"),
    "lx": Meaning("lx", "illuminance"),
    "W/m2": Meaning("W/m²", "irradiance"),
    "dBm": Meaning("dBm", "signal_strength"),
    "Hz": Meaning("Hz", "frequency"),
    "kHz": Meaning("kHz", "frequency"),
    "MHz": Meaning("MHz", "frequency"),
    "m": Meaning("m", "distance"),
    "mm": Meaning("mm", "distance"),
    "cm": Meaning("cm", "distance"),
    "km": Meaning("km", "distance"),
    "m2": Meaning("m²", "area"),
    "m3": Meaning("m³", "volume_storage"),
    "l": Meaning("L", "volume_storage"),
    "m3/s": Meaning("m³/s", "volume_flow_rate"),
    "m3/h": Meaning("m³/h", "volume_flow_rate"),
    "l/s": Meaning("L/s", "volume_flow_rate"),
    "l/min": Meaning("L/min", "volume_flow_rate"),
    "m/s": Meaning("m/s", "speed"),
    "km/h": Meaning("km/h", "speed"),
    "mm/h": Meaning("mm/h", "precipitation_intensity"),
    "kg": Meaning("kg", "weight"),
    "g": Meaning("g", "weight"),
    "s": Meaning("s", "duration"),
    "ms": Meaning("ms", "duration"),
    "min": Meaning("min", "duration"),
    "h": Meaning("h", "duration"),
    "bit/s": Meaning("bit/s", "data_rate"),
    "B/s": Meaning("B/s", "data_rate"),
    "bit": Meaning("bit", "data_size"),
    "B": Meaning("B", "data_size"),
    "ug/m3": Meaning("µg/m³"),
    "pH": Meaning(None, "ph"),
    "ppm": Meaning("ppm"),
    "ppb": Meaning("ppb"),
    "%": Meaning("%"),
    "deg": Meaning("°"),
    "lat": Meaning("°"),
    "lon": Meaning("°"),
    "/": Meaning(),
    "count": Meaning(),
    UNIT_MIXED: Meaning(state_class=None),
}
SPELLINGS = {
    **{"°C": "Cel", "degC": "Cel", "C": "Cel", "celsius": "Cel", "%rH": "%RH"},
    **{"W/m²": "W/m2", "m²": "m2", "m³": "m3", "m³/s": "m3/s", "m³/h": "m3/h"},
    **{"L": "l", "L/s": "l/s", "L/min": "l/min", "lux": "lx", "sec": "s", "°": "deg"},
    **{"µg/m³": "ug/m3", "μg/m³": "ug/m3", "µg/m3": "ug/m3", "VAr": "var", "kVAr": "kvar"},
    **{"VArh": "varh", "kVArh": "kvarh", "bps": "bit/s", "percent": "%"},
}
FAHRENHEIT = Meaning("°F", "temperature")
# A number without any unit. Without a state class: statistics of it would stop when one comes.
UNKNOWN = Meaning(state_class=None)

_PERCENT = {"humidity": "humidity", "battery": "battery", "moisture": "moisture"}
_TEMPERATURE = Meaning("°C", "temperature")
_BY_NAME = {
    **dict.fromkeys(("temperature", "temp"), _TEMPERATURE),
    **dict.fromkeys(("humidity", "rh", "relative_humidity"), Meaning("%", "humidity")),
    **dict.fromkeys(("battery", "batt", "battery_level"), Meaning("%", "battery")),
    **dict.fromkeys(("soil_moisture", "moisture"), Meaning("%", "moisture")),
    **dict.fromkeys(("co2", "eco2", "carbon_dioxide"), Meaning("ppm", "carbon_dioxide")),
    **dict.fromkeys(("illuminance", "lux"), Meaning("lx", "illuminance")),
    **dict.fromkeys(("rssi",), Meaning("dBm", "signal_strength")),
    **dict.fromkeys(("pm25", "pm2_5"), Meaning("µg/m³", "pm25")),
    "pm10": Meaning("µg/m³", "pm10"),
    "ph": Meaning(None, "ph"),
    "aqi": Meaning(None, "aqi"),
}
_UNIT_SUFFIXES = {
    **{"degc": "Cel", "celsius": "Cel", "hpa": "hPa", "kpa": "kPa", "pa": "Pa", "mbar": "mbar"},
    **{"mv": "mV", "ma": "mA", "mw": "mW", "kw": "kW", "wh": "Wh", "kwh": "kWh", "ppm": "ppm"},
    **{"ppb": "ppb", "lx": "lx", "lux": "lx", "dbm": "dBm", "hz": "Hz", "khz": "kHz", "mm": "mm"},
    **{"cm": "cm", "km": "km", "ms": "ms", "kg": "kg", "percent": "%", "pct": "%"},
}
# Of one letter, so only behind a word that says what is measured.
_LETTER_SUFFIXES = {
    ("temp", "c"): "Cel",
    ("temp", "k"): "K",
    ("volt", "v"): "V",
    ("batt", "v"): "V",
    ("current", "a"): "A",
    ("power", "w"): "W",
    ("uptime", "s"): "s",
}
# What a device says of itself rather than of what it measures.
DIAGNOSTIC = frozenset(
    (
        *("rssi", "lqi", "linkquality", "link_quality", "snr", "uptime", "uptime_s", "boots"),
        *("restarts", "free_memory", "mem_free", "heap", "seq", "undated"),
    )
)
# What the readings of our own node application carry beside what it measures.
BOOKKEEPING = frozenset(("seq", "undated"))
BINARY_BY_NAME = {
    **{each: each for each in ("door", "window", "motion", "occupancy", "presence", "smoke")},
    **{each: each for each in ("tamper", "vibration", "moving", "garage_door")},
    **{"leak": "moisture", "water_leak": "moisture", "battery_low": "battery"},
    **{"low_battery": "battery", "open": "opening"},
}
_NOT_IN_WORDS = re.compile(r"[^a-z0-9]+")
_CAPITALS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def plain_words(name: str) -> str:
    """As the names are written here: `batteryLow` and `Battery low` are `battery_low`."""
    return _NOT_IN_WORDS.sub("_", _CAPITALS.sub("_", name).lower()).strip("_")


def meaning_of(unit: str, name: str = "") -> Meaning:
    words = plain_words(name)
    if not unit:
        return _of_name(words)
    if unit in ("°F", "degF", "F", "fahrenheit"):
        return FAHRENHEIT
    found = MEANINGS.get(SPELLINGS.get(unit, unit)) or Meaning(unit)
    return found if found.device_class is not None else _with_class(found, words)


def _of_name(words: str) -> Meaning:
    found = _BY_NAME.get(words)
    if found is not None:
        return found
    if words in BOOKKEEPING:
        return UNKNOWN
    stem, _, suffix = words.rpartition("_")
    if suffix == "f" and "temp" in stem:
        return FAHRENHEIT
    unit = _UNIT_SUFFIXES.get(suffix) if stem else None
    for (word, letter), letter_unit in _LETTER_SUFFIXES.items():
        if letter == suffix and word in stem:
            unit = letter_unit
    return UNKNOWN if unit is None else _with_class(MEANINGS[unit], stem)


def _with_class(meaning: Meaning, words: str) -> Meaning:
    """Of a unit of many quantities: the class that the name says."""
    named = _BY_NAME.get(words)
    if named is not None and named.unit == meaning.unit and only_unit_of(named.device_class or ""):
        return named
    if meaning.unit == "%":
        device_class = next((each for word, each in _PERCENT.items() if word in words), None)
        return meaning._replace(device_class=meaning.device_class or device_class)
    return meaning

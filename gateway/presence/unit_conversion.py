"""A value in another unit of SenML than its first ones, in the unit that it was announced with.

Home Assistant keeps statistics in one unit: a value that changes its unit would spoil them. Units
are those of RFC 8428, table 1, and RFC 8798, table 1, as far as one has several for a quantity.
Arithmetic is decimal: 294.65 K is 21.5 Cel, and not 21.49999999999998.
"""

from __future__ import annotations

from decimal import Context, Decimal

from gateway.presence.values import number_text

# More than any sensor has; a float has 17 digits.
_CONTEXT = Context(prec=20)
# Of each quantity, how many of the first unit one has.
_QUANTITIES = (
    {"V": "1", "mV": "0.001"},
    {"A": "1", "mA": "0.001"},
    {"W": "1", "kW": "1000"},
    {"Wh": "1", "kWh": "1000"},
    {"Pa": "1", "hPa": "100"},
    {"m": "1", "mm": "0.001", "cm": "0.01", "km": "1000"},
    {"s": "1", "ms": "0.001", "min": "60", "h": "3600"},
    {"kg": "1", "g": "0.001"},
    {"m3": "1", "l": "0.001"},
    {"Hz": "1", "MHz": "1000000"},
    {"m/s": "1", "km/h": "0.2777777777777777777778"},
)
_ZERO_CELSIUS = Decimal("273.15")


def converted(value: float, unit: str, to: str) -> float | None:
    """None where one cannot become the other."""
    number = Decimal(number_text(value))
    if (unit, to) == ("K", "Cel"):
        return _rounded(number - _ZERO_CELSIUS)
    if (unit, to) == ("Cel", "K"):
        return _rounded(number + _ZERO_CELSIUS)
    for sizes in _QUANTITIES:
        if unit in sizes and to in sizes:
            return _rounded(number * Decimal(sizes[unit]) / Decimal(sizes[to]))
    return None


def _rounded(number: Decimal) -> float:
    return float(_CONTEXT.plus(number))

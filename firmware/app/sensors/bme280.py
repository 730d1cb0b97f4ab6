"""BME280 and BMP280: temperature, air pressure and (BME280) humidity on an I2C bus.

    {"kind": "bme280", "scl": 22, "sda": 21, "address": 118, "name": "air"}

The sensor sleeps, measures once when it is asked (forced mode), and sleeps again. The formulas are
the data sheet's in whole numbers (BST-BME280-DS002, 4.2.3 and appendix 8), because floats of 32
bits are not good enough for the pressure. They are named as there.
"""

from struct import unpack, unpack_from

try:
    from micropython import const
except ImportError:
    from ...mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..senml import Measured

_ADDRESS = const(0x76)
_ID = const(0xD0)
_CALIBRATION = const(0x88)
_CALIBRATION_HUMIDITY = const(0xE1)
_CONTROL_HUMIDITY = const(0xF2)
_STATUS = const(0xF3)
_CONTROL = const(0xF4)
_DATA = const(0xF7)

_BME280 = const(0x60)
_BMP280 = const(0x58)
_MEASURING = const(8)
_ONCE = const(0x25)  # each value once, forced mode
_MEASURE_MS = const(10)  # at most 9.3 (appendix 9.1)
_NOT_MEASURED = const(0x80000)
_EIO = const(5)
_ENODEV = const(19)


class Sensor:
    def __init__(self, spec: "dict[str, Any]", board: "Any") -> None:
        self._prefix = spec["name"] + "." if "name" in spec else ""
        self._address = spec.get("address", _ADDRESS)
        self._bus = board.i2c(spec["scl"], spec["sda"])
        self._kind = self._bus.readfrom_mem(self._address, _ID, 1)[0]
        if self._kind not in (_BME280, _BMP280):
            raise OSError(_ENODEV, "no BME280")
        low = self._bus.readfrom_mem(self._address, _CALIBRATION, 26)
        self._t = unpack_from("<Hhh", low, 0)
        self._p = unpack_from("<Hhhhhhhhh", low, 6)
        self._h: tuple[int, ...] = ()
        if self._kind == _BME280:
            self._h = _humidity_calibration(
                low[25], self._bus.readfrom_mem(self._address, _CALIBRATION_HUMIDITY, 7)
            )

    def start(self) -> int:
        if self._h:
            self._bus.writeto_mem(self._address, _CONTROL_HUMIDITY, b"\x01")
        self._bus.writeto_mem(self._address, _CONTROL, bytes((_ONCE,)))
        return _MEASURE_MS

    def read(self) -> "list[Measured]":
        if self._bus.readfrom_mem(self._address, _STATUS, 1)[0] & _MEASURING:
            raise OSError(_EIO, "still measuring")
        data = self._bus.readfrom_mem(self._address, _DATA, 8 if self._h else 6)
        pressure = data[0] << 12 | data[1] << 4 | data[2] >> 4
        temperature = data[3] << 12 | data[4] << 4 | data[5] >> 4
        if temperature == _NOT_MEASURED or pressure == _NOT_MEASURED:
            raise OSError(_EIO, "measured nothing")
        celsius, t_fine = temperature_of(self._t, temperature)
        found = [
            (self._prefix + "temperature", "Cel", celsius, 2),
            (self._prefix + "pressure", "Pa", pressure_of(self._p, pressure, t_fine), 0),
        ]
        if self._h:
            humidity = humidity_of(self._h, data[6] << 8 | data[7], t_fine)
            found.append((self._prefix + "humidity", "%RH", humidity, 1))
        return found


def _humidity_calibration(first: int, rest: bytes) -> tuple[int, ...]:
    """H1 to H6 (table 16)."""
    h2, h3, middle_high, shared, last_high, h6 = unpack("<hBbBbb", rest)
    return first, h2, h3, middle_high << 4 | shared & 15, last_high << 4 | shared >> 4, h6


def temperature_of(t: tuple[int, ...], raw: int) -> tuple[int, int]:
    """Hundredths of a degree, and the fine temperature that the others need."""
    var1 = ((raw >> 3) - (t[0] << 1)) * t[1] >> 11
    var2 = (((raw >> 4) - t[0]) * ((raw >> 4) - t[0]) >> 12) * t[2] >> 14
    t_fine = var1 + var2
    return t_fine * 5 + 128 >> 8, t_fine


def pressure_of(p: tuple[int, ...], raw: int, t_fine: int) -> int:
    """Pascal."""
    var1 = t_fine - 128000
    var2 = var1 * var1 * p[5] + (var1 * p[4] << 17) + (p[3] << 35)
    var1 = (var1 * var1 * p[2] >> 8) + (var1 * p[1] << 12)
    var1 = ((1 << 47) + var1) * p[0] >> 33
    if not var1:
        raise OSError(_EIO, "no calibration")
    pressure = ((1048576 - raw << 31) - var2) * 3125 // var1
    var1 = p[8] * (pressure >> 13) * (pressure >> 13) >> 25
    var2 = p[7] * pressure >> 19
    pressure = (pressure + var1 + var2 >> 8) + (p[6] << 4)
    return pressure + 128 >> 8


def humidity_of(h: tuple[int, ...], raw: int, t_fine: int) -> int:
    """Tenths of a per cent."""
    fine = t_fine - 76800
    scaled = (raw << 14) - (h[3] << 20) - h[4] * fine + 16384 >> 15
    curve = ((fine * h[5] >> 10) * ((fine * h[2] >> 11) + 32768) >> 10) + 2097152
    value = scaled * (curve * h[1] + 8192 >> 14)
    value -= ((value >> 15) * (value >> 15) >> 7) * h[0] >> 4
    value = min(max(value, 0), 419430400)
    return (value >> 12) * 10 + 512 >> 10

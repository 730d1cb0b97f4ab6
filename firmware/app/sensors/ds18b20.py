"""DS18B20, a thermometer on a 1-Wire bus, by its data sheet (Maxim 19-7487 Rev 6).

    {"kind": "ds18b20", "pin": 4, "name": "soil", "bits": 12, "rom": "28ff641e0016033c"}

Without `rom` it is the only one on its bus. Fewer bits are faster: 94 ms for 9, 750 ms for 12.
"""

from binascii import unhexlify

try:
    from micropython import const
except ImportError:
    from ...mqttsn.cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..senml import Measured

_MATCH_ROM = const(0x55)
_SKIP_ROM = const(0xCC)
_CONVERT = const(0x44)
_WRITE_SCRATCHPAD = const(0x4E)
_READ_SCRATCHPAD = const(0xBE)

_CONVERSION_MS = const(94)  # with 9 bits; doubles with each
_POWER_ON_RAW = const(0x0550)  # 85 degrees, which nobody has measured yet
_POWER_ON_MARK = const(0x0C)  # in the byte behind the configuration; measured, it is another
_EIO = const(5)


class Sensor:
    def __init__(self, spec: "dict[str, Any]", board: "Any") -> None:
        self._name = spec.get("name", "temperature")
        self._bits: int = spec.get("bits", 12)
        if not 9 <= self._bits <= 12:
            raise ValueError("bits: 9 to 12")
        self._rom = unhexlify(spec.get("rom", ""))
        self._bus = board.one_wire(spec["pin"])

    def start(self) -> int:
        configuration = (self._bits - 9) << 5 | 0x1F
        self._address()
        self._bus.write(bytes((_WRITE_SCRATCHPAD, 0, 0, configuration)))
        self._address()
        self._bus.write(bytes((_CONVERT,)))
        return _CONVERSION_MS << self._bits - 9

    def read(self) -> "list[Measured]":
        self._address()
        self._bus.write(bytes((_READ_SCRATCHPAD,)))
        pad = bytearray(9)
        self._bus.readinto(pad)
        if crc8(pad) or not any(pad):  # a line that is held down is all zeros, and so is its check
            raise OSError(_EIO, "damaged")
        raw = pad[0] | pad[1] << 8
        if raw == _POWER_ON_RAW and pad[6] == _POWER_ON_MARK:
            raise OSError(_EIO, "lost its power")
        if raw & 0x8000:
            raw -= 0x10000
        raw &= -1 << 12 - self._bits  # lower bits mean nothing
        return [(self._name, "Cel", raw * 625, 4)]

    def _address(self) -> None:
        if not self._bus.reset():
            raise OSError(_EIO, "nobody on the bus")
        if self._rom:
            self._bus.write(bytes((_MATCH_ROM,)) + self._rom)
        else:
            self._bus.write(bytes((_SKIP_ROM,)))


def crc8(octets: bytearray) -> int:
    """x^8 + x^5 + x^4 + 1, low bit first; 0 with its own check behind."""
    crc = 0
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ 0x8C if crc & 1 else crc >> 1
    return crc

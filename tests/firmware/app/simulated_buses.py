"""Simulated buses with simulated sensors on them, as their data sheets describe them.

No recording of real parts: what the sensors answer is made from the data sheets' own examples.
"""

from __future__ import annotations

import errno
import struct

from firmware.app.sensors.ds18b20 import crc8

# BME280: calibration and raw values of the example in the data sheet of the BMP280 (3.12), whose
# formulas are the same; the humidity's calibration is one of a part in use.
T = (27504, 26435, -1000)
P = (36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000)
H = (75, 362, 0, 315, 50, 30)
RAW_TEMPERATURE, RAW_PRESSURE, RAW_HUMIDITY = 519888, 415148, 30281


class Ds18b20:
    """One on a 1-Wire bus, in the functions of MicroPython's `onewire.OneWire`."""

    def __init__(self, raw: int, rom: bytes = bytes(8)) -> None:
        self.raw = raw
        self.rom = rom
        self.is_there = True
        self.has_converted = False
        self.configuration = 0x7F
        self.flip = 0  # turned over in what is read
        self.traffic: list[bytes] = []
        self._is_addressed = False

    def one_wire(self, pin: int) -> Ds18b20:
        return self

    def reset(self) -> bool:
        self._is_addressed = False
        return self.is_there

    def write(self, octets: bytes) -> None:
        self.traffic.append(bytes(octets))
        if octets[0] == 0xCC or octets == b"\x55" + self.rom:
            self._is_addressed = True
        elif self._is_addressed and octets[0] == 0x4E:
            self.configuration = octets[3]
        elif self._is_addressed and octets[0] == 0x44:
            self.has_converted = True

    def readinto(self, buffer: bytearray) -> None:
        if not self._is_addressed:
            buffer[:] = b"\xff" * len(buffer)
            return
        raw = self.raw if self.has_converted else 0x0550
        mark = 0x10 - (raw & 15) if self.has_converted else 0x0C
        pad = struct.pack("<hbbBBBB", raw, 0, 0, self.configuration, 0xFF, mark, 0x10)
        pad += bytes((crc8(bytearray(pad)),))
        buffer[:] = pad
        buffer[0] ^= self.flip


class Bme280:
    """One on an I2C bus, in the functions of MicroPython's `machine.I2C`."""

    def __init__(self, kind: int = 0x60, address: int = 0x76) -> None:
        self.address = address
        self.kind = kind
        self.registers = bytearray(256)
        self.registers[0xD0] = kind
        self.registers[0x88:0xA0] = struct.pack("<HhhHhhhhhhhh", *T, *P)
        h1, h2, h3, h4, h5, h6 = H
        self.registers[0xA1] = h1
        shared = (h4 & 15) | (h5 & 15) << 4
        rest = struct.pack("<hBbBbb", h2, h3, h4 >> 4, shared, h5 >> 4, h6)
        self.registers[0xE1:0xE8] = rest
        self.registers[0xF7:0xFF] = b"\x80\0\0\x80\0\0\x80\0"  # nothing measured yet
        self.is_slow = False
        self.traffic: list[tuple[int, bytes]] = []

    def i2c(self, scl: int, sda: int) -> Bme280:
        return self

    def readfrom_mem(self, address: int, register: int, size: int) -> bytes:
        self._require(address)
        return bytes(self.registers[register : register + size])

    def writeto_mem(self, address: int, register: int, octets: bytes) -> None:
        self._require(address)
        self.traffic.append((register, octets))
        if register == 0xF4 and octets[0] & 3 == 1:
            self.registers[0xF3] = 8 if self.is_slow else 0
            raw = RAW_PRESSURE << 28 | RAW_TEMPERATURE << 4
            self.registers[0xF7:0xFD] = raw.to_bytes(6, "big")
            self.registers[0xFD:0xFF] = RAW_HUMIDITY.to_bytes(2, "big")

    def _require(self, address: int) -> None:
        if address != self.address:
            raise OSError(errno.ENODEV)


class Pins:
    """An ADC and a chip's thermometer."""

    def __init__(self, *microvolts: int) -> None:
        self._samples = list(microvolts)

    def adc(self, pin: int) -> Pins:
        return self

    def __call__(self) -> int:
        self._samples.append(self._samples.pop(0))
        return self._samples[-1]

    def chip_temperature(self) -> int:
        return 253

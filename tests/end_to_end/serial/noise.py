"""What a bad line does to bytes, and a sensor that lives with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tests.support.patient_sensor import PatientSensor
from tests.support.pty_line import PtyLine


class Noise:
    """Makes another byte of one in so many; a `spoil` of a line."""

    def __init__(self, dice: Random, share: float) -> None:
        self.damaged = 0
        self._dice = dice
        self._share = share

    def __call__(self, octets: bytes) -> bytes:
        spoilt = bytearray(octets)
        for at in range(len(spoilt)):
            if self._dice.random() < self._share:
                spoilt[at] ^= self._dice.randrange(1, 256)
                self.damaged += 1
        return bytes(spoilt)


class _LineTransport(asyncio.DatagramTransport):
    def __init__(self, line: PtyLine) -> None:
        super().__init__()
        self._line = line

    def sendto(self, data: bytes, addr: object = None) -> None:  # type: ignore[override]
        self._line.send_message(data)

    def close(self) -> None:
        self._line.on_message = self._line.heard.put_nowait


@contextmanager
def patient_sensor_on(
    line: PtyLine, client_id: str, *, clean: bool = False, retry_s: float
) -> Iterator[PatientSensor]:
    """Not connected yet, as `patient_sensor`."""
    sensor = PatientSensor(client_id, clean, retry_s=retry_s)
    sensor.connection_made(_LineTransport(line))

    def hear(message: bytes) -> None:
        # One damaged frame in 65,536 has a right FCS; a sensor looks at the length as well.
        if message[0] == len(message):
            sensor.datagram_received(message, ("", 0))

    line.on_message = hear
    try:
        yield sensor
    finally:
        sensor.close()

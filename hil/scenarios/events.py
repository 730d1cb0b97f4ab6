"""One thing that happens in a scenario."""

from __future__ import annotations

from dataclasses import dataclass

from hil.faults.lossy_proxy import Impairment
from hil.faults.serial_proxy import LineImpairment


@dataclass(frozen=True, slots=True)
class Event:
    """`do` is one of `actions.ACTIONS`. What it has no use for is as it is by default."""

    do: str
    at_reading: int  # when the board has offered so many
    at_s: float  # since the board was switched on
    later_s: float  # than the reading of `at_reading`
    is_before_boot: bool
    for_s: float
    times: int
    every_s: float
    seconds: float
    share: float
    octets: int
    is_retained: bool
    udp: Impairment
    line: LineImpairment

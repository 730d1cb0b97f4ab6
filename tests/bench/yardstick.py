"""How quick the machine is, by what runs on it beside the gateway in the same session.

The goals in microseconds were set on a machine that is quicker than those available today. What
the yardsticks took there, by this very bench, says how many times as quick it was. The two do not
agree, as machines differ more in the kernel than elsewhere; the lesser counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.row import Row

# CPU time of one message, in microseconds, on the machine that the goals were set on (Intel Xeon,
# 2 cores, 2026-11-21, revision 41f2f08).
MOSQUITTO_US, ECHO_US = 7.13, 0.84
MOSQUITTO, ECHO = "mosquitto-alone-qos1", "udp-echo"


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """How many times as quick the machine of the goals is."""

    by_mosquitto: float
    by_echo: float

    @property
    def times_as_quick(self) -> float:
        return min(self.by_mosquitto, self.by_echo)


def yardsticks(rows: Sequence[Row]) -> Yardsticks | None:
    """None unless both were measured in this run."""
    results = {row.scenario.name: row.result for row in rows}
    mosquitto, echo = results.get(MOSQUITTO), results.get(ECHO)
    broker_us = None if mosquitto is None else mosquitto.figures.broker_cpu_us
    echo_us = None if echo is None else echo.figures.gateway_cpu_us
    if broker_us is None or echo_us is None:
        return None
    return Yardsticks(broker_us / MOSQUITTO_US, echo_us / ECHO_US)

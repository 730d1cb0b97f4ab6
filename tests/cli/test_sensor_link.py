"""A simulated sensor's timer, on both event loops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import pytest
import uvloop

from gateway.cli.sensors.sensor import SensorEvent, SimulatedSensor
from gateway.cli.sensors.sensor_link import SensorLink


class Overdue:
    """Has something to do since a second ago, as after a machine that stood still."""

    name = "tank"

    def __init__(self) -> None:
        self.times = 0

    def wake_at(self) -> float | None:
        return time.monotonic() - 1.0 if self.times < 2 else None

    def handle_time(self, _now: float) -> list[SensorEvent]:
        self.times += 1
        return []

    def stop(self, _now: float) -> list[SensorEvent]:
        return []


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_what_is_overdue_is_done_and_may_be_stopped_before(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        sensor = Overdue()
        link = SensorLink(cast(SimulatedSensor, sensor), lambda _name, _event: None)
        link.stop()
        link.stop()
        assert link.timer is not None
        for _ in range(10):  # turns of the loop
            await asyncio.sleep(0)
        assert link.timer is None
        assert sensor.times == 2
        link.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())

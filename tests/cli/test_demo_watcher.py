"""The demo's client of the broker, at a real broker, when it is told to end."""

from __future__ import annotations

import asyncio
import sys
from random import Random

import pytest

from gateway.cli.demo.seen import Clock, Event, Seen, SensorSeen
from gateway.cli.demo.watcher import Watcher
from gateway.cli.sensors import senml
from hil.rig.mosquitto import Mosquitto

END_S_MAX = 10.0


def acknowledgement_awaited() -> asyncio.Task[object] | None:
    """The task in which `asyncio.wait_for` has the MQTT library wait for the broker's answer."""
    return next(
        (task for task in asyncio.all_tasks() if "Event.wait" in repr(task.get_coro())), None
    )


async def cancelled_as_the_broker_answers(broker: Mosquitto) -> bool:
    """Whether it ends then."""
    sensor = SensorSeen("sensor-1", 1, pack=senml.Pack("sensor-1", 0.0, ()))
    commanded = asyncio.Event()

    def tell(event: Event) -> None:
        commanded.set()

    watcher = Watcher(broker.port, Seen({"sensor-1": sensor}), Clock.started(), Random(1), tell)
    running = asyncio.create_task(watcher.run())
    await commanded.wait()
    answer: asyncio.Task[object] | None = None
    while answer is None or not answer.done():
        await asyncio.sleep(0)  # the turn of the loop counts in which the answer is there
        answer = answer or acknowledgement_awaited()
    running.cancel()
    ended, _ = await asyncio.wait([running], timeout=END_S_MAX)
    return bool(ended)


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="asyncio.wait_for has a task of its own in 3.11 alone"
)
def test_it_ends_also_when_the_broker_answers_just_then() -> None:
    with Mosquitto() as broker:
        assert asyncio.run(cancelled_as_the_broker_answers(broker))

"""Many readings to a gateway: sensors at QoS 1, all in one thread.

Each has a topic of its own and sends one reading at a time, a number as text; the next one when
those of all sensors are acknowledged.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from hil.rig.scripted_client import BlockingClient

RETRY_S = 0.5
GIVE_UP_S = 120.0


class PlainSensors:
    """`root-0` and so on; that of `root/0` is the topic of the first."""

    def __init__(self, port: int, root: str, count: int) -> None:
        self._sensors = {
            f"{root}/{number}": BlockingClient(
                port, f"{root}-{number}", retry_s=RETRY_S, timeout_s=GIVE_UP_S
            )
            for number in range(count)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as stack:
            for sensor in self._sensors.values():
                stack.enter_context(sensor)

    def send(self, values: list[float]) -> dict[str, list[float]]:
        """Each sensor sends all of them; by topic, when all are acknowledged."""
        topic_ids = {}
        for topic, sensor in self._sensors.items():
            sensor.does(sensor.connecting(keep_alive_s=600))
            topic_ids[topic] = sensor.does(sensor.registering(topic))
        for value in values:
            payload = f"{value:g}".encode()
            for topic, sensor in self._sensors.items():
                sensor.begin(sensor.publishing(topic_ids[topic], payload, qos=1))
            for sensor in self._sensors.values():
                sensor.finish()
        return {topic: list(values) for topic in self._sensors}

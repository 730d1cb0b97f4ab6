"""500 devices of ten values each: how soon they are there, and what they cost.

    python -m pytest -s -m soak tests/home_assistant/test_many.py

prints what was measured. These machines are shared: how long the gateway, or Home Assistant if that
is longer, waited for a processor that others had does not count.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.api import eventually
from tests.home_assistant.home import Home
from tests.home_assistant.site import Gateway, Sensor, gateway, home_with_broker, new_name

DEVICES, VALUES = 500, 10
OWN_ENTITIES = 2  # state, and last seen
ANNOUNCED_S_MAX = 30.0
MESSAGES_PER_S_MAX = 50  # presence.messages_per_s_max
# What a second of the subscriber's clock may have beside: a beat of the second before.
BEAT_MESSAGES = 13
BYTES_A_DEVICE_MAX = 64 * 1024
SETTLED_S = 300.0
POLL_INTERVAL_S = 1.0  # an answer costs Home Assistant a tenth of that
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Counted:
    """What the gateway publishes of itself, by the second of its arrival, and announcements."""

    def __init__(self, broker: Mosquitto, gateway: Gateway) -> None:
        self.by_second: Counter[int] = Counter()
        self.announcements = 0
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self._client.on_message = self._count
        self._client.connect("127.0.0.1", broker.port)
        for topic_filter in (f"tidegate/{gateway.name}/#", "homeassistant/device/#"):
            self._client.subscribe(topic_filter, options=SubscribeOptions(retainHandling=2))
        self._client.loop_start()

    def _count(self, _client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        self.by_second[int(time.monotonic())] += 1
        self.announcements += message.topic.startswith("homeassistant/")

    @property
    def worst(self) -> int:
        return max(self.by_second.values())

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def counted(broker: Mosquitto, gateway: Gateway) -> Iterator[Counted]:
    made = Counted(broker, gateway)
    try:
        yield made
    finally:
        made.close()


class Cost:
    """Of a process since this was made."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu_s, self._bytes = self._now()

    def _now(self) -> tuple[float, int]:
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
        return cpu_s, pages * os.sysconf("SC_PAGE_SIZE")

    def a_device(self) -> tuple[float, float]:
        """Milliseconds of CPU, and KiB."""
        cpu_s, size = self._now()
        return (cpu_s - self._cpu_s) * 1000 / DEVICES, (size - self._bytes) / 1024 / DEVICES


def connect_and_publish(fleet: list[Sensor]) -> None:
    values = {f"value{number}": number for number in range(VALUES)}
    for each in fleet:
        each.connect()
        each.publish(f"many/{each.client_id}", values)


def waited_s(pid: int) -> float:
    """How long the main thread of a process, which does its work, waited for a processor."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9


class Clock:
    """Seconds since it was made, without those in which the slower of two had no processor."""

    def __init__(self, *pids: int) -> None:
        self._waited = {pid: waited_s(pid) for pid in pids}
        self._began = time.monotonic()

    def took_s(self) -> float:
        lost_s = max(waited_s(pid) - before for pid, before in self._waited.items())
        return time.monotonic() - self._began - lost_s


def until_there(home: Home, *, with_values: bool) -> None:
    """All entities of the fleet, or all of them that are values, and have one."""

    def count() -> int:
        shown = home.api.states().values()
        own = [each for each in shown if "many-" in each["attributes"].get("friendly_name", "")]
        return sum(each["state"].isdigit() for each in own) if with_values else len(own)

    wanted = DEVICES * (VALUES if with_values else VALUES + OWN_ENTITIES)
    eventually(lambda: count() >= wanted, f"{wanted} entities", SETTLED_S, POLL_INTERVAL_S)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def test_500_devices_are_there_in_half_a_minute_and_are_served_without_a_storm(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        broker, home = stack.enter_context(home_with_broker())
        serving = stack.enter_context(gateway(tmp_path / "gateway", broker))
        fleet = [Sensor(serving.port, new_name("many")) for _ in range(DEVICES)]
        for each in fleet:
            stack.enter_context(each)
        cost = Cost(serving.pid)
        with counted(broker, serving) as seen:
            clock = Clock(serving.pid, home.pid)
            sending = threading.Thread(target=connect_and_publish, args=(fleet,))
            sending.start()
            until_there(home, with_values=False)
            announced_s = clock.took_s()
            until_there(home, with_values=True)
            values_s = clock.took_s()
            sending.join()
        cpu_ms, kib = cost.a_device()
        say(f"{DEVICES * (VALUES + OWN_ENTITIES)} entities in {announced_s:.1f} s")
        say(f"their values in {values_s:.1f} s")
        say(f"{seen.by_second.total()} messages, of which {seen.announcements} announcements")
        say(f"the gateway: {cpu_ms:.2f} ms of CPU and {kib:.1f} KiB a device")
        with counted(broker, serving) as again:
            home.stop()
            home.start()
            until_there(home, with_values=True)
            eventually(lambda: again.announcements >= DEVICES, "all are announced again", SETTLED_S)
        say(f"a restart of Home Assistant: {again.worst} messages a second at most")
        assert announced_s < ANNOUNCED_S_MAX
        assert kib * 1024 < BYTES_A_DEVICE_MAX
        assert again.worst <= MESSAGES_PER_S_MAX + BEAT_MESSAGES
        assert home.complaints() == []

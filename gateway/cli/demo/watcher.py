"""The other end: an MQTT 5 client at the broker that reads what arrives and sends commands down.

It sees what any consumer at the broker sees, and nothing else. Commands of the user
(`mosquitto_pub -t demo/<id>/set -m 2`) pass by here as well; a sensor that the user has commanded
is left alone from then on.

Limits: `MESSAGES_WAITING_MAX` messages wait to be read, then the newest are dropped (and logged by
the MQTT library); one command is on its way to a sensor at a time, given up after `GIVE_UP_S`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import aiomqtt
from paho.mqtt.subscribeoptions import SubscribeOptions

from gateway.cli.demo.failure import DemoError, leaves
from gateway.cli.demo.seen import Clock, Event, Seen, SensorSeen
from gateway.cli.sensors.sensor import INTERVAL_NAME, command_topic_of

MESSAGES_WAITING_MAX = 10_000
FIRST_COMMAND_S = 0.5
COMMAND_EVERY_S = 2.0
GIVE_UP_S = 10.0
INTERVALS_S = (0.5, 1.0, 2.0)
SLEEPERS_INTERVALS_S = (4.0, 5.0, 6.0)  # longer than they sleep at a time


@dataclass(slots=True)
class Watcher:
    port: int
    seen: Seen
    clock: Clock
    dice: Random
    on_event: Callable[[Event], None]
    subscribed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Read and command until cancelled."""
        try:
            async with aiomqtt.Client(
                "127.0.0.1",
                self.port,
                identifier="tidegate-demo-watcher",
                protocol=aiomqtt.ProtocolVersion.V5,
                max_queued_incoming_messages=MESSAGES_WAITING_MAX,
                # Else what we measure is our own Nagle: 40 ms between PUBREC and PUBREL.
                socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
            ) as broker:
                # No Local: what we see on demo/<id>/set then comes from the user.
                await broker.subscribe("demo/#", options=SubscribeOptions(qos=2, noLocal=True))
                _end_if_cancelled()
                self.subscribed.set()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._read(broker), name="read")
                    tasks.create_task(self._command(broker), name="command")
        except aiomqtt.MqttError as error:
            raise DemoError(f"No connection to the broker: {error}.") from error
        except BaseExceptionGroup as group:
            broken = group.subgroup(aiomqtt.MqttError)
            if broken is None:
                raise
            reason = leaves(broken)[0]
            raise DemoError(f"The connection to the broker broke: {reason}.") from reason

    async def _read(self, broker: aiomqtt.Client) -> None:
        async for message in broker.messages:
            payload = message.payload if isinstance(message.payload, bytes) else b""
            now = self.clock.unix()
            for event in self.seen.message(message.topic.value, payload, message.qos, now):
                self.on_event(event)

    async def _command(self, broker: aiomqtt.Client) -> None:
        await asyncio.sleep(FIRST_COMMAND_S)
        turn = 0
        while True:
            sensors = list(self.seen.sensors.values())
            order = sensors[turn % len(sensors) :] + sensors[: turn % len(sensors)]
            sensor = next((sensor for sensor in order if self._may_command(sensor)), None)
            if sensor is None:
                await asyncio.sleep(FIRST_COMMAND_S)  # nobody has reported yet, or all are busy
                continue
            turn = sensors.index(sensor) + 1
            await self._send(broker, sensor)
            await asyncio.sleep(COMMAND_EVERY_S)

    def _may_command(self, sensor: SensorSeen) -> bool:
        """After its first report a sensor is subscribed, so that the command has a way."""
        if sensor.pack is None or sensor.commanded_by_user:
            return False
        command = sensor.command
        if command is None or command.confirmed_after_s is not None:
            return True
        return self.clock.unix() - command.sent_at > GIVE_UP_S

    async def _send(self, broker: aiomqtt.Client, sensor: SensorSeen) -> None:
        assert sensor.pack is not None
        present = sensor.pack.value(INTERVAL_NAME)
        possible = SLEEPERS_INTERVALS_S if sensor.sleeps else INTERVALS_S
        interval_s = self.dice.choice([s for s in possible if s != present])
        payload = f"{interval_s:g}".encode()
        for event in self.seen.command(sensor, payload, self.clock.unix(), ours=True):
            self.on_event(event)
        await broker.publish(command_topic_of(sensor.name), payload, qos=sensor.qos)
        _end_if_cancelled()


def _end_if_cancelled() -> None:
    """To be asked after each wait of aiomqtt's. It waits with `asyncio.wait_for`, which in Python
    3.11 drops a cancellation that comes together with the broker's answer, and the demo would wait
    for us for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError

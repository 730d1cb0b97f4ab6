"""A command with two seconds to live, for sensors that sleep for longer or not so long."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from aiomqtt import Client
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    Node,
    assert_untroubled,
    connected,
    fresh,
    serving,
    story,
)
from tests.end_to_end.restart.restarting import gets
from tests.support.application import application

EXPIRY_S = 2


async def publish(app: Client, topic: str, payload: bytes, *, retain: bool = False) -> None:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.MessageExpiryInterval = EXPIRY_S
    await app.publish(topic, payload, qos=1, retain=retain, properties=properties)


async def sleeper(n: Node, topic: str) -> int:
    topic_id = await n.subscribe(topic.encode(), qos=1)
    await n.asks(DISCONNECT, u16(600), DISCONNECT)
    return topic_id


@story
async def test_who_wakes_in_time_gets_it_and_who_sleeps_for_longer_does_not(tmp_path: Path) -> None:
    topic, mode = fresh(), fresh()
    with Mosquitto() as broker, serving(tmp_path, broker) as gateway:
        async with (
            application(broker) as app,
            connected(gateway.port, clean=False) as early,
            connected(gateway.port, clean=False) as late,
            connected(gateway.port) as witness,
        ):
            await witness.subscribe(topic.encode(), qos=1)
            await witness.subscribe(mode.encode(), qos=1)
            topic_id = await sleeper(early, topic)
            await sleeper(late, topic)
            await publish(app, topic, b"open")
            await publish(app, mode, b"auto", retain=True)
            began = time.monotonic()
            assert (await witness.message())[2] == b"open"
            assert (await witness.message())[2] == b"auto"
            await asyncio.sleep(1.0)
            await early.say(PINGREQ, early.client_id.encode())
            assert await gets(early, b"open", till=PINGRESP) == [topic_id]
            await asyncio.sleep(began + 4.0 - time.monotonic())
            await late.asks(PINGREQ, late.client_id.encode(), PINGRESP)
            async with connected(gateway.port) as newcomer:
                await newcomer.subscribe(mode.encode(), qos=1)
                await newcomer.asks(PINGREQ, b"", PINGRESP)
        gateway.wait_for_log(f"dropped message_expired client={late.client_id}")
        assert_untroubled(gateway)

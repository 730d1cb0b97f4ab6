"""All ways up and down through a real mosquitto, with clients that are not ours."""

from __future__ import annotations

import asyncio

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import sensor
from tests.support.application import application, delivery_tag, heard
from tests.support.samples import named

RETAIN = 0x10
PAYLOADS = [
    bytes(number % 256 for number in range(length)) for length in (0, 1, 240, 248, 249, 300, 1024)
]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_reading_reaches_the_broker_unaltered(
    broker: Mosquitto, gateway: GatewayProcess, qos: int
) -> None:
    async def story() -> None:
        async with application(broker, "field/#") as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.register("field/temperature")
            for payload in PAYLOADS:
                with named(length=len(payload)):
                    await s1.publish(topic, payload, qos=qos)
                    message = await heard(app)
                    assert (message.topic.value, message.payload, message.qos) == (
                        "field/temperature",
                        payload,
                        qos,
                    )

    asyncio.run(story())


def test_each_reading_carries_its_delivery_tag(broker: Mosquitto, gateway: GatewayProcess) -> None:
    async def story() -> None:
        async with application(broker, "field") as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.register("field")
            for number, qos in enumerate((1, 2, 1)):
                await s1.publish(topic, b"x", qos=qos)
                found = delivery_tag(await heard(app))
                assert found.pop("ts").isdigit()
                assert found == {
                    "gw": "under-test",
                    "client": "s1",
                    "epoch": "1",
                    "seq": str(number),
                }
            await s1.publish(topic, b"x", qos=0)
            assert set(delivery_tag(await heard(app))) == {"gw", "client", "ts"}

    asyncio.run(story())


def test_readings_on_predefined_and_short_topics_need_no_register(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker, "#") as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            await heard(app)  # the gateway's own presence, retained
            await s1.publish(7, b"up", qos=1, kind=1)
            assert (await heard(app)).topic.value == "sensors/boot"
            await s1.publish(int.from_bytes(b"tp", "big"), b"up", qos=1, kind=2)
            assert (await heard(app)).topic.value == "tp"

    asyncio.run(story())


def test_readings_at_qos_minus_one_need_no_connection(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker, "sensors/boot") as app, sensor(gateway.port, "") as nobody:
            await nobody.publish(7, b"here I am", qos=-1, kind=1)
            message = await heard(app)
            assert (message.payload, message.qos) == (b"here I am", 0)

    asyncio.run(story())


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_command_reaches_a_sensor_unaltered(
    broker: Mosquitto, gateway: GatewayProcess, qos: int
) -> None:
    async def story() -> None:
        async with application(broker) as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.subscribe(b"field/set", qos=2)
            for payload in PAYLOADS:
                with named(length=len(payload)):
                    await app.publish("field/set", payload, qos=qos)
                    assert await s1.message() == (qos << 5, topic, payload)

    asyncio.run(story())


def test_a_sensor_hears_at_the_lower_of_both_qos(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker) as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.subscribe(b"field/set", qos=1)
            await app.publish("field/set", b"on", qos=2)
            assert await s1.message() == (1 << 5, topic, b"on")

    asyncio.run(story())


def test_overlapping_filters_bring_a_message_once(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker) as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            for name in (b"a/b", b"a/+", b"a/#", b"#"):
                await s1.subscribe(name, qos=1)
            # The retained presence comes by "#" for a new subscriber, with its flag.
            flags, _, payload = await s1.message()
            assert (flags & RETAIN, payload) == (RETAIN, b"online")
            for word in (b"one", b"two"):
                await app.publish("a/b", word, qos=1)
            assert [(await s1.message())[2] for _ in range(2)] == [b"one", b"two"]

    asyncio.run(story())


def test_a_wildcard_subscriber_is_told_each_name_before_its_first_message(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker) as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            assert await s1.subscribe(b"field/+/set", qos=1) == 0
            await app.publish("field/7/set", b"on", qos=1)
            kind, body = await s1.hear()
            assert (kind, body[4:]) == (0x0A, b"field/7/set")
            await s1.say(0x0B, body[:4] + b"\x00")
            _, topic, payload = await s1.message()
            assert (topic, payload) == (int.from_bytes(body[:2], "big"), b"on")

    asyncio.run(story())


def test_commands_come_by_the_predefined_id_or_short_name_that_was_subscribed(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker) as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            assert await s1.subscribe(b"\x00\x07", qos=1, kind=1) == 7
            await s1.subscribe(b"tp", qos=1, kind=2)
            await app.publish("sensors/boot", b"a", qos=1)
            assert await s1.message() == (0x20 | 1, 7, b"a")
            await app.publish("tp", b"b", qos=1)
            assert await s1.message() == (0x20 | 2, int.from_bytes(b"tp", "big"), b"b")

    asyncio.run(story())


def test_a_retained_command_comes_once_with_its_flag_to_a_new_subscriber(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker) as app:
            await app.publish("field/set", b"slow", qos=1, retain=True)
            async with sensor(gateway.port, "s1") as s1, sensor(gateway.port, "s2") as s2:
                await s1.connect()
                topic = await s1.subscribe(b"field/set", qos=1)
                assert await s1.message() == (0x20 | RETAIN, topic, b"slow")
                await s2.connect()
                other = await s2.subscribe(b"field/set", qos=1)
                assert await s2.message() == (0x20 | RETAIN, other, b"slow")
                await app.publish("field/set", b"fast", qos=1, retain=True)
                assert await s1.message() == (0x20, topic, b"fast")
                assert await s2.message() == (0x20, other, b"fast")

    asyncio.run(story())


def test_a_retained_reading_is_retained_at_the_broker_and_cleared_by_an_empty_one(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.register("field/level")
            await s1.publish(topic, b"7", qos=1, retain=True)
            async with application(broker, "field/level") as late:
                message = await heard(late)
                assert (message.payload, message.retain) == (b"7", True)
                await s1.publish(topic, b"", qos=1, retain=True)
                assert (await heard(late)).payload == b""
            async with application(broker, "field/level", "mark") as later:
                await later.publish("mark", b"", qos=1)
                assert (await heard(later)).topic.value == "mark"

    asyncio.run(story())


def test_a_stranger_is_told_to_connect(gateway: GatewayProcess) -> None:
    async def story() -> None:
        async with sensor(gateway.port, "s1") as s1:
            assert await s1.ask(0x0C, b"\x20\x00\x01\x00\x01x", 0x18) == b""

    asyncio.run(story())


def test_bad_datagrams_do_no_harm(broker: Mosquitto, gateway: GatewayProcess) -> None:
    async def story() -> None:
        async with application(broker, "field") as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            for datagram in (
                b"\x00",
                b"\x01",
                b"\xff\x0c",
                b"\x01\x00\x00\x0c",
                b"\x02\xee",
                b"\x05\x0c\x00\x00\x01",
            ):
                await s1._connection.send(datagram)
            topic = await s1.register("field")
            await s1.publish(topic, b"still here", qos=1)
            assert (await heard(app)).payload == b"still here"

    asyncio.run(story())
    assert "Traceback" not in gateway.log


def test_a_bad_topic_name_never_reaches_the_broker(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            for name in (b"a/+", b"a/#", b"a\x00b", b"\xff\xfe", b"a\x01b", b"/" * 300):
                with named(name=name):
                    body = await s1.ask(0x0A, b"\x00\x00\x00\x09" + name, 0x0B)
                    assert body == b"\x00\x00\x00\x09\x02"
            topic = await s1.register("field")
            await s1.publish(topic, b"x", qos=1)

    asyncio.run(story())
    assert gateway.connections == 1
    assert " unreachable: " not in gateway.log

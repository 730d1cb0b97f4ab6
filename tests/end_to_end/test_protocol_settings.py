"""What the configuration changes for those on the air and at the broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import framed, sensor, u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CLEAN,
    CONGESTION,
    CONNACK,
    CONNECT,
    DISCONNECT,
    NOT_SUPPORTED,
    PINGREQ,
    PINGRESP,
    PREDEFINED,
    PUBACK,
    PUBLISH,
    RETAIN,
    connected,
    fresh,
    node,
    serving,
    story,
)
from tests.support.application import application, heard


def listening_ports(gateway: GatewayProcess, count: int) -> list[tuple[str, int]]:
    pattern = r"listening for sensors on udp (\S+) port (\d+)[\s\S]*" * count
    found = gateway.wait_for_log(pattern).groups()
    return [(found[n], int(found[n + 1])) for n in range(0, 2 * count, 2)]


@pytest.mark.parametrize("octets", [1025, 2032, 2033, 30_000, 60_000, 65_498])
@story
async def test_larger_payloads_pass_where_the_limit_is_raised(
    broker: Mosquitto, tmp_path: Path, octets: int
) -> None:
    limits = f"[limits]\npayload_bytes_max = {octets}\noutbox_bytes_max = 1000000\n"
    payload = bytes(number % 251 for number in range(octets))
    with serving(tmp_path, broker, limits) as gateway:
        async with application(broker, "up") as app, connected(gateway.port) as n:
            for qos in (0, 1, 2):
                await n.publish(await n.register("up"), payload, qos=qos)
                assert (await heard(app)).payload == payload
            number = await n.subscribe(b"down", qos=2)
            for qos in (0, 1, 2):
                await app.publish("down", payload, qos=qos)
                assert await n.message() == (qos << 5, number, payload)
            if octets < 65_000:
                body = b"\x20" + u16(1) + u16(9999) + payload + b"x"
                await n.asks(PUBLISH, body, PUBACK, u16(1) + u16(9999) + NOT_SUPPORTED)


@story
async def test_a_message_too_large_for_a_sensor_is_dropped_and_the_next_comes(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker) as gateway:
        async with application(broker) as app, connected(gateway.port) as n:
            number = await n.subscribe(b"down/#", qos=2)
            for qos in (0, 1, 2):
                await app.publish("down/a", b"x" * 1025, qos=qos)
                await app.publish("down/a", b"x" * 300_000, qos=qos)
                await app.publish("down/" + "x" * 600, b"x", qos=qos)
            await app.publish("down/a", b"next", qos=1)
            assert (await n.message())[2] == b"next"
            assert number == 0
        gateway.wait_for_log("dropped payload_too_large")


@story
async def test_a_topic_prefix_is_put_before_everything_and_no_sensor_sees_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    config = (
        'topic_prefix = "site/7/"\n[predefined_topics]\n"boot" = 7\n[qos_minus_one]\nallow = true\n'
    )
    with serving(tmp_path, broker, config) as gateway:
        async with (
            application(broker, "#") as app,
            connected(gateway.port, keep_alive_s=1) as n,
            node(gateway.port) as nobody,
        ):
            assert (await heard(app)).topic.value == "site/7/tidegate/under-test/state"
            await n.publish(await n.register("up"), b"x", qos=1)
            await nobody.say(PUBLISH, b"\x61" + u16(7) + u16(0) + b"x")
            for topic in ("site/7/up", "site/7/boot"):
                assert (await heard(app)).topic.value == topic
            # What is beside the prefix must not get in, nor what only begins like it.
            assert await n.subscribe(b"#", qos=1) == 0
            assert (await n.accepts_register("tidegate/under-test/state")) > 0
            assert (await n.hear())[1][5:] == b"online"
            for topic in ("down", "site/70/down", "site/7", "site/7/down"):
                await app.publish(topic, topic.encode(), qos=1, retain=True)
            number = await n.accepts_register("down")
            kind, body = await n.hear()
            assert (kind, body[1:3], body[5:]) == (PUBLISH, u16(number), b"site/7/down")
            await n.say(PUBACK, body[1:5] + ACCEPTED)
            await n.bequeaths("will", b"lost")
            while (message := await heard(app)).topic.value != "site/7/will":
                pass
            assert message.payload == b"lost"


@story
async def test_several_listeners_serve_one_and_the_same_clients(
    broker: Mosquitto, tmp_path: Path
) -> None:
    config = "".join(
        f'[[udp]]\nlisten = "{listen}"\n'
        for listen in ("127.0.0.1:0", "[::1]:0", "127.0.0.2:0", "127.0.0.1:0")
    )
    with serving(tmp_path, broker, config) as gateway:
        ports = listening_ports(gateway, 4)
        assert [host for host, _ in ports] == ["127.0.0.1", "::1", "127.0.0.2", "127.0.0.1"]
        async with application(broker) as app:
            for host, port in ports:
                # One client that moves from one to the next.
                async with sensor(port, "wanderer", host) as n:
                    await n.connect(clean=False)
                    assert await n.register("up") == 1
                    number = await n.subscribe(b"down", qos=1)
                    await app.publish("down", host.encode(), qos=1)
                    assert await n.message() == (0x20, number, host.encode())
        async with (
            connected(ports[0][1], host="127.0.0.1") as four,
            connected(ports[1][1], host="::1") as six,
        ):
            await four.subscribe(b"both", qos=1)
            own = await six.register("both")
            await six.publish(own, b"from six to four", qos=1)
            assert (await four.message())[2] == b"from six to four"


@story
async def test_a_client_without_an_id_gets_one_where_that_is_allowed(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, '[mqtt_sn]\nempty_client_id = "assign"\n') as gateway:
        async with node(gateway.port, "") as a, node(gateway.port, "") as b:
            for each in (a, b):
                await each.connect(clean=True)
            async with application(broker, "up") as app:
                await a.publish(await a.register("up"), b"x", qos=1)
                await b.publish(await b.register("up"), b"y", qos=1)
                assert [(await heard(app)).payload for _ in range(2)] == [b"x", b"y"]
        async with node(gateway.port, "") as kept:
            body = bytes((0, 1)) + u16(60)
            await kept.asks(CONNECT, body, CONNACK, NOT_SUPPORTED)


@story
async def test_trailing_octets_are_refused_where_they_are_not_allowed(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, "[mqtt_sn]\nallow_trailing_octets = false\n") as gateway:
        async with connected(gateway.port) as n:
            await n.send(framed(PINGREQ, b"") + b"\x00")
            await n.send(framed(DISCONNECT, b"") + b"\x02\x16")
            await n.hears_nothing()


@story
async def test_qos_minus_one_is_off_unless_it_is_allowed(broker: Mosquitto, tmp_path: Path) -> None:
    with serving(tmp_path, broker, '[predefined_topics]\n"boot" = 7\n') as gateway:
        async with application(broker, "#") as app, connected(gateway.port) as n:
            await heard(app)
            for body in (b"\x61\x00\x07\x00\x00x", b"\x62tp\x00\x00x", b"\x60\x00\x01\x00\x00ax"):
                await n.asks_in_vain(PUBLISH, body)
            await n.publish(7, b"with a connection", qos=0, kind=PREDEFINED)
            assert (await heard(app)).payload == b"with a connection"


@story
async def test_a_full_gateway_serves_whom_it_has_and_takes_the_next_when_one_leaves(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with serving(tmp_path, broker, "[limits]\nclients_max = 2\n") as gateway:
        async with (
            connected(gateway.port) as a,
            connected(gateway.port) as b,
            node(gateway.port) as third,
        ):
            for client in (a, b):
                await client.hears_nothing()  # it says something, so it has its place
            body = bytes((CLEAN, 1)) + u16(60) + third.client_id.encode()
            for _ in range(2):
                await third.asks(CONNECT, body, CONNACK, CONGESTION)
            await a.connect()
            await b.hears_nothing()
            await a.leave()
            await third.asks(CONNECT, body, CONNACK, ACCEPTED)
            await third.asks(PINGREQ, b"", PINGRESP)


@story
async def test_retained_messages_come_also_while_the_broker_is_away(
    broker: Mosquitto, tmp_path: Path
) -> None:
    topic = fresh("t")
    with serving(tmp_path, broker) as gateway:
        async with connected(gateway.port) as early, connected(gateway.port) as late:
            async with application(broker) as app:
                await app.publish(topic, b"kept", qos=1, retain=True)
                await early.subscribe(topic.encode(), qos=1)
                assert (await early.message())[2] == b"kept"
            broker.stop()
            await asyncio.to_thread(gateway.wait_for_log, " unreachable: ")
            number = await late.subscribe(topic.encode(), qos=1)
            assert await late.message() == (0x20 | RETAIN, number, b"kept")

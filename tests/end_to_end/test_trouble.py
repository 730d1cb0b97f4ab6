"""What goes wrong around a gateway, and what its sensors and its operator then see."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from hil.rig.scripted_client import sensor, u16
from tests.support.application import application, delivery_tag, heard

UNAVAILABLE, CANNOT_CREATE, CONFIGURATION = 69, 73, 78


@pytest.fixture
def persistent_broker(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(["persistence true"], folder=folder) as running:
        yield running


UPSTREAM = '[journal]\nacknowledge = "upstream"\n'


def test_with_upstream_a_reading_is_not_acknowledged_before_the_broker_has_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    async def story(gateway: GatewayProcess) -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.register("field")
            broker.stop()
            gateway.wait_for_log(" unreachable: ")
            for _ in range(3):
                await s1.say(0x0C, b"\x20" + u16(topic) + u16(77) + b"kept")
                # The answer to a later PINGREQ comes first: nothing was said about the reading.
                assert await s1.ask(0x16, b"", 0x17) == b""
            broker.start()
            assert await s1.hear() == (0x0D, u16(topic) + u16(77) + b"\x00")

    with GatewayProcess(tmp_path, broker.url, UPSTREAM) as gateway:
        gateway.wait_until_connected()
        asyncio.run(story(gateway))


def test_a_reading_that_waited_arrives_with_its_tag_when_the_broker_is_back(
    persistent_broker: Mosquitto, tmp_path: Path
) -> None:
    async def story(gateway: GatewayProcess) -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.register("field")
            await s1.publish(topic, b"before", qos=1, retain=True)
            persistent_broker.stop()
            gateway.wait_for_log(" unreachable: ")
            # Acknowledged at once: it is on disk.
            await s1.publish(topic, b"while away", qos=1, retain=True)
            persistent_broker.start()
            gateway.wait_for_log(r"connected to broker \S+ again")
            async with application(persistent_broker, "field") as app:
                while (message := await heard(app)).payload == b"before":
                    pass
                assert message.payload == b"while away"
                assert delivery_tag(message)["seq"] == "1"

    with GatewayProcess(tmp_path, persistent_broker.url) as gateway:
        gateway.wait_until_connected()
        asyncio.run(story(gateway))


SLOW_CARD = '[journal]\nacknowledge = "journal"\nlinger_ms = 1000\n'


def test_a_gateway_that_is_asked_to_end_acknowledges_what_it_still_writes(
    broker: Mosquitto, tmp_path: Path
) -> None:
    async def story(gateway: GatewayProcess) -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.register("field")
            await s1.say(0x0C, b"\x20" + u16(topic) + u16(77) + b"last")
            assert await s1.ask(0x16, b"", 0x17) == b""  # before the reading is written
            gateway.ask_to_stop()
            assert await s1.hear() == (0x0D, u16(topic) + u16(77) + b"\x00")
            assert gateway.wait_for_exit() == 0

    with GatewayProcess(tmp_path, broker.url, SLOW_CARD) as gateway:
        gateway.wait_until_connected()
        asyncio.run(story(gateway))


def test_subscriptions_live_through_a_restart_of_the_broker(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            topic = await s1.subscribe(b"field/set", qos=1)
            broker.restart()
            gateway.wait_for_log(r"connected to broker \S+ again")
            async with application(broker) as app:
                # Retained, so that it comes whenever the gateway has subscribed again.
                await app.publish("field/set", b"on", qos=1, retain=True)
                assert (await s1.message())[1:] == (topic, b"on")

    asyncio.run(story())


def test_a_gateway_without_its_broker_serves_its_sensors(tmp_path: Path) -> None:
    port = free_tcp_port()

    async def story(gateway: GatewayProcess) -> None:
        async with sensor(gateway.port, "s1") as s1:
            await s1.connect()
            await s1.register("field")
            await s1.subscribe(b"field/set", qos=1)
            assert await s1.ask(0x16, b"", 0x17) == b""
            gateway.wait_for_log(f"127.0.0.1:{port} unreachable")
            with Mosquitto(port=port) as late:
                async with application(late) as app:
                    await app.publish("field/set", b"on", qos=1, retain=True)
                    assert (await s1.message())[2] == b"on"

    with GatewayProcess(tmp_path, f"mqtt://127.0.0.1:{port}") as gateway:
        asyncio.run(story(gateway))


def test_the_gateways_presence_is_retained_and_goes_with_it(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async def story() -> None:
        async with application(broker, "tidegate/under-test/state") as app:
            assert (await heard(app)).payload == b"online"
            assert gateway.stop() == 0
            assert (await heard(app)).payload == b"offline"

    asyncio.run(story())
    assert "Traceback" not in gateway.log


def test_each_start_is_a_new_epoch(broker: Mosquitto, tmp_path: Path) -> None:
    async def epoch(gateway: GatewayProcess) -> str:
        async with application(broker, "field") as app, sensor(gateway.port, "s1") as s1:
            await s1.connect()
            await s1.publish(await s1.register("field"), b"x", qos=1)
            return delivery_tag(await heard(app))["epoch"]

    found = []
    for _ in range(2):
        with GatewayProcess(tmp_path, broker.url) as gateway:
            gateway.wait_until_connected()
            found.append(asyncio.run(epoch(gateway)))
    assert found == ["1", "2"]


def test_a_port_in_use_ends_the_start_with_one_line(broker: Mosquitto, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        config = f'[[udp]]\nlisten = "127.0.0.1:{port}"\n'
        with GatewayProcess(tmp_path, broker.url, config) as gateway:
            assert gateway.wait_for_exit() == UNAVAILABLE
            assert str(port) in gateway.log
            assert "Traceback" not in gateway.log


def test_a_second_gateway_on_the_same_state_folder_is_refused(
    broker: Mosquitto, gateway: GatewayProcess, tmp_path: Path
) -> None:
    assert gateway.port
    (tmp_path / "second").mkdir()
    with GatewayProcess(tmp_path / "second", broker.url) as second:
        second.kill()
        second.config_path.write_text(gateway.config_path.read_text())
        second.start()
        assert second.wait_for_exit() == CANNOT_CREATE
        assert f"process {gateway.pid}" in second.log


def test_a_wrong_password_is_said_and_the_daemon_lives_on(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    config = f'username = "gateway"\npassword_file = "{tmp_path / "secret"}"\n'
    with (
        Mosquitto(allow_anonymous=False) as broker,
        GatewayProcess(tmp_path, broker.url, config) as gateway,
    ):
        gateway.wait_for_log(
            "CONNACK 0x8[67]: .* check upstream.username and upstream.password_file"
        )

        async def story() -> None:
            async with sensor(gateway.port, "s1") as s1:
                await s1.connect()

        asyncio.run(story())
        assert "hunter2" not in gateway.log


def test_a_wrong_configuration_ends_the_start_with_its_line(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, "mqtt://127.0.0.1:1", "[gatway]\n") as gateway:
        assert gateway.wait_for_exit() == CONFIGURATION
        assert "gateway.toml:7:2" in gateway.log
        assert "Traceback" not in gateway.log


def test_health_and_metrics_tell_of_the_broker_but_do_not_need_it(tmp_path: Path) -> None:
    broker_port = free_tcp_port()
    config = '[admin]\nlisten = "127.0.0.1:0"\n'
    with GatewayProcess(tmp_path, f"mqtt://127.0.0.1:{broker_port}", config) as gateway:
        address = gateway.wait_for_log(r"status page on (http://\S+)").group(1)
        gateway.wait_for_log(" unreachable: ")
        assert _got(f"{address}/healthz")["status"] == "ok"
        readiness = _got(f"{address}/readyz")
        assert readiness["status"] == "ok"
        assert readiness["upstream"]["connected"] is False
        assert "127.0.0.1" in readiness["upstream"]["state"]
        with urlopen(f"{address}/metrics") as answer:
            assert b"tidegate_upstream_connected 0.0" in answer.read()


def _got(url: str) -> Any:
    with urlopen(url) as answer:
        return json.load(answer)

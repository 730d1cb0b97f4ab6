"""Noise, pulled cables and restarts: what a line's sensors and operators then see."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from hil.rig.witness import witnessing
from tests.cli.tidegate import tidegate
from tests.end_to_end.on_air import DISCONNECT, PINGREQ, PINGRESP, fresh, serving, story
from tests.end_to_end.restart.restarting import End, begin_again, both_ends, gets
from tests.end_to_end.serial.noise import Noise, patient_sensor_on
from tests.end_to_end.serial.on_line import NO_UDP, lines, node_on, table, wait_until_open
from tests.support.application import application, heard
from tests.support.patient_sensor import PatientSensor

IMPATIENT = "[mqtt_sn]\nretry_after_s = 0.1\nretry_count_max = 100\n"
COMMANDS = 60
PAGE = '[admin]\nlisten = "127.0.0.1:0"\n'
TIMEOUT_S = 200.0


# Of the second there are more than 10,000 frames in each direction.
@pytest.mark.parametrize("readings", [300, pytest.param(1800, marks=pytest.mark.soak)])
@story
async def test_with_one_octet_in_a_hundred_wrong_everything_arrives_once(
    broker: Mosquitto, tmp_path: Path, readings: int
) -> None:
    dice = Random(5)
    async with lines(tmp_path, "hdlc", "hdlc", "hdlc") as three:
        config = IMPATIENT + "".join(table(line.name) for line in three)
        with serving(tmp_path, broker, config) as gateway, ExitStack() as stack:
            sensors: list[PatientSensor] = []
            noises: list[Noise] = []
            for number, line in enumerate(three):
                wait_until_open(gateway, line.name)
                noises += [Noise(dice, 0.01), Noise(dice, 0.01)]
                line.spoil_up, line.spoil_down = noises[-2:]
                made = patient_sensor_on(line, f"s{number}", retry_s=0.03)
                sensors.append(stack.enter_context(made))
            async with witnessing(broker.port, "up/#") as witness, application(broker) as app:

                async def live(number: int) -> None:
                    sensor = sensors[number]
                    await sensor.subscribe(f"down/{number}", 1)
                    for reading in range(readings):
                        if reading < COMMANDS:
                            await app.publish(f"down/{number}", b"c%d" % reading, qos=1)
                        payload = b"%d of %d" % (reading, number)
                        await sensor.publish(f"up/{number}", payload, 1 + reading % 2)
                    await sensor.heard({b"c%d" % each for each in range(COMMANDS)}, 20.0)

                await asyncio.gather(*map(live, range(3)))
                sent = {each.payload for sensor in sensors for each in sensor.acknowledged}
                assert len(sent) == 3 * readings
                assert await witness.until(lambda: witness.payloads >= sent, 10.0)
                assert len(witness.seen) == len(witness.payloads) == len(sent)
            assert min(noise.damaged for noise in noises) > 30
            for sensor in sensors:
                first = list(dict.fromkeys(each.payload for each in sensor.commands))
                assert first == [b"c%d" % each for each in range(COMMANDS)]
                assert sensor.counts["connects"] <= 1 + sensor.counts["disconnected"]


@story
async def test_a_pulled_cable_costs_no_session_and_nothing_that_was_acknowledged(
    broker: Mosquitto, tmp_path: Path
) -> None:
    async with lines(tmp_path, "hdlc") as (line,):
        config = NO_UDP + table(line.name) + IMPATIENT
        with (
            serving(tmp_path, broker, config) as gateway,
            patient_sensor_on(line, "s1", retry_s=0.1) as sensor,
        ):
            wait_until_open(gateway, line.name)
            async with witnessing(broker.port, "up") as witness, application(broker) as app:
                await sensor.subscribe("down", 1)
                for times in range(2, 5):
                    for number in range(50):
                        await sensor.publish("up", b"%d.%d" % (times, number), 1)
                        if number == 25:
                            line.unplug()
                            await app.publish("down", b"while away %d" % times, qos=1)
                            line.plug_in()
                    wait_until_open(gateway, line.name, times)
                await sensor.heard({b"while away %d" % times for times in range(2, 5)}, 20.0)
                sent = {each.payload for each in sensor.acknowledged}
                assert await witness.until(lambda: witness.payloads >= sent, 10.0)
                assert len(witness.seen) == len(sent) == 150
            assert sensor.counts["connects"] == 1
            assert gateway.log.count("it was unplugged; it is tried again") == 3


@story
async def test_while_its_port_is_lent_a_sensors_session_waits(
    broker: Mosquitto, tmp_path: Path
) -> None:
    up, down = fresh("up"), fresh("down")
    (tmp_path / "secret").write_text("tide")
    page = f'{PAGE}password_file = "secret"\n'
    async with lines(tmp_path, "hdlc") as (line,):
        with serving(tmp_path, broker, NO_UDP + table(line.name) + IMPATIENT + page) as gateway:
            wait_until_open(gateway, line.name)
            n = node_on(line)
            async with application(broker, up) as app:
                await n.connect(clean=False)
                topic_id = await n.register(up)
                await n.subscribe(down.encode(), qos=1)
                await verb(gateway, "serial", "release", str(line.name))
                await app.publish(down, b"meanwhile", qos=1)
                await verb(gateway, "serial", "resume", "serial0")
                wait_until_open(gateway, line.name, 2)
                await gets(n, b"meanwhile")
                await n.publish(topic_id, b"after", qos=1)
                assert (await heard(app)).payload == b"after"
            assert n.client_id in await verb(gateway, "clients")


def page_of(gateway: GatewayProcess) -> str:
    """Its port is the gateway's own choice: one that was free a moment ago may be taken."""
    return gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)


async def verb(gateway: GatewayProcess, name: str, *arguments: str) -> str:
    listen = f"admin.listen={page_of(gateway).removeprefix('http://')}"
    where = ("--config", gateway.config_path, "--set", listen)
    done = await asyncio.to_thread(tidegate, name, *where, *arguments, folder=gateway.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def told(gateway: GatewayProcess, path: str) -> Any:
    def ask() -> Any:
        with urlopen(f"{page_of(gateway)}{path}", timeout=TIMEOUT_S) as answer:
            return json.load(answer)

    return await asyncio.to_thread(ask)


@story
async def test_a_port_that_comes_later_is_opened_then_and_health_says_so(
    broker: Mosquitto, tmp_path: Path
) -> None:
    async with lines(tmp_path, "hdlc") as (line,):
        line.unplug()
        with serving(tmp_path, broker, NO_UDP + table(line.name) + PAGE) as gateway:
            gateway.wait_for_log(f"serial0: {line.name} is not there")
            health = await told(gateway, "/healthz")
            assert health["status"] == "degraded"
            assert "is not there" in str(health["checks"])
            line.plug_in()
            wait_until_open(gateway, line.name)
            assert (await told(gateway, "/healthz"))["status"] == "ok"
            n = node_on(line)
            await n.connect()
            clients = await told(gateway, "/api/clients")
            assert (client := clients["clients"][0])["link"] == "serial0"
            assert client["address"] == str(line.name)
            status = await told(gateway, "/api/status")
            (link,) = status["links"]
            assert link["line"]["is_open"]
            assert link["line"]["frames"]["good"] == link["datagrams_received"] == 1


@both_ends
@story
async def test_a_restart_of_the_gateway_is_not_felt_on_a_line(
    broker: Mosquitto, tmp_path: Path, end: End
) -> None:
    up, down = fresh("up"), fresh("down")
    async with lines(tmp_path, "hdlc", "slip") as (one, other):
        config = table(one.name) + table(other.name, "slip")
        with serving(tmp_path, broker, config) as gateway:
            for line in (one, other):
                wait_until_open(gateway, line.name)
            goes_on, sleeper = node_on(one), node_on(other)
            async with application(broker, up) as app:
                await goes_on.connect(clean=False)
                topic_id = await goes_on.register(up)
                await sleeper.connect(clean=False)
                await sleeper.subscribe(down.encode(), qos=1)
                await sleeper.asks(DISCONNECT, u16(600), DISCONNECT)
                await app.publish(down, b"0", qos=1)
                end(gateway)
                begin_again_with_lines(gateway, [one.name, other.name])
                await goes_on.publish(topic_id, b"after", qos=1)
                assert (await heard(app)).payload == b"after"
                await app.publish(down, b"1", qos=1)
                await sleeper.say(PINGREQ, sleeper.client_id.encode())
                await gets(sleeper, b"0", b"1", till=PINGRESP)


def begin_again_with_lines(gateway: GatewayProcess, ports: list[Path]) -> None:
    begin_again(gateway)
    for port in ports:
        wait_until_open(gateway, port)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@story
async def test_sensors_are_known_by_their_ports_whatever_the_order_of_the_tables(
    broker: Mosquitto, tmp_path: Path, order: tuple[int, int]
) -> None:
    async with lines(tmp_path, "hdlc", "hdlc") as two:
        tables = [table(line.name) for line in two]
        with serving(tmp_path, broker, "".join(tables)) as gateway:
            for line in two:
                wait_until_open(gateway, line.name)
            nodes = [node_on(line) for line in two]
            ids = [fresh("up") for _ in two]
            topics = []
            for n, name in zip(nodes, ids, strict=True):
                await n.connect(clean=False)
                topics.append(await n.register(name))
            gateway.stop()
            config = gateway.config_path.read_text()
            swapped = "".join(tables[number] for number in order)
            gateway.config_path.write_text(config.replace("".join(tables), swapped))
            begin_again_with_lines(gateway, [line.name for line in two])
            async with application(broker, *ids) as app:
                for n, name, topic_id in zip(nodes, ids, topics, strict=True):
                    await n.publish(topic_id, n.client_id.encode(), qos=1)
                    message = await heard(app)
                    assert (message.topic.value, message.payload) == (name, n.client_id.encode())

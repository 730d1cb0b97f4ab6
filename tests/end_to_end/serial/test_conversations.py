"""Sensors on serial lines have all that sensors have, in each framing."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from hil.rig.line_framings import Kind
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import framed, u16
from tests.end_to_end.bridge import Bridge
from tests.end_to_end.on_air import (
    ACCEPTED,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    Node,
    connected,
    fresh,
    serving,
    story,
)
from tests.end_to_end.serial.on_line import NO_UDP, lines, node_on, table, wait_until_open
from tests.support.application import application, delivery_tag, heard

ADVERTISE, SEARCHGW, GWINFO = 0x00, 0x01, 0x02
KINDS: tuple[Kind, ...] = ("hdlc", "slip", "raw")
# Every octet that a framing has to escape, and those that a console would obey.
AWKWARD = bytes(range(256)) + b"\x7e\x7d\xc0\xdb\xdc\xdd\x7e\x7e\x11\x13"


async def converse(broker: Mosquitto, n: Node) -> None:
    up, down = fresh("up"), fresh("down")
    async with application(broker, up) as app:
        await n.connect(clean=False)
        topic_id = await n.register(up)
        for qos in (0, 1, 2):
            await n.publish(topic_id, AWKWARD + b"%d" % qos, qos=qos)
            message = await heard(app)
            assert message.payload == AWKWARD + b"%d" % qos
            assert delivery_tag(message)["client"] == n.client_id
        number = await n.subscribe(down.encode(), qos=2)
        for qos in (0, 1, 2):
            await app.publish(down, AWKWARD + b"%d" % qos, qos=qos)
            assert await n.message() == (qos << 5, number, AWKWARD + b"%d" % qos)
        await n.asks(DISCONNECT, u16(600), DISCONNECT)
        await app.publish(down, b"kept", qos=1)
        assert await woken(n) == b"kept"
        await n.leave()


async def woken(n: Node) -> bytes:
    """What was kept for the sleeper, as soon as it has come from the broker."""
    while True:
        await n.say(PINGREQ, n.client_id.encode())
        kind, body = await n.hear()
        if kind == PUBLISH:
            await n.say(PUBACK, body[1:5] + ACCEPTED)
            await n.hears(PINGRESP)
            return body[5:]
        assert kind == PINGRESP


@pytest.mark.parametrize("kind", KINDS)
@story
async def test_a_sensor_on_a_line_connects_publishes_listens_and_sleeps(
    broker: Mosquitto, tmp_path: Path, kind: Kind
) -> None:
    async with lines(tmp_path, kind) as (line,):
        config = NO_UDP + table(line.name, kind)
        with serving(tmp_path, broker, config) as gateway:
            wait_until_open(gateway, line.name)
            await converse(broker, node_on(line))


@story
async def test_three_lines_and_udp_serve_at_once(broker: Mosquitto, tmp_path: Path) -> None:
    async with lines(tmp_path, *KINDS) as three:
        tables = "".join(table(line.name, kind) for line, kind in zip(three, KINDS, strict=True))
        with serving(tmp_path, broker, tables) as gateway:
            for line in three:
                wait_until_open(gateway, line.name)
            async with connected(gateway.port) as direct:
                nodes = [*map(node_on, three), direct]
                await asyncio.gather(*(converse(broker, n) for n in nodes))


@pytest.mark.parametrize("kind", KINDS)
@story
async def test_many_nodes_speak_through_a_bridge_on_one_line(
    broker: Mosquitto, tmp_path: Path, kind: Kind
) -> None:
    config = '[forwarders]\nlisted = ["192.0.2.1"]\n'  # of UDP; a line is always one of them
    async with lines(tmp_path, kind) as (line,):
        with serving(tmp_path, broker, table(line.name, kind) + config) as gateway:
            wait_until_open(gateway, line.name)
            b = Bridge(line, 0)
            nodes = [b.node(b"\x01"), b.node(b"\x02\x7e"), b.node(b"", fresh())]
            for n in nodes:
                await converse(broker, n)
            down = fresh("down")
            async with application(broker) as app:
                for number, n in enumerate(nodes[:2]):
                    await n.connect()
                    await n.subscribe(f"{down}/{number}".encode(), qos=1)
                for number, n in enumerate(nodes[:2]):
                    await app.publish(f"{down}/{number}", n.client_id.encode(), qos=1)
                    assert (await n.message())[2] == n.client_id.encode()
                    await n.hears_nothing()
            gateway.wait_for_log(rf"= active .*peer='?{line.name} node 027e")


@story
async def test_a_bridge_on_a_line_is_refused_where_none_is_allowed(
    broker: Mosquitto, tmp_path: Path
) -> None:
    async with lines(tmp_path, "hdlc") as (line,):
        config = table(line.name) + "[forwarders]\nallow = false\n"
        with serving(tmp_path, broker, config) as gateway:
            wait_until_open(gateway, line.name)
            n = node_on(line)
            await n.connect()
            await n.send(b"\x05\xfe\x00\x01\x02" + framed(PINGREQ, b""))
            await n.hears_nothing()
            gateway.wait_for_log("dropped forwarder")


@story
async def test_who_is_on_a_line_hears_of_the_gateway_and_may_search_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    async with lines(tmp_path, "hdlc", "hdlc") as (told, untold):
        config = f"[discovery]\nadvertise_s = 1\n{table(told.name, more='')}{table(untold.name)}"
        with serving(tmp_path, broker, config) as gateway:
            for line in (told, untold):
                wait_until_open(gateway, line.name)
            for _ in range(3):
                await node_on(told).hears(ADVERTISE, b"\x01" + u16(1))
            await node_on(untold).asks(SEARCHGW, b"\x00", GWINFO, b"\x01")


@story
async def test_a_board_that_prints_is_read_and_then_served(
    broker: Mosquitto, tmp_path: Path
) -> None:
    boot = b"ets Jul 29 2019 12:21:46\r\n\r\nrst:0x1 (POWERON_RESET)\r\nMicroPython v1.27\r\n>>> "
    async with lines(tmp_path, "hdlc") as (line,):
        config = '[log]\nlevel = "debug"\n' + table(line.name)
        with serving(tmp_path, broker, config) as gateway:
            wait_until_open(gateway, line.name)
            line.send_octets(boot)
            await node_on(line).connect()
            gateway.wait_for_log(r"DEBUG tidegate.serial \S+ prints: MicroPython v1.27")
            assert not re.search(r"WARN +tidegate\.", gateway.log)


@story
async def test_a_board_with_a_small_buffer_gets_its_messages_in_small_bursts(
    broker: Mosquitto, tmp_path: Path
) -> None:
    pace = "advertise = false\nburst_bytes_max = 32\nframe_gap_ms = 20"
    async with lines(tmp_path, "hdlc") as (line,), application(broker) as app:
        with serving(tmp_path, broker, table(line.name, more=pace)) as gateway:
            wait_until_open(gateway, line.name)
            n, down = node_on(line), fresh("down")
            await n.connect()
            await n.subscribe(down.encode(), qos=1)
            line.reads.clear()
            began = time.monotonic()
            await app.publish(down, bytes(200), qos=1)
            assert (await n.message())[2] == bytes(200)
            # How much is read at once is for the reader to say, who may be late, but never early.
            bursts = -(-sum(map(len, line.reads)) // 32)
            assert bursts >= 7
            assert time.monotonic() - began >= (bursts - 1) * 0.020

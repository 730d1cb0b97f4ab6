"""MQTT-SN 1.2, 5.5: nodes whose messages a radio bridge carries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import framed
from tests.end_to_end.bridge import Bridge, bridge
from tests.end_to_end.on_air import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PREDEFINED,
    REGISTER,
    connected,
    fresh,
    serving,
    story,
)
from tests.support.application import application, delivery_tag, heard

CONFIG = """\
[predefined_topics]
"sensors/boot" = 7
[qos_minus_one]
allow = true
[limits]
payload_bytes_max = 4000
disconnects_per_s_max = 1000
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    broker: Mosquitto, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    with serving(tmp_path_factory.mktemp("gateway"), broker, CONFIG) as running:
        yield running


async def not_a_word_for(b: Bridge, node_id: bytes) -> None:
    """The bridge has heard nothing for this node up to now, whoever it speaks to."""
    await b.node(b"\x0e", "probe").connect()
    assert not b._heard[node_id]


@pytest.mark.parametrize("node_octets", [0, 1, 2, 8, 252])
@story
async def test_a_node_has_all_that_a_sensor_has(
    broker: Mosquitto, gateway: GatewayProcess, node_octets: int
) -> None:
    up, down = fresh("up"), fresh("down")
    async with application(broker, up) as app, bridge(gateway.port) as b:
        n = b.node(bytes(range(255, 255 - node_octets, -1)))
        await n.connect()
        topic_id = await n.register(up)
        for qos in (0, 1, 2):
            await n.publish(topic_id, b"%d" % qos, qos=qos)
            message = await heard(app)
            assert (message.payload, delivery_tag(message)["client"]) == (b"%d" % qos, n.client_id)
        number = await n.subscribe(down.encode(), qos=2)
        for qos in (0, 1, 2):
            await app.publish(down, b"%d" % qos, qos=qos)
            assert await n.message() == (qos << 5, number, b"%d" % qos)
        await n.leave()


@story
async def test_payloads_of_full_size_fit_behind_the_longest_node_id(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    up, payload = fresh("up"), bytes(number % 251 for number in range(4000))
    async with application(broker, up) as app, bridge(gateway.port) as b:
        n = b.node(b"n" * 252)
        await n.connect()
        await n.publish(await n.register(up), payload, qos=1)
        assert (await heard(app)).payload == payload
        number = await n.subscribe(up.encode(), qos=1)
        await app.publish(up, payload, qos=1)
        assert await n.message() == (0x20, number, payload)


@story
async def test_two_bridges_may_have_the_same_node_ids_and_be_clients_themselves(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    down = fresh("down")
    async with (
        application(broker) as app,
        bridge(gateway.port) as one,
        bridge(gateway.port) as other,
        connected(gateway.port) as direct,
    ):
        nodes = [one.node(b"\1"), one.node(b"\2"), other.node(b"\1")]
        for n in nodes:
            await n.connect()
        for number, n in enumerate([*nodes, direct]):
            await n.subscribe(f"{down}/{number}".encode(), qos=1)
        for number, n in enumerate([*nodes, direct]):
            await app.publish(f"{down}/{number}", n.client_id.encode(), qos=1)
            assert (await n.message())[2] == n.client_id.encode()
        await nodes[0].leave()
        for n in (*nodes[1:], direct):
            await n.hears_nothing()


@story
async def test_a_node_that_never_connects_may_publish(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with application(broker, "sensors/boot") as app, bridge(gateway.port) as b:
        await b.node(b"\1").publish(7, b"up", qos=-1, kind=PREDEFINED)
        assert (await heard(app)).payload == b"up"
        await not_a_word_for(b, b"\1")


@pytest.mark.parametrize("inner", ["02", "00", "0316", "0211", "0cff", "05fe00070216"])
@story
async def test_a_bad_message_inside_is_not_answered(gateway: GatewayProcess, inner: str) -> None:
    async with bridge(gateway.port) as b:
        await b.send(b"\1", bytes.fromhex(inner))
        await not_a_word_for(b, b"\1")
        await b.send(b"\1", framed(PINGREQ, b""))
        await b.node(b"\1").hears(DISCONNECT)


@story
async def test_the_control_octet_of_a_bridge_says_nothing(gateway: GatewayProcess) -> None:
    async with bridge(gateway.port) as b:
        n = b.node(b"\1\2")
        await n.connect()
        for control in (0x00, 0x03, 0xFF):
            await b.send(b"\1\2", framed(PINGREQ, b""), control)
            await n.hears(PINGRESP)


@story
async def test_only_listed_bridges_are_heard(tmp_path: Path) -> None:
    config = '[forwarders]\nlisted = ["127.0.0.2", "10.0.0.0/8"]\n'
    with Mosquitto() as broker, serving(tmp_path, broker, config) as gateway:
        async with connected(gateway.port) as plain:
            await plain.send(b"\x05\xfe\x00\x01\x02" + framed(PINGREQ, b""))
            await plain.hears_nothing()
        async with bridge(gateway.port, from_host="127.0.0.2") as listed:
            await listed.node(b"\1").connect()
        gateway.wait_for_log("dropped forwarder")


@story
async def test_a_node_that_moves_to_another_bridge_takes_its_session_along(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    down = fresh("down")
    async with application(broker) as app, bridge(gateway.port) as b, bridge(gateway.port) as c:
        old = b.node(b"\1")
        await old.connect(clean=False)
        await old.subscribe(down.encode(), qos=1)
        new = c.node(b"\7", old.client_id)
        await new.connect(clean=False)
        await app.publish(down, b"here", qos=1)
        assert (await old.hear())[0] == REGISTER, "it may be there still"
        assert (await new.message())[2] == b"here"
        await old.is_a_stranger()

"""A radio bridge and its nodes, over real UDP, with a real broker and a gateway that is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aioudp
import pytest

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
    node,
    serving,
    story,
)
from tests.end_to_end.restart.restarting import restart
from tests.support.application import application, heard
from tests.support.gateway import GatewayProcess
from tests.support.hand_written_sensor import framed, u16
from tests.support.mosquitto import Mosquitto

CONFIG = "reconnect_delay_s_min = 0.05\n"


class Bridge:
    """One socket for all nodes of a radio; what comes for one stays until it is asked for."""

    def __init__(self, connection: aioudp.Connection) -> None:
        self.connection = connection
        self._waiting: dict[bytes, list[bytes]] = {}

    async def carry(self, node_id: bytes, datagram: bytes) -> None:
        await self.connection.send(bytes((3 + len(node_id), 0xFE, 0)) + node_id + datagram)

    async def next_for(self, node_id: bytes) -> bytes:
        while not self._waiting.get(node_id):
            octets = await self.connection.recv()
            assert octets[1:3] == b"\xfe\x00", octets.hex(" ")
            self._waiting.setdefault(octets[3 : octets[0]], []).append(octets[octets[0] :])
        return self._waiting[node_id].pop(0)


class Radio:
    """One node's end of the bridge, with the face of a connection."""

    def __init__(self, bridge: Bridge, node_id: bytes) -> None:
        self._bridge, self._node_id = bridge, node_id

    async def send(self, datagram: bytes) -> None:
        await self._bridge.carry(self._node_id, datagram)

    async def recv(self) -> bytes:
        return await self._bridge.next_for(self._node_id)


def behind(bridge: Bridge, node_id: bytes) -> Node:
    client_id = fresh()
    made = Node(Radio(bridge, node_id), client_id)  # type: ignore[arg-type]
    made.client_id = client_id
    return made


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(["persistence true"], folder=tmp_path) as running:
        yield running


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    with serving(tmp_path, broker, CONFIG) as running:
        yield running


@story
async def test_nodes_behind_a_bridge_publish_sleep_and_outlive_the_gateway(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with (
        aioudp.connect("127.0.0.1", gateway.port) as connection,
        application(broker, "field/#") as app,
    ):
        bridge = Bridge(connection)
        awake, sleeper = behind(bridge, b"\x01\x02"), behind(bridge, b"\x07")
        await awake.connect(clean=False)
        await sleeper.connect(clean=False)
        topic = await awake.register("field/1")
        command = await sleeper.subscribe(b"cmd", qos=1)
        await sleeper.asks(DISCONNECT, u16(60), DISCONNECT)
        await awake.publish(topic, b"before", qos=1)
        assert (await heard(app)).payload == b"before"
        restart(gateway, GatewayProcess.kill)
        await app.publish("cmd", b"while you slept", qos=1)
        await awake.publish(topic, b"after", qos=1)
        assert (await heard(app)).payload == b"after"
        await sleeper.say(PINGREQ, sleeper.client_id.encode())
        kind, body = await sleeper.hear()
        assert (kind, body[1:3], body[5:]) == (PUBLISH, u16(command), b"while you slept")
        await sleeper.asks(PUBACK, body[1:5] + ACCEPTED, PINGRESP)


@story
async def test_only_listed_bridges_are_heard(broker: Mosquitto, tmp_path: Path) -> None:
    config = CONFIG + '[forwarders]\nlisted = ["127.0.0.2", "10.0.0.0/8"]\n'
    folder = tmp_path / "listed"
    folder.mkdir()
    with serving(folder, broker, config) as gateway:
        async with connected(gateway.port) as plain:
            await plain.send(b"\x05\xfe\x00\x01\x02" + framed(PINGREQ, b""))
            await plain.hears_nothing()
        async with aioudp.connect(
            "127.0.0.1", gateway.port, local_addr=("127.0.0.2", 0)
        ) as connection:
            n = behind(Bridge(connection), b"\x01")
            await n.connect()
        gateway.wait_for_log("dropped forwarder")


@story
async def test_a_sleeper_wakes_up_at_another_port_and_gets_what_waited(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with connected(gateway.port, clean=False) as n, application(broker) as app:
        client_id = n.client_id
        command = await n.subscribe(b"cmd", qos=1)
        await n.asks(DISCONNECT, u16(60), DISCONNECT)
        for word in (b"1", b"2"):
            await app.publish("cmd", word, qos=1)
        async with node(gateway.port, client_id) as moved:
            await moved.say(PINGREQ, client_id.encode())
            for word in (b"1", b"2"):
                kind, body = await moved.hear()
                assert (kind, body[1:3], body[5:]) == (PUBLISH, u16(command), word)
                await moved.say(PUBACK, body[1:5] + ACCEPTED)
            await moved.hears(PINGRESP)
            restart(gateway, GatewayProcess.kill)
            await app.publish("cmd", b"3", qos=1)
            await moved.say(PINGREQ, client_id.encode())
            # What was acknowledged a moment before the end may come again.
            found: list[bytes] = []
            while (frame := await moved.hear())[0] == PUBLISH:
                found.append(frame[1][5:])
                await moved.say(PUBACK, frame[1][1:5] + ACCEPTED)
            assert frame[0] == PINGRESP
            assert found[-1] == b"3"

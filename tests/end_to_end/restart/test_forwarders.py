"""The gateway ends while nodes behind a bridge are connected or asleep, and goes on with them."""

from __future__ import annotations

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.bridge import bridge
from tests.end_to_end.on_air import DISCONNECT, PINGREQ, PINGRESP, fresh, story
from tests.end_to_end.restart.restarting import End, both_ends, gets, restart
from tests.support.application import application, heard


@both_ends
@story
async def test_one_node_sleeps_and_one_goes_on_over_the_end_of_the_gateway(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    up, down = fresh("up"), fresh("down")
    async with application(broker, up) as app, bridge(gateway.port) as b:
        sleeper, other = b.node(b"\1"), b.node(b"\2")
        for n in (sleeper, other):
            await n.connect(clean=False)
        topic_id = await other.register(up)
        await sleeper.subscribe(down.encode(), qos=1)
        await sleeper.asks(DISCONNECT, u16(600), DISCONNECT)
        for number in range(3):
            await app.publish(down, b"%d" % number, qos=1)
        await other.publish(topic_id, b"before", qos=1)
        assert (await heard(app)).payload == b"before"
        restart(gateway, end)
        await other.publish(topic_id, b"after", qos=1)
        assert (await heard(app)).payload == b"after"
        await app.publish(down, b"3", qos=1)
        await sleeper.say(PINGREQ, sleeper.client_id.encode())
        await gets(sleeper, b"0", b"1", b"2", b"3", till=PINGRESP)
        await other.hears_nothing()


@both_ends
@story
async def test_nodes_with_one_id_behind_two_bridges_are_not_mistaken_for_each_other(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    down = fresh("down")
    async with application(broker) as app, bridge(gateway.port) as b, bridge(gateway.port) as c:
        nodes = [b.node(b"\1"), c.node(b"\1"), c.node(b"")]
        for number, n in enumerate(nodes):
            await n.connect(clean=False)
            await n.subscribe(f"{down}/{number}".encode(), qos=1)
        restart(gateway, end)
        for number, n in enumerate(nodes):
            await app.publish(f"{down}/{number}", n.client_id.encode(), qos=1)
            await gets(n, n.client_id.encode())
            await n.hears_nothing()

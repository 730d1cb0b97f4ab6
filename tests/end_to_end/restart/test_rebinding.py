"""Sleepers that come back from another port, bridge or node id, also over the gateway's end."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.bridge import bridge
from tests.end_to_end.on_air import (
    ACCEPTED,
    DISCONNECT,
    DUP,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Node,
    connected,
    fresh,
    node,
    serving,
    story,
)
from tests.end_to_end.restart.restarting import End, both_ends, restart
from tests.support.application import application


async def falls_asleep(n: Node, topic: str, qos: int = 1) -> None:
    await n.subscribe(topic.encode(), qos=qos)
    await n.asks(DISCONNECT, u16(600), DISCONNECT)


async def asks_for_messages(n: Node) -> None:
    await n.say(PINGREQ, n.client_id.encode())


async def fetches(n: Node, *, until: bytes) -> list[bytes]:
    """What comes by the PINGRESP behind that one: the broker may have it still when it is asked
    for. After a crash the last ones that were acknowledged before it may come again, first of
    all: that they were is not waited for.
    """
    payloads: list[bytes] = []
    while until not in payloads:
        await asks_for_messages(n)
        while (heard := await n.hear())[0] != PINGRESP:
            kind, body = heard
            assert kind == PUBLISH
            await n.say(PUBACK, body[1:5] + ACCEPTED)
            payloads.append(body[5:])
    return payloads


@both_ends
@story
async def test_messages_are_fetched_from_another_port_which_counts_from_then_on(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    down = fresh("down")
    async with (
        application(broker) as app,
        connected(gateway.port, clean=False) as old,
        node(gateway.port, old.client_id, from_host=old.host) as new,
    ):
        await falls_asleep(old, down)
        for number in range(3):
            await app.publish(down, b"%d" % number, qos=1)
        assert await fetches(new, until=b"2") == [b"0", b"1", b"2"]
        before = old.host.replace(".", r"\.")
        gateway.wait_for_log(rf"= rebound client={old.client_id} peer=\S+ before={before}:\d+")
        restart(gateway, end)
        await app.publish(down, b"3", qos=1)
        assert (await fetches(new, until=b"3"))[-1] == b"3"
        await old.is_a_stranger()
        await new.hears_nothing()


@both_ends
@story
async def test_what_was_sent_to_the_new_address_is_repeated_there_after_the_end_of_the_gateway(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    """At QoS 2, which goes out when it is on the disk, and so under its message id again."""
    down = fresh("down")
    async with (
        application(broker) as app,
        connected(gateway.port, clean=False) as old,
        node(gateway.port, old.client_id, from_host=old.host) as new,
    ):
        await falls_asleep(old, down, qos=2)
        for payload in (b"0", b"1"):
            await app.publish(down, payload, qos=2)
        kind = PINGRESP
        while kind == PINGRESP:  # the broker has it still
            await asks_for_messages(new)
            kind, first = await new.hear()
        assert (kind, first[5:]) == (PUBLISH, b"0")
        restart(gateway, end)
        await asks_for_messages(new)
        await new.hears(PUBLISH, bytes((first[0] | DUP,)) + first[1:])
        # Repeats, for all that this life of the gateway knows.
        second = (
            bytes((first[0] | DUP,))
            + first[1:3]
            + u16(int.from_bytes(first[3:5], "big") + 1)
            + b"1"
        )
        for each, kind, following in ((first, PUBLISH, second), (second, PINGRESP, b"")):
            await new.asks(PUBREC, each[3:5], PUBREL, each[3:5])
            await new.asks(PUBCOMP, each[3:5], kind, following)
        await old.is_a_stranger()


@both_ends
@story
async def test_a_node_wakes_behind_another_bridge(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    down = fresh("down")
    async with application(broker) as app, bridge(gateway.port) as b, bridge(gateway.port) as c:
        old = b.node(b"\1")
        await old.connect(clean=False)
        await falls_asleep(old, down)
        await app.publish(down, b"0", qos=1)
        restart(gateway, end)
        new = c.node(b"\1\2", old.client_id)
        # Twice where the gateway was killed before the broker heard that it has the message.
        assert set(await fetches(new, until=b"0")) == {b"0"}
        restart(gateway, end)
        await app.publish(down, b"1", qos=1)
        assert (await fetches(new, until=b"1"))[-1] == b"1"
        await old.is_a_stranger()


@pytest.mark.parametrize(
    ("policy", "same_host", "is_moved"),
    [
        ("any", True, True), ("any", False, True), ("same_host", True, True),
        ("same_host", False, False), ("never", True, False),
    ],
)  # fmt: skip
@story
async def test_the_operator_decides_from_where(
    broker: Mosquitto, tmp_path: Path, policy: str, same_host: bool, is_moved: bool
) -> None:
    config = f'[mqtt_sn]\nrebind_sleepers = "{policy}"\n'
    with serving(tmp_path, broker, config) as gateway:
        async with connected(gateway.port, clean=False) as old:
            from_host = old.host if same_host else None
            async with node(gateway.port, old.client_id, from_host=from_host) as new:
                await falls_asleep(old, fresh("down"))
                answer = PINGRESP if is_moved else DISCONNECT
                await new.asks(PINGREQ, old.client_id.encode(), answer)
                if not is_moved:
                    await old.hears_nothing()

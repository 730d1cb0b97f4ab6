"""The gateway ends in the middle of an exchange, asked or killed, and goes on with it."""

from __future__ import annotations

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    DUP,
    PINGREQ,
    PINGRESP,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Node,
    connected,
    fresh,
    story,
)
from tests.end_to_end.restart.restarting import (
    End,
    both_ends,
    gets,
    hears_up_to,
    restart,
)
from tests.support.application import application, delivery_tag

# QoS 2 from a sensor, cut at each of its stages


async def offered(n: Node, topic_id: int, message_id: int, flags: int = 0x40) -> None:
    await n.say(PUBLISH, bytes((flags,)) + u16(topic_id) + u16(message_id) + b"once")


@both_ends
@pytest.mark.parametrize("stage", ["PUBLISH sent", "PUBREC heard", "PUBREL sent", "PUBCOMP heard"])
@story
async def test_a_reading_at_qos_2_arrives_once_wherever_its_exchange_is_cut(
    broker: Mosquitto, gateway: GatewayProcess, stage: str, end: End
) -> None:
    name, message_id = fresh("up"), 700
    async with application(broker, name) as app, connected(gateway.port, clean=False) as n:
        topic_id = await n.register(name)
        await offered(n, topic_id, message_id)
        if stage != "PUBLISH sent":
            await n.hears(PUBREC, u16(message_id))
        if stage == "PUBREL sent":
            await n.say(PUBREL, u16(message_id))
        if stage == "PUBCOMP heard":
            await n.asks(PUBREL, u16(message_id), PUBCOMP, u16(message_id))
        restart(gateway, end)
        await unanswered_from_before(n)
        if stage in ("PUBLISH sent", "PUBREC heard"):
            # Its acknowledgement may have been lost on the air.
            await offered(n, topic_id, message_id, 0x40 | DUP)
            await n.hears(PUBREC, u16(message_id))
        await n.asks(PUBREL, u16(message_id), PUBCOMP, u16(message_id))
        # A copy that the network kept for a while.
        await offered(n, topic_id, message_id, 0x40 | DUP)
        await n.hears(PUBREC, u16(message_id))
        await n.asks(PUBREL, u16(message_id), PUBCOMP, u16(message_id))
        arrivals = await hears_up_to(app, n, topic_id)
        assert {message.payload for message in arrivals} == {b"once"}
        tags = {delivery_tag(message)["seq"] for message in arrivals}
        assert len(tags) == 1, "a repeat has the tag of the first"


async def unanswered_from_before(n: Node) -> None:
    """What the life before had said is no answer to what is asked now."""
    await n.say(PINGREQ)
    while (await n.hear())[0] != PINGRESP:
        pass


# QoS 1 and 2 to a sensor


@both_ends
@pytest.mark.parametrize("qos", [1, 2])
@story
async def test_a_message_not_acknowledged_comes_again_at_qos_2_under_its_message_id(
    broker: Mosquitto, gateway: GatewayProcess, qos: int, end: End
) -> None:
    topic = fresh("down")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        topic_id = await n.subscribe(topic.encode(), qos=2)
        await app.publish(topic, b"first", qos=qos)
        await app.publish(topic, b"second", qos=qos)
        kind, before = await n.hear()
        assert (kind, before[5:]) == (PUBLISH, b"first")
        restart(gateway, end)
        if qos == 2:
            await n.hears(PUBLISH, bytes((before[0] | DUP,)) + before[1:])
            await n.asks(PUBREC, before[3:5], PUBREL, before[3:5])
            await n.say(PUBCOMP, before[3:5])
            assert await gets(n, b"second") == [topic_id]
            await n.hears_nothing()
        else:
            assert await gets(n, b"first", b"second") == [topic_id, topic_id]


@both_ends
@story
async def test_a_message_whose_pubrec_came_is_only_released_again(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    topic = fresh("down")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        topic_id = await n.subscribe(topic.encode(), qos=2)
        await app.publish(topic, b"first", qos=2)
        await app.publish(topic, b"second", qos=2)
        _, publish = await n.hear()
        message_id = publish[3:5]
        await n.asks(PUBREC, message_id, PUBREL, message_id)
        restart(gateway, end)
        await n.hears(PUBREL, message_id)
        await n.say(PUBCOMP, message_id)
        assert await gets(n, b"second") == [topic_id]
        await n.hears_nothing()

"""The gateway ends in the middle of an exchange, asked or killed, and goes on with it."""

from __future__ import annotations

import aiomqtt
import pytest

from tests.end_to_end.on_air import (
    ACCEPTED,
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
    story,
)
from tests.end_to_end.restart.restarting import End, both_ends, restart
from tests.support.application import application, delivery_tag, heard
from tests.support.gateway import GatewayProcess
from tests.support.hand_written_sensor import u16
from tests.support.mosquitto import Mosquitto

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
        first = await heard(app)
        assert first.payload == b"once"
        tags = {delivery_tag(first)["seq"]}
        while (message := await until_mark(app, n, topic_id)) is not None:
            tags.add(delivery_tag(message)["seq"])
        assert len(tags) == 1, "a repeat has the tag of the first"


async def unanswered_from_before(n: Node) -> None:
    """What the life before had said is no answer to what is asked now."""
    await n.say(PINGREQ)
    while (await n.hear())[0] != PINGRESP:
        pass


async def until_mark(app: aiomqtt.Client, n: Node, topic_id: int) -> aiomqtt.Message | None:
    """The next message; None when it is the mark that is sent now."""
    mark = fresh("mark").encode()
    await n.publish(topic_id, mark, qos=1)
    message = await heard(app)
    return None if message.payload == mark else message


# QoS 1 and 2 to a sensor


@both_ends
@pytest.mark.parametrize("qos", [1, 2])
@story
async def test_a_message_not_acknowledged_comes_again_under_its_message_id(
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
        kind, again = await n.hear()
        assert kind == PUBLISH
        assert again[0] == before[0] | DUP
        assert again[1:] == before[1:]
        await acknowledge(n, again)
        assert (await n.message())[1:] == (topic_id, b"second")
        await n.hears_nothing()


async def acknowledge(n: Node, publish: bytes) -> None:
    message_id = publish[3:5]
    if publish[0] >> 5 & 3 == 1:
        await n.say(PUBACK, publish[1:5] + ACCEPTED)
    else:
        await n.asks(PUBREC, message_id, PUBREL, message_id)
        await n.say(PUBCOMP, message_id)


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
        assert await n.message() == (0x40, topic_id, b"second")
        await n.hears_nothing()

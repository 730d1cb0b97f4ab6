"""The gateway ends, asked or killed, and begins again: its sensors go on as if nothing had been.

Nobody connects again here, unless that is what a test is about.
"""

from __future__ import annotations

import asyncio

import aiomqtt

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
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
    REGISTER,
    Node,
    connected,
    fresh,
    story,
)
from tests.end_to_end.restart.restarting import (
    End,
    begin_again,
    both_ends,
    both_sessions,
    gets,
    hears_up_to,
    restart,
)
from tests.support.application import application, delivery_tag, heard

ASLEEP_S = 600
# Twice the longest time for which a change that promises nothing to anybody waits for others.
SAVED_LATEST_S = 0.5


async def nothing_more(app: aiomqtt.Client, node: Node, topic_id: int) -> None:
    """Up to now the application has heard all there is."""
    await node.publish(topic_id, b"and now", qos=1)
    assert (await heard(app)).payload == b"and now"


# Known sensors


@both_ends
@both_sessions
@story
async def test_known_sensors_are_served_without_connect_under_the_same_topic_ids(
    broker: Mosquitto, gateway: GatewayProcess, clean: bool, end: End
) -> None:
    names = [fresh("up"), fresh("up"), fresh("up")]
    async with application(broker, *names) as app, connected(gateway.port, clean=clean) as n:
        ids = [await n.register(name) for name in names]
        restart(gateway, end)
        for name, topic_id in zip(names, ids, strict=True):
            for qos in (0, 1, 2):
                await n.publish(topic_id, b"%d" % qos, qos=qos)
                message = await heard(app)
                assert (message.topic.value, message.payload) == (name, b"%d" % qos)
        assert [await n.register(name) for name in names] == ids
        assert await n.register(fresh("up")) not in ids


@both_ends
@story
async def test_a_reading_after_the_restart_has_a_tag_of_its_own(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    name = fresh("up")
    async with application(broker, name) as app, connected(gateway.port) as n:
        topic_id = await n.register(name)
        tags = []
        for _ in range(3):
            await n.publish(topic_id, b"21.5", qos=1)
            tag = delivery_tag(await heard(app))
            tags.append((int(tag["epoch"]), int(tag["seq"])))
            restart(gateway, end)
    first = tags[0][0]
    assert [epoch for epoch, _ in tags] == [first, first + 1, first + 2]
    assert len(set(tags)) == 3


@both_ends
@both_sessions
@story
async def test_a_command_published_while_the_gateway_is_down_arrives(
    broker: Mosquitto, gateway: GatewayProcess, clean: bool, end: End
) -> None:
    topic = fresh("down")
    async with application(broker) as app, connected(gateway.port, clean=clean) as n:
        topic_id = await n.subscribe(topic.encode(), qos=2)
        end(gateway)
        for qos in (1, 2):
            await app.publish(topic, b"%d" % qos, qos=qos)
        begin_again(gateway)
        assert await n.message() == (0x20, topic_id, b"1")
        assert await n.message() == (0x40, topic_id, b"2")
        await n.hears_nothing()


@both_ends
@story
async def test_a_subscription_with_wildcards_registers_names_where_it_left_off(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    root = fresh("down")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        await n.subscribe(f"{root}/#".encode(), qos=2)
        await app.publish(f"{root}/a", b"1", qos=2)
        (first,) = await gets(n, b"1")
        restart(gateway, end)
        await app.publish(f"{root}/b", b"2", qos=2)
        await app.publish(f"{root}/a", b"3", qos=2)
        second, third = await gets(n, b"2", b"3")
        assert second != first
        assert third == first


@both_ends
@story
async def test_an_unsubscribed_filter_stays_so(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    gone, kept = fresh("down"), fresh("down")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        await n.subscribe(gone.encode(), qos=1)
        kept_id = await n.subscribe(kept.encode(), qos=1)
        message_id = u16(n.next_id())
        await n.asks(0x14, b"\x00" + message_id + gone.encode(), 0x15, message_id)
        restart(gateway, end)
        await app.publish(gone, b"x", qos=1)
        await app.publish(kept, b"y", qos=1)
        assert await n.message() == (0x20, kept_id, b"y")


@both_ends
@story
async def test_who_said_goodbye_with_a_clean_session_is_a_stranger(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    async with connected(gateway.port) as n:
        await n.leave()
        restart(gateway, end)
        await n.is_a_stranger()


@both_ends
@story
async def test_a_sensor_at_a_new_address_finds_its_session_when_it_connects(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    name, topic, client_id = fresh("up"), fresh("down"), fresh()
    async with application(broker, name) as app:
        async with connected(gateway.port, client_id, clean=False) as n:
            up = await n.register(name)
            down = await n.subscribe(topic.encode(), qos=1)
        restart(gateway, end)
        async with connected(gateway.port, client_id, clean=False) as n:
            await app.publish(topic, b"on", qos=1)
            kind, body = await n.hear()
            if kind == REGISTER:  # ids are told again in a new connection
                assert body[:2] == u16(down)
                await n.say(0x0B, body[:4] + ACCEPTED)
                kind, body = await n.hear()
            assert (kind, body[1:3], body[5:]) == (PUBLISH, u16(down), b"on")
            await n.say(PUBACK, body[1:5] + ACCEPTED)
            assert await n.register(name) == up


# Sleepers


@both_ends
@story
async def test_a_sleeper_gets_its_queue_at_its_pingreq(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    topic = fresh("down")
    async with (
        application(broker) as app,
        connected(gateway.port, clean=False) as sleeper,
        connected(gateway.port) as other,
    ):
        topic_id = await sleeper.subscribe(topic.encode(), qos=2)
        await other.subscribe(topic.encode(), qos=2)
        await sleeper.asks(0x18, u16(ASLEEP_S), 0x18)
        for number in range(4):
            await app.publish(topic, b"%d" % number, qos=1 + number % 2)
            await gets(other, b"%d" % number)
        restart(gateway, end)
        await app.publish(topic, b"4", qos=2)
        await gets(other, b"4")
        await sleeper.say(PINGREQ, sleeper.client_id.encode())
        payloads = [b"%d" % number for number in range(5)]
        assert await gets(sleeper, *payloads, till=PINGRESP) == [topic_id] * 5
        await sleeper.asks(PINGREQ, sleeper.client_id.encode(), PINGRESP)


@both_ends
@story
async def test_what_a_sleeper_did_not_acknowledge_comes_again_and_what_it_did_does_not(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    topic = fresh("down")
    async with application(broker) as app, connected(gateway.port, clean=False) as sleeper:
        topic_id = await sleeper.subscribe(topic.encode(), qos=2)
        await sleeper.asks(0x18, u16(ASLEEP_S), 0x18)
        await app.publish(topic, b"first", qos=2)
        await app.publish(topic, b"second", qos=2)
        await sleeper.say(PINGREQ, sleeper.client_id.encode())
        assert await sleeper.message() == (0x40, topic_id, b"first")
        kind, body = await sleeper.hear()
        assert (kind, body[5:]) == (PUBLISH, b"second")
        restart(gateway, end)
        await sleeper.say(PINGREQ, sleeper.client_id.encode())
        kind, again = await sleeper.hear()
        if (kind, again) == (PUBREL, u16(int.from_bytes(body[3:5], "big") - 1)):
            # Of the first: its PUBCOMP came a moment before the end.
            await sleeper.say(PUBCOMP, again)
            kind, again = await sleeper.hear()
        assert (kind, again) == (PUBLISH, bytes((body[0] | DUP,)) + body[1:])
        await sleeper.asks(PUBREC, body[3:5], PUBREL, body[3:5])
        await sleeper.asks(PUBCOMP, body[3:5], PINGRESP)


# Wills


@both_ends
@story
async def test_the_will_of_a_client_lost_after_the_restart_is_published(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    will, alive = fresh("will"), fresh("will")
    async with (
        application(broker, will, alive) as app,
        connected(gateway.port, clean=False, keep_alive_s=1) as silent,
        connected(gateway.port, clean=False, keep_alive_s=60) as loud,
    ):
        await silent.bequeaths(will, b"gone")
        await loud.bequeaths(alive, b"gone too")
        restart(gateway, end)
        message = await heard(app)
        assert (message.topic.value, message.payload) == (will, b"gone")
        await loud.hears_nothing()


@both_ends
@story
async def test_nobody_is_lost_for_the_time_in_which_the_gateway_was_down(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    will = fresh("will")
    async with (
        application(broker, will) as app,
        connected(gateway.port, clean=False, keep_alive_s=3) as n,
    ):
        await n.bequeaths(will, b"gone")
        topic_id = await n.register(will)
        end(gateway)
        await asyncio.sleep(5.0)  # longer than its keep-alive and half of it
        begin_again(gateway)
        await n.hears_nothing()
        await nothing_more(app, n, topic_id)


# The broker away


@both_ends
@story
async def test_what_was_acknowledged_without_the_broker_arrives_after_restarts(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    """Some of it before a restart and some after, all before the broker returns."""
    name = fresh("up")
    async with connected(gateway.port, clean=False) as n:
        topic_id = await n.register(name)
        broker.stop()
        gateway.wait_for_log(" unreachable: ")
        for number in range(20):
            await n.publish(topic_id, b"%d" % number, qos=1 + number % 2)
            if number % 10 == 9:
                end(gateway)
                gateway.start()
                assert gateway.port
        end(gateway)
        broker.start()
        async with application(broker, name) as app:
            begin_again(gateway)
            found = [int(each.payload) for each in await hears_up_to(app, n, topic_id)]
        # The broker passes a message at QoS 2 on when it is released: later ones may be faster.
        assert [number for number in found if number % 2 == 0] == list(range(0, 20, 2))
        assert [number for number in found if number % 2 == 1] == list(range(1, 20, 2))


@both_ends
@story
async def test_retained_messages_are_served_while_the_broker_is_away_after_a_restart(
    broker: Mosquitto, gateway: GatewayProcess, end: End
) -> None:
    root = fresh("kept")
    async with application(broker) as app, connected(gateway.port, clean=False) as first:
        await app.publish(f"{root}/a", b"old", qos=1, retain=True)
        await first.subscribe(f"{root}/#".encode(), qos=1)
        await first.accepts_register(f"{root}/a")
        assert (await first.message())[2] == b"old"
        await app.publish(f"{root}/a", b"new", qos=1, retain=True)
        assert (await first.message())[2] == b"new"
        await app.publish(f"{root}/b", b"2", qos=1, retain=True)
        await first.accepts_register(f"{root}/b")
        assert (await first.message())[2] == b"2"
        await app.publish(f"{root}/b", b"", qos=1, retain=True)
        assert (await first.message())[2] == b""
    # It is saved lately: what is lost of it, the broker has.
    await asyncio.sleep(SAVED_LATEST_S)
    broker.stop()
    try:
        end(gateway)
        gateway.start()
        async with connected(gateway.port) as second:
            topic_id = await second.subscribe(f"{root}/a".encode(), qos=1)
            assert await second.message() == (0x30, topic_id, b"new")
            await second.subscribe(f"{root}/b".encode(), qos=1)
            await second.hears_nothing()
    finally:
        broker.start()
        gateway.wait_until_connected()

"""MQTT-SN 1.2, 6.9: what a sensor asks to hear."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiomqtt
import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CONGESTION,
    DISCONNECT,
    DUP,
    INVALID_TOPIC_ID,
    NOT_SUPPORTED,
    PREDEFINED,
    RESERVED,
    RETAIN,
    SHORT,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    Node,
    connected,
    fresh,
    serving,
    story,
)
from tests.support.application import application

CONFIG = """
[predefined_topics]
"sensors/boot" = 7
[limits]
subscriptions_per_client_max = 8
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    # Else a command published at once for a slow sensor is dropped by the broker.
    with Mosquitto(["max_queued_messages 100000"]) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    broker: Mosquitto, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    with serving(tmp_path_factory.mktemp("gateway"), broker, CONFIG) as running:
        yield running


async def unsubscribes(n: Node, topic: bytes, kind: int = 0) -> None:
    message_id = u16(n.next_id())
    await n.asks(UNSUBSCRIBE, bytes((kind,)) + message_id + topic, UNSUBACK, message_id)


# SUBACK


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    ("kind", "topic", "answered"),
    [(0, b"a/b", 1), (0, b"a/+", 0), (0, b"#", 0), (0, b"tp", 1), (PREDEFINED, u16(7), 7),
     (SHORT, b"tp", 0x7470)],
)  # fmt: skip
@story
async def test_suback_has_the_granted_qos_and_the_id_to_expect(
    gateway: GatewayProcess, qos: int, kind: int, topic: bytes, answered: int
) -> None:
    async with connected(gateway.port) as n:
        for flags in (qos << 5 | kind, DUP | qos << 5 | kind):
            body = bytes((flags,)) + u16(9) + topic
            answer = bytes((qos << 5,)) + u16(answered) + u16(9) + ACCEPTED
            await n.say(SUBSCRIBE, body)
            kind_heard, content = await n.hear()
            while kind_heard != SUBACK:  # "#" brings what is retained
                kind_heard, content = await n.hear()
            assert content == answer
        # Else "#" goes on covering what other tests subscribe to.
        await n.say(DISCONNECT)


@pytest.mark.parametrize(
    "bad",
    [b"a/#/b", b"a#", b"#a", b"a+/b", b"+a", b"a/b#", b"\x00", b"a\x00", b"\xff", b"\xed\xa0\x80",
     b"$share/group/a", b"$share/group", b"$share/", b"$share",
     b"x" * 513, b"/" * 200],
)  # fmt: skip
@story
async def test_a_bad_filter_is_not_supported(gateway: GatewayProcess, bad: bytes) -> None:
    async with connected(gateway.port) as n:
        body = b"\x20" + u16(9) + bad
        await n.asks(SUBSCRIBE, body, SUBACK, b"\x20" + u16(0) + u16(9) + NOT_SUPPORTED)
        await n.hears_nothing()


@pytest.mark.parametrize(
    ("flags", "topic", "code"),
    [(PREDEFINED, u16(8), INVALID_TOPIC_ID), (PREDEFINED, u16(0), INVALID_TOPIC_ID),
     (PREDEFINED, u16(0xFFFF), INVALID_TOPIC_ID), (SHORT, b"a+", INVALID_TOPIC_ID),
     (RESERVED, b"tp", NOT_SUPPORTED), (RESERVED, b"a/b/c", NOT_SUPPORTED),
     (0x60, b"a/b", NOT_SUPPORTED)],
)  # fmt: skip
@story
async def test_what_cannot_be_subscribed_is_told_why(
    gateway: GatewayProcess, flags: int, topic: bytes, code: bytes
) -> None:
    async with connected(gateway.port) as n:
        await n.say(SUBSCRIBE, bytes((flags,)) + u16(9) + topic)
        kind, body = await n.hear()
        assert (kind, body[3:]) == (SUBACK, u16(9) + code)


@story
async def test_more_filters_than_allowed_are_congestion(gateway: GatewayProcess) -> None:
    async with connected(gateway.port) as n:
        names = [fresh("t").encode() for _ in range(8)]
        for name in names:
            await n.subscribe(name, qos=1)
        body = b"\x20" + u16(99) + fresh("t").encode()
        await n.asks(SUBSCRIBE, body, SUBACK, b"\x20" + u16(0) + u16(99) + CONGESTION)
        assert await n.subscribe(names[0], qos=1) == 1, "one it has already costs no place"
        await unsubscribes(n, names[0])
        await n.subscribe(fresh("t").encode(), qos=1)


# UNSUBSCRIBE


@pytest.mark.parametrize(
    ("kind", "topic"),
    [(0, b"never/asked"), (0, b"a/#/b"), (0, b"\xff"), (PREDEFINED, u16(7)), (PREDEFINED, u16(8)),
     (SHORT, b"tp"), (RESERVED, b"tp")],
)  # fmt: skip
@story
async def test_unsubscribing_from_what_was_not_subscribed_is_acknowledged(
    gateway: GatewayProcess, kind: int, topic: bytes
) -> None:
    async with connected(gateway.port) as n:
        await n.asks(UNSUBSCRIBE, bytes((kind,)) + u16(9) + topic, UNSUBACK, u16(9))


@pytest.mark.parametrize(
    ("kind", "topic", "name"),
    [(0, b"un/a", "un/a"), (0, b"un/b/+", "un/b/c"), (PREDEFINED, u16(7), "sensors/boot"),
     (SHORT, b"us", "us")],
)  # fmt: skip
@story
async def test_after_unsuback_nothing_more_comes(
    broker: Mosquitto, gateway: GatewayProcess, kind: int, topic: bytes, name: str
) -> None:
    mark = fresh("mark")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(topic, qos=1, kind=kind)
        await n.subscribe(mark.encode(), qos=1)
        await app.publish(name, b"wanted", qos=1)
        assert (await n.message())[2] == b"wanted"
        await unsubscribes(n, topic, kind)
        await app.publish(name, b"unwanted", qos=1)
        await app.publish(mark, b"mark", qos=1)
        assert (await n.message())[2] == b"mark"


# Retained messages


@story
async def test_subscribing_again_brings_the_retained_message_again(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await app.publish(topic, b"kept", qos=1, retain=True)
        for _ in range(3):
            number = await n.subscribe(topic.encode(), qos=1)
            assert await n.message() == (0x20 | RETAIN, number, b"kept")
        await n.hears_nothing()


@story
async def test_a_cleared_retained_message_is_an_empty_message_and_then_gone(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with (
        application(broker) as app,
        connected(gateway.port) as n,
        connected(gateway.port) as late,
    ):
        await app.publish(topic, b"kept", qos=1, retain=True)
        number = await n.subscribe(topic.encode(), qos=1)
        assert await n.message() == (0x20 | RETAIN, number, b"kept")
        await app.publish(topic, b"", qos=1, retain=True)
        assert await n.message() == (0x20, number, b"")
        await late.subscribe(topic.encode(), qos=1)
        await late.hears_nothing()


@pytest.mark.parametrize("first", ["{}", "#", "+"])
@story
async def test_what_was_retained_while_another_listened_comes_to_the_next_subscriber(
    broker: Mosquitto, gateway: GatewayProcess, first: str
) -> None:
    """The broker is not asked again: the gateway must have seen that the live message is kept."""
    topic = fresh("t")
    async with (
        application(broker) as app,
        connected(gateway.port) as early,
        connected(gateway.port) as late,
    ):
        await app.publish(topic, b"before", qos=1, retain=True)
        await early.subscribe(first.format(topic).encode(), qos=1)
        while (await early.message())[2] != b"before":
            pass
        await app.publish(topic, b"after", qos=1, retain=True)
        while (heard := await early.message())[2] != b"after":
            assert heard[2].startswith(b"{"), "what the gateway says of itself comes between"
        assert heard[0] == 0x20
        number = await late.subscribe(topic.encode(), qos=1)
        assert await late.message() == (0x20 | RETAIN, number, b"after")
        await early.leave()


@story
async def test_a_wider_filter_brings_what_is_retained_only_to_its_own_client(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """The broker replays everything under the new covering filter; the old subscriber has it."""
    root = fresh("t")
    async with (
        application(broker) as app,
        connected(gateway.port) as narrow,
        connected(gateway.port) as wide,
    ):
        for leaf in ("a", "b"):
            await app.publish(f"{root}/{leaf}", leaf.encode(), qos=1, retain=True)
        await narrow.subscribe(f"{root}/a".encode(), qos=1)
        assert (await narrow.message())[2] == b"a"
        await wide.subscribe(f"{root}/#".encode(), qos=1)
        assert {(await wide.message())[2] for _ in range(2)} == {b"a", b"b"}
        await app.publish(f"{root}/a", b"live", qos=1)
        assert (await wide.message())[2] == b"live"
        flags, _, payload = await narrow.message()
        assert (flags, payload) == (0x20, b"live")


# Overlapping filters that come and go while messages flow

NUMBERED = 400
AT_ONCE = 100
CHANGES = 10


async def publishes_numbers(
    app: aiomqtt.Client, topic: str, qos: int, first: int = 0, count: int = NUMBERED
) -> None:
    for number in range(first, first + count):
        await app.publish(topic, b"%d" % number, qos=qos)


@pytest.mark.parametrize("qos", [1, 2])
@story
async def test_a_client_whose_filter_stays_misses_nothing_while_others_come_and_go(
    broker: Mosquitto, gateway: GatewayProcess, qos: int
) -> None:
    root = fresh("t")
    done = asyncio.Event()
    steps = [0, 0]

    async def wavers(n: Node, which: int, filters: list[str]) -> None:
        """Acknowledges what comes, and subscribes and unsubscribes all the time."""
        await n.say(SUBSCRIBE, bytes((qos << 5,)) + u16(1) + filters[0].encode())
        while not done.is_set():
            try:
                kind, _ = await asyncio.wait_for(answered(n), 0.2)
            except TimeoutError:
                continue
            if kind in (SUBACK, UNSUBACK):
                steps[which] = step = steps[which] + 1
                wanted = filters[step // 2 % len(filters)].encode()
                request = UNSUBSCRIBE if step % 2 else SUBSCRIBE
                await n.say(request, bytes((qos << 5,)) + u16(step + 1) + wanted)

    async with (
        application(broker) as app,
        connected(gateway.port) as steady,
        connected(gateway.port) as one,
        connected(gateway.port) as other,
    ):
        await steady.subscribe(f"{root}/a/b".encode(), qos=qos)
        wavering = [
            asyncio.create_task(wavers(one, 0, [f"{root}/#", f"{root}/+/b", f"{root}/a/b"])),
            asyncio.create_task(wavers(other, 1, [f"{root}/a/+", f"{root}/a/#", f"{root}/+/+"])),
        ]
        found: list[bytes] = []
        while min(steps) <= CHANGES:
            publishing = asyncio.create_task(
                publishes_numbers(app, f"{root}/a/b", qos, len(found), AT_ONCE)
            )
            found += [(await steady.message())[2] for _ in range(AT_ONCE)]
            await publishing
        done.set()
        await asyncio.gather(*wavering)
        assert found == [b"%d" % number for number in range(len(found))]
        await steady.hears_nothing()


@pytest.mark.parametrize("qos", [1, 2])
@story
async def test_a_client_with_overlapping_filters_hears_each_message_once(
    broker: Mosquitto, gateway: GatewayProcess, qos: int
) -> None:
    """Also while its own filters grow and shrink around the one that stays."""
    root = fresh("t")
    stays = f"{root}/+/b"
    around = [f"{root}/a/+", f"{root}/#", f"{root}/a/b", f"{root}/a/#"]
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(stays.encode(), qos=qos)
        publishing = asyncio.create_task(publishes_numbers(app, f"{root}/a/b", qos))
        found: list[bytes] = []
        step = 0
        while len(found) < NUMBERED:
            kind, body = await answered(n)
            if kind == 0x0C:
                found.append(body[5:])
                if len(found) % 10 == 0:
                    request = UNSUBSCRIBE if step % 2 else SUBSCRIBE
                    wanted = around[step // 2 % len(around)].encode()
                    await n.say(request, bytes((qos << 5,)) + u16(5000 + step) + wanted)
                    step += 1
        await publishing
        assert found == [b"%d" % number for number in range(NUMBERED)]
        assert step >= 20


async def answered(n: Node) -> tuple[int, bytes]:
    """The next message, with what a client has to answer to it; only new PUBLISHes count."""
    while True:
        kind, body = await n.hear()
        if kind == 0x0A:
            await n.say(0x0B, body[:4] + ACCEPTED)
        elif kind == 0x10:
            await n.say(0x0E, body)
        elif kind == 0x0C:
            qos = body[0] >> 5 & 3
            if qos == 1:
                await n.say(0x0D, body[1:5] + ACCEPTED)
            elif qos == 2:
                await n.say(0x0F, body[3:5])
            return kind, body
        else:
            return kind, body

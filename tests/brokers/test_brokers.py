"""One suite for every broker: real gateway, real sensors, and an MQTT client that is not ours.

The rows of docs/brokers.md are these tests (features.py), the columns the brokers (adapters.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

import aiomqtt
import mqtt5

from hil.rig.scripted_client import u16
from tests.brokers.broker import SITE, Broker
from tests.brokers.site import PAYLOAD_BYTES_MAX, Site
from tests.end_to_end.on_air import (
    ACCEPTED,
    CLEAN,
    CONNACK,
    CONNECT,
    NOT_SUPPORTED,
    PUBACK,
    PUBLISH,
    RETAIN,
    SUBACK,
    SUBSCRIBE,
    WILL,
    WILLMSG,
    WILLMSGREQ,
    WILLTOPIC,
    WILLTOPICREQ,
    Node,
    connected,
    fresh,
    node,
    story,
)
from tests.support.application import delivery_tag, heard
from tests.support.notices import Listener
from tests.support.waiting import until

Note = Callable[[str], None]
NO_MQTT_5 = "does not speak MQTT 5|is it an MQTT 5 broker"
ARRIVAL_S = 15.0
WINDOW_MAX = 200  # a larger Receive Maximum is not filled
FILTERS = 20
ROUNDS_MAX, ROUNDS_LASTING = 20, 3


def new_topic(word: str) -> str:
    """Below SITE, as some brokers can only be told what is allowed."""
    return f"{SITE}/{fresh(word)}"


async def arrivals(client: aiomqtt.Client, wanted: Iterable[bytes]) -> Counter[bytes]:
    """How often each payload came, when all that is wanted has."""
    missing, found = set(wanted), Counter[bytes]()
    try:
        async with asyncio.timeout(ARRIVAL_S):
            while missing:
                message = await anext(client.messages)
                assert isinstance(message.payload, bytes)
                found[message.payload] += 1
                missing.discard(message.payload)
    except TimeoutError:
        raise AssertionError(f"{len(missing)} have not come: {sorted(missing)[:5]}") from None
    return found


def repeats(found: Counter[bytes]) -> int:
    return found.total() - len(found)


async def publish_unsure(sensor: Node, topic: int, payload: bytes) -> bytes:
    """At QoS 1; the return code, whatever it is."""
    message_id = u16(sensor.next_id())
    await sensor.say(PUBLISH, b"\x20" + u16(topic) + message_id + payload)
    kind, body = await sensor.hear()
    assert (kind, body[:4]) == (PUBACK, u16(topic) + message_id)
    return body[4:]


@asynccontextmanager
async def crowd(port: int, count: int) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(port)) for _ in range(count)]


# Connecting


def test_connects(here: Site, kind: type[Broker], cell: Note) -> None:
    if not kind.speaks_mqtt_5:
        here.gateway.wait_for_log(NO_MQTT_5)
        cell("refused: it does not speak MQTT 5, and the log says so")
        return
    connack = here.connack
    size = connack.max_packet_size or "none"
    cell(f"Receive Maximum {connack.receive_max}, Maximum Packet Size {size}")
    connect = here.tap.sent(mqtt5.ConnectPacket)[0]
    assert not connect.clean_start
    assert connect.session_expiry_interval == 604_800


# Up


async def goes_up(here: Site, qos: int) -> None:
    topic = new_topic("up")
    async with here.application(topic) as app, connected(here.gateway.port) as sensor:
        number = await sensor.register(topic)
        for word in (b"first", b"second"):
            await sensor.publish(number, word, qos=qos)
            message = await heard(app)
            assert (message.payload, message.retain) == (word, False)
            tag = delivery_tag(message)
            assert tag["gw"] == "under-test"
            assert ("seq" in tag) == (qos > 0)
    sent = [each for each in here.tap.sent(mqtt5.PublishPacket) if each.topic == topic]
    assert {int(each.qos) for each in sent} == {min(qos, int(here.connack.max_qos))}


@story
async def test_up_qos_0(here: Site) -> None:
    await goes_up(here, 0)


@story
async def test_up_qos_1(here: Site) -> None:
    await goes_up(here, 1)


@story
async def test_up_qos_2(here: Site, cell: Note) -> None:
    await goes_up(here, 2)
    if int(here.connack.max_qos) < 2:
        cell("as QoS 1")


# Down


async def goes_down(here: Site, qos: int) -> int:
    """The QoS at which it came."""
    topic = new_topic("down")
    async with here.application() as app, connected(here.gateway.port) as sensor:
        number = await sensor.subscribe(topic.encode(), qos=qos)
        found = set()
        for word in (b"first", b"second"):
            await app.publish(topic, word, qos=qos)
            flags, topic_id, payload = await sensor.message()
            assert (flags & RETAIN, topic_id, payload) == (0, number, word)
            found.add(flags >> 5 & 3)
        await sensor.hears_nothing()
    assert len(found) == 1
    return found.pop()


@story
async def test_down_qos_0(here: Site) -> None:
    assert await goes_down(here, 0) == 0


@story
async def test_down_qos_1(here: Site) -> None:
    assert await goes_down(here, 1) == 1


@story
async def test_down_qos_2(here: Site, cell: Note) -> None:
    most = int(here.connack.max_qos)
    assert await goes_down(here, 2) == most
    if most < 2:
        cell("as QoS 1")


@story
async def test_retained(here: Site) -> None:
    root = new_topic("kept")
    topic = f"{root}/a"
    async with (
        here.application() as app,
        connected(here.gateway.port) as early,
        connected(here.gateway.port) as late,
    ):
        await app.publish(topic, b"old", qos=1, retain=True)
        assert await early.subscribe(f"{root}/+".encode(), qos=1) == 0
        flags, _, payload = await early.message()
        assert (flags & RETAIN, payload) == (RETAIN, b"old")
        await app.publish(topic, b"new", qos=1, retain=True)
        flags, _, payload = await early.message()
        assert (flags & RETAIN, payload) == (0, b"new")
        assert await late.subscribe(f"{root}/#".encode(), qos=1) == 0
        flags, _, payload = await late.message()
        assert (flags & RETAIN, payload) == (RETAIN, b"new")
        await app.publish(topic, b"end", qos=1)
        for each in (early, late):  # and nothing before it
            flags, _, payload = await each.message()
            assert (flags & RETAIN, payload) == (0, b"end")
        await app.publish(topic, b"", qos=1, retain=True)


# Wills


@story
async def test_will(here: Site) -> None:
    topic = new_topic("will")
    async with here.application(topic) as app, node(here.gateway.port) as sensor:
        body = bytes((CLEAN | WILL, 1)) + u16(1) + sensor.client_id.encode()
        await sensor.asks(CONNECT, body, WILLTOPICREQ)
        await sensor.asks(WILLTOPIC, b"\x20" + topic.encode(), WILLMSGREQ)
        await sensor.asks(WILLMSG, b"gone", CONNACK, b"\x00")
        assert (await heard(app)).payload == b"gone"


# Limits


@story
async def test_receive_maximum(here: Site, cell: Note) -> None:
    window = here.connack.receive_max
    if window > WINDOW_MAX:
        cell(f"not limited ({window})")
        return
    topic = new_topic("window")
    payloads = [b"%d" % number for number in range(window + 10)]
    async with here.application(topic) as app, crowd(here.gateway.port, 10) as sensors:
        number = {each: await each.register(topic) for each in sensors}
        await sensors[0].publish(number[sensors[0]], b"taken", qos=1)
        await arrivals(app, [b"taken"])
        connection = here.tap.last

        async def send(sensor: Node, own: list[bytes]) -> None:
            for payload in own:
                await sensor.publish(number[sensor], payload, qos=1)

        here.hold_receipts()
        try:
            # The broker acknowledges nothing, so the journal does.
            await asyncio.gather(
                *(send(sensor, payloads[at::10]) for at, sensor in enumerate(sensors))
            )
            until(lambda: connection.in_flight_max >= window)
        finally:
            here.tap.pass_receipts()
        found = await arrivals(app, payloads)
        assert repeats(found) == 0
        assert here.tap.last is connection
        assert connection.in_flight_max == window
    cell(f"{window}")


@story
async def test_packet_size(here: Site, kind: type[Broker], cell: Note) -> None:
    topic = new_topic("size")
    limit = here.connack.max_packet_size
    large = b"x" * (PAYLOAD_BYTES_MAX if kind.limits else here.broker.settings.packet_bytes_max)
    async with here.application(topic) as app, connected(here.gateway.port) as sensor:
        number = await sensor.register(topic)
        before = len(here.tap.connections)
        code = await publish_unsure(sensor, number, large)
        async with connected(here.gateway.port) as other:
            small = [b"%d" % each for each in range(5)]
            others = await other.register(topic)
            for payload in small:
                await other.publish(others, payload, qos=1)
            found = await arrivals(app, small)
        reconnects = len(here.tap.connections) - before
    if limit is not None and len(large) >= limit:
        assert (code, large in found, reconnects) == (NOT_SUPPORTED, False, 0)
        cell(f"{limit}")
    elif large in found:
        assert reconnects == 0
        cell("taken" if limit is None else f"{limit}, which no reading exceeds")
    else:
        cell(f"not announced: {reconnects} connections were lost")


# What the gateway says


@story
async def test_presence(here: Site, cell: Note) -> None:
    base, name = "tidegate/under-test", fresh("tank")
    async with here.application(f"{base}/#") as app:
        seen = Listener(app)
        async with connected(here.gateway.port, name, clean=False) as sensor:
            await sensor.register("level")
            await seen.document(f"{base}/clients/{name}", state="awake")
            await sensor.leave()
            await seen.until(lambda: f"{base}/stats" in seen.last)
        if not here.connack.retain_available:
            cell("not retained")
            return
        assert seen.last[f"{base}/state"] == b"online"
    async with here.application(f"{base}/#") as app:
        while str((message := await heard(app)).topic) != f"{base}/state":
            pass
        assert (message.payload, message.retain) == (b"online", True)


# Sessions


@story
async def test_session_kept(here: Site) -> None:
    one, two = new_topic("waits"), new_topic("waits")
    expected = [b"%d" % number for number in range(3)]
    most = min(2, int(here.connack.max_qos))
    async with (
        here.application() as app,
        connected(here.gateway.port, clean=False) as sensor,
    ):
        await sensor.subscribe(one.encode(), qos=1)
        await sensor.subscribe(two.encode(), qos=2)
        assert here.gateway.stop() == 0
        for payload in expected:
            await app.publish(one, payload, qos=1)
            await app.publish(two, payload, qos=2)
        here.gateway.start()
        here.gateway.wait_until_connected()
        assert here.tap.last.connack is not None
        assert here.tap.last.connack.session_present
        found: dict[int, list[bytes]] = {1: [], most: []}
        for _ in range(2 * len(expected)):
            flags, _, payload = await sensor.message()
            found[flags >> 5 & 3].append(payload)
        await sensor.hears_nothing()
        await sensor.leave()
    assert sorted(found[1] + found[most]) == sorted(2 * (expected if most == 2 else 2 * expected))


# Topics that are refused


async def good_ones_arrive(here: Site, app: aiomqtt.Client, topic: str) -> None:
    """Readings of three other sensors, again and again until the connection lasts: the gateway may
    try what ended it some more times.
    """
    async with crowd(here.gateway.port, 3) as others:
        number = [await each.register(topic) for each in others]
        lasting = 0
        for count in range(ROUNDS_MAX):
            before = len(here.tap.connections)
            for own, each in zip(number, others, strict=True):
                await each.publish(own, b"%d of %s" % (count, each.client_id.encode()), qos=1)
            await arrivals(app, [b"%d of %s" % (count, each.client_id.encode()) for each in others])
            lasting = lasting + 1 if len(here.tap.connections) == before else 0
            if lasting == ROUNDS_LASTING:
                return
    raise AssertionError("the connection does not last")


@story
async def test_denied_publish(here: Site, cell: Note) -> None:
    bad, good = f"{here.broker.settings.denied}/{fresh()}", new_topic("good")
    async with (
        here.application(good, bad) as app,
        connected(here.gateway.port) as sensor,
    ):
        before = len(here.tap.connections)
        number = await sensor.register(bad)
        code = await publish_unsure(sensor, number, b"secret")
        await good_ones_arrive(here, app, good)
        reconnects = len(here.tap.connections) - before
    if reconnects:
        cell(f"refused: the broker ended {reconnects} connections")
    else:
        if code == ACCEPTED:  # a busy broker: the journal was first, and then it refused
            here.gateway.wait_for_log(rf"set aside.*client={sensor.client_id}")
        else:
            assert code == NOT_SUPPORTED
        cell("refused")


@story
async def test_denied_subscribe(here: Site, cell: Note) -> None:
    bad, good = f"{here.broker.settings.denied}/{fresh()}", new_topic("good")
    async with (
        here.application(good) as app,
        connected(here.gateway.port) as modest,
        connected(here.gateway.port) as greedy,
    ):
        before = len(here.tap.connections)
        narrow = await modest.subscribe(good.encode(), qos=1)
        message_id = u16(greedy.next_id())
        await greedy.say(SUBSCRIBE, b"\x20" + message_id + bad.encode())
        kind, body = await greedy.hear()
        assert (kind, body[3:]) == (SUBACK, message_id + NOT_SUPPORTED)
        await app.publish(good, b"still", qos=1)
        assert await modest.message() == (0x20, narrow, b"still")
        await heard(app)
        await good_ones_arrive(here, app, good)
        assert (await modest.message())[2].startswith(b"0 of ")
        reconnects = len(here.tap.connections) - before
    cell(f"refused: the broker ended {reconnects} connections" if reconnects else "refused")


@story
async def test_deep_topic(here: Site, cell: Note) -> None:
    deep, good = "/".join([new_topic("deep"), *"abcdefghij"]), new_topic("good")
    async with (
        here.application(good, deep) as app,
        connected(here.gateway.port) as sensor,
    ):
        before = len(here.tap.connections)
        await publish_unsure(sensor, await sensor.register(deep), b"deep")
        await good_ones_arrive(here, app, good)
        reconnects = len(here.tap.connections) - before
    if reconnects:
        cell(f"refused: the broker ended {reconnects} connections")


# Brokers that forget, restart and are killed


@story
async def test_session_lost(here: Site) -> None:
    topic = new_topic("again")
    async with connected(here.gateway.port) as sensor:
        number = await sensor.subscribe(topic.encode(), qos=1)
        here.lose_sessions()
        here.wait_until_subscribed(topic)
        assert here.tap.last.connack is not None
        assert not here.tap.last.connack.session_present
        async with here.application() as app:
            await app.publish(topic, b"on", qos=1)
            assert await sensor.message() == (0x20, number, b"on")
        await sensor.hears_nothing()


@story
async def test_many_filters(here: Site, cell: Note) -> None:
    root = new_topic("many")
    names = [f"{root}/{number}" for number in range(FILTERS)]
    async with connected(here.gateway.port) as sensor:
        for name in names:
            await sensor.subscribe(name.encode(), qos=1)
        here.lose_sessions()
        here.wait_until_subscribed(*names)
        async with here.application() as app:
            for name in names:
                await app.publish(name, name.encode(), qos=1)
            found = [(await sensor.message())[2].decode() for _ in names]
        assert sorted(found) == sorted(names)
        await sensor.leave()
    most = max(len(each.topic_filters) for each in here.tap.sent(mqtt5.SubscribePacket))
    cell(f"{most} in a SUBSCRIBE")


async def outage(here: Site, end: Callable[[Broker], object], cell: Note) -> None:
    """Readings before it, of which the acknowledgements are lost, and readings in it. Where the
    gateway is careful, as it is after an outage, only the first one has gone by then.
    """
    topic = new_topic("outage")
    before = [b"before/%d" % number for number in range(3)]
    during = [b"during/%d" % number for number in range(10)]
    async with connected(here.gateway.port) as sensor:
        number = await sensor.register(topic)
        async with here.application(topic) as app:
            here.hold_receipts()
            for payload in before:
                await sensor.publish(number, payload, qos=1)
            seen = await arrivals(app, before[:1])
            here.tap.shut()
            here.tap.pass_receipts()
        end(here.broker)
        for count, payload in enumerate(during):
            await sensor.publish(number, payload, qos=1 + count % 2)
        here.broker.start()
        async with here.application(topic) as app:
            here.tap.open()
            found = await arrivals(app, [*before, *during])
    assert repeats(seen) == 0
    assert repeats(found) == 0
    assert found[before[0]] == 1, "its PUBACK was lost, so it comes again"
    cell("once more those whose PUBACK was lost")


@story
async def test_restart(here: Site, cell: Note) -> None:
    await outage(here, lambda broker: broker.stop(), cell)


@story
async def test_killed(here: Site, cell: Note) -> None:
    await outage(here, lambda broker: broker.kill(), cell)


@story
async def test_session_restart(persistent: Site) -> None:
    topic = new_topic("saved")
    expected = [b"%d" % number for number in range(3)]
    async with connected(persistent.gateway.port) as sensor:
        await sensor.subscribe(topic.encode(), qos=1)
        persistent.tap.shut()
        async with persistent.application() as app:
            for payload in expected:
                await app.publish(topic, payload, qos=1)
        persistent.broker.stop()
        persistent.broker.start()
        persistent.tap.open()
        assert [(await sensor.message())[2] for _ in expected] == expected
        await sensor.hears_nothing()
    assert persistent.connack.session_present

"""MQTT-SN 1.2, 6.5, 6.6 and 6.8: names for topics, and readings on their way up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CONGESTION,
    DUP,
    INVALID_TOPIC_ID,
    NOT_SUPPORTED,
    PINGREQ,
    PREDEFINED,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REGACK,
    REGISTER,
    RESERVED,
    RETAIN,
    SHORT,
    connected,
    fresh,
    node,
    serving,
    story,
)
from tests.support.application import application, delivery_tag, heard

CONFIG = """
[predefined_topics]
"sensors/boot" = 7
[clients."special".predefined_topics]
"sensors/special" = 9
[qos_minus_one]
allow = true
long_topics = true
[limits]
topics_per_client_max = 8
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


# REGISTER


@story
async def test_a_name_registered_again_has_the_same_id(gateway: GatewayProcess) -> None:
    topic = fresh("t").encode()
    async with connected(gateway.port) as n:
        for message_id in (1, 1, 2, 65535):
            body = u16(0) + u16(message_id) + topic
            await n.asks(REGISTER, body, REGACK, u16(1) + u16(message_id) + ACCEPTED)
        # Some clients fill the topic id in; the gateway decides all the same.
        await n.asks(REGISTER, u16(5) + u16(3) + topic, REGACK, u16(1) + u16(3) + ACCEPTED)


@story
async def test_a_full_table_of_topics_is_congestion(gateway: GatewayProcess) -> None:
    async with connected(gateway.port) as n:
        names = [fresh("t") for _ in range(8)]
        ids = [await n.register(name) for name in names]
        assert ids == list(range(1, 9))
        body = u16(0) + u16(99) + fresh("t").encode()
        await n.asks(REGISTER, body, REGACK, u16(0) + u16(99) + CONGESTION)
        assert await n.register(names[0]) == 1


@pytest.mark.parametrize("name", [b"a/+", b"#", b"\x00", b"\xc3\x28", b"\xed\xa0\x80", b"x" * 513,
                                  b"/" * 200, "\ufffe".encode(), b"\x7f"])  # fmt: skip
@story
async def test_a_name_that_mqtt_does_not_take_is_an_invalid_topic(
    gateway: GatewayProcess, name: bytes
) -> None:
    async with connected(gateway.port) as n:
        await n.asks(REGISTER, u16(0) + u16(1) + name, REGACK, u16(0) + u16(1) + INVALID_TOPIC_ID)


@pytest.mark.parametrize("name", ["/", "//", " ", "a b", "ü", "🌡", "x" * 512, "a/" * 100, "$own/x"])
@story
async def test_every_other_name_reaches_the_broker_as_it_is(
    broker: Mosquitto, gateway: GatewayProcess, name: str
) -> None:
    async with application(broker, name) as app, connected(gateway.port) as n:
        await n.publish(await n.register(name), b"x", qos=1)
        assert (await heard(app)).topic.value == name


# Which topic a reading is for


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    ("kind", "topic_id"),
    [(0, 0), (0, 1), (0, 0xFFFF), (0, 7), (PREDEFINED, 0), (PREDEFINED, 8), (PREDEFINED, 9),
     (PREDEFINED, 0xFFFF), (RESERVED, 1), (RESERVED, 7), (SHORT, 0), (SHORT, 0x612B),
     (SHORT, 0x2361), (SHORT, 0xFFFE)],
)  # fmt: skip
@story
async def test_an_unknown_topic_id_is_told_at_every_qos(
    gateway: GatewayProcess, qos: int, kind: int, topic_id: int
) -> None:
    async with connected(gateway.port) as n:
        message_id = u16(300 if qos else 0)
        body = bytes((qos << 5 | kind,)) + u16(topic_id) + message_id + b"x"
        await n.asks(PUBLISH, body, PUBACK, u16(topic_id) + message_id + INVALID_TOPIC_ID)


@story
async def test_predefined_and_registered_ids_are_two_spaces(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    names = [fresh("t") for _ in range(7)]
    async with application(broker, names[6], "sensors/boot") as app, connected(gateway.port) as n:
        assert [await n.register(name) for name in names][6] == 7
        await n.publish(7, b"registered", qos=1)
        await n.publish(7, b"predefined", qos=1, kind=PREDEFINED)
        assert [((m := await heard(app)).topic.value, m.payload) for _ in range(2)] == [
            (names[6], b"registered"),
            ("sensors/boot", b"predefined"),
        ]


@story
async def test_a_predefined_id_of_one_client_is_no_one_elses(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with application(broker, "sensors/+") as app, connected(gateway.port, "special") as n:
        await n.publish(9, b"own", qos=1, kind=PREDEFINED)
        await n.publish(7, b"common", qos=1, kind=PREDEFINED)
        assert [(await heard(app)).topic.value for _ in range(2)] == [
            "sensors/special",
            "sensors/boot",
        ]


# Readings that come again


@story
async def test_a_qos_1_reading_that_comes_again_is_acknowledged_again_and_forwarded_once(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        for flags in (0x20, 0x20 | DUP, 0x20 | DUP):
            body = bytes((flags,)) + u16(number) + u16(77) + b"one"
            await n.asks(PUBLISH, body, PUBACK, u16(number) + u16(77) + ACCEPTED)
        await n.publish(number, b"two", qos=1)
        assert [(await heard(app)).payload for _ in range(2)] == [b"one", b"two"]


@story
async def test_a_message_id_used_again_without_dup_is_another_reading(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        for payload in (b"same", b"same", b"other"):
            body = b"\x20" + u16(number) + u16(1) + payload
            await n.asks(PUBLISH, body, PUBACK, u16(number) + u16(1) + ACCEPTED)
        assert [(await heard(app)).payload for _ in range(3)] == [b"same", b"same", b"other"]


@story
async def test_a_qos_2_exchange_repeated_at_each_step_is_one_reading(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        for flags in (0x40, 0x40 | DUP, 0x40 | DUP):
            await n.asks(PUBLISH, bytes((flags,)) + u16(number) + u16(8) + b"one", PUBREC, u16(8))
        for _ in range(3):
            await n.asks(PUBREL, u16(8), PUBCOMP, u16(8))
        # One that was slow on the air, after the exchange.
        late = bytes((0x40 | DUP,)) + u16(number) + u16(8) + b"one"
        await n.asks(PUBLISH, late, PUBREC, u16(8))
        await n.asks(PUBREL, u16(8), PUBCOMP, u16(8))
        await n.publish(number, b"two", qos=2)
        assert [(await heard(app)).payload for _ in range(2)] == [b"one", b"two"]


@story
async def test_a_burst_of_the_same_datagram_is_one_reading(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """All copies are there before the broker could answer the first."""
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        for message_id, flags in ((5, 0x20), (6, 0x40)):
            for _ in range(10):
                await n.say(PUBLISH, bytes((flags | DUP,)) + u16(number) + u16(message_id) + b"x")
        await n.say(PUBLISH, b"\x40" + u16(number) + u16(7) + b"end")
        assert [(await heard(app)).payload for _ in range(3)] == [b"x", b"x", b"end"]


@story
async def test_an_unknown_pubrel_is_completed(gateway: GatewayProcess) -> None:
    async with connected(gateway.port) as n:
        for message_id in (0, 1, 0xFFFF):
            await n.asks(PUBREL, u16(message_id), PUBCOMP, u16(message_id))


@story
async def test_readings_of_one_client_keep_their_order_over_all_qos(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        for count in range(30):
            qos = count % 2
            body = bytes((qos << 5,)) + u16(number) + u16(count * qos) + b"%d" % count
            await n.say(PUBLISH, body)
        assert [(await heard(app)).payload for _ in range(30)] == [b"%d" % k for k in range(30)]


@story
async def test_a_payload_above_the_limit_is_not_supported(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        for qos in (0, 1, 2):
            message_id = u16(50 if qos else 0)
            body = bytes((qos << 5,)) + u16(number) + message_id + b"x" * 1025
            await n.asks(PUBLISH, body, PUBACK, u16(number) + message_id + NOT_SUPPORTED)
        await n.publish(number, b"x" * 1024, qos=2)
        assert (await heard(app)).payload == b"x" * 1024


# QoS -1


@pytest.mark.parametrize(
    ("topic", "body"),
    [
        ("sensors/boot", b"\x61" + u16(7) + u16(0) + b"x"),
        ("sensors/boot", b"\x61" + u16(7) + u16(77) + b"x"),
        ("tp", b"\x62tp" + u16(0) + b"x"),
        ("hello", bytes.fromhex("600005000068656c6c6f") + b"x"),
    ],
)
@story
async def test_a_reading_at_qos_minus_one_is_forwarded_and_never_answered(
    broker: Mosquitto, gateway: GatewayProcess, topic: str, body: bytes
) -> None:
    async with application(broker, topic) as app:
        async with node(gateway.port) as nobody:
            await nobody.say(PUBLISH, body)
            message = await heard(app)
            assert (message.payload, message.qos, message.retain) == (b"x", 0, False)
            assert delivery_tag(message)["client"] == ""
            await nobody.connect()  # CONNACK is the first that comes
        async with connected(gateway.port) as somebody:
            await somebody.say(PUBLISH, body)
            assert delivery_tag(await heard(app))["client"] == somebody.client_id
            await somebody.hears_nothing()


@pytest.mark.parametrize(
    "body",
    [
        b"\x61" + u16(8) + u16(0) + b"x",
        b"\x61" + u16(0) + u16(0) + b"x",
        b"\x63" + u16(7) + u16(0) + b"x",
        b"\x62a+" + u16(0) + b"x",
        b"\x62\x00\x00" + u16(0) + b"x",
        b"\x60" + u16(0) + u16(0) + b"x",
        b"\x60" + u16(5) + u16(0) + b"he",
        b"\x60" + u16(3) + u16(0) + b"a/#x",
        b"\x60" + u16(0xFFFF) + u16(0) + b"x",
        b"\x61" + u16(7) + u16(0) + b"x" * 1025,
    ],
)
@story
async def test_a_bad_reading_at_qos_minus_one_is_not_answered_either(
    gateway: GatewayProcess, body: bytes
) -> None:
    async with node(gateway.port) as nobody:
        await nobody.say(PUBLISH, body)
        await nobody.connect()
        await nobody.asks_in_vain(PUBLISH, body)


@story
async def test_a_retained_reading_at_qos_minus_one_is_retained(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with application(broker, "rt") as app, node(gateway.port) as nobody:
        await nobody.say(PUBLISH, bytes((0x62 | RETAIN,)) + b"rt" + u16(0) + b"kept")
        assert (await heard(app)).payload == b"kept"
        async with application(broker, "rt") as late:
            message = await heard(late)
            assert (message.payload, message.retain) == (b"kept", True)


# Copies between sessions


@story
async def test_a_reading_settled_before_a_new_connection_is_not_forwarded_again(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """PUBACK was lost, the sensor reboots its radio, connects with clean=0 and repeats."""
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port, clean=False) as n:
        number = await n.register(topic)
        await n.say(PUBLISH, b"\x20" + u16(number) + u16(4) + b"once")
        assert (await heard(app)).payload == b"once"
        await n.hear()
        await n.connect(clean=False)
        body = bytes((0x20 | DUP,)) + u16(number) + u16(4) + b"once"
        await n.asks(PUBLISH, body, PUBACK, u16(number) + u16(4) + ACCEPTED)
        await n.publish(number, b"end", qos=1)
        assert (await heard(app)).payload == b"end"


@story
async def test_sensors_with_equal_message_ids_do_not_meet(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with (
        application(broker, topic) as app,
        connected(gateway.port) as a,
        connected(gateway.port) as b,
    ):
        for number in (await a.register(topic), await b.register(topic)):
            assert number == 1
        await asyncio.gather(a.publish(1, b"a", qos=2), b.publish(1, b"b", qos=2))
        assert {(await heard(app)).payload for _ in range(2)} == {b"a", b"b"}
        await a.asks(PINGREQ, b"", PINGREQ + 1)

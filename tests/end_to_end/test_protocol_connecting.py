"""MQTT-SN 1.2, 6.2 and 6.12: coming and going, and being nobody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CLEAN,
    CONNACK,
    CONNECT,
    DISCONNECT,
    DUP,
    INVALID_TOPIC_ID,
    NOT_SUPPORTED,
    PINGREQ,
    PUBACK,
    PUBLISH,
    PUBREL,
    REGISTER,
    SHORT_RETRIES,
    SUBSCRIBE,
    UNSUBSCRIBE,
    connected,
    fresh,
    node,
    serving,
    story,
)
from tests.support.application import application, heard


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    broker: Mosquitto, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    config = SHORT_RETRIES + "client_id_bytes_max = 64\n[limits]\ndisconnects_per_s_max = 1000\n"
    with serving(tmp_path_factory.mktemp("gateway"), broker, config) as running:
        yield running


# CONNECT


@pytest.mark.parametrize("clean", [True, False])
@story
async def test_a_connect_that_is_sent_again_is_answered_again(
    gateway: GatewayProcess, clean: bool
) -> None:
    async with node(gateway.port) as n:
        for _ in range(3):
            await n.connect(clean=clean)
        await n.hears_nothing()


@story
async def test_keep_alive_zero_is_no_keep_alive(broker: Mosquitto, gateway: GatewayProcess) -> None:
    will = fresh("will")
    async with (
        application(broker, will) as app,
        connected(gateway.port, keep_alive_s=0) as unsupervised,
        connected(gateway.port, keep_alive_s=1) as supervised,
    ):
        await supervised.bequeaths(will, b"lost")
        assert (await heard(app)).payload == b"lost"
        await unsupervised.hears_nothing()


@pytest.mark.parametrize("protocol_id", [0, 2, 255])
@story
async def test_another_protocol_id_is_not_supported(
    gateway: GatewayProcess, protocol_id: int
) -> None:
    async with node(gateway.port) as n:
        body = bytes((CLEAN, protocol_id)) + u16(60) + n.client_id.encode()
        await n.asks(CONNECT, body, CONNACK, NOT_SUPPORTED)
        await n.is_a_stranger()


@pytest.mark.parametrize(
    "client_id",
    [b"", b"\x00", b"a\x00b", b"\xff\xfe", b"\xed\xa0\x80", b"x" * 65, b"x" * 255, b"\n"],
)
@story
async def test_a_client_id_that_is_none_is_not_supported(
    gateway: GatewayProcess, client_id: bytes
) -> None:
    async with node(gateway.port) as n:
        await n.asks(CONNECT, bytes((CLEAN, 1)) + u16(60) + client_id, CONNACK, NOT_SUPPORTED)


@pytest.mark.parametrize(
    "client_id", ["x", "x" * 23, "x" * 24, "x" * 64, "ein Fühler", "a/b", "#", "+"]
)
@story
async def test_a_client_id_may_be_longer_than_23_and_hold_any_letter(
    gateway: GatewayProcess, client_id: str
) -> None:
    async with connected(gateway.port, client_id) as n:
        await n.hears_nothing()


@story
async def test_a_refused_connect_leaves_the_client_at_its_address_alone(
    gateway: GatewayProcess,
) -> None:
    async with connected(gateway.port) as n:
        await n.asks(CONNECT, bytes((CLEAN, 2)) + u16(60) + b"other", CONNACK, NOT_SUPPORTED)
        await n.asks(CONNECT, bytes((CLEAN, 1)) + u16(60), CONNACK, NOT_SUPPORTED)
        await n.hears_nothing()


# Sessions


@story
async def test_topic_ids_outlast_a_connection_with_clean_session_off(
    gateway: GatewayProcess,
) -> None:
    names = [fresh("t") for _ in range(5)]
    async with connected(gateway.port, clean=False) as n:
        ids = [await n.register(name) for name in names]
        assert len(set(ids)) == 5
        await n.leave()
        await n.connect(clean=False)
        await n.publish(ids[3], b"by an old id", qos=1)
        assert [await n.register(name) for name in reversed(names)] == ids[::-1]


@story
async def test_topic_ids_end_with_a_clean_session(gateway: GatewayProcess) -> None:
    async with connected(gateway.port, clean=False) as n:
        number = await n.register(fresh("t"))
        await n.connect(clean=True)
        body = b"\x20" + u16(number) + u16(7) + b"x"
        await n.asks(PUBLISH, body, PUBACK, u16(number) + u16(7) + INVALID_TOPIC_ID)


@story
async def test_a_topic_is_registered_anew_before_its_first_message_of_a_connection(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        number = await n.subscribe(topic.encode(), qos=1)
        await app.publish(topic, b"known", qos=1)
        assert await n.message() == (0x20, number, b"known")
        await n.leave()
        await app.publish(topic, b"kept", qos=1)
        await n.connect(clean=False)
        assert await n.accepts_register(topic) == number
        assert await n.message() == (0x20, number, b"kept")
        await app.publish(topic, b"known again", qos=1)
        assert (await n.hear())[0] == PUBLISH


@story
async def test_a_clean_session_hears_nothing_of_the_one_before(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic, mark = fresh("t"), fresh("mark")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        await n.subscribe(topic.encode(), qos=1)
        await n.leave()
        await app.publish(topic, b"kept", qos=1)
        await n.connect(clean=True)
        await n.subscribe(mark.encode(), qos=1)
        await app.publish(topic, b"not subscribed", qos=1)
        await app.publish(mark, b"mark", qos=1)
        assert (await n.message())[2] == b"mark"


# Addresses


@story
async def test_a_client_that_comes_from_another_address_has_left_the_old_one(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with (
        application(broker) as app,
        connected(gateway.port, clean=False) as old,
        node(gateway.port, old.client_id) as new,
    ):
        number = await old.subscribe(topic.encode(), qos=1)
        await new.connect(clean=False)
        await app.publish(topic, b"for the new address", qos=1)
        assert (await old.hear())[0] == REGISTER, "it may be there still"
        assert await new.accepts_register(topic) == number
        assert await new.message() == (0x20, number, b"for the new address")
        await old.is_a_stranger()
        await old.asks(PUBLISH, b"\x20" + u16(number) + b"\x00\x07x", DISCONNECT)
        await new.hears_nothing()


@story
async def test_another_client_at_the_same_address_takes_the_place_of_the_first(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic, will = fresh("t"), fresh("will")
    async with application(broker, will) as app, connected(gateway.port, clean=False) as n:
        await n.subscribe(topic.encode(), qos=1)
        await n.bequeaths(will, b"lost")
        first, n.client_id = n.client_id, fresh()
        await n.connect()
        await app.publish(topic, b"for the first", qos=1)
        await app.publish(will, b"mark", qos=1)
        message = await heard(app)
        assert message.payload == b"mark", "displaced is not lost"
        await n.hears_nothing()
        n.client_id = first
        await n.connect(clean=False)
        await n.accepts_register(topic)
        assert (await n.message())[2] == b"for the first"


# Silence


@story
async def test_a_silent_client_is_lost_half_as_long_again_after_its_keep_alive(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    will = fresh("will")
    async with application(broker, will) as app, connected(gateway.port, keep_alive_s=1) as n:
        await n.bequeaths(will, b"lost")
        last_received_at = time.monotonic()
        assert (await heard(app)).payload == b"lost"
        assert 1.4 < time.monotonic() - last_received_at < 2.5
        await n.is_a_stranger()


@story
async def test_whatever_a_client_says_keeps_it_alive(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    will = fresh("will")
    async with (
        application(broker, will) as app,
        connected(gateway.port, keep_alive_s=1) as talkative,
        connected(gateway.port, keep_alive_s=1) as silent,
    ):
        await silent.bequeaths(will, b"lost")
        number = await talkative.register(fresh("t"))
        loss = asyncio.create_task(heard(app))
        while not loss.done():
            # A retry in the field, whose reading was settled long ago.
            body = bytes((0x20 | DUP,)) + u16(number) + u16(1) + b"x"
            await talkative.asks(PUBLISH, body, PUBACK, u16(number) + u16(1) + ACCEPTED)
        await talkative.hears_nothing()


# DISCONNECT, and strangers


@story
async def test_disconnect_is_echoed_and_makes_a_stranger(gateway: GatewayProcess) -> None:
    async with connected(gateway.port) as n:
        await n.leave()
        await n.leave()
        await n.is_a_stranger()


@pytest.mark.parametrize(
    "kind", [PINGREQ, PUBLISH, PUBREL, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT, 0x0A]
)
@story
async def test_a_stranger_that_wants_something_is_told_to_connect(
    gateway: GatewayProcess, kind: int
) -> None:
    bodies = {PUBREL: u16(1), PINGREQ: b"", DISCONNECT: b""}
    async with node(gateway.port) as n:
        await n.asks(kind, bodies.get(kind, b"\x20\x00\x01\x00\x01x"), DISCONNECT)


@pytest.mark.parametrize(("kind", "body"), [(0x00, b"\x01\x03\x84"), (0x02, b"\x01")])
@story
async def test_what_other_gateways_say_is_not_answered(
    gateway: GatewayProcess, kind: int, body: bytes
) -> None:
    async with node(gateway.port) as n:
        await n.say(kind, body)
        await n.connect()


@story
async def test_bad_octets_of_a_stranger_are_not_answered(gateway: GatewayProcess) -> None:
    async with node(gateway.port) as n:
        for octets in ("00", "0211", "030c20", "ff0c", "010000"):
            await n.send(bytes.fromhex(octets))
        await n.connect()


@story
async def test_what_goes_to_a_client_that_left_does_not_reach_the_next_at_its_address(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """The second client's message id is the first one's, which the broker has not settled."""
    topic = fresh("t")
    async with connected(gateway.port) as n:
        number = await n.register(topic)
        await n.say(PUBLISH, bytes((0x40 | DUP,)) + u16(number) + u16(1) + b"first")
        await n.say(DISCONNECT)
        kinds = [(await n.hear())[0]]
        if kinds[0] != DISCONNECT:
            kinds.append((await n.hear())[0])
        assert kinds[-1] == DISCONNECT
        n.client_id = fresh()
        await n.connect()
        await n.hears_nothing()

"""MQTT-SN 1.2, 6.3, 6.4 and 6.14: what is published for a lost client, and clients that sleep."""

from __future__ import annotations

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
    PINGRESP,
    PUBACK,
    PUBLISH,
    RETAIN,
    SHORT_RETRIES,
    WILL,
    WILLMSG,
    WILLMSGREQ,
    WILLMSGRESP,
    WILLMSGUPD,
    WILLTOPIC,
    WILLTOPICREQ,
    WILLTOPICRESP,
    WILLTOPICUPD,
    Node,
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
    config = SHORT_RETRIES + "[limits]\ndisconnects_per_s_max = 1000\n"
    with serving(tmp_path_factory.mktemp("gateway"), broker, config) as running:
        yield running


def greeting(n: Node, flags: int, keep_alive_s: int = 1) -> bytes:
    return bytes((flags, 1)) + u16(keep_alive_s) + n.client_id.encode()


async def connects_with_will(n: Node, topic: str, payload: bytes, flags: int = 0x20) -> None:
    await n.asks(CONNECT, greeting(n, WILL | CLEAN), WILLTOPICREQ)
    await n.asks(WILLTOPIC, bytes((flags,)) + topic.encode(), WILLMSGREQ)
    await n.asks(WILLMSG, payload, CONNACK, ACCEPTED)


# Wills


@pytest.mark.parametrize(("qos", "payload"), [(0, b""), (1, b"bye"), (2, b"x" * 1024)])
@story
async def test_a_will_is_published_as_it_was_given(
    broker: Mosquitto, gateway: GatewayProcess, qos: int, payload: bytes
) -> None:
    will = fresh("will")
    async with application(broker, will) as app, node(gateway.port) as n:
        await connects_with_will(n, will, payload, qos << 5 | RETAIN)
        message = await heard(app)
        assert (message.payload, message.qos) == (payload, qos)
        async with application(broker, will, will + "/mark") as late:
            await late.publish(will + "/mark", b"", qos=1)
            first = await heard(late)
            assert first.payload == payload, "an empty one clears what was retained"
            assert first.retain or not payload


@story
async def test_a_will_handshake_may_be_begun_again_at_any_point(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with node(gateway.port) as n:
        for _ in range(2):
            await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        await n.say(WILLMSG, b"too soon")
        for _ in range(2):
            await n.asks(WILLTOPIC, b"\x00a", WILLMSGREQ)
        await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        # Not in turn: nothing but the will and DISCONNECT may come now.
        await n.say(PUBLISH, b"\x62tp" + u16(0) + b"x")
        await n.say(PINGREQ)
        await n.asks(WILLTOPIC, b"\x00a", WILLMSGREQ)
        await n.asks(WILLMSG, b"bye", CONNACK, ACCEPTED)
        await n.asks_in_vain(WILLMSG, b"late")
        await n.asks_in_vain(WILLTOPIC, b"\x00late")


@story
async def test_a_copy_of_connect_that_comes_late_holds_up_no_will(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    async with node(gateway.port) as n:
        await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        await n.asks(WILLTOPIC, b"\x00a", WILLMSGREQ)
        await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        await n.asks(WILLMSG, b"bye", CONNACK, ACCEPTED)


@story
async def test_an_empty_will_topic_is_no_will(broker: Mosquitto, gateway: GatewayProcess) -> None:
    will = fresh("will")
    async with application(broker, will) as app, node(gateway.port) as n:
        await connects_with_will(n, will, b"old")
        await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        await n.asks(WILLTOPIC, b"", CONNACK, ACCEPTED)
        await lost_at_last(n, gateway, broker)
        await app.publish(will, b"mark", qos=1)
        assert (await heard(app)).payload == b"mark"


async def lost_at_last(n: Node, gateway: GatewayProcess, broker: Mosquitto) -> None:
    """A witness that connects later with the same keep-alive is lost after this one."""
    mark = fresh("witness")
    async with (
        application(broker, mark) as app,
        connected(gateway.port, keep_alive_s=1) as witness,
    ):
        await witness.bequeaths(mark, b"lost")
        assert (await heard(app)).payload == b"lost"
    await n.is_a_stranger()


@pytest.mark.parametrize(
    ("clean", "expected"), [(False, b"kept"), (True, b"mark")], ids=["kept", "wiped"]
)
@story
async def test_a_will_outlasts_a_connection_unless_the_session_is_clean(
    broker: Mosquitto, gateway: GatewayProcess, clean: bool, expected: bytes
) -> None:
    will = fresh("will")
    async with application(broker, will) as app, node(gateway.port) as n:
        await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        await n.asks(WILLTOPIC, b"\x20" + will.encode(), WILLMSGREQ)
        await n.asks(WILLMSG, b"kept", CONNACK, ACCEPTED)
        await n.leave()
        await n.connect(clean=clean, keep_alive_s=1)
        await lost_at_last(n, gateway, broker)
        await app.publish(will, b"mark", qos=1)
        assert (await heard(app)).payload == expected


@story
async def test_a_will_is_not_for_those_who_say_goodbye(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    will = fresh("will")
    async with application(broker, will) as app, node(gateway.port) as n:
        await connects_with_will(n, will, b"lost")
        await n.leave()
        async with node(gateway.port) as other:
            await connects_with_will(other, will, b"other")
            assert (await heard(app)).payload == b"other"


@story
async def test_topic_and_message_of_a_will_are_changed_one_by_one(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    will, changed = fresh("will"), fresh("will")
    async with application(broker, changed) as app, node(gateway.port) as n:
        await connects_with_will(n, will, b"old")
        await n.asks(WILLMSGUPD, b"new", WILLMSGRESP, ACCEPTED)
        await n.asks(WILLTOPICUPD, b"\x40" + changed.encode(), WILLTOPICRESP, ACCEPTED)
        message = await heard(app)
        assert (message.payload, message.qos) == (b"new", 2)


@story
async def test_an_empty_will_topic_update_deletes_both(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """With the flags byte that Paho's library sends in an empty one, too."""
    will = fresh("will")
    async with application(broker, will) as app, node(gateway.port) as n:
        await connects_with_will(n, will, b"old")
        await n.asks(WILLTOPICUPD, b"\x00", WILLTOPICRESP, ACCEPTED)
        await n.asks(WILLMSGUPD, b"new", WILLMSGRESP, NOT_SUPPORTED)
        await lost_at_last(n, gateway, broker)
        await app.publish(will, b"mark", qos=1)
        assert (await heard(app)).payload == b"mark"


@pytest.mark.parametrize(
    ("flags", "topic", "code"),
    [(0, b"a/+", INVALID_TOPIC_ID), (0, b"\xff", INVALID_TOPIC_ID), (0x60, b"a", NOT_SUPPORTED)],
)
@story
async def test_a_bad_will_is_refused(
    gateway: GatewayProcess, flags: int, topic: bytes, code: bytes
) -> None:
    async with node(gateway.port) as n:
        await n.asks(CONNECT, greeting(n, WILL), WILLTOPICREQ)
        await n.asks(WILLTOPIC, bytes((flags,)) + topic, CONNACK, code)
        await n.is_a_stranger()
        await n.connect()
        await n.asks(WILLTOPICUPD, bytes((flags,)) + topic, WILLTOPICRESP, code)


@story
async def test_a_will_message_above_the_limit_is_refused(gateway: GatewayProcess) -> None:
    async with node(gateway.port) as n:
        await n.asks(CONNECT, greeting(n, WILL, 60), WILLTOPICREQ)
        await n.asks(WILLTOPIC, b"\x00a", WILLMSGREQ)
        await n.asks(WILLMSG, b"x" * 1025, CONNACK, NOT_SUPPORTED)
        await n.connect()
        await n.bequeaths("a", b"x" * 1024)
        await n.asks(WILLMSGUPD, b"x" * 1025, WILLMSGRESP, NOT_SUPPORTED)


# Sleep


async def sleeps(n: Node, duration_s: int = 60) -> None:
    await n.asks(DISCONNECT, u16(duration_s), DISCONNECT)


async def witnessed(broker: Mosquitto, gateway: GatewayProcess, topic: str, *words: bytes) -> None:
    """The application publishes; when a client that is awake has heard all, so has the gateway."""
    async with application(broker) as app, connected(gateway.port) as witness:
        await witness.subscribe(topic.encode(), qos=1)
        for word in words:
            await app.publish(topic, word, qos=1)
        assert [(await witness.message())[2] for _ in words] == list(words)
        await witness.leave()


@story
async def test_a_sleeper_gets_what_was_kept_and_then_pingresp(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with connected(gateway.port, clean=False) as n:
        number = await n.subscribe(topic.encode(), qos=1)
        await sleeps(n)
        await witnessed(broker, gateway, topic, b"one", b"two", b"three")
        await sleeps(n)  # a copy: its answer was lost
        await n.say(PINGREQ, n.client_id.encode())
        for word in (b"one", b"two", b"three"):
            assert await n.message() == (0x20, number, word)
        await n.hears(PINGRESP)
        await n.asks(PINGREQ, n.client_id.encode(), PINGRESP)


@story
async def test_pingresp_waits_for_the_last_acknowledgement(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """Not acknowledged, it is kept for the next time, and comes with DUP."""
    topic = fresh("t")
    async with connected(gateway.port, clean=False) as n:
        await n.subscribe(topic.encode(), qos=1)
        await sleeps(n)
        await witnessed(broker, gateway, topic, b"one")
        await n.say(PINGREQ, n.client_id.encode())
        kind, body = await n.hear()
        assert (kind, body[0], body[5:]) == (PUBLISH, 0x20, b"one")
        await n.say(PINGREQ, n.client_id.encode())
        for _ in range(3):
            await n.hears(PUBLISH, bytes((0x20 | DUP,)) + body[1:])
        # It may sleep on from here; the message waits for the next ping.
        await sleeps(n)
        await n.say(PINGREQ, n.client_id.encode())
        await n.hears(PUBLISH, bytes((0x20 | DUP,)) + body[1:])
        await n.say(PUBACK, body[1:5] + ACCEPTED)
        await n.hears(PINGRESP)


@story
async def test_a_connect_wakes_a_sleeper_for_good(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with connected(gateway.port, clean=False) as n:
        await n.subscribe(topic.encode(), qos=1)
        await sleeps(n)
        await witnessed(broker, gateway, topic, b"one")
        await n.connect(clean=False)
        assert (await n.message())[2] == b"one"
        await witnessed(broker, gateway, topic, b"two")
        assert (await n.message())[2] == b"two"


@story
async def test_a_sleeper_that_does_not_come_back_is_lost(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    will = fresh("will")
    async with application(broker, will) as app, connected(gateway.port, clean=False) as n:
        await n.bequeaths(will, b"overslept")
        await sleeps(n, 1)
        assert (await heard(app)).payload == b"overslept"
        await n.is_a_stranger()


@story
async def test_a_duration_of_nothing_is_a_goodbye(gateway: GatewayProcess) -> None:
    async with connected(gateway.port) as n:
        await sleeps(n, 0)
        await n.is_a_stranger()


@story
async def test_a_sleeper_may_publish(broker: Mosquitto, gateway: GatewayProcess) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        await sleeps(n)
        await n.publish(number, b"in my sleep", qos=1)
        assert (await heard(app)).payload == b"in my sleep"

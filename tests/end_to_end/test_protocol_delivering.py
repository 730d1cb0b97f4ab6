"""MQTT-SN 1.2, 6.6, 6.10 and 6.13: messages on their way down, until they are acknowledged."""

from __future__ import annotations

import time
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
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REGACK,
    REGISTER,
    RETRY_AFTER_S,
    RETRY_COUNT_MAX,
    SHORT_RETRIES,
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
    config = SHORT_RETRIES + "[limits]\ndisconnects_per_s_max = 1000\noutbox_messages_max = 50\n"
    with serving(tmp_path_factory.mktemp("gateway"), broker, config) as running:
        yield running


async def publishes(app: aiomqtt.Client, topic: str, *words: str, qos: int = 1) -> None:
    for word in words:
        await app.publish(topic, word.encode(), qos=qos)


# One at a time


@story
async def test_one_message_is_in_flight_and_the_others_wait_their_turn(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic, words = fresh("t"), [f"{number}" for number in range(20)]
    async with application(broker) as app, connected(gateway.port) as n:
        number = await n.subscribe(topic.encode(), qos=1)
        began = time.monotonic()
        await publishes(app, topic, *words)
        kind, body = await n.hear()
        assert (kind, body[0], body[5:]) == (PUBLISH, 0x20, b"0")
        again = await n.hear()
        assert again == (PUBLISH, bytes((0x20 | DUP,)) + body[1:]), "the same, with DUP"
        assert time.monotonic() - began > RETRY_AFTER_S
        await n.say(PUBACK, body[1:5] + ACCEPTED)
        for word in words[1:]:
            assert await n.message() == (0x20, number, word.encode())
        await n.hears_nothing()


@story
async def test_qos_0_does_not_overtake_what_waits(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    first, second = fresh("t"), fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(first.encode(), qos=1)
        await n.subscribe(second.encode(), qos=0)
        await publishes(app, first, "one")
        await publishes(app, second, "two", qos=0)
        await publishes(app, first, "three")
        assert [(await n.message())[2] for _ in range(3)] == [b"one", b"two", b"three"]


@story
async def test_a_copy_of_an_acknowledgement_moves_nothing(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(topic.encode(), qos=1)
        await publishes(app, topic, "one", "two", "three")
        _, one = await n.hear()
        for _ in range(3):
            await n.say(PUBACK, one[1:5] + ACCEPTED)
        _, two = await n.hear()
        assert two[5:] == b"two"
        for stray in (u16(0), u16(999), one[3:5]):
            await n.say(PUBACK, one[1:3] + stray + ACCEPTED)
        for kind in (PUBREC, PUBCOMP):
            await n.say(kind, two[3:5] if kind == PUBCOMP else u16(4711))
        assert await n.hear() == (PUBREL, u16(4711))
        await n.hears_nothing()
        await n.say(PUBACK, two[1:5] + ACCEPTED)
        assert (await n.message())[2] == b"three"


@story
async def test_qos_2_is_repeated_at_each_step_until_it_is_answered(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(topic.encode(), qos=2)
        await publishes(app, topic, "one", "two", qos=2)
        _, body = await n.hear()
        assert (body[0], body[5:]) == (0x40, b"one")
        await n.hears(PUBLISH, bytes((0x40 | DUP,)) + body[1:])
        message_id = body[3:5]
        await n.asks(PUBREC, message_id, PUBREL, message_id)
        await n.hears(PUBREL, message_id)  # again, PUBCOMP did not come
        await n.asks(PUBREC, message_id, PUBREL, message_id)
        await n.say(PUBCOMP, message_id)
        assert (await n.message())[::2] == (0x40, b"two")
        await n.say(PUBCOMP, message_id)
        await n.hears_nothing()


# Not answered


@pytest.mark.parametrize("clean", [True, False])
@story
async def test_a_client_that_never_answers_is_lost_and_its_will_published(
    broker: Mosquitto, gateway: GatewayProcess, clean: bool
) -> None:
    topic, will = fresh("t"), fresh("will")
    async with application(broker, will) as app, connected(gateway.port, clean=clean) as n:
        number = await n.subscribe(topic.encode(), qos=1)
        await n.bequeaths(will, b"lost")
        await publishes(app, topic, "one", "two")
        _, body = await n.hear()
        for _ in range(RETRY_COUNT_MAX):
            await n.hears(PUBLISH, bytes((0x20 | DUP,)) + body[1:])
        assert (await heard(app)).payload == b"lost"
        await n.is_a_stranger()
        await n.connect(clean=clean)
        if clean:
            await n.hears_nothing()
            return
        await n.accepts_register(topic)
        await n.hears(PUBLISH, bytes((0x20 | DUP,)) + body[1:])
        await n.say(PUBACK, body[1:5] + ACCEPTED)
        assert await n.message() == (0x20, number, b"two")


@story
async def test_a_qos_2_exchange_goes_on_in_the_next_connection(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        await n.subscribe(topic.encode(), qos=2)
        await publishes(app, topic, "one", qos=2)
        _, body = await n.hear()
        await n.asks(PUBREC, body[3:5], PUBREL, body[3:5])
        await n.connect(clean=False)
        await n.hears(PUBREL, body[3:5])
        await n.say(PUBCOMP, body[3:5])
        await n.hears_nothing()


@story
async def test_what_arrives_while_a_client_is_away_waits_up_to_the_limit(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """Qos 0 is not kept; of too many the oldest go."""
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port, clean=False) as n:
        await n.subscribe(topic.encode(), qos=2)
        await n.leave()
        await publishes(app, topic, "not kept", qos=0)
        await publishes(app, topic, *[f"{number}" for number in range(60)], qos=1)
        # Through the broker and back, so that all sixty are there.
        async with connected(gateway.port) as witness:
            await witness.subscribe(topic.encode(), qos=1)
            await publishes(app, topic, "60")
            assert (await witness.message())[2] == b"60"
        await n.connect(clean=False)
        found = [(await n.message())[2] for _ in range(50)]
        assert found == [b"%d" % number for number in range(11, 61)]
        await n.hears_nothing()


# REGISTER before the first message of a name


@story
async def test_a_register_is_repeated_and_its_message_waits(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    root = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(f"{root}/+".encode(), qos=1)
        await publishes(app, f"{root}/a", "one", "two")
        kind, body = await n.hear()
        assert (kind, body[4:]) == (REGISTER, f"{root}/a".encode())
        await n.hears(REGISTER, body)
        await n.say(REGACK, body[:4] + CONGESTION)
        await n.hears(REGISTER, body)
        await n.say(REGACK, u16(0) + u16(999) + ACCEPTED)
        await n.hears_nothing()
        await n.say(REGACK, body[:4] + ACCEPTED)
        assert [(await n.message())[2] for _ in range(2)] == [b"one", b"two"]


@pytest.mark.parametrize("code", [INVALID_TOPIC_ID, NOT_SUPPORTED, b"\xff"])
@story
async def test_a_refused_name_costs_its_messages_only(
    broker: Mosquitto, gateway: GatewayProcess, code: bytes
) -> None:
    root = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(f"{root}/+".encode(), qos=1)
        await publishes(app, f"{root}/a", "one", "two")
        await publishes(app, f"{root}/b", "three")
        kind, body = await n.hear()
        assert (kind, body[4:]) == (REGISTER, f"{root}/a".encode())
        await n.say(REGACK, body[:4] + code)
        assert (await n.message())[2] == b"three"
        await publishes(app, f"{root}/a", "four")
        await publishes(app, f"{root}/b", "five")
        assert (await n.message())[2] == b"five"
        await n.subscribe(f"{root}/a".encode(), qos=1)
        await publishes(app, f"{root}/a", "six")
        assert (await n.message())[2] == b"six", "it asked for the name after all"


@story
async def test_a_client_that_forgot_an_id_is_told_it_again(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        number = await n.subscribe(topic.encode(), qos=1)
        await publishes(app, topic, "one")
        _, body = await n.hear()
        await n.say(PUBACK, body[1:5] + INVALID_TOPIC_ID)
        assert await n.accepts_register(topic) == number
        kind, again = await n.hear()
        assert (kind, again[1:]) == (PUBLISH, body[1:])
        await n.say(PUBACK, again[1:5] + ACCEPTED)
        await n.hears_nothing()


@story
async def test_a_client_that_forgot_the_id_of_a_qos_0_message_is_told_before_the_next(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        number = await n.subscribe(topic.encode(), qos=0)
        await publishes(app, topic, "one", qos=0)
        await n.hears(PUBLISH, b"\x00" + u16(number) + u16(0) + b"one")
        await n.say(PUBACK, u16(number) + u16(0) + INVALID_TOPIC_ID)
        await publishes(app, topic, "two", qos=0)
        await n.accepts_register(topic)
        await n.hears(PUBLISH, b"\x00" + u16(number) + u16(0) + b"two")


@story
async def test_a_client_that_never_learns_an_id_does_not_keep_the_gateway_busy(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(topic.encode(), qos=1)
        await publishes(app, topic, "one", "two")
        count = 0
        while True:
            kind, body = await n.hear()
            if kind == REGISTER:
                await n.say(REGACK, body[:4] + ACCEPTED)
            elif body[5:] == b"one":
                count += 1
                await n.say(PUBACK, body[1:5] + INVALID_TOPIC_ID)
            else:
                break
        assert 1 <= count <= RETRY_COUNT_MAX + 1
        assert body[5:] == b"two"
        await n.say(PUBACK, body[1:5] + ACCEPTED)
        await n.hears_nothing()


@pytest.mark.parametrize("qos", [1, 2])
@story
async def test_a_message_that_a_client_does_not_want_is_given_up(
    broker: Mosquitto, gateway: GatewayProcess, qos: int
) -> None:
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        await n.subscribe(topic.encode(), qos=qos)
        await publishes(app, topic, "one", "two", qos=qos)
        _, body = await n.hear()
        await n.say(PUBACK, body[1:5] + NOT_SUPPORTED)
        assert (await n.message())[2] == b"two"


# The gateway between two clients


@story
async def test_a_reading_of_one_sensor_is_a_command_of_another(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with connected(gateway.port) as button, connected(gateway.port) as lamp:
        number = await lamp.subscribe(topic.encode(), qos=2)
        own = await button.register(topic)
        for qos in (0, 1, 2):
            await button.publish(own, b"press", qos=qos)
            assert await lamp.message() == (qos << 5, number, b"press")
        await button.subscribe(topic.encode(), qos=0)
        await button.say(PUBLISH, b"\x00" + u16(own) + u16(0) + b"to myself too")
        assert (await button.message())[2] == b"to myself too"


@story
async def test_a_sleeper_elsewhere_is_not_spoken_to_at_its_old_address(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with (
        application(broker) as app,
        connected(gateway.port, clean=False) as sleeper,
        node(gateway.port, sleeper.client_id) as moved,
    ):
        await sleeper.subscribe(topic.encode(), qos=1)
        await sleeper.asks(DISCONNECT, u16(60), DISCONNECT)
        await publishes(app, topic, "kept")
        await moved.connect(clean=False)
        assert (await moved.message())[2] == b"kept"
        await sleeper.is_a_stranger()
        await moved.asks(PINGREQ, moved.client_id.encode(), PINGRESP)

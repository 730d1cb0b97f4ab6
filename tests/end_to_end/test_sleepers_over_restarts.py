"""Sleepers and wills over the end of the gateway and of the broker, on real UDP with mosquitto."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CONNACK,
    CONNECT,
    DISCONNECT,
    DUP,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    WILL,
    WILLMSG,
    WILLMSGREQ,
    WILLTOPIC,
    WILLTOPICREQ,
    Node,
    connected,
    fresh,
    node,
    serving,
    story,
)
from tests.end_to_end.restart.restarting import gets
from tests.support.application import application, delivery_tag, heard

# No repeat of the gateway's own comes within a story.
PATIENT = "[mqtt_sn]\nretry_after_s = 600\n"
PERSISTENT = ("persistence true", "autosave_interval 1", "autosave_on_changes true")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    with Mosquitto(PERSISTENT, folder=folder) as running:
        yield running


async def sleeps(n: Node, duration_s: int = 600) -> None:
    await n.asks(DISCONNECT, u16(duration_s), DISCONNECT)


async def witnessed(broker: Mosquitto, gateway: GatewayProcess, topic: str, *words: bytes) -> None:
    """The application publishes; when a client that is awake has heard all, so has the gateway."""
    async with application(broker) as app, connected(gateway.port) as witness:
        await witness.subscribe(topic.encode(), qos=1)
        for number, word in enumerate(words):
            await app.publish(topic, word, qos=1 + number % 2)
        assert [(await witness.message())[2] for _ in words] == list(words)
        await witness.leave()


async def bequeaths(n: Node, topic: str, *, keep_alive_s: int) -> None:
    """Connects with a will, in a session that stays."""
    greeting = bytes((WILL, 1)) + u16(keep_alive_s) + n.client_id.encode()
    await n.asks(CONNECT, greeting, WILLTOPICREQ)
    await n.asks(WILLTOPIC, b"\x20" + topic.encode(), WILLMSGREQ)
    await n.asks(WILLMSG, b"gone", CONNACK, ACCEPTED)


@asynccontextmanager
async def asking(n: Node) -> AsyncIterator[None]:
    """PINGREQ again and again, meanwhile."""

    async def ask() -> None:
        while True:
            await asyncio.sleep(0.2)
            await n.say(PINGREQ, n.client_id.encode())

    task = asyncio.create_task(ask())
    try:
        yield
    finally:
        task.cancel()


def await_saved_loss(gateway: GatewayProcess, n: Node) -> None:
    """On the disk, where the next life will find it."""
    while saved_state(gateway, n) != "lost":
        time.sleep(0.01)


def saved_state(gateway: GatewayProcess, n: Node) -> str:
    """As a copy of the database has it, which the gateway keeps locked."""
    copy = gateway.folder / "copy"
    shutil.copytree(gateway.folder / "state", copy)
    try:
        with closing(sqlite3.connect(copy / "state.db")) as database:
            select = "SELECT state FROM sessions WHERE client_id = ?"
            ((state,),) = database.execute(select, (n.client_id,)).fetchall()
            return str(state)
    finally:
        shutil.rmtree(copy)


@pytest.mark.guarantee("4g")
@story
async def test_what_was_kept_for_a_sleeper_outlasts_a_kill_and_comes_in_order(
    broker: Mosquitto, tmp_path: Path
) -> None:
    topic, words = fresh("t"), [b"one", b"two", b"three", b"four"]
    with serving(tmp_path, broker) as gateway:
        async with connected(gateway.port, clean=False) as n:
            await n.subscribe(topic.encode(), qos=2)
            await sleeps(n)
            await witnessed(broker, gateway, topic, *words)
            gateway.kill()
            gateway.start()
            gateway.wait_until_connected()
            await n.say(PINGREQ, n.client_id.encode())
            await gets(n, *words, till=PINGRESP)


@story
async def test_one_that_went_back_to_sleep_with_a_message_gets_it_at_once_when_it_asks_again(
    broker: Mosquitto, tmp_path: Path
) -> None:
    topic = fresh("t")
    with serving(tmp_path, broker, PATIENT) as gateway:
        async with connected(gateway.port, clean=False) as n:
            await n.subscribe(topic.encode(), qos=1)
            await sleeps(n)
            await witnessed(broker, gateway, topic, b"one")
            await n.say(PINGREQ, n.client_id.encode())
            kind, body = await n.hear()
            assert (kind, body[0]) == (PUBLISH, 0x20)
            # It heard nothing of that, and asks until it gets an answer.
            async with asking(n):
                await n.hears(PUBLISH, bytes((0x20 | DUP,)) + body[1:])
            await n.say(PUBACK, body[1:5] + ACCEPTED)
            await n.hears(PINGRESP)


@story
async def test_a_full_outbox_keeps_the_newest_or_the_oldest(
    broker: Mosquitto, tmp_path: Path
) -> None:
    kept = {"drop_oldest": [b"two", b"three"], "drop_newest": [b"one", b"two"]}
    for policy, words in kept.items():
        topic, folder = fresh("t"), tmp_path / policy
        folder.mkdir()
        config = f'[limits]\noutbox_messages_max = 2\noutbox_when_full = "{policy}"\n'
        with serving(folder, broker, config) as gateway:
            async with connected(gateway.port, clean=False) as n:
                await n.subscribe(topic.encode(), qos=1)
                await sleeps(n)
                await witnessed(broker, gateway, topic, b"one", b"two", b"three")
                await n.say(PINGREQ, n.client_id.encode())
                assert [(await n.message())[2] for _ in words] == words
                await n.hears(PINGRESP)


@pytest.mark.parametrize("keeps", [False, True])
@story
async def test_qos_0_waits_for_a_sleeper_where_that_is_wished(
    broker: Mosquitto, tmp_path: Path, keeps: bool
) -> None:
    topic = fresh("t")
    config = f"[mqtt_sn]\nqueue_qos0_for_sleepers = {str(keeps).lower()}\n"
    with serving(tmp_path, broker, config) as gateway:
        async with application(broker) as app, connected(gateway.port, clean=False) as n:
            await n.subscribe(topic.encode(), qos=1)
            await sleeps(n)
            async with connected(gateway.port) as witness:
                await witness.subscribe(topic.encode(), qos=1)
                await app.publish(topic, b"zero", qos=0)
                await app.publish(topic, b"one", qos=1)
                assert [(await witness.message())[2] for _ in range(2)] == [b"zero", b"one"]
            await n.say(PINGREQ, n.client_id.encode())
            if keeps:
                assert (await n.message())[2] == b"zero"
            assert (await n.message())[2] == b"one"
            await n.hears(PINGRESP)


@pytest.mark.guarantee("7")
@pytest.mark.parametrize("acknowledge", ["auto", "journal", "upstream"])
@story
async def test_a_will_outlasts_a_kill_right_after_the_loss_and_a_broker_that_is_away(
    broker: Mosquitto, tmp_path: Path, acknowledge: str
) -> None:
    will = fresh("will")
    with serving(tmp_path, broker, f'[journal]\nacknowledge = "{acknowledge}"\n') as gateway:
        async with node(gateway.port) as n:
            await bequeaths(n, will, keep_alive_s=1)
            await sleeps(n, 1)
            broker.stop()
            await asyncio.to_thread(await_saved_loss, gateway, n)
            gateway.kill()
            broker.start()
            async with application(broker, will) as app:
                gateway.start()
                message = await heard(app)
                assert message.payload == b"gone"
                assert delivery_tag(message)["epoch"] == "1", "taken on in the life before"


@story
async def test_a_will_outlasts_a_kill_and_a_connection_that_does_not_name_it(
    broker: Mosquitto, tmp_path: Path
) -> None:
    will = fresh("will")
    with serving(tmp_path, broker) as gateway:
        async with node(gateway.port) as n, application(broker, will) as app:
            await bequeaths(n, will, keep_alive_s=600)
            gateway.kill()
            gateway.start()
            gateway.wait_until_connected()
            await n.connect(clean=False, keep_alive_s=1)
            assert (await heard(app)).payload == b"gone"

"""The OTA server's limits: what a node may ask, and what of it comes into log and memory."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import aiomqtt
import pytest

from firmware import image, ota_server
from firmware.ota_server import (
    PARTS_AT_ONCE,
    PARTS_PER_S,
    Allowance,
    DroppedLog,
    ImageError,
    OtaServer,
    Update,
    shown,
)
from hil.rig.mosquitto import Mosquitto
from tests.firmware.app.test_update import offered
from tests.firmware.app.test_update_on_board import OtaServerProcess, published

NODE, OTHER = "sensors/a", "sensors/b"


def question(update: Update, parts: int, at: int = 0) -> bytes:
    return b"C" + update.digest[:4] + at.to_bytes(4, "big") + bytes((parts,))


def test_a_node_gets_so_many_parts_and_then_as_many_as_time_brings() -> None:
    allowance = Allowance()
    assert allowance.take(NODE, int(PARTS_AT_ONCE), 0.0)
    assert not allowance.take(NODE, 1, 0.0)
    assert not allowance.take(NODE, 12, 11 / PARTS_PER_S), "and what is refused costs nothing"
    assert allowance.take(NODE, 12, 12 / PARTS_PER_S)
    assert allowance.take(OTHER, int(PARTS_AT_ONCE), 0.0), "each has its own"
    assert allowance.take(NODE, int(PARTS_AT_ONCE), 1e6)
    assert not allowance.take(NODE, 1, 1e6), "a rest brings no more than at the start"


def test_questions_beyond_that_are_dropped_and_counted() -> None:
    update = offered()
    server = OtaServer(update)
    asked = 0
    while server.answers_to(NODE, question(update, 12), 0, 0.0):
        asked += 1
    parts = len(server.answers(question(update, 12), 0))
    assert (asked, server.dropped) == (PARTS_AT_ONCE // parts, 1)
    assert server.answers_to(NODE, b"no question", 0, 0.0) == []
    assert server.dropped == 1, "what is no question costs nothing"
    assert server.answers_to(OTHER, question(update, 12), 0, 0.0)


def test_nodes_that_are_invented_take_no_memory_and_no_manifests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ota_server, "NODES_MAX", 3)
    server = OtaServer(offered())
    given = [server.offer(f"sensors/{number}") for number in range(10)]
    assert [each is not None for each in given] == [True] * 3 + [False] * 7
    for number in range(10):
        server.allowance.take(f"sensors/{number}", 1, 0.0)
    assert list(server.allowance._left) == ["sensors/7", "sensors/8", "sensors/9"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"app": 2}', '{"app": 2}'),
        ("\x1b[2Jgone\nINFO forged", "'\\x1b[2Jgone\\nINFO forged'"),
        ("é", "é"),
        ("x" * 401, "x" * 400 + "... (401 characters)"),
        ("\u202e", "'\\u202e'"),
    ],
)
def test_what_comes_from_outside_is_one_short_line(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_a_flood_is_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    server = OtaServer(None)
    lines = DroppedLog(server)
    with caplog.at_level(logging.WARNING):
        for second in range(61):
            server.dropped += 10
            lines.look("sensors/\x1b", float(second))
    assert [record.getMessage() for record in caplog.records] == [
        "10 questions were too many and dropped, last of 'sensors/\\x1b'",
        "600 questions were too many and dropped, last of 'sensors/\\x1b'",
    ]


def test_an_image_that_no_node_takes_is_refused(tmp_path: Path) -> None:
    content = bytes((256 << 10) + 1)
    path = published(tmp_path, 2, content)
    with pytest.raises(ImageError, match="is larger than the 262144 bytes that a node takes"):
        Update.read(path)
    path.write_bytes(bytes(10))
    path.with_suffix(".manifest").write_bytes(bytes(5_000))
    with pytest.raises(ImageError, match="is no manifest, which has 74 bytes: make it with"):
        Update.read(path)


# At a broker


@pytest.fixture(scope="module")
def own_broker() -> Iterator[Mosquitto]:
    with Mosquitto() as started:
        yield started


@pytest.fixture
def process(tmp_path: Path, own_broker: Mosquitto) -> Iterator[OtaServerProcess]:
    with OtaServerProcess(tmp_path, own_broker, "+") as started:
        started.kill()
        started._command += ["--node", NODE]
        started.launch(
            [
                *started._command,
                "--update",
                str(published(tmp_path, 2, image.image({"x": b"x" * 9000}))),
            ]
        )
        started.wait_for_log("is offered")
        yield started


async def answered(broker: aiomqtt.Client, node: str) -> bytes:
    async for message in broker.messages:
        if str(message.topic) == f"{node}/set/answer" and isinstance(message.payload, bytes):
            return message.payload
    raise AssertionError("the connection ended")


def test_a_node_that_floods_is_held_back_and_others_are_answered(
    process: OtaServerProcess, own_broker: Mosquitto, tmp_path: Path
) -> None:
    update = Update.read(tmp_path / "node-2.img")

    async def flood() -> bytes:
        async with aiomqtt.Client("127.0.0.1", own_broker.port) as broker:
            await broker.subscribe("sensors/+/set/answer", 1)
            for _ in range(200):
                await broker.publish(f"{NODE}/ask", question(update, 32), qos=0)
            await broker.publish(f"{NODE}/ask", b"T" + bytes(4), qos=1)
            await broker.publish(f"{OTHER}/ask", b"T1234", qos=1)
            return await answered(broker, OTHER)

    assert asyncio.run(flood())[:5] == b"T1234"
    process.wait_for_log("questions were too many and dropped, last of sensors/a")


def test_what_no_node_sends_is_kept_back_or_shown_in_one_line(
    process: OtaServerProcess, own_broker: Mosquitto
) -> None:
    async def speak() -> bytes:
        async with aiomqtt.Client("127.0.0.1", own_broker.port) as broker:
            await broker.subscribe("sensors/+/set/answer", 1)
            await broker.publish(f"{OTHER}/state", b"x" * (1 << 20), qos=1)
            for payload in (b"NaN", b'{"a":' * 500, b'{"a":1,"a":2}', b"\x1b[2J\xff\n"):
                await broker.publish(f"{OTHER}/state", payload, qos=1)
            await broker.publish(f"{OTHER}/ask", b"T1234", qos=1)
            return await answered(broker, OTHER)

    assert asyncio.run(speak())[:5] == b"T1234"
    process.wait_for_log("sensors/b says NaN")
    process.wait_for_log(re.escape("... (2500 characters)"))
    log = process.log_path.read_text()
    assert "\x1b" not in log
    assert "1048576" not in log
    assert "again in" not in log, "the connection stood"


def test_only_so_much_waits_to_be_looked_at(
    own_broker: Mosquitto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one message is under way, which a slow broker takes its time for."""
    monkeypatch.setattr(ota_server, "PENDING_MAX", 5)
    asked = ota_server.parser().parse_args(["--broker", f"127.0.0.1:{own_broker.port}"])

    async def scene() -> int:
        async with ota_server.client(asked) as server, ota_server.client(asked) as flood:
            await server.subscribe("sensors/+/ask", 1)
            for _ in range(50):
                await flood.publish(f"{NODE}/ask", b"T1234", qos=1)
            # What the broker sends behind them has come when this is granted.
            await server.subscribe("sensors/none", 1)
            return len(server.messages)

    assert asyncio.run(scene()) == 5


def test_a_broker_that_acknowledges_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one does whose own clients are slow."""
    monkeypatch.setattr(ota_server, "PUBLISH_S_MAX", 0.2)

    async def only_connack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(bytes((0x20, 3, 0, 0, 0)))
        while await reader.read(1000):
            pass
        writer.close()

    async def scene() -> None:
        async with await asyncio.start_server(only_connack, "127.0.0.1", 0) as broker:
            port = broker.sockets[0].getsockname()[1]
            given = ["--broker", f"127.0.0.1:{port}", "--node", NODE]
            asked = ota_server.parser().parse_args(given)
            with pytest.raises(aiomqtt.MqttError):
                await ota_server.serve(OtaServer(offered()), asked)

    asyncio.run(asyncio.wait_for(scene(), 200))


def test_it_listens_on_no_port(process: OtaServerProcess) -> None:
    """So there are no connections to bound but its own."""
    pid = process.pid
    inodes = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    listening = {
        fields[9]
        for name in ("tcp", "tcp6")
        for fields in map(str.split, Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:])
        if fields[3] == "0A"
    }
    assert not inodes & listening

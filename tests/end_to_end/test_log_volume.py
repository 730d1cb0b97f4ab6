"""How many lines a gateway writes in normal running is what docs/operating.md says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import ScriptedClient, sensor, u16

OPERATING = Path(__file__).resolve().parents[2] / "docs" / "operating.md"
TIMES = 10
PUBLISHES, PINGREQ, PINGRESP, DISCONNECT = b"21.5", 0x16, 0x17, 0x18


def documented() -> dict[str, int]:
    table = OPERATING.read_text().split("these write lines, of some 135 bytes each:")[1]
    rows = re.findall(r"^\| (.+) \| (\d+) \|$", table.split("\n\n")[1], re.MULTILINE)
    return {what: int(lines) for what, lines in rows}


async def stays_connected(one: ScriptedClient) -> None:
    topic = await one.register("sensors/one")
    for _ in range(TIMES):
        await one.publish(topic, PUBLISHES, qos=1)


async def sleeps(one: ScriptedClient) -> None:
    topic = await one.register("sensors/one")
    await one.ask(DISCONNECT, u16(60), DISCONNECT)
    for _ in range(TIMES):
        await one.ask(PINGREQ, b"one", PINGRESP)
        await one.publish(topic, PUBLISHES, qos=1)
        await one.connect(clean=False)
        await one.ask(DISCONNECT, u16(60), DISCONNECT)


async def connects_each_time(one: ScriptedClient) -> None:
    for _ in range(TIMES):
        await one.ask(DISCONNECT, b"", DISCONNECT)
        await one.connect()
        await one.publish(await one.register("sensors/one"), PUBLISHES, qos=1)


def lines_of(
    folder: Path, broker: Mosquitto, do: Callable[[ScriptedClient], Coroutine[None, None, None]]
) -> list[str]:
    """Those of a gateway's life in which one sensor connects and does this."""

    async def story(port: int) -> None:
        async with sensor(port, "one") as one:
            await one.connect(clean=False)
            await do(one)

    folder.mkdir()
    with GatewayProcess(folder, broker.url) as gateway:
        gateway.wait_until_connected()
        asyncio.run(story(gateway.port))
        assert gateway.stop() == 0
    # A loaded machine is late, and says so by warnings; stale compiled modules make the first line
    # one.
    lines = gateway.log_path.read_text().splitlines()
    return [line for line in lines if " INFO " in line or " tidegate Tidegate " in line]


def test_normal_running_writes_what_the_document_says(tmp_path: Path) -> None:
    nothing, visit, _, life = documented().values()
    connected = life + 1
    with Mosquitto() as broker:
        assert len(lines_of(tmp_path / "stays", broker, stays_connected)) == connected + nothing
        assert len(lines_of(tmp_path / "sleeps", broker, sleeps)) == connected + nothing
        visits = lines_of(tmp_path / "visits", broker, connects_each_time)
    assert len(visits) == connected + TIMES * visit
    line_bytes = sum(len(line) + 1 for line in visits) / len(visits)
    assert 100 < line_bytes < 170


def test_an_outage_writes_what_the_document_says(tmp_path: Path) -> None:
    _, _, outage, life = documented().values()
    with Mosquitto() as broker, GatewayProcess(tmp_path, broker.url) as gateway:
        gateway.wait_until_connected()
        broker.restart()
        gateway.wait_for_log(r"connected to broker \S+ again")
        assert gateway.stop() == 0
        text = gateway.log_path.read_text()
    told = [line for line in text.splitlines() if ".broker " in line or ".upstream " in line]
    # Two of the start are of these loggers.
    assert len(told) == 2 + outage
    assert len(text.splitlines()) >= life + outage

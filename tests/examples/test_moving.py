"""docs/moving.md: a gateway with readings that wait is stopped, taken elsewhere as the page says,
and started there; each reading reaches the broker once, and the sensor goes on without CONNECT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiomqtt
import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import ScriptedClient, sensor
from tests.examples.typed import shell_blocks, typed
from tests.support.application import application, delivery_tag, heard

NOWHERE = "mqtt://127.0.0.1:1"
BACKUP, START, CONTAINER, EXPORT = shell_blocks("moving.md")
IN_PODMAN = "sudo podman run --rm --user 0"
READINGS = 3


def same_folder(old: Path, new: Path, config: Path) -> None:
    """Between ways to install that use one folder: who has it changes."""
    (old / "state").rename(new / "state")
    changes = {
        "chown -R tidegate: /var/lib/tidegate": f"chown -R $(id -u) {new}/state",
        "/etc/tidegate/config.toml": str(config),
        "tidegate buffer": f"tidegate buffer --config {config}",
    }
    said = typed(START, new, changes)
    assert str(READINGS) in said


def through_a_backup(old: Path, new: Path, config: Path) -> None:
    """Into a container's volume. The command in it is ours, with the folders that it would have."""
    mounts, command = CONTAINER.split("\\\n", 1)
    assert mounts.startswith(IN_PODMAN)
    assert {"tidegate:/var/lib/tidegate", "/etc/tidegate:/etc/tidegate:ro"} <= set(mounts.split())
    changes = {
        "tidegate restore": f"tidegate restore --config {config}",
        "/moving/": f"{old}/",
    }
    typed(command.strip(), new, changes)


@pytest.mark.parametrize("moved", [same_folder, through_a_backup], ids=lambda each: each.__name__)
def test_readings_and_sessions_go_with_it(
    tmp_path: Path, moved: Callable[[Path, Path, Path], None]
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    gateway = GatewayProcess(old, NOWHERE, "[journal]\nspill_after_ms = 1\n")

    async def story(broker: Mosquitto) -> list[dict[str, str]]:
        gateway.start()
        async with sensor(gateway.port, "tank") as tank:
            await tank.connect(clean=False)
            topic = await tank.register("sensors/tank")
            for _ in range(READINGS):
                await tank.publish(topic, b"21.5", qos=1)
            assert await asyncio.to_thread(gateway.stop) == 0
            config = f"--config {gateway.config_path}"
            for block in (BACKUP, EXPORT):
                changes = {
                    "/var/tmp/": f"{old}/",
                    "tidegate backup": f"tidegate backup {config}",
                    "tidegate buffer": f"tidegate buffer {config}",
                    ">waiting": f">{old}/waiting",
                }
                typed(block, old, changes)
            assert len((old / "waiting.jsonl").read_text().splitlines()) == READINGS
            return await moved_to(broker, tank, topic)

    async def moved_to(broker: Mosquitto, tank: ScriptedClient, topic: int) -> list[dict[str, str]]:
        there = GatewayProcess(new, broker.url)
        for path in (new / "state").iterdir():
            path.unlink()
        (new / "state").rmdir()
        moved(old, new, there.config_path)
        async with application(broker, "sensors/#") as app:
            command = there.config_path.read_text()
            there.config_path.write_text(f'{command}[[udp]]\nlisten = "127.0.0.1:{gateway.port}"\n')
            with there:
                found = [await next_tag(app) for _ in range(READINGS)]
                await tank.publish(topic, b"22.5", qos=1)
                return [*found, await next_tag(app)]

    with Mosquitto() as broker:
        try:
            tags = asyncio.run(story(broker))
        finally:
            gateway.kill()
    assert [(tag["epoch"], tag["seq"]) for tag in tags[:READINGS]] == [
        ("1", str(number)) for number in range(READINGS)
    ]
    assert int(tags[-1]["epoch"]) > 1
    assert {tag["client"] for tag in tags} == {"tank"}


async def next_tag(app: aiomqtt.Client) -> dict[str, str]:
    return delivery_tag(await heard(app))

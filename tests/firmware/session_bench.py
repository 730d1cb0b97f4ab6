"""What tests of nodes at a real gateway share: boards that run a program, and an application.

A module that imports `broker` and `gateway` has one of each for all its tests, in which each node
has a name of its own.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import aiomqtt
import pytest

from hil.boards.wasi.board import BoardRun, WasiBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.firmware.conftest import CONFIG
from tests.support.application import application, heard

Result = TypeVar("Result")


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as mosquitto:
        yield mosquitto


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, broker: Mosquitto
) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), broker.url, CONFIG) as process:
        process.wait_until_connected()
        yield process


def run(board: WasiBoard, text: str, timeout_s: float = 60.0) -> list[str]:
    """What the program printed, if it came to its end."""
    outcome = board.run(text, timeout_s=timeout_s)
    assert (outcome.how, outcome.code) == ("exit", 0), board.output
    return board.output.splitlines()


async def shows(life: BoardRun, pattern: str) -> re.Match[str]:
    return await asyncio.to_thread(life.wait_for, pattern, 20.0)


def with_application(
    broker: Mosquitto, inner: Callable[[aiomqtt.Client], Awaitable[Result]]
) -> Result:
    async def outer() -> Result:
        async with application(broker, "#") as app:
            return await inner(app)

    return asyncio.run(outer())


async def next_heard(app: aiomqtt.Client, count: int) -> list[tuple[str, bytes, int]]:
    """What nodes published since the application is there."""
    found: list[tuple[str, bytes, int]] = []
    while len(found) < count:
        message = await heard(app)
        payload = message.payload
        assert isinstance(payload, bytes)
        if not (message.retain or str(message.topic).startswith("tidegate/")):
            found.append((str(message.topic), payload, message.qos))
    return found


def forget(gateway: GatewayProcess) -> None:
    """As a new gateway with a new card would."""
    gateway.kill()
    shutil.rmtree(gateway.folder / "state")
    gateway.start()
    gateway.wait_until_connected()

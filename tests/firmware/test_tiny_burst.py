"""Sixty commands that waited for the sensor for 16 KiB, on a micro:bit at the speed of a real one:
it takes each of them, once. Here its reading is how many it took.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiomqtt
import pytest

from firmware.tiny import build
from gateway.cli.sensors.senml import decode
from hil.rig.mosquitto import Mosquitto
from tests.firmware.tiny_bench import GIVEN, gateway_for, sensor
from tests.support.application import application, heard

COMMANDS = 60
COUNTED = {
    'command = b""\n': 'command = b""\ntaken = 0\n',
    "global command, commands_id": "global command, commands_id, taken",
    "            command = frame[7:]": "            command = frame[7:]\n            taken += 1",
    "value: int = 18 + ticks_ms() // 1000 % 7": "value: int = taken",
}


@pytest.fixture
def _counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = build.SOURCE.read_text(encoding="utf-8")
    for line, counted in COUNTED.items():
        assert line in text
        text = text.replace(line, counted, 1)
    source = tmp_path / "counting.py"
    source.write_text(text, encoding="utf-8")
    monkeypatch.setattr(build, "SOURCE", source)


async def next_count(app: aiomqtt.Client) -> int:
    payload = (await heard(app)).payload
    assert isinstance(payload, bytes)
    value = decode(payload).value("temperature")
    assert value is not None
    return int(value)


@pytest.mark.usefixtures("_counts")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_all_commands_of_a_burst_arrive(tmp_path: Path, broker: Mosquitto, qos: int) -> None:
    async def inner() -> list[int]:
        async with application(broker, str(GIVEN["TOPIC"])) as app:
            board.start()
            assert await next_count(app) == 0
            for number in range(COMMANDS):
                await app.publish(str(GIVEN["COMMANDS"]), b"c%02d" % number, qos=qos)
            counts = [0]
            while counts[-1] < COMMANDS and len(counts) < 15:
                counts.append(await next_count(app))
            return [*counts, await next_count(app)]

    config = "[mqtt_sn]\nqueue_qos0_for_sleepers = true\n"
    with (
        sensor(tmp_path / "board", has_real_speed=True) as board,
        gateway_for(tmp_path, board, broker, config),
    ):
        counts = asyncio.run(inner())
    assert counts[-2:] == [COMMANDS, COMMANDS]

"""A micro:bit with the small sensor on it, and the real gateway at the other end of its line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiomqtt

from firmware.tiny import build
from gateway.cli.sensors.senml import Pack, decode
from gateway.flashing.intel_hex import with_script
from hil.boards.microbit.board import FIRMWARE, MicrobitBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.support.application import heard
from tests.support.microbit import require_microbit

# As docs/flashing.md says for boards with small rings.
LINE = """
[[serial]]
port = "{device}"
burst_bytes_max = 32
frame_gap_ms = 5
"""
GIVEN = {
    "CLIENT_ID": "tiny-1",
    "TOPIC": "tiny/1",
    "COMMANDS": "tiny/1/interval",
    "INTERVAL_S": 1,
    "SENSOR": "simulated",
    "RETRY_MS": 300,
}


@contextmanager
def sensor(
    folder: Path, *, has_real_speed: bool = False, **given: object
) -> Iterator[MicrobitBoard]:
    """Off; with its program in flash."""
    require_microbit()
    folder.mkdir(exist_ok=True)
    program = build.script(build.packed(GIVEN | given))
    image = folder / "sensor.hex"
    image.write_text(with_script(FIRMWARE.read_text(), program, FIRMWARE.name))
    with MicrobitBoard(folder / "board", image, has_real_speed=has_real_speed) as board:
        yield board


@contextmanager
def gateway_for(
    folder: Path, board: MicrobitBoard, broker: Mosquitto, more_config: str = ""
) -> Iterator[GatewayProcess]:
    (folder / "gateway").mkdir()
    config = LINE.format(device=board.device)
    config += more_config + '[log]\nlevel = "debug"\n'  # which has a line for each sleep
    with GatewayProcess(folder / "gateway", broker.url, config) as gateway:
        gateway.wait_until_connected()
        gateway.wait_for_log("listening for sensors on serial")  # else a first frame may be lost
        yield gateway


async def readings(app: aiomqtt.Client, count: int) -> list[Pack]:
    found: list[Pack] = []
    while len(found) < count:
        message = await heard(app)
        assert str(message.topic) == GIVEN["TOPIC"]
        assert isinstance(message.payload, bytes)
        found.append(decode(message.payload))
    return found

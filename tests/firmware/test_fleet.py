"""Dozens of boards of real MicroPython at one gateway; two hundred in the soak."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.support.samples import sample

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 200.0


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    """Its own limit of a thousand for a client that is slow would lose some on a busy machine."""
    with Mosquitto(["max_queued_messages 0"]) as mosquitto:
        yield mosquitto


@pytest.mark.parametrize(("boards", "readings"), sample([(60, 20), (200, 50)], 1))
def test_all_readings_of_very_many_boards_arrive(
    library: Path, gateway: GatewayProcess, broker: Mosquitto, boards: int, readings: int
) -> None:
    arrived: Counter[tuple[str, int]] = Counter()
    wanted = (boards + 1) * readings
    is_subscribed, is_complete = threading.Event(), threading.Event()

    def heard(client: object, userdata: object, message: paho.MQTTMessage) -> None:
        arrived[message.topic, int(message.payload)] += 1
        if len(arrived) == wanted:
            is_complete.set()

    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_message = heard
    client.on_subscribe = lambda *_: is_subscribed.set()
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.subscribe("fleet/+", 1)
    assert is_subscribed.wait(PATIENCE_S)
    command = [sys.executable, "-m", "tests.firmware.fleet", str(library), str(gateway.port)]
    command += [str(boards), str(readings)]
    ended = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert Counter(json.loads(ended.stdout)) == {"done": boards + 1}
    assert is_complete.wait(PATIENCE_S), len(arrived)
    client.disconnect()
    client.loop_stop()
    assert {topic for topic, _ in arrived} == {f"fleet/{board}" for board in range(boards + 1)}

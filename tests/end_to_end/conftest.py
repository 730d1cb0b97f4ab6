"""A real mosquitto, a real gateway process, and an MQTT client that is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    config = '[predefined_topics]\n"sensors/boot" = 7\n[qos_minus_one]\nallow = true\n'
    with GatewayProcess(tmp_path, broker.url, config) as running:
        running.wait_until_connected()
        yield running

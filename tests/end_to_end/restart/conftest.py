"""A broker that stays, and a gateway that comes and goes on the same port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.end_to_end.on_air import assert_untroubled

CONFIG = """\
reconnect_delay_s_min = 0.05
[mqtt_sn]
retry_after_s = 0.5
retry_count_max = 20
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(["persistence true"], folder=tmp_path) as running:
        yield running


@pytest.fixture
def gateway(broker: Mosquitto, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path, broker.url, CONFIG) as running:
        running.wait_until_connected()
        assert running.port
        yield running
        assert_untroubled(running)

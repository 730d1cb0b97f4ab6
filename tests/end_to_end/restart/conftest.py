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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("restarted")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[Mosquitto]:
    with Mosquitto(["persistence true"], folder=folder) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(broker: Mosquitto, folder: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(folder, broker.url, CONFIG) as running:
        running.wait_until_connected()
        assert running.port
        yield running
        assert_untroubled(running)

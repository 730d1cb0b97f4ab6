"""The sensors beside the generator's are there, and it is told when they were not served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from hil.rig.ports import free_udp_port
from tests.bench import growth
from tests.bench.fleet import Fleet
from tests.bench.gateway_process import DEFAULT_COMMAND, GatewayProcess
from tests.bench.measurement import MeasurementError


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with Mosquitto() as broker, GatewayProcess(DEFAULT_COMMAND, tmp_path, broker.port) as gateway:
        yield gateway


def test_a_fleet_is_served(gateway: GatewayProcess, tmp_path: Path) -> None:
    with Fleet(tmp_path, gateway.port, 3, 0.1) as fleet:
        fleet.wait_for_log(r"3 up, 0 asleep\), [1-9]\d* readings")
        fleet.finish()
        assert "3 of 3 connected" in fleet.log


def test_a_fleet_that_was_not_served_is_told(gateway: GatewayProcess, tmp_path: Path) -> None:
    """It stops in disorder here; who waits for acknowledgements in vain does after some time."""
    with Fleet(tmp_path, gateway.port, 3, 1.0) as fleet:
        fleet.kill()
        with pytest.raises(MeasurementError, match="3 more sensors were not served"):
            fleet.finish()


def test_a_fleet_without_a_gateway_is_told(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="3 more sensors: ended with 69"):
        Fleet(tmp_path, free_udp_port(), 3, 1.0).__enter__()


def test_a_fleet_takes_what_the_generator_may_have_no_sockets_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "possible", lambda clients: min(clients, 15_000))
    few, many = growth.active(1000), growth.active(20_000)
    assert (few.clients, few.sensors_beside) == (1000, 0)
    assert (many.clients, many.sensors_beside, many.interval_s) == (15_000, 5000, 4.0)
    assert many.arguments[many.arguments.index("--rate") + 1] == "3750"

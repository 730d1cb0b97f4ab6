"""The state disk hangs and the broker is there: what needs no disk is served, SIGTERM ends it.

A sensor's QoS 2 readings need the disk, and its later ones go behind them; so each test has another
sensor for those.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from gateway.frames import Connack, Puback
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.support.asking_sensor import AskingSensor
from tests.support.hanging_disks import freezable_folder, freeze, held_by, thaw
from tests.support.waiting import until

# Devices are announced, so that their list is written as well.
CONFIG = '[presence]\nclients = true\nstats_s = 10\n[admin]\nlisten = "127.0.0.1:0"\n'
END_S = 5.0
LEFT = (
    r"ended without waiting: the disk of gateway.state_dir has not answered for \d+ s. What was "
    r"acknowledged is safe; (\d+) readings"
)


def page_of(gateway: GatewayProcess) -> str:
    return gateway.wait_for_log(r"status page on (http://\S+)").group(1)


def asked(url: str) -> str:
    with urlopen(url, timeout=2) as answer:
        return str(answer.read().decode())


def health_of(gateway: GatewayProcess, check: str) -> str:
    """What is wrong; nothing: empty."""
    checks = json.loads(asked(f"{page_of(gateway)}/healthz"))["checks"]
    return str(checks[check].get("reason", ""))


def serves_without_the_disk(gateway: GatewayProcess, sensor: AskingSensor, times: int) -> None:
    """Readings of QoS 0 and 1, and whoever looks at it."""
    page = page_of(gateway)
    for _ in range(times):
        sensor.publish(0)
        assert isinstance(sensor.publish(1), Puback)
    for path in ("healthz", "metrics", "api/status", "api/clients", "api/buffer"):
        assert asked(f"{page}/{path}")


@contextmanager
def held(folder: Path, broker: Mosquitto) -> Iterator[tuple[GatewayProcess, AskingSensor, Path]]:
    """Connected, with one sensor; its disk hangs as long as the file is there."""
    hold = folder / "hold"
    gateway = GatewayProcess(folder, broker.url, CONFIG, command=held_by(hold))
    with gateway:
        gateway.wait_until_connected()
        with AskingSensor(gateway.port, "sensor") as sensor:
            assert isinstance(sensor.connect(), Connack)
            assert isinstance(sensor.publish(1), Puback)
            hold.touch()
            try:
                yield gateway, sensor, hold
            finally:
                hold.unlink(missing_ok=True)


def test_while_the_disk_hangs_the_broker_alone_acknowledges(
    tmp_path: Path, broker: Mosquitto
) -> None:
    with held(tmp_path, broker) as (gateway, sensor, hold):
        serves_without_the_disk(gateway, sensor, 20)
        with AskingSensor(gateway.port, "new") as new:
            # Its session is to last, but cannot be saved; it is answered from memory.
            assert isinstance(new.connect(clean=False), Connack)
            assert isinstance(new.publish(1), Puback)
            assert new.publish(2, 0.3) is None, "safe is what is on the disk"
        serves_without_the_disk(gateway, sensor, 20)
        until(lambda: "has not taken a commit for" in health_of(gateway, "state"))
        hold.unlink()
        gateway.wait_for_log("state is saved again")
        until(lambda: sensor.publish(2) is not None)
        serves_without_the_disk(gateway, sensor, 1)
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < END_S


def test_sigterm_ends_it_while_the_disk_hangs_and_nothing_acknowledged_is_lost(
    tmp_path: Path, broker: Mosquitto
) -> None:
    with held(tmp_path, broker) as (gateway, sensor, hold):
        assert sensor.publish(2, 0.3) is None
        with AskingSensor(gateway.port, "new") as new:
            assert isinstance(new.connect(clean=False), Connack)
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < END_S
        assert gateway.wait_for_log(LEFT).group(1) == "1"
        hold.unlink()
        gateway.start()
        assert gateway.port
        until(lambda: sensor.connect() is not None)
        assert gateway.stop() == 0


def test_a_second_signal_ends_it_at_once(tmp_path: Path, broker: Mosquitto) -> None:
    with held(tmp_path, broker) as (gateway, sensor, _):
        assert sensor.publish(2, 0.3) is None
        gateway.ask_to_stop()
        time.sleep(0.2)  # two signals of one kind at one time are one
        os.kill(gateway.pid, signal.SIGINT)
        began = time.monotonic()
        assert gateway.wait_for_exit() == 0
        assert time.monotonic() - began < 1.0


def test_a_frozen_file_system_stops_no_sensor(tmp_path: Path, broker: Mosquitto) -> None:
    with freezable_folder(tmp_path / "disk") as disk:
        gateway = GatewayProcess(disk, broker.url, CONFIG)
        gateway.log_path = tmp_path / "gateway.log"
        with gateway:
            gateway.wait_until_connected()
            with AskingSensor(gateway.port, "sensor") as sensor:
                assert isinstance(sensor.connect(), Connack)
                assert isinstance(sensor.publish(1), Puback)
                freeze(disk)
                try:
                    serves_without_the_disk(gateway, sensor, 20)
                    with AskingSensor(gateway.port, "new") as new:
                        assert isinstance(new.connect(), Connack)
                        assert new.publish(2, 0.3) is None
                    serves_without_the_disk(gateway, sensor, 20)
                    gateway.ask_to_stop()
                    began = time.monotonic()
                    gateway.wait_for_log(LEFT)
                    assert time.monotonic() - began < END_S
                finally:
                    thaw(disk)  # until then the kernel lets no process of it end
                assert gateway.wait_for_exit() == 0

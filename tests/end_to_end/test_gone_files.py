"""Files that are taken away under a running gateway: no PUBACK for what cannot come back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from gateway.frames import Connack, Puback, Pubrec, Pubrel, ReturnCode
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.small_disk import small_disk
from tests.support.asking_sensor import AskingSensor
from tests.support.waiting import until

CONFIG = (
    "reconnect_delay_s_min = 0.05\n"
    '[admin]\nlisten = "127.0.0.1:0"\n'
    '[journal]\nacknowledge = "journal"\n'
)
READINGS = 20
HELD_S = 15.0


class Scene:
    """A gateway whose broker is away, with readings on its disk and one sensor."""

    def __init__(self, gateway: GatewayProcess, broker: Mosquitto, sensor: AskingSensor) -> None:
        self.gateway, self.broker, self.sensor = gateway, broker, sensor
        self.page = gateway.wait_for_log(r"status page on (http://\S+)").group(1)
        self.journal = gateway.folder / "state" / "journal"

    def is_acknowledged(self, qos: int = 1) -> bool:
        """A reading whose write failed is held for ten seconds before its sensor is answered."""
        match self.sensor.publish(qos) or self.sensor.receive(HELD_S):
            case Puback(return_code=code):
                return code == ReturnCode.ACCEPTED
            case Pubrec(message_id=message_id):
                assert self.sensor.ask_for(Pubrel(message_id)) is not None
                return True
            case other:
                raise AssertionError(f"{other} is no answer")

    def check(self, name: str) -> str:
        """What /healthz says is wrong; empty if nothing is. No restart brings files back."""
        with urlopen(f"{self.page}/healthz", timeout=5) as answer:
            body = json.load(answer)
        reason = str(body["checks"][name].get("reason", ""))
        assert not reason or body["status"] == "failing"
        return reason

    def buffer(self) -> dict[str, object]:
        with urlopen(f"{self.page}/api/buffer", timeout=5) as answer:
            return dict(json.load(answer))

    def everything_arrives(self) -> None:
        self.broker.start()
        self.gateway.wait_until_connected()
        until(lambda: self.buffer()["depth"] == 0, 20.0)


@contextmanager
def scene(
    folder: Path, prefix: tuple[str, ...] = (), *, readings: int = READINGS
) -> Iterator[Scene]:
    with Mosquitto() as broker, ExitStack() as ends:
        gateway = ends.enter_context(GatewayProcess(folder, broker.url, CONFIG, prefix=prefix))
        gateway.wait_until_connected()
        sensor = ends.enter_context(AskingSensor(gateway.port, "sensor"))
        assert isinstance(sensor.connect(), Connack)
        broker.stop()
        gateway.wait_for_log(r"broker \S+ unreachable")
        found = Scene(gateway, broker, sensor)
        assert all(found.is_acknowledged(1 + each % 2) for each in range(readings))
        yield found


def test_nothing_is_acknowledged_into_a_removed_folder(tmp_path: Path) -> None:
    with scene(tmp_path) as found:
        shutil.rmtree(found.journal)
        assert not found.is_acknowledged()
        until(lambda: "is gone" in found.check("journal"), 5.0)
        found.gateway.wait_for_log("the journal cannot be written")
        found.gateway.wait_for_log(rf"{READINGS} readings on disk cannot be read")
        # The broker alone acknowledges from now on.
        found.broker.start()
        found.gateway.wait_until_connected()
        with AskingSensor(found.gateway.port, "other") as other:
            assert isinstance(other.connect(), Connack)
            until(lambda: isinstance(other.publish(1), Puback), 10.0)


def test_it_is_noticed_while_nothing_is_published(tmp_path: Path) -> None:
    with scene(tmp_path) as found:
        found.journal.rename(found.journal.with_name("moved"))
        until(lambda: "is gone" in found.check("journal"), 5.0)
        until(lambda: str(READINGS) in found.check("backlog"), 5.0)


def test_a_folder_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    with scene(tmp_path) as found:
        moved = found.journal.with_name("moved")
        found.journal.rename(moved)
        until(lambda: "is gone" in found.check("journal"), 5.0)
        moved.rename(found.journal)
        found.gateway.wait_for_log("the journal has room and can be written again")
        until(lambda: not found.check("journal") and not found.check("backlog"), 5.0)
        assert found.is_acknowledged()
        found.everything_arrives()


def test_a_backlog_that_cannot_be_opened_is_reported_and_drained_once_it_can(
    tmp_path: Path,
) -> None:
    with scene(tmp_path) as found:
        found.gateway.stop()
        (segment,) = found.journal.glob("*.segment")
        found.gateway.start()
        page = found.gateway.wait_for_log(r"status page on (http://\S+)").group(1)
        found.page = page
        hidden = segment.with_name("hidden")
        segment.rename(hidden)
        until(lambda: segment.name in found.check("backlog"), 5.0)
        with urlopen(f"{page}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        assert f"tidegate_journal_out_of_reach_readings {READINGS}" in text
        hidden.rename(segment)
        until(lambda: not found.check("backlog"), 5.0)
        found.everything_arrives()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take a file system away")
def test_a_file_system_that_is_taken_away_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with small_disk(tmp_path / "state", 16 << 20) as disk, scene(tmp_path, disk.prefix) as found:
        subprocess.run([*disk.prefix, "umount", "-l", tmp_path / "state"], check=True)
        assert not found.is_acknowledged()
        until(lambda: found.check("journal") != "", 5.0)
        # For what takes the disk away at the end.
        subprocess.run(
            [*disk.prefix, "mount", "-t", "tmpfs", "none", tmp_path / "state"], check=True
        )

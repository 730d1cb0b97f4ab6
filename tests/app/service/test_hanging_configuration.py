"""A configuration that cannot be read, and SIGHUP by the thousand: sensors are served meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from gateway.frames import Connack, Puback
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.cli.tidegate import environment_with, tidegate
from tests.support.asking_sensor import AskingSensor
from tests.support.hanging_disks import unanswering_folder
from tests.support.waiting import until

NOWHERE = "mqtt://127.0.0.1:1"
PAGE = '[admin]\nlisten = "127.0.0.1:0"\n'
END_S = 5.0
# Waits for a tenth of the time.
HASTY = """
import sys
from gateway.cli import sources
from gateway.app.service import reloading
sources.READ_S_MAX = reloading.READ_S_MAX = 1.0
from gateway.__main__ import main
sys.exit(main())
"""


def hang_up(gateway: GatewayProcess) -> None:
    os.kill(gateway.pid, signal.SIGHUP)


def ends_in_time(gateway: GatewayProcess) -> None:
    began = time.monotonic()
    assert gateway.stop() == 0
    assert time.monotonic() - began < END_S


def is_served(gateway: GatewayProcess) -> bool:
    with AskingSensor(gateway.port, "sensor") as sensor:
        return isinstance(sensor.connect(), Connack)


@pytest.mark.parametrize("key", ["configuration", "admin.password_file", "upstream.password_file"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(
    tmp_path: Path, key: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("tide")
    config = f'username = "g"\npassword_file = "{secret}"\n'
    if key == "admin.password_file":
        config = PAGE + f'password_file = "{secret}"\n'
    gateway = GatewayProcess(tmp_path, NOWHERE, config)
    gateway.start()
    assert is_served(gateway)
    path = gateway.config_path if key == "configuration" else secret
    path.rename(path.with_name("kept"))
    os.mkfifo(path, 0o600)
    hang_up(gateway)
    gateway.wait_for_log(rf"reload: .*{path}.* it is a pipe, and only a regular file is read")
    gateway.wait_for_log("nothing is changed, the gateway goes on as it was")
    assert is_served(gateway)
    path.unlink()
    path.with_name("kept").rename(path)
    hang_up(gateway)
    gateway.wait_for_log("reload: no key has another value")
    ends_in_time(gateway)


def test_a_file_that_hangs_holds_one_thread_and_is_named_until_it_answers(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE, PAGE, command=(sys.executable, "-c", HASTY))
    gateway.start()
    assert is_served(gateway)
    page = gateway.wait_for_log(r"status page on (http://\S+)").group(1)

    def health() -> dict[str, object]:
        with urlopen(f"{page}/healthz", timeout=2) as answer:
            found: dict[str, object] = json.load(answer)["checks"]["configuration"]
        return found

    def threads() -> int:
        return len(list(Path(f"/proc/{gateway.pid}/task").iterdir()))

    assert health()["ok"] is True
    with unanswering_folder(tmp_path / "network") as network:
        text, hung = gateway.config_path.read_text(), network / "gateway.toml"
        gateway.config_path.unlink()
        gateway.config_path.symlink_to(hung)
        hang_up(gateway)
        gateway.wait_for_log(rf"reload: {gateway.config_path} could not be read within 1 s")
        before = threads()
        assert is_served(gateway)
        hang_up(gateway)
        gateway.wait_for_log(rf"reload: {gateway.config_path} has still not answered, after \d+ s")
        assert threads() <= before
        assert is_served(gateway)
        assert f"{gateway.config_path} has not answered for " in str(health())
        with urlopen(f"{page}/api/status", timeout=2) as answer:
            assert f"{gateway.config_path} has not answered for " in answer.read().decode()
    gateway.wait_for_log("answers again")
    until(lambda: health()["ok"] is True)
    gateway.config_path.unlink()
    gateway.config_path.write_text(text.replace("[gateway]", "[log]\nlevel='debug'\n[gateway]"))
    hang_up(gateway)
    gateway.wait_for_log("reload: in force now: log.level")
    ends_in_time(gateway)


def test_sigterm_ends_it_while_a_file_hangs(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE)
    gateway.start()
    assert is_served(gateway)
    with unanswering_folder(tmp_path / "network") as network:
        gateway.config_path.unlink()
        gateway.config_path.symlink_to(network / "gateway.toml")
        hang_up(gateway)
        assert is_served(gateway)
        ends_in_time(gateway)


def test_a_check_and_a_start_give_a_hanging_file_up(tmp_path: Path) -> None:
    with unanswering_folder(tmp_path / "network") as network:
        path = network / "gateway.toml"
        for verb, code in ((("check", str(path)), 78), (("run", "--config", str(path)), 69)):
            done = subprocess.run(
                [sys.executable, "-c", HASTY, *verb],
                env=environment_with({}),
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            line = f"{path}: could not be read within 1 s: its disk does not answer"
            assert (done.returncode, done.stderr.splitlines()) == (code, [line])
        secret = f"upstream.password_file={network}/secret"
        done = tidegate("run", "--set", "upstream.username=g", "--set", secret, folder=tmp_path)
        assert (done.returncode, f"{network}/secret: could not be read" in done.stderr) == (
            69,
            True,
        )
        checking = subprocess.Popen(
            [sys.executable, "-m", "gateway", "check", str(path)], env=environment_with({})
        )
        time.sleep(0.5)
        checking.send_signal(signal.SIGINT)
        assert checking.wait(5) in (130, -signal.SIGINT)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "socket", "."])
def test_what_is_no_file_is_refused_in_a_sentence(tmp_path: Path, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        read, write = os.pipe()
        done = subprocess.run(
            [sys.executable, "-m", "gateway", "check", path],
            cwd=tmp_path,
            env=environment_with({}),
            stdin=read,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        os.close(read)
        os.close(write)
    assert done.returncode == 78
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{path}: cannot be read: ")
    assert tidegate("check", "/dev/null", folder=tmp_path).returncode == 0, "an empty file"


def test_signals_by_the_thousand_are_a_reload_a_second_and_no_sensor_waits(tmp_path: Path) -> None:
    with Mosquitto() as broker, GatewayProcess(tmp_path, broker.url) as gateway:
        gateway.wait_until_connected()
        slowest, sent, began = 0.0, 0, time.monotonic()
        with AskingSensor(gateway.port, "sensor") as sensor:
            assert isinstance(sensor.connect(), Connack)
            while (passed := time.monotonic() - began) < 2.0:
                while sent < 2000 * passed:
                    hang_up(gateway)
                    sent += 1
                asked = time.monotonic()
                assert isinstance(sensor.publish(1), Puback)
                slowest = max(slowest, time.monotonic() - asked)
        assert sent > 3000
        gateway.wait_for_log("reload: no key has another value")
        time.sleep(1.2)  # the last one of them
        assert gateway.log.count("reload: no key has another value") in (2, 3, 4)
        assert slowest < 1.0
        ends_in_time(gateway)


def test_from_the_first_line_on_no_reload_ends_it(tmp_path: Path) -> None:
    """Once ignored or heard it always is; and that begins before the large parts are imported."""

    def takes_hangup(pid: int) -> bool:
        status = Path(f"/proc/{pid}/status").read_text()
        masks = re.findall(r"Sig(?:Ign|Cgt):\s*([0-9a-f]+)", status)
        return any(int(mask, 16) & 1 for mask in masks)

    gateway = GatewayProcess(tmp_path, NOWHERE)
    gateway.start(environment=environment_with({}))
    until(lambda: takes_hangup(gateway.pid))
    assert "_ssl" not in Path(f"/proc/{gateway.pid}/maps").read_text(), "nothing else is there"
    while "listening for sensors" not in gateway.log:
        assert takes_hangup(gateway.pid)
        hang_up(gateway)
        time.sleep(0.002)
    assert is_served(gateway)
    ends_in_time(gateway)


@pytest.mark.parametrize("delay_ms", range(0, 301, 50))
def test_started_as_nohup_does_it_outlives_a_reload_at_any_time(
    tmp_path: Path, delay_ms: int
) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        gateway.start(environment=environment_with({}))
    finally:
        signal.signal(signal.SIGHUP, before)
    time.sleep(delay_ms / 1000)
    hang_up(gateway)
    assert gateway.port
    ends_in_time(gateway)

"""The gateway under measurement is configured as told, awaited, and stopped."""

import sys
import tomllib
from pathlib import Path

import pytest

from hil.rig.logged_process import ProcessError
from tests.bench import gateway_process
from tests.bench.gateway_process import GatewayProcess, command_from, config_text, filled_in
from tests.bench.measurement import MeasurementError


def test_the_configuration_is_toml_with_the_ports_of_this_run() -> None:
    extra = '[journal]\nacknowledge = "journal"\n'
    config = tomllib.loads(config_text(20000, 20001, Path("/state"), "", extra, 12_000))
    assert config["udp"] == [{"listen": "127.0.0.1:20000"}]
    assert config["upstream"]["url"] == "mqtt://127.0.0.1:20001"
    assert config["journal"] == {"acknowledge": "journal"}
    assert config["gateway"]["state_dir"] == "/state"
    assert config["admin"] == {"listen": ""}
    assert config["limits"]["clients_max"] == 12_000


def test_the_default_command_runs_this_project() -> None:
    words = filled_in(command_from(None), Path("c.toml"), 1, 2)
    assert words == [sys.executable, "-m", "gateway", "run", "--config", "c.toml"]


def test_another_command_gets_its_ports() -> None:
    command = command_from("'other gateway' --udp={port} --mqtt {broker_port}")
    assert filled_in(command, Path("c.toml"), 20000, 20001) == [
        "other gateway",
        "--udp=20000",
        "--mqtt",
        "20001",
    ]


def test_a_gateway_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such option')"]
    with pytest.raises(MeasurementError, match="exit code 1:\nno such option"):
        GatewayProcess(command, tmp_path, 20001).__enter__()


def test_a_gateway_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="cannot start no-such-program"):
        GatewayProcess(["no-such-program"], tmp_path, 20001).__enter__()


ANSWERS_CONNECT = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", int(sys.argv[1])))
answers = [b"\\x03\\x05\\x01", b"\\x03\\x05\\x00"]
while True:
    frame, sender = udp.recvfrom(256)
    print(frame.hex(), flush=True)
    if frame[1] == 4:
        udp.sendto(answers.pop(0), sender)
"""


def test_a_gateway_is_ready_when_it_accepts_a_connect_and_gone_afterwards(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ANSWERS_CONNECT, "{port}"]
    with GatewayProcess(command, tmp_path, 20001) as gateway:
        assert gateway.pid > 0
    # The first CONNECT was refused, so that there had to be a second.
    frames = gateway.log_tail().splitlines()
    assert frames[:2] == [gateway_process.PROBE_CONNECT.hex()] * 2
    with pytest.raises(ProcessError, match="not running"):
        _ = gateway.pid

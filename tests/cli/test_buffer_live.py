"""`tidegate buffer` beside a real gateway whose broker is away: asked while it runs, read after."""

import json
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

from gateway.frames import Connack, Connect, Frame, Puback, Publish, Regack, Register, encode
from gateway.frames import decode as decoded
from hil.rig.gateway import GatewayProcess
from hil.rig.ports import free_port
from tests.cli.tidegate import tidegate

READINGS = 5
NOBODY = "mqtt://127.0.0.1:1"
DEADLINE_S = 60.0


def ask(sensor: socket.socket, frame: Frame, answer: type[Frame]) -> Frame:
    sensor.send(encode(frame))
    found = decoded(sensor.recv(1000))
    assert isinstance(found, answer), found
    return found


def publish_all(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
        sensor.settimeout(DEADLINE_S)
        sensor.connect(("127.0.0.1", port))
        ask(sensor, Connect(b"pump-1", 60, clean_session=True), Connack)
        registered = ask(sensor, Register(0, 1, b"pump/1"), Regack)
        assert isinstance(registered, Regack)
        for number in range(READINGS):
            reading = Publish(registered.topic_id, 2 + number, b"%d" % number, qos=1)
            acknowledged = ask(sensor, reading, Puback)
            assert isinstance(acknowledged, Puback)
            assert acknowledged.return_code == 0


def buffer(gateway: GatewayProcess, *arguments: str) -> Any:
    done = tidegate("buffer", "--config", gateway.config_path, *arguments, folder=gateway.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def exported(gateway: GatewayProcess) -> list[str]:
    lines = buffer(gateway, "export").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_what_waits_is_told_by_the_gateway_and_by_its_files(tmp_path: Path) -> None:
    admin = free_port(socket.SOCK_STREAM)
    gateway = GatewayProcess(tmp_path, NOBODY, f'[admin]\nlisten = "127.0.0.1:{admin}"\n')
    in_order = [str(number) for number in range(READINGS)]
    with gateway:
        publish_all(gateway.port)
        answer = json.loads(buffer(gateway, "--json"))
        assert (answer["source"], answer["condition"]) == ("gateway", "ok")
        assert (answer["depth"], answer["parked"]) == (READINGS, READINGS)
        assert 0 < answer["sync_s_p50"] < DEADLINE_S
        assert answer["dropped"]["journal_full"] == 0
        assert exported(gateway) == in_order
        assert rates_are_told(gateway)
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/healthz", timeout=200) as health:
            checks = json.load(health)["checks"]
        assert checks["journal"] == {"ok": True}
        gateway.kill()
    answer = json.loads(buffer(gateway, "--json"))
    assert (answer["source"], answer["depth"]) == ("files", READINGS)
    assert exported(gateway) == in_order
    assert [line.split()[0] for line in buffer(gateway, "peek", "-n", "2").splitlines()] == [
        "client",
        "pump-1",
        "pump-1",
    ]


def rates_are_told(gateway: GatewayProcess) -> bool:
    """They need two looks, a second apart."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        answer = json.loads(buffer(gateway, "--json"))
        if answer["in_per_s"] is not None:
            assert (answer["out_per_s"], answer["drain_s"]) == (0.0, None)
            return True
    return False

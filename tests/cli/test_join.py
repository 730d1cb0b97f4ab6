"""`tidegate join` beside a real gateway: opened, asked for, approved, rejected."""

from __future__ import annotations

import argparse
import json
import socket
from pathlib import Path

import pytest

from gateway.app.exit_codes import ExitCode
from gateway.cli.join import seconds
from gateway.frames import Connack, Connect, Frame, Pingreq, Puback, ReturnCode, decode, encode
from hil.rig.gateway import GatewayProcess
from tests.cli.tidegate import tidegate_here
from tests.support.engine_bench import short

NO_BROKER = "mqtt://127.0.0.1:1"
CONFIG = (
    '[admin]\nlisten = "127.0.0.1:0"\npassword_file = "secret"\n[admission]\npermit = "listed"\n'
)


class Client:
    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(20)
        self._socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, frame: Frame) -> Frame:
        self._socket.send(encode(frame))
        return decode(self._socket.recv(1000))

    def code(self, frame: Frame) -> int:
        answer = self.ask(frame)
        assert isinstance(answer, Connack | Puback)
        return answer.return_code


def test_a_sensor_joins_and_is_let_in_for_good(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("tide and time\n")
    with GatewayProcess(tmp_path, NO_BROKER, CONFIG) as gateway:
        page = gateway.wait_for_log(r"status page on http://(\S+:\d+)").group(1)

        def join(*arguments: str, code: int = ExitCode.OK) -> str:
            source = ("--config", gateway.config_path, "--set", f"admin.listen={page}")
            done = tidegate_here("join", *arguments, *source, folder=tmp_path)
            assert done.returncode == code, done.stderr
            return done.stdout + done.stderr

        assert "joining is closed" in join("list")
        with Client(gateway.port) as well, Client(gateway.port) as door:
            assert well.code(Connect(b"well", 60)) == ReturnCode.CONGESTION
            assert "new sensors may join for 2 min 0 s" in join()
            for client, name in ((well, b"well"), (door, b"door")):
                assert client.code(Connect(name, 60)) == ReturnCode.ACCEPTED
                client.ask(Pingreq())
            assert "joining is open for 1 min" in join("list")
            assert json.loads(join("list", "--json"))["waiting_clients"] == ["well", "door"]
            assert well.code(short(b"21.5", 1, 7)) == ReturnCode.NOT_SUPPORTED
            assert "approved" in join("approve", "well", "--key")
            assert "well" in (tmp_path / "state" / "device.keys").read_text()
            assert well.code(short(b"21.5", 1, 8)) == ReturnCode.ACCEPTED
            assert "rejected" in join("reject", "door", "--json")
            assert "no sensor 'door' waits" in join("reject", "door", code=ExitCode.FAILURE)
            assert "waits for approval" in gateway.log
        assert "no new sensor may join" in join("--for", "0s")
        assert gateway.stop() == 0


@pytest.mark.parametrize("text", ["255s", "5m", "", "1h", "-1s"])
def test_it_is_never_open_for_long(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="at most 254s"):
        seconds(text)
    assert seconds("4m") == 240

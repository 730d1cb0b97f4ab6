"""`tidegate serial` beside a real gateway: what is shown, and a port that is lent for a while."""

from __future__ import annotations

import json
import os
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import serial  # type: ignore[import-untyped]

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import free_tcp_port
from tests.cli.tidegate import tidegate

NOBODY = "mqtt://127.0.0.1:1"
PASSWORD = "tide and time"


@dataclass(frozen=True)
class Lending:
    gateway: GatewayProcess
    port: str
    page: str

    def ask(self, *arguments: str | Path) -> CompletedProcess[str]:
        return self.verb("serial", *arguments)

    def verb(self, name: str, *arguments: str | Path) -> CompletedProcess[str]:
        config = ("--config", self.gateway.config_path, "--set", f"admin.listen={self.page}")
        return tidegate(name, *config, *arguments, folder=self.gateway.folder)


def page_of(gateway: GatewayProcess) -> str:
    return gateway.wait_for_log(r"status page on http://(\S+:\d+)").group(1)


@contextmanager
def lending(folder: Path, *, password: bool = True) -> Iterator[Lending]:
    master, slave = os.openpty()
    tty.setraw(slave)
    port = os.ttyname(slave)
    os.close(slave)
    config = f'[[serial]]\nport = "{port}"\n[admin]\nlisten = "127.0.0.1:0"\n'
    if password:
        (folder / "secret").write_text(f"{PASSWORD}\n")
        config += 'password_file = "secret"\n'
    try:
        with GatewayProcess(folder, NOBODY, config) as gateway:
            gateway.wait_for_log("listening for sensors on serial")
            yield Lending(gateway, port, page_of(gateway))
    finally:
        os.close(master)


def taken_by_another(port: str) -> None:
    """Fails unless the port is to be had, for this program alone."""
    serial.Serial(port, exclusive=True).close()


def test_a_port_is_released_shown_so_and_taken_back(tmp_path: Path) -> None:
    with lending(tmp_path) as here:
        with pytest.raises(serial.SerialException):
            taken_by_another(here.port)
        shown = here.ask().stdout.splitlines()
        assert shown[0].split() == ["link", "port", "state", "good", "damaged", "sent"]
        assert "  open  " in shown[1]
        done = here.ask("release", here.port, "--for", "5m")
        assert done.stdout == f"{here.port} is free for 5 min 0 s, then it is opened again\n"
        taken_by_another(here.port)
        assert "released for 5 min more" in here.ask().stdout
        assert f"serial0: {here.port} is released to other programs" in here.verb("status").stdout
        done = here.ask("--json", "resume", "serial0")
        assert json.loads(done.stdout)["done"] == f"{here.port} is opened again"
        here.gateway.wait_for_log(r"(listening for sensors on serial[\s\S]*){2}")
        assert here.gateway.log.count("asked on the page: release") == 2
        assert here.gateway.log.count("; it is tried again") == 0


def test_it_comes_back_by_itself(tmp_path: Path) -> None:
    with lending(tmp_path) as here:
        assert here.ask("release", "serial0", "--for", "1s").returncode == 0
        here.gateway.wait_for_log(r"(listening for sensors on serial[\s\S]*){2}")


def test_who_does_not_know_the_password_releases_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("guess\n")
    with lending(tmp_path) as here:
        done = here.ask("release", "serial0", "--password-file", tmp_path / "other")
        assert (done.returncode, done.stderr) == (
            77,
            "tidegate serial: that is not the password\n",
        )
        done = here.ask("release", "serial0", "--password-file", tmp_path / "none")
        assert done.returncode == 77
        assert "none cannot be read: No such file or directory" in done.stderr
        done = here.ask("release", "serial7")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no serial line 'serial7': `tidegate serial` lists them" in done.stderr
        assert not here.gateway.log.count("asked on the page")


def test_without_a_password_it_is_said_how_to_set_one(tmp_path: Path) -> None:
    with lending(tmp_path, password=False) as here:
        done = here.ask("release", "serial0")
        assert done.returncode == 77
        assert "no password: set admin.password_file in its configuration" in done.stderr
        (tmp_path / "other").write_text("guess\n")
        done = here.ask("release", "serial0", "--password-file", tmp_path / "other")
        assert done.returncode == 77
        assert "no password is set: see admin.password_file" in done.stderr


def test_without_a_gateway_it_is_said_how_to_reach_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(PASSWORD)
    listen = f"admin.listen=127.0.0.1:{free_tcp_port()}"
    password = ("--password-file", tmp_path / "secret")
    done = tidegate("serial", "release", "serial0", "--set", listen, *password, folder=tmp_path)
    assert done.returncode == 69
    assert "no gateway answers at http://127.0.0.1:" in done.stderr
    assert "--set admin.listen" in done.stderr


@pytest.mark.parametrize("time", ["5", "0s", "241m", "5h", "-1m", "m", "1d", "9999999999s"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, time: str) -> None:
    done = tidegate("serial", "release", "serial0", f"--for={time}", folder=tmp_path)
    assert done.returncode == 2
    assert "such as 90s, 5m or 1h, at most 4h" in done.stderr


def test_a_gateway_without_lines_says_so(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, NOBODY, '[admin]\nlisten = "127.0.0.1:0"\n') as gateway:
        done = Lending(gateway, "", page_of(gateway)).ask()
    assert done.stdout == "no serial lines; a [[serial]] in the configuration is one\n"

"""`tidegate run` with a wrong configuration: the page says what is wrong, until it is fixed."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gateway.config import HostPort, page_address
from gateway.config.settings import THIS_MACHINE_ONLY
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import free_tcp_port
from tests.cli.tidegate import tidegate

NOWHERE = "mqtt://127.0.0.1:1"
CONFIGURATION = 78


def asked(port: int, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wrong(folder: Path) -> tuple[GatewayProcess, int]:
    port = free_tcp_port()
    config = f'keep_alive = 3\n[admin]\nlisten = "127.0.0.1:{port}"\n'
    return GatewayProcess(folder, NOWHERE, config), port


def test_a_wrong_file_is_shown_and_the_gateway_starts_when_it_is_mended(tmp_path: Path) -> None:
    made, port = wrong(tmp_path)
    with made as gateway:
        gateway.wait_for_log(r"waiting for \S+ to be fixed; http://127.0.0.1:\d+ shows the same")
        status, body = asked(port, "/api/faults")
        (fault,) = body["faults"]
        assert (status, fault["line"], fault["column"]) == (200, 7, 1)
        assert fault["source"] == str(gateway.config_path)
        assert fault["key"] == "upstream.keep_alive"
        assert fault["message"] == "unknown key, did you mean upstream.keep_alive_s?"
        assert asked(port, "/healthz")[0] == 503
        assert asked(port, "/api/status")[0] == 404
        text = gateway.config_path.read_text()
        gateway.config_path.write_text(text.replace("keep_alive = 3", "keep_alive_s = -3"))
        gateway.wait_for_log("keep_alive_s: expected a whole number")
        (fault,) = asked(port, "/api/faults")[1]["faults"]
        assert "got -3" in fault["message"]
        gateway.config_path.write_text(text.replace("keep_alive =", "keep_alive_s ="))
        gateway.wait_for_log("status page on")
        assert asked(port, "/healthz")[0] == 200
        assert "Traceback" not in gateway.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_ends_with_the_code_of_a_wrong_configuration(
    tmp_path: Path, number: signal.Signals
) -> None:
    made, _ = wrong(tmp_path)
    with made as gateway:
        gateway.wait_for_log("waiting for")
        os.kill(gateway.pid, number)
        assert gateway.wait_for_exit() == CONFIGURATION
        assert "Traceback" not in gateway.log


def test_a_page_that_cannot_be_served_is_said_and_nothing_is_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "c.toml").write_text(f'idd = 1\n[admin]\nlisten = "127.0.0.1:{port}"\n')
        done = tidegate("run", "--config", "c.toml", folder=tmp_path)
    assert done.returncode == CONFIGURATION
    first, second = done.stderr.splitlines()
    assert first.startswith("c.toml:1:1: idd: unknown key")
    assert f"TCP 127.0.0.1:{port}" in second


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--set", "gateway.idd=1"), ""),
        (("--no-wait",), "idd = 1\n"),
        ((), '[admin]\nlisten = ""\n[gateway]\nidd = 1\n'),
    ],
)
def test_where_waiting_cannot_help_or_is_not_wanted_it_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    (tmp_path / "c.toml").write_text(text)
    done = tidegate("run", "--config", "c.toml", *arguments, folder=tmp_path)
    assert done.returncode == CONFIGURATION
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("", THIS_MACHINE_ONLY),
        ('[admin]\nlisten = "0.0.0.0:8081"\n[gateway]\nid = "x"\n', HostPort("0.0.0.0", 8081)),
        ('[admin]\nlisten = "somewhere"\n', THIS_MACHINE_ONLY),
        ('[admin]\nlisten = ""\n', None),
        ('[log\n[admin] # page\nlisten = "0.0.0.0:8081"\n[udp\n', HostPort("0.0.0.0", 8081)),
        ('x = [\n[admin]\nlisten = "0.0.0.0:8081\n', THIS_MACHINE_ONLY),
        ("admin = 3\n", THIS_MACHINE_ONLY),
    ],
)
def test_the_page_is_where_a_wrong_file_says_as_far_as_it_can_be_read(
    tmp_path: Path, text: str, listen: HostPort | None
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    assert page_address(path, environment={}, overrides=()) == listen


def test_the_command_line_says_where_the_page_is_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[log")
    overrides = ["admin.listen=127.0.0.1:9000"]
    assert page_address(path, environment={}, overrides=overrides) == HostPort("127.0.0.1", 9000)

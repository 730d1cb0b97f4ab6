"""An operator's mistakes: one line that says what is wrong, and the right exit code."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess

UNAVAILABLE, CANNOT_CREATE, CONFIGURATION = 69, 73, 78
NOWHERE = "mqtt://127.0.0.1:1"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use, for UDP and for TCP."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(tcp.getsockname())
        yield tcp.getsockname()[1]


def ends_with(folder: Path, config: str, code: int, *words: str) -> None:
    """One line of what is wrong, and it holds these words."""
    with GatewayProcess(folder, NOWHERE, config) as gateway:
        assert gateway.wait_for_exit() == code, gateway.log
        assert "Traceback" not in gateway.log
        errors = [line for line in gateway.log.splitlines() if " ERROR" in line]
        assert len(errors) == 1, gateway.log
        for word in words:
            assert word in errors[0]
        assert gateway.log.splitlines()[-1] == errors[0], "it is the last that is said"


def test_a_udp_port_in_use_is_said_with_the_admin_page_on(tmp_path: Path, taken: int) -> None:
    config = f'[[udp]]\nlisten = "127.0.0.1:{taken}"\n[admin]\nlisten = "127.0.0.1:0"\n'
    ends_with(tmp_path, config, UNAVAILABLE, str(taken), "UDP", f"process {os.getpid()}")


def test_a_second_listener_that_cannot_be_had_closes_the_first(tmp_path: Path, taken: int) -> None:
    config = (
        f'[[udp]]\nlisten = "127.0.0.1:0"\n[[udp]]\nlisten = "127.0.0.1:{taken}"\n'
        '[admin]\nlisten = "127.0.0.1:0"\n'
    )
    ends_with(tmp_path, config, UNAVAILABLE, str(taken))


def test_an_admin_port_in_use_is_said(tmp_path: Path, taken: int) -> None:
    config = f'[admin]\nlisten = "127.0.0.1:{taken}"\n'
    ends_with(tmp_path, config, UNAVAILABLE, f"127.0.0.1:{taken}", "admin.listen")


def test_an_address_of_another_machine_is_said(tmp_path: Path) -> None:
    config = '[[udp]]\nlisten = "203.0.113.7:1883"\n[admin]\nlisten = "127.0.0.1:0"\n'
    ends_with(tmp_path, config, UNAVAILABLE, "203.0.113.7", "ip address")


def test_a_state_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder", encoding="utf-8")
    ends_with(tmp_path, "", CANNOT_CREATE, str(tmp_path / "state"), "not a folder")


def test_a_password_file_that_is_missing_is_said(tmp_path: Path) -> None:
    config = f'username = "gateway"\npassword_file = "{tmp_path / "none"}"\n'
    ends_with(tmp_path, config, CONFIGURATION, str(tmp_path / "none"), "password_file")


def test_a_certificate_file_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate", encoding="utf-8")
    with GatewayProcess(tmp_path, "mqtts://127.0.0.1:1", 'ca_file = "ca.pem"\n') as gateway:
        assert gateway.wait_for_exit() == CONFIGURATION
        assert "holds no certificate" in gateway.log.splitlines()[-1]
        assert "Traceback" not in gateway.log

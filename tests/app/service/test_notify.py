"""What systemd hears of a gateway that it has started."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.app.service.notify import STATUS_LENGTH_MAX, ServiceManager
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.app.service.systemd_socket import SystemdSocket

NOWHERE = "mqtt://127.0.0.1:1"


def test_ready_is_said_without_a_broker_and_stopping_at_the_end(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE)
    with SystemdSocket(tmp_path) as systemd:
        gateway.start(environment=systemd.environment())
        assert systemd.wait_for("STATUS=") == "STATUS=reading the journal"
        assert systemd.wait_for("READY=1").startswith("READY=1\nSTATUS=0 sensors, broker away")
        assert gateway.stop() == 0
        assert systemd.wait_for("STOPPING=1") == "STOPPING=1\nSTATUS=stopping"
    # Without a watchdog it is not fed.
    assert not [said for said in systemd.heard if "WATCHDOG" in said]


def test_status_follows_the_broker(tmp_path: Path) -> None:
    with SystemdSocket(tmp_path) as systemd, Mosquitto() as broker:
        gateway = GatewayProcess(tmp_path, broker.url)
        gateway.start(environment=systemd.environment())
        assert "STATUS=0 sensors, broker connected" in systemd.wait_for("connected")
        assert gateway.stop() == 0


def test_the_watchdog_is_fed_while_there_is_progress_and_not_while_it_hangs(
    tmp_path: Path,
) -> None:
    gateway = GatewayProcess(tmp_path, NOWHERE)
    with SystemdSocket(tmp_path) as systemd:
        gateway.start(environment=systemd.environment(watchdog_s=3))
        systemd.wait_for("WATCHDOG=1")
        systemd.wait_for("WATCHDOG=1")
        os.kill(gateway.pid, signal.SIGSTOP)
        while systemd.next(within_s=0.1) is not None:
            pass  # what was said before
        assert systemd.next(within_s=2.5) is None
        os.kill(gateway.pid, signal.SIGCONT)
        systemd.wait_for("WATCHDOG=1")
        assert gateway.stop() == 0


def test_a_wrong_configuration_is_ready_to_be_mended_and_says_what_is_wrong(
    tmp_path: Path,
) -> None:
    config = f'keep_alive = 3\n[admin]\nlisten = "127.0.0.1:{free_tcp_port()}"\n'
    gateway = GatewayProcess(tmp_path, NOWHERE, config)
    with SystemdSocket(tmp_path) as systemd, ExitStack() as stack:
        gateway.start(environment=systemd.environment(watchdog_s=3))
        stack.push(gateway)
        said = systemd.wait_for("READY=1")
        assert "STATUS=no sensor is served, waiting for a right configuration: " in said
        assert f"{gateway.config_path}:7:1: upstream.keep_alive: unknown key" in said
        systemd.wait_for("WATCHDOG=1")
        os.kill(gateway.pid, signal.SIGHUP)
        text = gateway.config_path.read_text()
        gateway.config_path.write_text(text.replace("keep_alive =", "keep_alive_s ="))
        assert "broker away" in systemd.wait_for("READY=1")
        assert gateway.stop() == 0


def test_who_was_not_started_by_systemd_tells_nobody() -> None:
    manager = ServiceManager.of({}, 7)
    manager.ready("well")
    manager.feed_watchdog(0.0)
    assert not manager.is_there


def test_the_variables_are_not_for_those_that_it_starts() -> None:
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "7", "HOME": "/"}
    ServiceManager.of(environment, 7)
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("usec", "pid", "watchdog_s"),
    [
        ("30000000", "7", 30.0),
        ("30000000", "", 30.0),
        ("30000000", "8", None),  # of the process before it
        ("0", "7", None),
        ("many", "7", None),
        ("-3", "7", None),
    ],
)
def test_a_watchdog_is_served_if_it_is_meant(usec: str, pid: str, watchdog_s: float | None) -> None:
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid}
    assert ServiceManager.of(environment, 7).watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["relative", "vsock:2:1234", "/" + "x" * 200, "/nobody/there"])
def test_a_socket_that_cannot_be_had_is_no_trouble(address: str) -> None:
    manager = ServiceManager.of({"NOTIFY_SOCKET": address}, 7)
    manager.ready("well")


def test_a_status_is_one_line_of_bounded_length_and_is_said_once(tmp_path: Path) -> None:
    with SystemdSocket(tmp_path) as systemd:
        manager = ServiceManager.of(systemd.environment(), 7)
        manager.status("a\nREADY=1")
        manager.status("a\nREADY=1")
        manager.status("long" * STATUS_LENGTH_MAX)
        assert systemd.next() == "STATUS=a READY=1"
        assert len(systemd.next() or "") == len("STATUS=") + STATUS_LENGTH_MAX
        assert systemd.next(within_s=0.05) is None


def test_the_watchdog_is_fed_a_third_of_its_time_apart(tmp_path: Path) -> None:
    with SystemdSocket(tmp_path) as systemd:
        manager = ServiceManager.of(systemd.environment(watchdog_s=30), 7)
        for second in range(31):
            manager.feed_watchdog(float(second))
        while systemd.next(within_s=0.05):
            pass
        assert systemd.heard == ["WATCHDOG=1"] * 4

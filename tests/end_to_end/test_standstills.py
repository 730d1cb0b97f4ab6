"""What stands still in a running gateway: its health turns bad, and its watchdog is fed or not.

The bounds are two seconds here, or the tests would take minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from gateway.app.service import blocking_check
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import sensor, u16
from tests.app.service.systemd_socket import SystemdSocket

PAGE = '[admin]\nlisten = "127.0.0.1:0"\n'
WITHIN_S = 15.0
WATCHDOG_S = 1.5
FED = "WATCHDOG=1"

# `tidegate`, whose state store forgets to set its timer once a file of this name is there.
PROGRAM = """
import sys
from pathlib import Path

from gateway.__main__ import main
from gateway.storage.state.committer import StateCommitter
from gateway.app.watch import BOUNDS_S

lost, set_alarm = Path({lost!r}), StateCommitter._set_alarm
BOUNDS_S.update(dict.fromkeys(BOUNDS_S, 2.0))
StateCommitter._set_alarm = lambda self: None if lost.exists() else set_alarm(self)
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program looks at a file in its event loop, as no gateway does."""
    monkeypatch.delenv(blocking_check.VARIABLE)


def impatient(folder: Path, broker_url: str) -> GatewayProcess:
    program = PROGRAM.format(lost=str(folder / "lost"))
    return GatewayProcess(folder, broker_url, PAGE, command=(sys.executable, "-c", program))


def health_of(page: str) -> tuple[int, dict[str, Any]]:
    try:
        with urlopen(f"{page}/healthz", timeout=10) as answer:
            return answer.status, json.load(answer)["checks"]["liveness"]
    except HTTPError as error:
        return error.code, json.load(error)["checks"]["liveness"]


def until_health(page: str, is_wanted: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        code, liveness = health_of(page)
        if is_wanted(code, liveness):
            return liveness
        time.sleep(0.1)
    raise AssertionError(f"still {code} {liveness}")


def is_fed(systemd: SystemdSocket) -> bool:
    """Whether the watchdog is, within twice its time."""
    while systemd.next(within_s=0.01) is not None:
        pass
    deadline = time.monotonic() + 2 * WATCHDOG_S
    while (left_s := deadline - time.monotonic()) > 0:
        if systemd.next(within_s=left_s) == FED:
            return True
    return False


def metric(page: str, name: str) -> float:
    with urlopen(f"{page}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def publish_one(port: int) -> None:
    async with sensor(port, "s1") as s1:
        await s1.connect(clean=False)
        await s1.publish(await s1.register("a/b"), b"21.5", qos=1)


async def register_unanswered(port: int) -> None:
    async with sensor(port, "s2") as s2:
        await s2.connect(clean=False)
        await s2.say(0x0A, u16(0) + u16(s2.next_id()) + b"c/d")
        await s2.say(0x16)
        assert await s2.hear() == (0x17, b""), "PINGRESP, and no REGACK before it"


@pytest.mark.guarantee("9")
def test_a_broker_that_stands_still_is_told_and_restarts_nothing(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with SystemdSocket(tmp_path) as systemd:
        gateway = impatient(tmp_path, broker.url)
        gateway.start(environment=systemd.environment(WATCHDOG_S))
        try:
            page = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)
            gateway.wait_until_connected()
            assert health_of(page) == (200, {"ok": True})
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                asyncio.run(publish_one(gateway.port))  # acknowledged: the journal has it
                told = until_health(page, lambda code, told: not told["ok"])
                assert health_of(page)[0] == 200, "a supervisor would restart it for nothing"
                assert told["reason"].startswith("uplink_stalled: 1 readings are at the broker")
                assert "a restart of the gateway does not help" in told["reason"]
                assert metric(page, 'tidegate_alarm{alarm="uplink_stalled"}') == 1
                assert metric(page, 'tidegate_unmoved_seconds{alarm="uplink_stalled"}') > 2
                assert is_fed(systemd)
            finally:
                os.kill(broker.pid, signal.SIGCONT)
            until_health(page, lambda _, told: told["ok"])
            gateway.wait_for_log("standstill uplink_stalled is over")
        finally:
            gateway.stop()


@pytest.mark.guarantee("9")
def test_the_watchdog_is_not_fed_when_the_gateway_itself_stands_still(
    broker: Mosquitto, tmp_path: Path
) -> None:
    with SystemdSocket(tmp_path) as systemd:
        gateway = impatient(tmp_path, broker.url)
        gateway.start(environment=systemd.environment(WATCHDOG_S))
        try:
            page = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)
            gateway.wait_until_connected()
            asyncio.run(publish_one(gateway.port))
            assert is_fed(systemd)
            (tmp_path / "lost").touch()
            asyncio.run(register_unanswered(gateway.port))
            told = until_health(page, lambda code, _: code == 503)
            assert "state_stalled: " in told["reason"]
            assert "a fault of the gateway" in told["reason"]
            gateway.wait_for_log("stuck: state_stalled, .*; the watchdog is not fed any more")
            assert not is_fed(systemd)
        finally:
            gateway.stop()

"""A name server that never answers: how many threads wait for it, and that the gateway ends."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.transports.broker.socket import connected_socket
from hil.rig.gateway import GatewayProcess
from tests.support.waiting import until

STOP_S_MAX = 5.0
DEAD_NAME_SERVER = """
import socket, sys, time
socket.getaddrinfo = lambda *given, **named: time.sleep(1000)
from gateway.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def waiting_threads() -> int:
    return sum(each.name == "broker name look-up" for each in threading.enumerate())


def test_one_thread_waits_for_a_name_however_often_it_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, real = threading.Event(), socket.getaddrinfo

    def hangs(host: str, port: int, **named: int) -> object:
        answers.wait()
        return real("127.0.0.1", port, **named)

    async def tried(within_s: float) -> None:
        loop = asyncio.get_running_loop()
        (await connected_socket(loop, "broker.invalid", port, within_s)).close()

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        before = waiting_threads()
        with suppress(OSError):  # the time is up
            asyncio.run(tried(0.1))
        for _ in range(3):
            with pytest.raises(socket.gaierror, match="the last look-up has not ended"):
                asyncio.run(tried(0.1))
        assert waiting_threads() == before + 1
        answers.set()
        until(lambda: waiting_threads() == before)
        asyncio.run(tried(10))


def test_a_gateway_that_waits_for_a_name_ends_in_time(tmp_path: Path) -> None:
    command = (sys.executable, "-c", DEAD_NAME_SERVER)
    config = "connect_timeout_s = 1\n"
    with GatewayProcess(tmp_path, "mqtt://broker.invalid:1883", config, command=command) as gateway:
        gateway.wait_for_log(" unreachable: ")
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < STOP_S_MAX

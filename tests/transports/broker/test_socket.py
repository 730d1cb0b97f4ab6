"""Name look-up and connecting: which of the two failed, and what neither needs."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from gateway.host.limits import LimitError
from gateway.transports.broker.failures import BrokerFailure, diagnose
from gateway.transports.broker.socket import connected_socket
from tests.support.own_network import run_in_own_network
from tests.transports.conftest import Run


def test_a_name_server_that_does_not_answer_is_reported_by_name(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(20) and [])

    async def story() -> None:
        with pytest.raises(socket.gaierror) as found:
            await connected_socket(asyncio.get_running_loop(), "broker.example", 1883, 0.05)
        failure, said = diagnose(found.value, "broker.example", 1883, tls=False)
        assert failure is BrokerFailure.NAME
        assert "no name server answers; check the network and /etc/resolv.conf" in said
        answered.set()

    run(story())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_in_numbers_needs_no_thread(
    run: Run, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    async def story() -> None:
        with socket.create_server((host, 0), family=family) as server:
            port = server.getsockname()[1]
            connected = await connected_socket(asyncio.get_running_loop(), host, port, 5)
            assert connected.getpeername()[1] == port
            connected.close()
        with pytest.raises(LimitError, match="no more threads"):
            await connected_socket(asyncio.get_running_loop(), "broker.example", 1, 5)

    run(story())


def test_a_connection_that_is_refused_or_given_up_leaves_nothing(run: Run) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(ConnectionRefusedError):
            await connected_socket(loop, "127.0.0.1", 1, 5)
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            port = full.getsockname()[1]
            waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(1)]
            with pytest.raises(TimeoutError):  # the kernel takes one more than it was asked to
                await connected_socket(loop, "127.0.0.1", port, 0.1)
            for each in waiting:
                each.close()

    run(story())


def test_a_broker_at_a_link_local_address_is_reached_by_its_zone() -> None:
    run_in_own_network("tests.transports.network_stories", "a_broker_has_a_link_local_address")

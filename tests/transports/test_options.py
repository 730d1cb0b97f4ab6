"""Kernels, emulators and sandboxes that lack what the transports ask for: they go without, and say
so at debug. qemu-user 7.2 has no IP_MULTICAST_ALL, and a gateway there did not start.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

import pytest

from gateway.transports.broker.socket import connected_socket
from gateway.transports.options import set_option
from gateway.transports.serial.server import _set_options
from gateway.transports.udp import mmsg
from gateway.transports.udp.datagrams import SingleDatagrams
from gateway.transports.udp.link import UdpLink
from gateway.transports.udp.multicast_socket import Place, send_groups_through, send_to_group
from tests.transports.eventually import eventually

PING = b"\2\x16"


@pytest.fixture
def _without_options(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOPROTOOPT, "Protocol not available")

    monkeypatch.setattr(socket.socket, "setsockopt", refuse)
    monkeypatch.setattr(socket.socket, "getsockopt", refuse)


def test_an_option_that_is_there_is_set_and_one_that_is_not_is_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        assert set_option(opened, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1, "sharing")
        assert caplog.messages == []
        assert not set_option(opened, socket.IPPROTO_IP, 250, 1, "the moon")
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.message == (
        "no socket option for the moon here, it goes without: [Errno 92] Protocol not available"
    )


async def _answers(host: str, peer_host: str) -> UdpLink:
    def answer(batch: list[tuple[bytes, bytes]]) -> None:
        link.send_all(batch)

    link = UdpLink((host, 0), answer, shares_port=True)
    link.open(asyncio.get_running_loop())
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as peer:
        peer.setblocking(False)
        peer.connect((peer_host, link.listening_on[1]))
        peer.send(PING)
        heard: list[bytes] = []

        def came() -> bool:
            try:
                heard.append(peer.recv(100))
            except BlockingIOError:
                return False
            return True

        await eventually(came, "an answer")
        assert heard == [PING]
    assert link.read_receive_buffer_drops() == 0
    link.close()
    return link


@pytest.mark.usefixtures("_without_options")
@pytest.mark.parametrize(
    ("host", "peer_host"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("::", "::1")]
)
def test_without_any_option_a_listener_hears_and_answers(host: str, peer_host: str) -> None:
    asyncio.run(_answers(host, peer_host))


def test_where_recvmmsg_is_refused_datagrams_go_one_by_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert mmsg.CALLS is not None
    for refused in ((_refused, mmsg.CALLS[1]), (mmsg.CALLS[0], _refused)):
        monkeypatch.setattr(mmsg, "CALLS", refused)
        link = asyncio.run(_answers("0.0.0.0", "127.0.0.1"))
        assert isinstance(link._calls, SingleDatagrams)
    assert "no recvmmsg and sendmmsg here, datagrams are read and sent one by one" in (
        caplog.messages
    )


def _refused(*_: object) -> int:
    return -1  # ENOSYS


@pytest.mark.usefixtures("_without_options")
def test_without_any_option_connections_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            port = server.getsockname()[1]
            with await connected_socket(asyncio.get_running_loop(), "127.0.0.1", port, 5) as one:
                _set_options(one)

    # What tells whether a connection is there has to work, or there is none.
    monkeypatch.setattr(socket.socket, "getsockopt", lambda *_: 0)
    asyncio.run(connect())


@pytest.mark.usefixtures("_without_options")
def test_a_group_is_spoken_to_as_far_as_the_kernel_does_by_itself() -> None:
    group = ("239.77.83.250", 1883)
    somewhere = Place(group, socket.inet_aton(group[0]) + bytes(8), ("127.0.0.1", 1883))
    chosen = Place(group, socket.inet_aton(group[0]) + bytes((127, 0, 0, 1)) + bytes(4), group)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        send_groups_through(sender, somewhere)
        with pytest.raises(OSError, match="Protocol not available"):  # not by another interface
            send_groups_through(sender, chosen)
        with pytest.raises(OSError, match="Protocol not available"):  # nor farther than it may
            send_to_group(sender, somewhere, PING, 0)

"""Each failure met for real, where loopback can make it, and the sentence it becomes."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.transports.broker.failures import diagnose
from gateway.transports.broker.link import BrokerFailure, BrokerLink, explain
from gateway.transports.tls import client_context
from hil.rig.ports import free_port
from tests.transports.certificates import Certificates
from tests.transports.conftest import Run
from tests.transports.eventually import eventually
from tests.transports.tls_server import tls_server

VALUES = [
    (socket.gaierror(socket.EAI_NONAME, "?"), BrokerFailure.NAME, "'b' has no address: check the"),
    (socket.gaierror(socket.EAI_AGAIN, "?"), BrokerFailure.NAME, "no name server answers"),
    (TimeoutError(), BrokerFailure.TIMEOUT, "b:1 does not answer: check the address"),
    (TimeoutError(errno.ETIMEDOUT, "?"), BrokerFailure.TIMEOUT, "does not answer"),
    (ConnectionRefusedError(), BrokerFailure.REFUSED, "nothing listens on b:1: is the broker"),
    (OSError(errno.ENETUNREACH, "?"), BrokerFailure.UNREACHABLE, "is the network up?"),
    (OSError(errno.EHOSTUNREACH, "?"), BrokerFailure.UNREACHABLE, "no way to b:1"),
    (ConnectionResetError(), BrokerFailure.CLOSED, "broke the connection: see the log of"),
    (OSError(errno.EMFILE, "Too many open files"), BrokerFailure.OTHER, "RLIMIT_NOFILE"),
    (ValueError("odd"), BrokerFailure.OTHER, "b:1 failed: ValueError: odd"),
]


@pytest.mark.parametrize(("error", "failure", "sentence"), VALUES)
def test_an_error_becomes_a_label_and_a_sentence(
    error: Exception, failure: BrokerFailure, sentence: str
) -> None:
    assert diagnose(error, "b", 1, tls=False)[0] is failure
    assert sentence in explain(error, "b", 1, False)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert "[::1]:1883" in explain(ConnectionRefusedError(), "::1", 1883, False)


def test_a_zone_that_is_no_interface_is_named() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "?")
    failure, said = diagnose(error, "fe80::1%wlan77", 1, tls=False)
    assert failure is BrokerFailure.NAME
    assert said.startswith("this machine has no interface 'wlan77' now: `ip address` shows all")


def link_to(host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> BrokerLink:
    return BrokerLink(
        host,
        port,
        tls=tls,
        on_open=lambda: None,
        on_bytes=lambda _: None,
        on_closed=lambda _reason, _by_broker: None,
        on_room=lambda: None,
        connect_timeout_s=timeout_s,
        reconnect_delay_s_min=60,
        reconnect_delay_s_max=60,
    )


async def reason_for(
    host: str, port: int, tls: ssl.SSLContext | None = None, timeout_s: float = 20
) -> tuple[BrokerFailure, str]:
    """What a link says of its first try."""
    link = link_to(host, port, tls, timeout_s)
    link.start(asyncio.get_running_loop())
    await eventually(lambda: link.reason is not None, "a reason")
    (failure,) = [each for each, times in link.counters.failures.items() if times]
    assert link.reason is not None
    reason = link.reason
    await link.stop()
    return failure, reason


def test_a_port_where_nobody_listens(run: Run) -> None:
    async def story() -> None:
        failure, sentence = await reason_for("localhost", port := free_port(socket.SOCK_STREAM))
        assert failure is BrokerFailure.REFUSED
        assert sentence.startswith(f"nothing listens on localhost:{port}")

    run(story())


def test_a_name_that_does_not_exist(run: Run) -> None:
    async def story() -> None:
        failure, sentence = await reason_for("broker.invalid", 1883)
        assert failure is BrokerFailure.NAME
        assert "'broker.invalid'" in sentence

    run(story())


def test_a_name_that_cannot_even_be_asked_for(run: Run) -> None:
    async def story() -> None:
        _, sentence = await reason_for("x" * 70 + ".example", 1883)
        assert "xxx" in sentence

    run(story())


def test_a_host_that_does_not_answer(run: Run) -> None:
    async def story() -> None:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            port = silent.getsockname()[1]
            # One connection fills the queue; the kernel lets the next ones wait.
            fillers = [socket.socket() for _ in range(2)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            failure, sentence = await reason_for("127.0.0.1", port, timeout_s=0.2)
            for filler in fillers:
                filler.close()
        assert failure is BrokerFailure.TIMEOUT
        assert sentence.startswith(f"127.0.0.1:{port} does not answer")

    run(story())


async def tls_reason(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    host: str = "localhost",
    after_handshake: str = "stay",
) -> tuple[BrokerFailure, str]:
    with tls_server(server, after_handshake=after_handshake) as port:
        return await reason_for(host, port, client)


Pick = Callable[[Certificates], Path]

REFUSED_BY_US: list[tuple[Pick, Pick, str]] = [
    (lambda c: c.server, lambda c: c.other_authority, "an authority that is not trusted here"),
    (lambda c: c.expired, lambda c: c.authority, "has expired: renew it on the broker"),
    (lambda c: c.wrong_name, lambda c: c.authority, "is not for 'localhost': use in upstream.url"),
    (lambda c: c.authority, lambda c: c.other_authority, "is signed by itself: give that"),
]


@pytest.mark.parametrize(("server", "authority", "sentence"), REFUSED_BY_US)
def test_a_certificate_that_we_refuse(
    run: Run, certificates: Certificates, server: Pick, authority: Pick, sentence: str
) -> None:
    async def story() -> None:
        failure, reason = await tls_reason(
            certificates.server_context(server(certificates)),
            client_context(authority(certificates), None, None),
        )
        assert failure is BrokerFailure.TLS
        assert reason.startswith("the certificate of localhost:")
        assert sentence in reason

    run(story())


def test_a_certificate_for_a_name_is_not_for_its_ip_address(
    run: Run, certificates: Certificates
) -> None:
    async def story() -> None:
        server = certificates.server_context(certificates.name_only)
        trusting = client_context(certificates.authority, None, None)
        _, reason = await tls_reason(server, trusting, "127.0.0.1")
        assert "is not for '127.0.0.1'" in reason

    run(story())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("with_one", [True, False], ids=["an untrusted one", "none"])
def test_a_client_certificate_that_the_broker_refuses(
    run: Run, certificates: Certificates, version: ssl.TLSVersion, with_one: bool
) -> None:
    async def story() -> None:
        server = certificates.server_context(certificates.server)
        server.maximum_version = version
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(certificates.authority)
        ours = certificates.untrusted if with_one else None
        key = certificates.key(ours) if ours else None
        client = client_context(certificates.authority, ours, key)
        failure, reason = await tls_reason(server, client)
        assert failure is BrokerFailure.TLS
        assert "check upstream.cert_file and upstream.key_file" in reason

    run(story())


def test_a_client_certificate_that_the_broker_refuses_without_a_word(
    run: Run, certificates: Certificates
) -> None:
    async def story() -> None:
        server = certificates.server_context(certificates.server)
        client = client_context(certificates.authority, None, None)
        failure, reason = await tls_reason(server, client, after_handshake="close")
        assert failure is BrokerFailure.CLOSED
        assert "if it asks for a client certificate, check upstream.cert_file" in reason

    run(story())


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_broker_with_an_old_tls(run: Run, certificates: Certificates) -> None:
    async def story() -> None:
        server = certificates.server_context(certificates.server)
        server.set_ciphers("ALL:@SECLEVEL=0")
        server.minimum_version = ssl.TLSVersion.TLSv1
        server.maximum_version = ssl.TLSVersion.TLSv1_1
        client = client_context(certificates.authority, None, None)
        _, reason = await tls_reason(server, client)
        assert "offers no TLS of upstream.tls_min or newer" in reason

    run(story())


@pytest.mark.parametrize("manner", ["closes", "answers"])
def test_a_plain_port_where_tls_was_expected(
    run: Run, certificates: Certificates, manner: str
) -> None:
    async def story() -> None:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            if manner == "answers":
                writer.write(b"\x20\x03\x00\x84\x00")
            writer.close()

        client = client_context(certificates.authority, None, None)
        async with await asyncio.start_server(plain, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            failure, reason = await reason_for("localhost", port, client)
        assert failure is BrokerFailure.TLS
        assert "is this a plain MQTT port (usually 1883; TLS is usually 8883)?" in reason

    run(story())


def test_a_port_that_accepts_and_is_silent_where_tls_was_expected(
    run: Run, certificates: Certificates
) -> None:
    async def story() -> None:
        client = client_context(certificates.authority, None, None)
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            port = silent.getsockname()[1]
            failure, reason = await reason_for("127.0.0.1", port, client, timeout_s=0.2)
        assert failure is BrokerFailure.TIMEOUT
        assert "accepts connections but does not answer in TLS" in reason

    run(story())


@pytest.mark.parametrize(
    ("answer", "failure", "sentence"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", BrokerFailure.DROPPED, "answers in TLS: write mqtts://"),
        (b"", BrokerFailure.CLOSED, "if this is its TLS port, write mqtts:// in upstream.url"),
        (b"\x20\x03\x00\x87\x00", BrokerFailure.CLOSED, "closed the connection: see the log"),
    ],
    ids=["an alert", "nothing", "MQTT"],
)
def test_a_port_that_ends_a_plain_connection(
    run: Run, answer: bytes, failure: BrokerFailure, sentence: str
) -> None:
    async def story() -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listener:
            found = await reason_for("127.0.0.1", listener.sockets[0].getsockname()[1])
        assert found[0] is failure
        assert sentence in found[1]

    run(story())

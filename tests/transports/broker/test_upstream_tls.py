"""The keys of TLS towards the broker against a server that says what it saw."""

from __future__ import annotations

import asyncio
import ssl
from hashlib import sha256
from pathlib import Path

import pytest

from gateway.config.settings import UpstreamSettings
from gateway.transports.broker.link import BrokerLink
from gateway.transports.tls import broker_context
from tests.transports.certificates import Certificates
from tests.transports.eventually import eventually
from tests.transports.tls_server import tls_server

LOCAL = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def fingerprint(certificate: Path) -> str:
    return sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


def upstream(**given: object) -> UpstreamSettings:
    return UpstreamSettings(host=LOCAL, tls=True, **given)  # type: ignore[arg-type]


async def outcome(port: int, settings: UpstreamSettings) -> str:
    """`open`, or why not."""
    opened = asyncio.Event()
    link = BrokerLink(
        LOCAL,
        port,
        tls=broker_context(settings),
        on_open=opened.set,
        on_bytes=lambda _data: None,
        on_closed=lambda _reason, _by_broker: None,
        on_room=lambda: None,
        connect_timeout_s=60.0,
        reconnect_delay_s_min=60.0,
        reconnect_delay_s_max=60.0,
        server_name=settings.server_name,
        fingerprints=settings.fingerprints,
    )
    link.start(asyncio.get_running_loop())
    try:
        await eventually(lambda: opened.is_set() or link.reason, "a connection or a reason")
        return "open" if opened.is_set() else str(link.reason)
    finally:
        await link.stop()


def tried(context: ssl.SSLContext, settings: UpstreamSettings) -> str:
    with tls_server(context) as port:
        return asyncio.run(outcome(port, settings))


def test_the_name_is_asked_for_and_verified(certificates: Certificates) -> None:
    names: list[str | None] = []
    context = certificates.server_context(certificates.wrong_name)
    context.sni_callback = lambda _connection, name, _context: names.append(name)
    known = {"ca_file": certificates.authority}
    assert tried(context, upstream(server_name="elsewhere.example", **known)) == "open"
    assert names == ["elsewhere.example"]
    assert "is not for '127.0.0.1'" in tried(context, upstream(**known))
    refused = tried(context, upstream(server_name="third.example", **known))
    assert "is not for 'third.example'" in refused
    assert "upstream.server_name" in refused


def test_protocols_are_offered_in_their_order(certificates: Certificates) -> None:
    context = certificates.server_context(certificates.server)
    context.set_alpn_protocols(["mqtt"])
    chosen: list[str | None] = []

    class Noting(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            chosen.append(self.selected_alpn_protocol())

    context.sslsocket_class = Noting
    known = {"ca_file": certificates.authority}
    assert tried(context, upstream(alpn=("x-amzn-mqtt-ca", "mqtt"), **known)) == "open"
    assert tried(context, upstream(**known)) == "open"
    assert chosen == ["mqtt", None]


def test_an_older_version_than_the_least_is_refused(certificates: Certificates) -> None:
    context = certificates.server_context(certificates.server)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    known = {"ca_file": certificates.authority}
    assert tried(context, upstream(**known)) == "open"
    refused = tried(context, upstream(tls_min="1.3", **known))
    assert "upstream.tls_min" in refused


def test_a_pinned_certificate_needs_no_authority_and_no_other_one_is_taken(
    certificates: Certificates,
) -> None:
    context = certificates.server_context(certificates.wrong_name)
    right = fingerprint(certificates.wrong_name)
    others = ("00" * 32, fingerprint(certificates.server))
    assert tried(context, upstream(fingerprints=(*others, right))) == "open"
    refused = tried(context, upstream(fingerprints=others))
    assert "is none of upstream.fingerprints" in refused
    assert right in refused


def test_with_an_authority_both_are_verified(certificates: Certificates) -> None:
    context = certificates.server_context(certificates.server)
    pinned = (fingerprint(certificates.server),)
    both = upstream(fingerprints=pinned, ca_file=certificates.authority)
    assert tried(context, both) == "open"
    other = upstream(fingerprints=pinned, ca_file=certificates.other_authority)
    assert "authority that is not trusted here" in tried(context, other)
    wrong = upstream(fingerprints=("00" * 32,), ca_file=certificates.authority)
    assert "is none of upstream.fingerprints" in tried(context, wrong)

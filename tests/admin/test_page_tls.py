"""The page over TLS: the cookie, the command line, and a certificate that is renewed meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from gateway.admin.http.server import AdminServer
from gateway.cli.asking import NoAnswerError, Place, fetch
from gateway.config import HostPort
from gateway.transports.tls import LinkError, page_context
from tests.admin.conftest import Run
from tests.admin.http_client import serving
from tests.transports.certificates import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def shown(server: AdminServer, trusted: Path, request: bytes = b"") -> tuple[str, bytes]:
    """The name in the certificate, and the answer."""
    context = ssl.create_default_context(cafile=trusted)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13 sets it
    context.check_hostname = False
    reader, writer = await asyncio.open_connection(*server.listening_on, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert()
    writer.write(request or b"GET /healthz HTTP/1.1\r\n\r\n")
    raw = await reader.read()
    writer.transport.abort()
    return dict(pair[0] for pair in certificate["subject"])["commonName"], raw


def test_a_renewed_certificate_is_shown_to_new_connections(
    run: Run, certificates: Certificates
) -> None:
    first = page_context(certificates.server, certificates.key(certificates.server))
    second = page_context(certificates.client, certificates.key(certificates.client))

    async def story() -> None:
        async with serving(tls=first) as server:
            assert server.scheme == "https"
            assert (await shown(server, certificates.authority))[0] == "server"
            server.use_certificate(second)
            name, raw = await shown(server, certificates.authority)
            assert name == "client"
            assert raw.startswith(b"HTTP/1.0 200 OK")

    run(story())


def test_over_tls_the_cookie_is_for_tls_and_this_host_alone(
    run: Run, certificates: Certificates
) -> None:
    context = page_context(certificates.server, certificates.key(certificates.server))

    async def story() -> None:
        async with serving(tls=context, password=b"tide") as server:
            body = b'{"password": "tide"}'
            request = b"POST /api/session HTTP/1.1\r\nContent-Type: application/json\r\n"
            request += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            _, raw = await shown(server, certificates.authority, request)
        (line,) = [each for each in raw.split(b"\r\n") if each.startswith(b"Set-Cookie")]
        assert line.startswith(b"Set-Cookie: __Host-tidegate_")
        for attribute in (b"; Path=/", b"; Secure", b"; HttpOnly", b"; SameSite=Strict"):
            assert attribute in line
        assert b"Domain" not in line

    run(story())


def test_the_command_line_trusts_the_certificate_of_the_configuration_alone(
    certificates: Certificates,
) -> None:
    context = page_context(certificates.server, certificates.key(certificates.server))

    async def story() -> None:
        async with serving(tls=context) as server:
            listen = HostPort(*server.listening_on)
            right = Place(listen, certificate=certificates.server)
            assert (await asyncio.to_thread(fetch, right, "/healthz"))[0] == 200
            for wrong in (certificates.client, certificates.folder / "nowhere.pem"):
                place = Place(listen, certificate=wrong)
                with pytest.raises(NoAnswerError):
                    await asyncio.to_thread(fetch, place, "/healthz")

    asyncio.run(story())


def test_what_is_wrong_with_the_files_is_said_by_their_keys(certificates: Certificates) -> None:
    with pytest.raises(LinkError, match=r"admin\.key .* does not belong to admin\.certificate "):
        page_context(certificates.server, certificates.key(certificates.client))
    with pytest.raises(LinkError, match=r"admin\.certificate .* does not exist"):
        page_context(certificates.folder / "nowhere.pem", None)

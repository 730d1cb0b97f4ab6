"""Asks the running gateway how it is, over its Unix socket, else its admin page.

On the socket the gateway knows who asks; on the page it may want a password, which is not asked for
only to look.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gateway.admin.http.local_socket import short
from gateway.config import Configuration, HostPort
from gateway.config.problems import COMMAND_LINE

PATIENCE_S = 3.0
ANSWER_BYTES_MAX = 8 << 20  # a thousand clients are half a megabyte


@dataclass(frozen=True, slots=True)
class Place:
    """Where the gateway may be asked: `sockets` first, then `listen`. `certificate`: what the page
    has, if it is https.
    """

    listen: HostPort | None
    sockets: tuple[Path, ...] = ()
    certificate: Path | None = None

    @property
    def url(self) -> str:
        if self.listen is None:
            return str(self.sockets[0]) if self.sockets else "nowhere"
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{reachable(self.listen)}"


def place_of(configuration: Configuration) -> Place:
    """Who names an address on the command line means the gateway there, which may be elsewhere."""
    settings = configuration.settings
    is_named = configuration.origins.get("admin.listen") == COMMAND_LINE
    sockets = () if is_named else settings.socket_places
    return Place(settings.admin.listen, sockets, settings.admin.certificate)


class NoAnswerError(Exception):
    """Why the gateway is not asked, in half a sentence."""


def ask(
    place: Place, path: str, schema: str, asked: Mapping[str, str | int] | None = None
) -> dict[str, Any]:
    """What it says on `path`. Raises NoAnswerError."""
    status, answer = _answer(place, f"{path}?{urlencode(asked)}" if asked else path)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise NoAnswerError(
            f"the gateway at {place.url} shows this to those alone who sign in: on its machine run "
            "this with sudo, or as a member of the group in admin.socket_group"
        )
    if status != HTTPStatus.OK or not isinstance(answer, dict) or answer.get("schema") != schema:
        raise NoAnswerError(f"what answers at {place.url} is no gateway of this release")
    return answer


def ask_this(configuration: Configuration, path: str, schema: str) -> dict[str, Any]:
    """The same, of no gateway but that of this configuration: by its name. Who has said neither
    which it is nor where its files are means the one that runs.
    """
    place, name = place_of(configuration), configuration.settings.gateway.name
    answer = ask(place, path, schema)
    is_any = not {"gateway.name", "gateway.state_dir"} & configuration.origins.keys()
    if not is_any and answer.get("gateway") != name:
        raise NoAnswerError(
            f"another gateway answers at {place.url}, {answer.get('gateway')!r} instead of {name!r}"
        )
    return answer


def health(place: Place) -> dict[str, Any]:
    """What it says on /healthz, with whatever status. Raises NoAnswerError."""
    _, answer = _answer(place, "/healthz")
    if not isinstance(answer, dict) or "status" not in answer:
        raise NoAnswerError(f"what answers at {place.url} is no gateway")
    return answer


def reachable(listen: HostPort) -> HostPort:
    """Who listens on all addresses is asked on this machine's own."""
    host = ip_address(listen.host)
    if not host.is_unspecified:
        return listen
    return HostPort("127.0.0.1" if host.version == 4 else "::1", listen.port)


def fetch(place: Place, path: str, timeout_s: float = PATIENCE_S) -> tuple[int, bytes]:
    """Status and body, whatever they are. Raises NoAnswerError."""
    connection = over_socket(place, timeout_s) or over_tcp(place, timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(ANSWER_BYTES_MAX)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"no gateway answers at {place.url}: {reason_of(error)}") from None
    finally:
        connection.close()


def over_socket(place: Place, timeout_s: float) -> HTTPConnection | None:
    """Connected; None where there is no socket, or none for this user."""
    for path in place.sockets:
        connection = _UnixConnection(path, timeout_s)
        try:
            connection.connect()
        except OSError:
            continue
        return connection
    return None


def over_tcp(place: Place, timeout_s: float) -> HTTPConnection:
    """Not connected yet. Raises NoAnswerError."""
    listen = place.listen
    if listen is None or listen.port == 0:
        raise NoAnswerError("admin.listen names no port to ask")
    address = reachable(listen)
    if place.certificate is None:
        return HTTPConnection(address.host, address.port, timeout=timeout_s)
    from http.client import HTTPSConnection
    from ssl import (
        VERIFY_X509_PARTIAL_CHAIN,
        VERIFY_X509_STRICT,
        SSLError,
        create_default_context,
    )

    try:
        context = create_default_context(cafile=str(place.certificate))
    except (OSError, SSLError) as error:
        raise NoAnswerError(f"{place.certificate} cannot be read: {reason_of(error)}") from None
    context.check_hostname = False  # it is this very certificate, which has the page's name
    context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~VERIFY_X509_STRICT  # Python 3.13 sets it; see transports/tls.py
    return HTTPSConnection(address.host, address.port, timeout=timeout_s, context=context)


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        if self.sock is not None:
            return
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened.settimeout(self._timeout_s)
            with short(self._path) as name:
                opened.connect(name)
        except OSError:
            opened.close()
            raise
        self.sock = opened


def _answer(place: Place, path: str) -> tuple[int, object]:
    status, body = fetch(place, path)
    try:
        return status, json.loads(body)
    except ValueError:
        return status, None


def reason_of(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__

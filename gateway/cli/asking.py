"""Asks the running gateway how it is, over its own admin page."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode

from gateway.config import HostPort

PATIENCE_S = 3.0
ANSWER_BYTES_MAX = 8 << 20  # a thousand clients are half a megabyte


class NoAnswerError(Exception):
    """Why the gateway is not asked, in half a sentence."""


def ask(
    listen: HostPort | None, path: str, schema: str, asked: Mapping[str, str | int] | None = None
) -> dict[str, Any]:
    """What it says on `path`. Raises NoAnswerError."""
    if listen is None or listen.port == 0:
        raise NoAnswerError("admin.listen names no port to ask")
    address = reachable(listen)
    try:
        answer = _get(address, f"{path}?{urlencode(asked)}" if asked else path)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"no gateway answers at http://{address}: {reason_of(error)}") from None
    if not isinstance(answer, dict) or answer.get("schema") != schema:
        raise NoAnswerError(f"what answers at http://{address} is no gateway of this release")
    return answer


def ask_this(listen: HostPort | None, gateway_name: str, path: str, schema: str) -> dict[str, Any]:
    """The same, of no gateway but the one with this name."""
    answer = ask(listen, path, schema)
    if answer.get("gateway") != gateway_name:
        assert listen is not None
        raise NoAnswerError(f"another gateway answers at http://{reachable(listen)}")
    return answer


def reachable(listen: HostPort) -> HostPort:
    """Who listens on all addresses is asked on this machine's own."""
    host = ip_address(listen.host)
    if not host.is_unspecified:
        return listen
    return HostPort("127.0.0.1" if host.version == 4 else "::1", listen.port)


def _get(address: HostPort, path: str) -> object:
    connection = HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()
    try:
        return json.loads(body) if response.status == HTTPStatus.OK else None
    except ValueError:
        return None


def reason_of(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__

"""Asks the running gateway how its journal is doing, over its own admin page."""

import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Any

from gateway.admin.answers import BUFFER_SCHEMA
from gateway.config import HostPort

PATH = "/api/buffer"
PATIENCE_S = 3.0
ANSWER_BYTES_MAX = 1 << 20


class NoAnswerError(Exception):
    """Why the gateway is not asked, in half a sentence."""


def ask(listen: HostPort | None, gateway_name: str) -> dict[str, Any]:
    """What /api/buffer says. Raises NoAnswerError."""
    if listen is None or listen.port == 0:
        raise NoAnswerError("admin.listen names no port to ask")
    address = reachable(listen)
    try:
        answer = _get(address)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"no gateway answers at http://{address}: {_words(error)}") from None
    if not isinstance(answer, dict) or answer.get("schema") != BUFFER_SCHEMA:
        raise NoAnswerError(f"what answers at http://{address} is no gateway of this release")
    if answer.get("gateway") != gateway_name:
        raise NoAnswerError(f"another gateway answers at http://{address}")
    return answer


def reachable(listen: HostPort) -> HostPort:
    """Who listens on all addresses is asked on this machine's own."""
    host = ip_address(listen.host)
    if not host.is_unspecified:
        return listen
    return HostPort("127.0.0.1" if host.version == 4 else "::1", listen.port)


def _get(address: HostPort) -> object:
    connection = HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        body = response.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()
    try:
        return json.loads(body) if response.status == HTTPStatus.OK else None
    except ValueError:
        return None


def _words(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__

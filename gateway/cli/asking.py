"""Asks the running gateway how it is, over its own admin page."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode

from gateway.config import Configuration, HostPort

PATIENCE_S = 3.0
ANSWER_BYTES_MAX = 8 << 20  # a thousand clients are half a megabyte


class NoAnswerError(Exception):
    """Why the gateway is not asked, in half a sentence."""


def ask(
    listen: HostPort | None, path: str, schema: str, asked: Mapping[str, str | int] | None = None
) -> dict[str, Any]:
    """What it says on `path`. Raises NoAnswerError."""
    status, answer = _answer(listen, f"{path}?{urlencode(asked)}" if asked else path)
    if status != HTTPStatus.OK or not isinstance(answer, dict) or answer.get("schema") != schema:
        assert listen is not None
        where = f"http://{reachable(listen)}"
        raise NoAnswerError(f"what answers at {where} is no gateway of this release")
    return answer


def ask_this(configuration: Configuration, path: str, schema: str) -> dict[str, Any]:
    """The same, of no gateway but that of this configuration: by its name. Who has said neither
    which it is nor where its files are means the one that runs.
    """
    listen, name = configuration.settings.admin.listen, configuration.settings.gateway.name
    answer = ask(listen, path, schema)
    is_any = not {"gateway.name", "gateway.state_dir"} & configuration.origins.keys()
    if not is_any and answer.get("gateway") != name:
        assert listen is not None
        raise NoAnswerError(
            f"another gateway answers at http://{reachable(listen)}, {answer.get('gateway')!r} "
            f"instead of {name!r}"
        )
    return answer


def health(listen: HostPort | None) -> dict[str, Any]:
    """What it says on /healthz, with whatever status. Raises NoAnswerError."""
    _, answer = _answer(listen, "/healthz")
    if not isinstance(answer, dict) or "status" not in answer:
        assert listen is not None
        raise NoAnswerError(f"what answers at http://{reachable(listen)} is no gateway")
    return answer


def reachable(listen: HostPort) -> HostPort:
    """Who listens on all addresses is asked on this machine's own."""
    host = ip_address(listen.host)
    if not host.is_unspecified:
        return listen
    return HostPort("127.0.0.1" if host.version == 4 else "::1", listen.port)


def fetch(listen: HostPort | None, path: str, timeout_s: float = PATIENCE_S) -> tuple[int, bytes]:
    """Status and body, whatever they are. Raises NoAnswerError."""
    if listen is None or listen.port == 0:
        raise NoAnswerError("admin.listen names no port to ask")
    address = reachable(listen)
    connection = HTTPConnection(address.host, address.port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read(ANSWER_BYTES_MAX)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"no gateway answers at http://{address}: {reason_of(error)}") from None
    finally:
        connection.close()


def _answer(listen: HostPort | None, path: str) -> tuple[int, object]:
    status, body = fetch(listen, path)
    try:
        return status, json.loads(body)
    except ValueError:
        return status, None


def reason_of(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__

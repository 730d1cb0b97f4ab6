"""Asks the running gateway to do something: over its Unix socket, where it knows who asks, else
over its admin page, as who knows a password or has a token.
"""

import getpass
import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from gateway.admin.http.passwords import TOKEN_PREFIX
from gateway.app.exit_codes import ExitCode
from gateway.cli.asking import (
    ANSWER_BYTES_MAX,
    NoAnswerError,
    Place,
    over_socket,
    over_tcp,
    place_of,
    reason_of,
)
from gateway.cli.live import HINT
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import usable_configuration
from gateway.config import Configuration, Settings
from gateway.config.credential import stored_at

# The gateway itself waits some seconds for what it asks of the kernel.
PATIENCE_S = 15.0
_JSON = {"Content-Type": "application/json"}
HOW_TO_SET = "set admin.password_file in its configuration, see docs/status_page.md"


class NotDoneError(Exception):
    """Why it was not done, and how the verb ends."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def act_and_show(arguments: Namespace, schema: str, action: str, asked: dict[str, Any]) -> int:
    """What came of it, on standard output; the exit code."""
    configuration = usable_configuration(arguments)
    if configuration is None:
        return ExitCode.CONFIGURATION
    try:
        done = act_as(configuration, arguments.password_file, action, asked)
    except NoAnswerError as reason:
        print_error(f"tidegate {arguments.verb}: {reason}; {HINT}")
        return ExitCode.UNAVAILABLE
    except NotDoneError as error:
        print_error(f"tidegate {arguments.verb}: {error}")
        return error.code
    print_line(json.dumps({"schema": schema, "done": done}) if arguments.json else done)
    return ExitCode.OK


def password_for(settings: Settings, given: Path | None) -> str:
    """From the file that was named, from that of the configuration, or from who types it. Raises
    NotDoneError.
    """
    if given is not None:
        return _read(given)
    configured = settings.admin.password_file
    if configured is not None:
        for path in (configured, stored_at(configured)):
            try:
                return _read(path)
            except NotDoneError:
                continue
    if sys.stdin.isatty():
        return getpass.getpass("password of admin.password_file: ")
    if configured is None:
        message = f"no password: {HOW_TO_SET}, or name its file with --password-file"
    else:
        message = f"{stored_at(configured)} cannot be read: run this with sudo"
    raise NotDoneError(message, ExitCode.PERMISSION)


def act_as(
    configuration: Configuration, given: Path | None, action: str, asked: dict[str, Any]
) -> str:
    """What came of it, in a sentence. `given`: the file of a password. Raises NotDoneError, or
    NoAnswerError if there is no answer.
    """
    place = place_of(configuration)
    if given is None and (done := _act_here(place, action, asked)) is not None:
        return done
    return act(place, password_for(configuration.settings, given), action, asked)


def _act_here(place: Place, action: str, asked: dict[str, Any]) -> str | None:
    """On the socket; None where there is none, or this user may not act there."""
    connection = over_socket(place, PATIENCE_S)
    if connection is None:
        return None
    try:
        _, status, answer = _asked(connection, "POST", f"/api/actions/{action}", asked, _JSON)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"the gateway does not answer: {reason_of(error)}") from None
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return None
    return str(_done(status, answer).get("done"))


def act(place: Place, password: str, action: str, asked: dict[str, Any]) -> str:
    """What came of it, in a sentence. `password`: or a token. Raises NotDoneError, or NoAnswerError
    if there is no answer.
    """
    try:
        return _Visit(place).act(password, action, asked)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"no gateway answers at {place.url}: {reason_of(error)}") from None


class _Visit:
    """From signing in to signing out."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._headers = dict(_JSON)

    def act(self, password: str, action: str, asked: dict[str, Any]) -> str:
        if password.startswith(TOKEN_PREFIX):
            self._headers["Authorization"] = f"Bearer {password}"
            return str(self._ask("POST", f"/api/actions/{action}", asked)[1].get("done"))
        response, session = self._ask("POST", "/api/session", {"password": password})
        self._headers["Cookie"] = (response.getheader("Set-Cookie") or "").partition(";")[0]
        self._headers["X-Tidegate-Token"] = str(session.get("token"))
        try:
            _, answer = self._ask("POST", f"/api/actions/{action}", asked)
        finally:
            self._ask("DELETE", "/api/session", {})
        return str(answer.get("done"))

    def _ask(
        self, method: str, path: str, asked: dict[str, Any]
    ) -> tuple[HTTPResponse, dict[str, Any]]:
        connection = over_tcp(self._place, PATIENCE_S)
        response, status, answer = _asked(connection, method, path, asked, self._headers)
        return response, _done(status, answer)


def _asked(
    connection: HTTPConnection,
    method: str,
    path: str,
    asked: dict[str, Any],
    headers: Mapping[str, str],
) -> tuple[HTTPResponse, int, dict[str, Any]]:
    try:
        connection.request(method, path, json.dumps(asked), dict(headers))
        response = connection.getresponse()
        return response, response.status, _object(response.read(ANSWER_BYTES_MAX))
    finally:
        connection.close()


def _done(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer. Raises NotDoneError if it is a refusal."""
    if status == HTTPStatus.OK:
        return answer
    shut = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    code = ExitCode.PERMISSION if status in shut else ExitCode.FAILURE
    raise NotDoneError(str(answer.get("error", f"the gateway answers {status}")), code)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").rstrip("\r\n")
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise NotDoneError(message, ExitCode.PERMISSION) from None

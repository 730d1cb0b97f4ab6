"""Asks the running gateway to do something, over its admin page, as who knows the password."""

import getpass
import json
import sys
from argparse import Namespace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from gateway.app.exit_codes import ExitCode
from gateway.cli.asking import ANSWER_BYTES_MAX, NoAnswerError, reachable, reason_of
from gateway.cli.live import HINT
from gateway.cli.output import print_error, print_line
from gateway.cli.sources import usable_configuration
from gateway.config import HostPort, Settings
from gateway.config.credential import stored_at

# The gateway itself waits some seconds for what it asks of the kernel.
PATIENCE_S = 15.0
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
    settings = configuration.settings
    try:
        password = password_for(settings, arguments.password_file)
        done = act(settings.admin.listen, password, action, asked)
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


def act(listen: HostPort | None, password: str, action: str, asked: dict[str, Any]) -> str:
    """What came of it, in a sentence. Raises NotDoneError, or NoAnswerError if nobody answers."""
    if listen is None or listen.port == 0:
        raise NoAnswerError("admin.listen names no port to ask")
    address = reachable(listen)
    try:
        return _Visit(address).act(password, action, asked)
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"no gateway answers at http://{address}: {reason_of(error)}") from None


class _Visit:
    """From signing in to signing out."""

    def __init__(self, address: HostPort) -> None:
        self._address = address
        self._headers = {"Content-Type": "application/json"}

    def act(self, password: str, action: str, asked: dict[str, Any]) -> str:
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
        connection = HTTPConnection(self._address.host, self._address.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, json.dumps(asked), self._headers)
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX)
        finally:
            connection.close()
        answer = _object(body)
        if response.status != HTTPStatus.OK:
            is_shut = response.status in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
            code = ExitCode.PERMISSION if is_shut else ExitCode.FAILURE
            raise NotDoneError(
                str(answer.get("error", f"the gateway answers {response.status}")), code
            )
        return response, answer


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

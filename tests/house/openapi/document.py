"""The document: which path answers with what, and what may be asked."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from gateway.admin.http.actions import (
    NUMBERS_MAX,
    PASSWORD_LENGTH_MAX,
    PORT_LENGTH_MAX,
    TOPIC_LENGTH_MAX,
    USER_LENGTH_MAX,
)
from gateway.admin.http.connections import BODY_BYTES_MAX
from gateway.admin.http.feed import FEEDS_MAX
from gateway.admin.http.guard import TOKEN_HEADER
from gateway.admin.http.operating import PERMIT_MINUTES_MAX, RELEASE_MINUTES_MAX
from gateway.admin.http.queries import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    LIVE_LIMIT_MAX,
    OFFSET_MAX,
    SEARCH_LENGTH_MAX,
    SORTS,
    STATES,
)
from gateway.admin.log.logs import LEVELS
from gateway.config.settings import JOIN_S_MAX
from tests.house.openapi.answers import schemas
from tests.house.openapi.shapes import Schema, array, choice, record, reference

Operation = dict[str, Any]
_PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
_ABOUT = f"""\
What the gateway answers at `admin.listen`. To read needs no password as long as the page is on the
gateway's machine alone and there is no user and no token (`admin.anonymous`). To act needs an
operator: a session and its token, or the token of a program (`Authorization: Bearer`). On the Unix
socket (`admin.socket`) the gateway knows who asks. Fields of answers are only added to, so a
program must not refuse those that it does not know. `schema` names the form of an answer; its
number rises when a field is removed or means something else.

Every path answers HEAD where it answers GET. Bodies are at most {BODY_BYTES_MAX} bytes. Errors are
JSON with one sentence. A host name that is not the gateway's is answered with 421."""


def document() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": _version(),
            "summary": "State and actions of an MQTT-SN gateway",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8080", "description": "the default of admin.listen"}],
        "tags": [
            {"name": "state", "description": "What the gateway does; without a password"},
            {"name": "session", "description": "Signing in and out"},
            {"name": "actions", "description": "What an operator may change"},
            {"name": "supervision", "description": "For supervisors and Prometheus"},
        ],
        "paths": _state() | _session() | _actions() | _supervision(),
        "components": {
            "schemas": schemas(),
            "responses": {str(status): _error(text) for status, text in _ERRORS.items()},
            "securitySchemes": {
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "tidegate_8080",
                    "description": "set by `POST /api/session`; the number is the port",
                },
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": TOKEN_HEADER,
                    "description": "answered by `POST /api/session`",
                },
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "of `[[admin_token]]`, made by `tidegate password --token NAME`",
                },
            },
        },
    }


def _version() -> str:
    project = tomllib.loads(_PROJECT.read_text())["project"]
    return str(project["version"])


_ERRORS = {
    400: "The query or the body is not what is taken; the sentence says what is",
    401: "Not signed in, or no longer",
    403: "A wrong password, another token, another origin, or a role that may not",
    409: "It cannot be done now",
    415: "Not application/json",
    429: "Too many wrong passwords",
    503: f"{FEEDS_MAX} streams are open already",
}


def _error(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": reference("Error")}},
    }


def _answers(
    schema: str | None,
    *errors: int,
    description: str = "The answer",
    content: str = "application/json",
) -> dict[str, Any]:
    body: Schema = {"type": "string"} if schema is None else reference(schema)
    good = {"description": description, "content": {content: {"schema": body}}}
    refused = {str(status): {"$ref": f"#/components/responses/{status}"} for status in errors}
    return {"200": good} | refused | {"default": _error("Any other error")}


def _get(
    name: str, tag: str, summary: str, answers: dict[str, Any], *parameters: dict[str, Any]
) -> Operation:
    operation: Operation = {"operationId": name, "tags": [tag], "summary": summary}
    if parameters:
        operation["parameters"] = list(parameters)
    return operation | {"responses": answers}


def _parameter(name: str, description: str, schema: Schema | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": schema or {"type": "string"},
    }


def _whole(least: int, most: int, default: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


_LIMIT = _parameter("limit", "entries at most", _whole(1, LIMIT_MAX, LIMIT_DEFAULT))
_PREFIX = _parameter("prefix", "only names that begin so")
_AFTER = _parameter("after", "only names behind this one: the next part of a list")
_SEARCH = _parameter(
    "search", f"found anywhere, in any case; {SEARCH_LENGTH_MAX} characters of it count"
)
_CLIENTS = (
    _parameter("id", "one client, by its whole id, with details"),
    _PREFIX,
    _parameter("state", "only those in this state", choice(STATES)),
    _AFTER,
    _LIMIT,
    _SEARCH,
    _parameter(
        "sort",
        "the order; with `-` before it, the other way round",
        choice([*SORTS, *(f"-{sort}" for sort in SORTS)]) | {"default": "id"},
    ),
    _parameter("offset", "leave out so many", _whole(0, OFFSET_MAX, 0)),
)
_LOG = (
    _parameter("level", "from this level on", choice(list(LEVELS)) | {"default": "debug"}),
    _parameter("after", "only lines behind this number", _whole(0, 10**9, 0)),
)
_VIEWS = ("overview", "configuration", "buffer", "topics", "devices", "device", "log")
_EVENTS = f"""\
Server-sent events: at first all that a view shows, then what has changed. Further parameters are
those of the path that a view is like: `devices` and `device` those of `/api/clients` (`device`
needs `id`; `limit` is at most {LIVE_LIMIT_MAX}), `topics` those of `/api/latest`, `log` those of
`/api/log`. The names of events, and what their data are: `status` (Status, and `time` in Unix
seconds; of all views), `refused` (Refused; of the overview, the newest), `buffer` (Buffer),
`latest` (Latest), `clients` (DevicesEvent), `client` (DeviceEvent), `log` (Log)."""


def _state() -> dict[str, Any]:
    def get(name: str, summary: str, schema: str | None, *parameters: Any) -> dict[str, Any]:
        errors = (400,) if parameters else ()
        return {"get": _get(name, "state", summary, _answers(schema, *errors), *parameters)}

    export = _get(
        "export",
        "state",
        "All readings on disk, as JSON lines; none is taken away",
        _answers("Reading", 401, 409, content="application/jsonl", description="One on each line"),
    )
    events = _get(
        "events",
        "state",
        "Live updates",
        _answers(None, 400, 503, content="text/event-stream", description="The stream"),
        _parameter("view", "what to look at", choice(_VIEWS) | {"default": "overview"}),
    )
    peek = _answers("WaitingReadings", 409)
    return {
        "/api/status": get("status", "The gateway in numbers, and what needs attention", "Status"),
        "/api/clients": get("clients", "Clients, and one with details", "Clients", *_CLIENTS),
        "/api/topics": get(
            "topics",
            "Topics, and who has to do with them",
            "Topics",
            _parameter("name", "one topic name or filter, whole, with all its clients"),
            _PREFIX,
            _AFTER,
            _LIMIT,
        ),
        "/api/latest": get("latest", "The last readings", "Latest", _SEARCH, _LIMIT),
        "/api/log": get("log", "The last lines of the log", "Log", *_LOG),
        "/api/refused": get(
            "refused", "What the rules of access did not allow, the last ones", "Refused"
        ),
        "/api/configuration": get(
            "configuration", "Each key, its value and who gave it", "Configuration"
        ),
        "/api/buffer": get("buffer", "The journal of readings", "Buffer"),
        "/api/buffer/peek": {"get": _get("peek", "state", "The next readings to go", peek)},
        "/api/buffer/export": {"get": export | {"security": [{"session": []}, {"bearer": []}]}},
        "/api/buffer/aside": get(
            "aside", "Readings that were set aside because the broker refuses them", "AsideReadings"
        ),
        "/api/events": {"get": events | {"description": _EVENTS}},
    }


def _session() -> dict[str, Any]:
    password = {
        "type": "object",
        "properties": {"password": _text(PASSWORD_LENGTH_MAX), "user": _text(USER_LENGTH_MAX)},
        "required": ["password"],
    }
    signed_in = _answers(None, 400, 403, 415, 429, description="Signed in; sets the cookie")
    role = {"enum": ["viewer", "operator"]}
    token = record({"token": {"type": "string"}, "user": {"type": "string"}, "role": role})
    signed_in["200"]["content"]["application/json"]["schema"] = token
    signed_out = _answers(None, 401, 403, description="Signed out")
    signed_out["200"]["content"]["application/json"]["schema"] = {"type": "object"}
    looked = _get("session", "session", "Whether it is signed in", _answers("Session"))
    signing_in = {
        "operationId": "sign_in",
        "tags": ["session"],
        "summary": "Sign in",
        "description": "A session ends after an hour without use, and after twelve hours.",
        "requestBody": _body(password),
        "responses": signed_in,
    }
    signing_out = {
        "operationId": "sign_out",
        "tags": ["session"],
        "summary": "Sign out",
        "security": [{"session": [], "token": []}],
        "responses": signed_out,
    }
    return {"/api/session": {"get": looked, "post": signing_in, "delete": signing_out}}


def _text(length_max: int) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": length_max}


def _minutes(most: int, description: str) -> Schema:
    return {"type": "number", "minimum": 0, "maximum": most, "description": description}


def _body(schema: Schema) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _actions() -> dict[str, Any]:
    client = _text(255)
    numbers = array({"type": "integer"}) | {"minItems": 1, "maxItems": NUMBERS_MAX}
    chosen = record({"numbers": {"anyOf": [{"const": "all"}, numbers]}})
    publication = record({"client": client, "topic": _text(TOPIC_LENGTH_MAX)})
    publication["properties"] |= {
        "payload": {"type": "string", "default": ""},
        "qos": {"type": "integer", "enum": [0, 1, 2], "default": 1},
        "hex": {"type": "boolean", "default": False, "description": "the payload is hexadecimal"},
    }
    forgotten = record({"client": client})
    forgotten["properties"]["retained"] = {
        "type": "boolean",
        "default": False,
        "description": "also of a device that is not known, what the broker retains of it",
    }
    permitted = _minutes(PERMIT_MINUTES_MAX, "0 ends it")
    released = _minutes(RELEASE_MINUTES_MAX, "0 takes it back")
    bodies = {
        "pause": ("Pause the drain of the journal", record({})),
        "resume": ("Let the journal drain again", record({})),
        "forget": (
            "Forget a device, its session and what waits for it",
            forgotten,
        ),
        "publish": ("Send a message to one device", publication),
        "permit": ("Let new devices in for some minutes", record({"minutes": permitted})),
        "join": (
            "Let new devices join for some seconds, into quarantine",
            record({"seconds": {"type": "integer", "minimum": 0, "maximum": JOIN_S_MAX}}),
        ),
        "join_approve": ("Approve of a device that waits", record({"client": _text(255)})),
        "join_reject": ("Reject a device that waits", record({"client": _text(255)})),
        "release": (
            "Lend a serial port to other programs",
            record({"line": _text(PORT_LENGTH_MAX), "minutes": released}),
        ),
        "aside_send": ("Send readings again that were set aside", chosen),
        "aside_delete": ("Delete readings that were set aside", chosen),
    }
    return {f"/api/actions/{name}": _action(name, *body) for name, body in bodies.items()}


def _action(name: str, summary: str, body: Schema) -> dict[str, Any]:
    return {
        "post": {
            "operationId": name,
            "tags": ["actions"],
            "summary": summary,
            "security": [{"session": [], "token": []}],
            "requestBody": _body(body),
            "responses": _answers("Done", 400, 401, 403, 409, 415, description="What was done"),
        }
    }


def _supervision() -> dict[str, Any]:
    def checked(name: str, summary: str, schema: str, text: str) -> dict[str, Any]:
        answers = _answers(schema)
        answers["503"] = answers["200"] | {"description": text}
        return {"get": _get(name, "supervision", summary, answers)}

    metrics = _answers(None, content="text/plain", description="Prometheus' text format")
    return {
        "/healthz": checked("health", "Whether a restart would help", "Health", "It would"),
        "/readyz": checked("readiness", "Whether readings are taken", "Readiness", "They are not"),
        "/metrics": {"get": _get("metrics", "supervision", "Metrics", metrics)},
    }

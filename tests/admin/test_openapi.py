"""docs/openapi.json against a real server: the same paths, parameters, answers and refusals."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.admin.clients import ClientsFound, Details
from gateway.admin.http.queries import ClientsQuery, TopicsQuery
from gateway.admin.http.server import AdminServer
from gateway.admin.log.tail import LogTail
from gateway.admin.part_numbers import Cause, SharedId, Standstill
from gateway.admin.topics import NamedCounts, TopicsFound, TopicShown
from gateway.config.listing import as_json
from gateway.config.reader import load
from gateway.core.alarm_names import AlarmName
from gateway.core.state_records import AsideRecord, ClientId
from gateway.core.values import Reading
from gateway.presence.latest import Latest
from tests.admin.conftest import Run
from tests.admin.example import NUMBERS, eventful_news
from tests.admin.http_client import get, post, serving, sources
from tests.admin.test_actions import ACTIONS, WRONG, Noted, signed_in
from tests.admin.test_buffer_reader import exported, reader_of
from tests.admin.test_feed import listening
from tests.admin.test_lists import SLEEPER

pytest.importorskip("jsonschema", reason="not run: a part of it has no build for this machine")
from jsonschema import Draft202012Validator

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "openapi.json").read_text()
)
PATHS: dict[str, dict[str, Any]] = DOCUMENT["paths"]
PAGE = {("GET", "/"), ("GET", "/web/<name>")}
# In bodies that a schema takes: letters of a text, and a number that JSON does not tell from 1.
BEYOND_SCHEMAS = ("\\ud800", "\\udfff", "xyz", "'qos': 1.0")
READ = [path for path, methods in PATHS.items() if "get" in methods and path != "/api/events"]
# The first is no JSON; the others are answered by `tidegate buffer`.
NOT_BY_SERVER = ("/metrics", "/api/buffer/export", "/api/buffer/peek")
VIEWS = {
    "view=overview": [("status", "Status")],
    "view=buffer": [("buffer", "Buffer")],
    "view=topics": [("latest", "Latest")],
    "view=devices": [("clients", "DevicesEvent")],
    "view=device&id=pump-1": [("client", "DeviceEvent")],
    "view=log": [("log", "Log")],
}


def closed(schema: Any) -> Any:
    """The same, and no property beside those that it names: so that none is left out of it."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(each) for name, each in schema.items()}
    if inner.get("type") == "object" and "properties" in inner:
        inner.setdefault("additionalProperties", False)
    return inner


COMPONENTS = {"schemas": closed(DOCUMENT["components"]["schemas"])}


def problems(schema: dict[str, Any], value: object) -> list[str]:
    validator = Draft202012Validator(closed(schema) | {"components": COMPONENTS})
    return [f"{each.json_path}: {each.message}" for each in validator.iter_errors(value)]


def schema_of(path: str, method: str = "get", status: int = 200) -> dict[str, Any]:
    answers = PATHS[path][method]["responses"]
    answer = answers.get(str(status), answers["default"])
    if "$ref" in answer:
        answer = DOCUMENT["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    (content,) = answer["content"].values()
    found: dict[str, Any] = content["schema"]
    return found


def component(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


async def clients(query: ClientsQuery) -> ClientsFound:
    is_one = query.client_id is not None
    details = Details([(1, "t")], [(2, "p")], [("f/#", 1)]) if is_one else None
    return ClientsFound([SLEEPER] if is_one else [SLEEPER, replace(SLEEPER, will=None)], 7, details)


async def topics(_query: TopicsQuery) -> TopicsFound:
    named = NamedCounts(2)
    named.add("pump-1", 1)
    return TopicsFound([TopicShown("t", named, named, named, 9, "t/#", 1, 0)], 3)


def latest() -> Latest:
    found = Latest()
    for payload in (b'[{"n":"t","u":"Cel","v":21.5},{"n":"on","vb":true}]', b"\xff", b"text", b""):
        found.receive(Reading(ClientId("pump-1"), f"t/{payload!r}", payload, 1, False, 1, 1, 0.0))
    found.beat()
    return found


def log() -> LogTail:
    tail = LogTail()
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        tail.handle(logging.LogRecord("tidegate", level, "", 0, "words", None, None))
    return tail


def aside() -> list[AsideRecord]:
    one = AsideRecord(1, ClientId("pump"), "a/b", b"21.5", 1, False, 3, 4, 5, 6, 7, "0x87")
    return [one, replace(one, number=2, payload=b"\xff")]


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """Sources in which every part of every answer is there."""
    standstill = Standstill(
        name=AlarmName.UPLINK_STALLED, cause=Cause.BROKER, what="a reading", unmoved_s=90.0
    )
    numbers = replace(
        NUMBERS,
        standstills=(standstill,),
        shared_ids=(SharedId(client="well", one="192.0.2.1:1", other="192.0.2.2:1"),),
        permit_left_s=12.5,
    )
    path = tmp_path / "tidegate.toml"
    path.write_text('[upstream]\nurl = "mqtt://127.0.0.1"\n[predefined_topics]\n"a/b" = 7\n')
    configuration = as_json(load(path, environment={}, overrides=[]))
    return {
        "told": eventful_news(),
        "numbers": lambda: numbers,
        "clients": clients,
        "topics": topics,
        "latest": latest(),
        "log": log(),
        "aside": aside,
        "configured": lambda: configuration,
        "checks": {"udp": lambda: None},
        "doubts": {"journal": lambda: "it is full"},
        "ready_checks": {"udp": lambda: "its socket is closed"},
    }


def test_the_document_is_a_right_one() -> None:
    if importlib.util.find_spec("openapi_spec_validator") is None:
        pytest.skip("not run: the site's packages are not installed: make docs")
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [str(error) for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_it_has_every_path_and_method_of_the_server_and_no_other() -> None:
    app = AdminServer(("127.0.0.1", 0), sources())._app
    routed = {
        (method, route.url_pattern) for methods, route, *_ in app.url_map for method in methods
    }
    documented = {(method.upper(), path) for path, methods in PATHS.items() for method in methods}
    assert documented == routed - PAGE


@pytest.mark.parametrize("path", [path for path in READ if path not in NOT_BY_SERVER])
def test_what_is_read_is_as_its_schema_says(run: Run, given: dict[str, Any], path: str) -> None:
    async def story() -> None:
        async with serving(**given) as server:
            answer = await get(server, path)
        assert answer.status == (503 if path == "/readyz" else 200)
        assert problems(schema_of(path), answer.json) == []

    run(story())


def test_what_waits_on_disk_is_as_its_schemas_say(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    looked = json.loads(asyncio.run(reader.peek()))
    assert looked["readings"]
    assert problems(schema_of("/api/buffer/peek"), looked) == []
    lines = asyncio.run(exported(reader)).splitlines()
    assert lines
    for line in lines:
        assert problems(schema_of("/api/buffer/export"), json.loads(line)) == []


def test_one_client_is_as_its_schema_says(run: Run, given: dict[str, Any]) -> None:
    async def story() -> None:
        async with serving(**given) as server:
            body = (await get(server, "/api/clients?id=pump-1")).json
        assert problems(schema_of("/api/clients"), body) == []
        assert problems(component("ClientDetails"), body["clients"][0]) == []

    run(story())


@pytest.mark.parametrize("asked", VIEWS)
def test_the_events_of_a_view_are_as_their_schemas_say(
    run: Run, given: dict[str, Any], asked: str
) -> None:
    async def story() -> None:
        async with serving(**given) as server, listening(server, asked) as page:
            for name, schema in VIEWS[asked]:
                body = await page.receive(name)
                if name == "status":
                    assert isinstance(body.pop("time"), float)
                assert problems(component(schema), body) == []

    run(story())


def test_every_view_is_named(run: Run) -> None:
    (parameter,) = PATHS["/api/events"]["get"]["parameters"]
    views = {asked.removeprefix("view=").partition("&")[0] for asked in VIEWS}
    assert set(parameter["schema"]["enum"]) == views | {"configuration"}

    async def story() -> None:
        async with serving() as server:
            for view in parameter["schema"]["enum"]:
                which = "&id=x" if view == "device" else ""
                async with listening(server, f"view={view}{which}"):
                    pass

    run(story())


def asked_of(path: str) -> Iterator[tuple[str, str]]:
    """Each parameter with the ends of what it takes."""
    for parameter in PATHS[path]["get"].get("parameters", []):
        schema = parameter["schema"]
        ends = [schema[end] for end in ("minimum", "maximum") if end in schema]
        for value in schema.get("enum", ends) or ["x"]:
            yield parameter["name"], str(value)


@pytest.mark.parametrize("path", [path for path in READ if PATHS[path]["get"].get("parameters")])
def test_the_parameters_are_those_that_are_taken(run: Run, path: str) -> None:
    async def story() -> None:
        async with serving(clients=clients, topics=topics) as server:
            for name, value in asked_of(path):
                assert (await get(server, f"{path}?{name}={value}")).status == 200, (name, value)
            for parameter in PATHS[path]["get"]["parameters"]:
                if parameter["schema"].get("maximum"):
                    beyond = f"{path}?{parameter['name']}={parameter['schema']['maximum'] + 1}"
                    assert (await get(server, beyond)).status == 400
            refused = await get(server, f"{path}?other=1")
        assert refused.status == 400
        assert problems(schema_of(path, status=400), refused.json) == []
        known = refused.json["error"].partition("only ")[2].split(", ")
        assert set(known) == {one["name"] for one in PATHS[path]["get"]["parameters"]}

    run(story())


def body_schema(action: str) -> dict[str, Any]:
    content = PATHS[f"/api/actions/{action}"]["post"]["requestBody"]["content"]
    schema: dict[str, Any] = content["application/json"]["schema"]
    return schema


@pytest.mark.parametrize(("name", "body", "_said"), ACTIONS)
def test_what_an_action_takes_its_schema_takes(name: str, body: object, _said: str) -> None:
    assert problems(body_schema(name), body) == []


@pytest.mark.parametrize(("name", "body", "_why"), WRONG)
def test_what_an_action_refuses_its_schema_refuses(name: str, body: object, _why: str) -> None:
    if any(text in ascii(body) for text in BEYOND_SCHEMAS):
        pytest.skip("a schema does not see what is wrong")
    assert problems(body_schema(name), body) != []


def test_actions_and_sessions_answer_as_their_schemas_say(run: Run) -> None:
    async def story() -> None:
        async with signed_in(Noted()) as (server, headers):
            for name, body, _ in ACTIONS:
                path = f"/api/actions/{name}"
                done = await post(server, path, body, **headers)
                assert problems(schema_of(path, "post"), done.json) == []
                refused = await post(server, path, body)
                assert refused.status == 401
                assert problems(schema_of(path, "post", 401), refused.json) == []
            looked = await get(server, "/api/session", **headers)
            assert problems(schema_of("/api/session"), looked.json) == []
            begun = await post(server, "/api/session", {"password": "tide"})
            assert problems(schema_of("/api/session", "post"), begun.json) == []
            ended = await get(server, "/api/session", "DELETE", **headers)
            assert ended.status == 200
            assert problems(schema_of("/api/session", "delete"), ended.json) == []

    run(story())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"further": 1}, "'further' was unexpected"),
        ({"version": 1}, "1 is not of type 'string'"),
        ({"discovery": "gone"}, "'gone' is not one of"),
        ({"journal": {}}, "is a required property"),
    ],
)
def test_an_answer_that_is_other_than_its_schema_is_found(
    run: Run, change: dict[str, object], problem: str
) -> None:
    async def story() -> None:
        async with serving() as server:
            body = (await get(server, "/api/status")).json
        found = problems(schema_of("/api/status"), body | change)
        assert any(problem in each for each in found)

    run(story())

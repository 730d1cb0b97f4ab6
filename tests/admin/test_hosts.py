"""Under which names the page answers: a site that takes our address must not get in by it."""

from __future__ import annotations

import os

import pytest

from gateway.admin.http.hosts import Hosts
from tests.admin.conftest import Run
from tests.admin.http_client import get, post, serving

OWN = os.uname().nodename
OURS = [
    "127.0.0.1",
    "127.0.0.1:8080",
    "192.168.1.7:80",
    "[::1]",
    "[::1]:8080",
    "[fe80::1%25eth0]",
    "localhost",
    "localhost:8080",
    "LOCALHOST",
    "gateway.localhost",
    "localhost.",
    OWN,
    f"{OWN}:8080",
    f"{OWN.partition('.')[0].upper()}.local:8080",
    "Gateway.Example.org",
    "gateway.example.org.:443",
]
FOREIGN = [
    "evil.example",
    "evil.example:8080",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "",
    ":8080",
    "evil.example@127.0.0.1",
    "[::1].evil.example",
    "[evil.example]",
    "a:b:c",
    "evilgateway.example.org",
    "org",
    "1.2.3",
    "127.0.0.1:8080:80",
]


@pytest.mark.parametrize("host", OURS)
def test_our_names_are_ours(host: str) -> None:
    assert Hosts(["gateway.example.org"]).objection(host, "/") is None


@pytest.mark.parametrize("host", FOREIGN)
def test_no_other_name_is(host: str) -> None:
    assert Hosts(["gateway.example.org"]).objection(host, "/") is not None


@pytest.mark.parametrize("host", FOREIGN)
def test_any_name_is_where_the_operator_says_so(host: str) -> None:
    assert Hosts(["*"]).objection(host, "/") is None


@pytest.mark.parametrize("path", ["/", "/api/status", "/web/main.js", "/api/clients?limit=1"])
def test_another_sites_name_hears_421_and_what_to_do(run: Run, path: str) -> None:
    async def story() -> None:
        async with serving(hosts=("gateway.example.org",)) as server:
            answer = await get(server, path, Host="evil.example:8080")
            assert answer.status == 421
            assert "add the name to admin.hosts" in answer.json["error"]
            assert (await get(server, "/", Host="gateway.example.org")).status == 200
            assert (await get(server, "/")).status == 200, "who sends no Host is no browser"

    run(story())


def test_nobody_signs_in_by_another_name(run: Run) -> None:
    async def story() -> None:
        async with serving(password=b"tide") as server:
            body = {"password": "tide"}
            assert (await post(server, "/api/session", body, Host="evil.example")).status == 421
            assert (await post(server, "/api/session", body, Host="127.0.0.1")).status == 200

    run(story())


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_what_machines_ask_for_is_answered_under_any_name(run: Run, path: str) -> None:
    async def story() -> None:
        async with serving() as server:
            assert (await get(server, path, Host="gateway.monitoring.example")).status in (200, 503)

    run(story())


def test_a_name_that_is_no_text_to_print_is_shown_as_one(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:
            answer = await get(server, "/", Host="e\x1b[31m" + "x" * 500)
            assert answer.status == 421
            assert "\\x1b" not in answer.json["error"]
            assert len(answer.json["error"]) < 400

    run(story())

"""What each endpoint answers, over real sockets."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.admin.http.listening import AdminError
from gateway.admin.http.server import AdminServer
from gateway.admin.numbers import Numbers
from gateway.admin.part_numbers import Cause, SharedId, Standstill
from gateway.core.alarm_names import AlarmName
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.state_records import State
from tests.admin.conftest import Log, Run
from tests.admin.example import NUMBERS, eventful_news, news
from tests.admin.http_client import answer_of, exchange, get, serving, sources

PATHS = [
    "/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/status",
    "/api/clients",
    "/api/topics",
    "/api/buffer",
    "/api/buffer/peek",
    "/api/latest",
    "/api/log",
    "/api/refused",
    "/api/configuration",
    "/api/session",
]
PAGE = files("gateway.admin") / "web"


def test_it_is_healthy_while_no_check_objects(run: Run) -> None:
    async def story() -> None:
        async with serving(checks={"event_loop": lambda: None}) as server:
            answer = await get(server, "/healthz")
        assert answer.status == 200
        assert answer.json == {
            "status": "ok",
            "restart_helps": False,
            "checks": {"event_loop": {"ok": True}},
        }

    run(story())


def test_it_is_unhealthy_as_soon_as_one_objects_and_says_why(run: Run) -> None:
    async def story() -> None:
        checks = {"event_loop": lambda: None, "udp": lambda: "its socket is closed"}
        async with serving(checks=checks) as server:
            answer = await get(server, "/healthz")
        assert answer.status == 503
        assert answer.json == {
            "status": "failing",
            "restart_helps": True,
            "checks": {
                "event_loop": {"ok": True},
                "udp": {"ok": False, "reason": "its socket is closed"},
            },
        }

    run(story())


def test_a_doubt_is_told_and_kills_nobody(run: Run) -> None:
    async def story() -> None:
        checks = {"journal": lambda: None, "event_loop": lambda: None}
        doubts = {"journal": lambda: "it is full", "state": lambda: None}
        async with serving(checks=checks, doubts=doubts) as server:
            answer = await get(server, "/healthz")
        assert answer.status == 200
        assert answer.json == {
            "status": "degraded",
            "restart_helps": False,
            "checks": {
                "journal": {"ok": False, "reason": "it is full"},
                "event_loop": {"ok": True},
                "state": {"ok": True},
            },
        }

    run(story())


def test_a_failure_that_no_restart_helps_is_told_and_restarts_nothing(run: Run) -> None:
    async def story() -> None:
        failures = {"journal": lambda: "it cannot be written"}
        doubts = {"journal": lambda: "it is full"}
        async with serving(failures=failures, doubts=doubts) as server:
            answer = await get(server, "/healthz")
        assert answer.status == 200
        assert answer.json == {
            "status": "failing",
            "restart_helps": False,
            "checks": {"journal": {"ok": False, "reason": "it cannot be written"}},
        }

    run(story())


def test_a_fault_among_failures_is_for_a_restart_and_has_all_the_reasons(run: Run) -> None:
    async def story() -> None:
        checks = {"liveness": lambda: "timer_overdue"}
        failures = {"liveness": lambda: "uplink_stalled; timer_overdue"}
        async with serving(checks=checks, failures=failures) as server:
            answer = await get(server, "/healthz")
        assert answer.status == 503
        assert answer.json == {
            "status": "failing",
            "restart_helps": True,
            "checks": {"liveness": {"ok": False, "reason": "uplink_stalled; timer_overdue"}},
        }

    run(story())


def test_the_buffer_says_what_waits_and_what_was_dropped(run: Run) -> None:
    async def story() -> None:
        told = news()
        told.record(Dropped(Reason.EXPIRED, count=7))
        told.record(Dropped(Reason.OUTBOX_FULL))
        async with serving(told=told) as server:
            buffer = (await get(server, "/api/buffer")).json
            status = (await get(server, "/api/status")).json
        assert (buffer["schema"], buffer["gateway"]) == ("tidegate.buffer/1", "greenhouse")
        assert (buffer["condition"], buffer["error"]) == ("full", "No space left on device")
        assert (buffer["depth"], buffer["parked"], buffer["oldest_age_s"]) == (201, 202, 205.5)
        assert (buffer["fill"], buffer["in_per_s"], buffer["out_per_s"]) == (0.75, 2.0, 3.0)
        assert buffer["drain_s"] == 201.0
        assert (buffer["dropped"]["expired"], buffer["dropped"]["journal_full"]) == (7, 0)
        assert "outbox_full" not in buffer["dropped"]
        assert status["journal"].items() <= buffer.items()
        assert status["state"]["pending_rows"] == 301

    run(story())


def test_it_is_ready_without_the_broker_and_reports_it(run: Run) -> None:
    async def story() -> None:
        away = replace(NUMBERS, upstream_connected=False, upstream_state="connecting")
        checks = {"udp": lambda: None}
        async with serving(ready_checks=checks, numbers=lambda: away) as server:
            answer = await get(server, "/readyz")
        assert answer.status == 200
        assert answer.json == {
            "status": "ok",
            "checks": {"udp": {"ok": True}},
            "upstream": {"connected": False, "state": "connecting"},
        }

    run(story())


def test_it_is_not_ready_while_a_listener_is_closed(run: Run) -> None:
    async def story() -> None:
        async with serving(ready_checks={"udp": lambda: "not open"}) as server:
            assert (await get(server, "/readyz")).status == 503
            assert (await get(server, "/healthz")).status == 200

    run(story())


def test_metrics_are_what_a_scraper_expects(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:
            answer = await get(server, "/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        families = {f.name: f for f in text_string_to_metric_families(answer.body.decode())}
        assert families["tidegate_outbox_messages"].samples[0].value == 61

    run(story())


def test_the_status_has_every_number_and_counter(run: Run) -> None:
    async def story() -> None:
        async with serving(told=eventful_news()) as server:
            answer = await get(server, "/api/status")
        assert answer.status == 200
        status = answer.json
        assert (status["gateway"], status["version"]) == ("greenhouse", "0.1.0")
        assert set(Numbers.__dataclass_fields__) < set(status)
        assert status["clients_by_state"]["asleep"] == 30
        assert set(status["clients_by_state"]) == {state.value for state in State}
        assert status["links"][0]["datagrams_received"] == 101
        assert status["readings_by_qos"] == [20, 21, 22]
        assert status["frames_received"] == {"PUBLISH": 51, "CONNECT": 52}
        counters = status["counters"]
        assert counters["dropped"]["outbox_full"] == 7
        assert set(counters["dropped"]) == {reason.value for reason in Reason}
        assert counters["state_changes"]["lost"] == 1
        assert counters["upstream_resent"] == 10

    run(story())


def test_the_status_can_be_said_whatever_is_in_its_lists(run: Run) -> None:
    async def story() -> None:
        numbers = replace(
            NUMBERS,
            shared_ids=[SharedId(client="s1", one="192.0.2.7:1883", other="192.0.2.8:1883")],
            standstills=(
                Standstill(
                    name=AlarmName.WILL_STALLED, cause=Cause.INSIDE, what="a will", unmoved_s=31.0
                ),
            ),
            unmoved_s={AlarmName.WILL_STALLED: 31.0},
            slow_callbacks={"Shell.on_datagrams": 2},
        )
        async with serving(numbers=lambda: numbers) as server:
            answer = await get(server, "/api/status")
        assert answer.status == 200
        assert answer.json["shared_ids"] == [
            {"client": "s1", "one": "192.0.2.7:1883", "other": "192.0.2.8:1883"}
        ]

    run(story())


def test_the_page_and_its_files_are_there_and_are_kept_by_the_browser(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:
            page = await get(server, "/")
            named = set(re.findall(r'(?:href|src)="(web/[^"]+)"', page.body.decode()))
            assert len(named) == 4
            for path in named:
                answer = await get(server, f"/{path}")
                again = await get(server, f"/{path}", If_None_Match=answer.headers["etag"])
                assert (answer.status, again.status, again.body) == (200, 304, b"")
                assert answer.headers["cache-control"] == "no-cache"
        assert page.headers["content-type"] == "text/html; charset=utf-8"

    run(story())


def test_no_file_of_the_page_names_another_host() -> None:
    for asset in PAGE.iterdir():
        text = asset.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"(?m)(^|\s)//.*$", "", text), asset.name


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
def test_every_answer_forbids_guessing_framing_foreign_content_and_keeping(
    run: Run, path: str
) -> None:
    async def story() -> None:
        async with serving() as server:
            headers = (await get(server, path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy

    run(story())


@pytest.mark.parametrize("path", PATHS)
def test_head_has_the_headers_of_get_and_no_body(run: Run, path: str) -> None:
    async def story() -> None:
        async with serving() as server:
            head, whole = await get(server, path, "HEAD"), await get(server, path)
        assert head.status == whole.status == 200
        assert head.body == b""
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert int(whole.headers["content-length"]) == len(whole.body)

    run(story())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_nothing_but_get_and_head(run: Run, method: str) -> None:
    async def story() -> None:
        async with serving() as server:
            answer = await get(server, "/healthz", method)
        assert answer.status == 405
        assert answer.headers["allow"] == "get, head"
        assert answer.json == {"error": "not with this method; only /api/actions/ takes POST"}

    run(story())


@pytest.mark.parametrize(
    "path", ["/nowhere", "/healthz/", "//", "/../etc/passwd", "/%2e%2e/", "/METRICS"]
)
def test_what_is_not_there_is_404_in_json(run: Run, path: str) -> None:
    async def story() -> None:
        async with serving() as server:
            answer = await get(server, path)
        assert answer.status == 404
        assert "error" in answer.json

    run(story())


def test_a_query_changes_nothing(run: Run) -> None:
    async def story() -> None:
        async with serving() as server:
            assert (await get(server, "/healthz?verbose=1")).status == 200

    run(story())


def test_a_fault_of_ours_is_500_and_one_line_in_the_log(
    run: Run, log: Log, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Numbers:
        raise KeyError("no such number")

    async def story() -> None:
        async with serving(numbers=broken) as server:
            for path in ("/metrics", "/readyz", "/api/status", "/api/buffer"):
                assert (await get(server, path)).status == 500
                (line,) = log.read()
                assert line.startswith("<3>ERROR tidegate.admin cannot answer error=")
            assert (await get(server, "/healthz")).status == 200

    run(story())
    assert "Traceback" not in capfd.readouterr().err


def test_a_taken_port_is_one_clear_sentence(run: Run) -> None:
    owner = f"{Path('/proc/self/comm').read_text().strip()} (process {os.getpid()})"

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(AdminError) as caught:
                await started(("127.0.0.1", port))
        assert str(caught.value) == (
            f"cannot serve the admin page on TCP 127.0.0.1:{port}: {owner} has this port; "
            'stop it, set admin.listen to another port, or admin.listen = "" for none'
        )

    run(story())


@pytest.mark.parametrize(
    ("listen", "sentence"),
    [
        (("203.0.113.9", 0), "this machine does not have that address; set admin.listen to one"),
        (("localhost", 0), "admin.listen localhost:0 is no address: write it in numbers"),
    ],
)
def test_an_address_that_cannot_be_had_is_one_clear_sentence(
    run: Run, listen: tuple[str, int], sentence: str
) -> None:
    async def story() -> None:
        with pytest.raises(AdminError, match=re.escape(sentence)) as caught:
            await started(listen)
        assert "\n" not in str(caught.value)

    run(story())


def test_it_listens_on_ipv6_beside_ipv4_on_one_port(run: Run) -> None:
    async def story() -> None:
        async with serving() as four:
            six = await started(("::", four.listening_on[1]))
            assert (await get(six, "/healthz")).status == 200
            assert (await get(four, "/healthz")).status == 200
            await six.stop()

    run(story())


def test_after_a_stop_the_port_is_free_and_connections_are_closed(run: Run) -> None:
    async def story() -> None:
        server = await started(("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection(*server.listening_on)
        assert (await get(server, "/healthz")).status == 200  # the first one is accepted by now
        await server.stop()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        again = await started(server.listening_on)
        assert answer_of(await exchange(again, b"GET / HTTP/1.0\r\n\r\n")).status == 200
        await again.stop()

    run(story())


async def started(listen: tuple[str, int]) -> AdminServer:
    server = AdminServer(listen, sources())
    await server.start()
    return server

"""Ten thousand devices: the list is found, sorted, searched and turned in pages of fifty rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.admin.client_queries import ClientQueries
from gateway.admin.http.server import AdminServer
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.frames import Disconnect
from gateway.presence.latest import Latest
from tests.admin.http_client import sources
from tests.admin.web.browser import look, needs_browser, opened
from tests.support.engine_bench import Bench

pytestmark = needs_browser

DEVICES = 10_000
ROWS_MAX = 50


def crowded() -> tuple[Bench, Latest]:
    """Each has said something; every hundredth sleeps."""
    bench, latest = Bench(), Latest()
    for number in range(DEVICES):
        name = f"sensor-{number:05}"
        bench.join(name.encode())
        if number % 100 == 0:
            bench.say(name.encode(), Disconnect(duration_s=600))
        latest.receive(Reading(ClientId(name), f"site/{name}", b"%d" % number, 1, False, 0, 0, 0.0))
    return bench, latest


@asynccontextmanager
async def serving_many() -> AsyncIterator[str]:
    bench, latest = crowded()
    client_queries = ClientQueries(
        bench.engine, ["udp0"], lambda peer: peer.address.decode(), lambda: bench.at
    )
    given = sources(clients=client_queries.clients, latest=latest, now=lambda: bench.at)
    server = AdminServer(("127.0.0.1", 0), given)
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.listening_on[1]}/"
    finally:
        await server.stop()


def test_ten_thousand_devices_are_listed_searched_and_turned_page_by_page() -> None:
    async def story() -> None:
        async with serving_many() as url, opened(url) as page:
            rows = page.locator("tbody tr")

            async def until(first: str) -> None:
                await rows.first.get_by_role("link", name=first).wait_for()
                assert await rows.count() <= ROWS_MAX

            await page.goto(f"{url}#/devices")
            await until("sensor-00000")
            assert await page.get_by_text("1 to 50 of 10,000").is_visible()
            await page.get_by_role("button", name="Next").click()
            await until("sensor-00050")
            await page.get_by_label("Search devices").fill("777")
            await until("sensor-00777")
            await page.get_by_label("Search devices").fill("")
            await until("sensor-00000")
            await page.get_by_role("radio", name="Asleep").check(force=True)
            await page.get_by_text("1 to 50 of 100", exact=True).wait_for()
            await page.get_by_role("radio", name="All").check(force=True)
            await page.get_by_role("button", name="Device", exact=True).click()
            await until("sensor-09999")
            await page.goto(f"{url}#/devices?offset=9950")
            await until("sensor-09950")
            assert await page.get_by_role("button", name="Next").is_disabled()

    look(story())

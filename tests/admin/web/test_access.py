"""Everybody can use the page: by keyboard, by ear, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hil.rig.scripted_client import sensor
from tests.admin.web.access import ask, nameless
from tests.admin.web.browser import DESKTOP, PHONE, Scheme, look, needs_browser, opened
from tests.admin.web.served import Served, served
from tests.admin.web.test_live import DISCONNECT, SENML, sign_in

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = needs_browser

VIEWS = ("", "devices", "topics", "devices/tank", "buffer", "log", "configuration?only=all")
NARROW = (320, 640)  # WCAG 1.4.10


@asynccontextmanager
async def busy(folder: Path) -> AsyncIterator[Served]:
    """Sensors that are active, asleep and gone, values, a will, an outage and its alarm."""
    with served(folder, password=True) as here:
        port = here.gateway.port
        async with sensor(port, "tank") as tank, sensor(port, "well") as well:
            await tank.connect(clean=False)
            topic = await tank.register("site/a-rather-long-name-of-a-topic/tank/temperature")
            await tank.subscribe(b"cmd/tank", qos=1)
            for _ in range(3):
                await tank.publish(topic, SENML, qos=1)
            await well.connect(clean=False)
            await well.ask(DISCONNECT, b"\x02\x58", DISCONNECT)
            here.broker.kill()
            await tank.publish(topic, SENML, qos=1)
            yield here


# Of radio buttons that belong together one is reached, the others by arrows.
UNREACHED = """
() => [...document.querySelectorAll("a[href], button, input, select, summary")]
  .filter((each) => each.checkVisibility() && !each.disabled && !each.dataset.reached)
  .filter((each) => each.type !== "radio" || each.checked)
  .map((each) => each.outerHTML)
"""


async def all_views(page: Page, url: str) -> AsyncIterator[str]:
    for view in VIEWS:
        await page.goto(f"{url}#/{view}")
        await page.locator("#pulse-text", has_text="broker away").wait_for()
        await page.locator("main h1").wait_for(state="attached")
        if view.startswith("devices/"):
            await page.locator("figure").first.wait_for()
        elif view in ("devices", "topics"):
            await page.locator("tbody tr").first.wait_for()
        yield view


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_text_can_be_read_and_every_control_has_a_name(
    tmp_path: Path, scheme: Scheme, size: tuple[int, int]
) -> None:
    async def story() -> None:
        async with busy(tmp_path) as here, opened(here.url, size=size, scheme=scheme) as page:
            async for view in all_views(page, here.url):
                found = await ask(page, "contrast")
                assert found["seen"] > 10
                assert (view, found["poor"]) == (view, [])
                assert (view, await nameless(page)) == (view, [])
                assert await page.locator("h1").count() == 1

    look(story())


def test_poor_contrast_and_a_missing_name_would_be_found(tmp_path: Path) -> None:
    async def story() -> None:
        async with busy(tmp_path) as here, opened(here.url) as page:
            async for _ in all_views(page, here.url):
                break
            await page.evaluate(
                "() => { const bad = document.createElement('button');"
                " bad.append(document.createElement('i'));"
                " const pale = document.createElement('p'); pale.textContent = 'pale';"
                " pale.style.color = '#bbb'; pale.style.background = '#fff';"
                " document.querySelector('main').append(bad, pale); }"
            )
            assert (await ask(page, "contrast"))["poor"] == ["pale: 1.92"]
            assert len(await nameless(page)) == 1

    look(story())


@pytest.mark.parametrize("size", [PHONE, NARROW], ids=["phone", "narrow"])
def test_on_a_phone_nothing_is_cut_off_and_fingers_find_their_targets(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def story() -> None:
        async with busy(tmp_path) as here, opened(here.url, size=size) as page:
            async for view in all_views(page, here.url):
                assert (view, await ask(page, "overflow")) == (view, 0)
                assert (view, await ask(page, "small")) == (view, [])

    look(story())


BROKEN = """
() => [...document.querySelectorAll(".tile > .number")].filter((each) => {
  const range = document.createRange();
  range.selectNodeContents(each);
  return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
}).map((each) => each.textContent)
"""


def test_no_word_of_a_tile_is_broken_however_wide_the_page_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(here.url) as page:
            await page.locator(".tile > .number", has_text="connected").wait_for()
            for width in range(NARROW[0], DESKTOP[0] + 1, 20):
                await page.set_viewport_size({"width": width, "height": 700})
                assert (width, await page.evaluate(BROKEN)) == (width, [])

    with served(tmp_path) as here:
        look(story())


# Without a mouse


def test_the_keyboard_reaches_everything_and_shows_where_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with busy(tmp_path) as here, opened(f"{here.url}#/devices") as page:
            await page.get_by_role("link", name="tank").wait_for()
            reached = []
            tag = ""
            while tag != "BODY":  # behind the last one
                await page.keyboard.press("Tab")
                tag, text, is_seen = await ask(page, "focused")
                await page.evaluate("() => { document.activeElement.dataset.reached = 1; }")
                assert is_seen or tag == "BODY", (tag, text)
                reached.append(text or tag)
            assert reached[0] == "To the content"
            for name in ("Devices", "Settings", "Sign in", "INPUT", "State", "tank", "well"):
                assert name in reached, reached
            assert await page.evaluate(UNREACHED) == []

    look(story())


def test_the_skip_link_filters_and_dialogs_work_by_keyboard(tmp_path: Path) -> None:
    async def story() -> None:
        async with busy(tmp_path) as here, opened(f"{here.url}#/devices") as page:
            await page.get_by_role("link", name="tank").wait_for()
            await page.keyboard.press("Tab")
            await page.keyboard.press("Enter")
            assert await page.evaluate("document.activeElement.id") == "main"
            await page.keyboard.press("Tab")
            await page.keyboard.type("wel")
            await page.get_by_role("link", name="tank").wait_for(state="detached")
            await page.keyboard.press("Tab")
            for _ in range(3):
                await page.keyboard.press("ArrowRight")
            assert await page.get_by_role("radio", name="Asleep").is_checked()
            await page.get_by_role("link", name="well").wait_for()
            await page.get_by_role("link", name="well").focus()
            await page.keyboard.press("Enter")
            await page.get_by_role("heading", name="well", exact=True).wait_for()
            assert await page.evaluate("document.activeElement.id") == "main"
            await sign_in(page)
            await page.get_by_role("button", name="Forget").focus()
            await page.keyboard.press("Enter")
            await page.get_by_role("dialog").wait_for()
            await page.keyboard.press("Escape")
            await page.get_by_role("dialog").wait_for(state="detached")
            await page.go_back()
            await page.get_by_role("radio", name="Asleep").wait_for(state="attached")
            assert await page.get_by_role("radio", name="Asleep").is_checked()

    look(story())


def test_a_page_that_hears_nothing_says_so_and_goes_on_when_the_gateway_is_back(
    tmp_path: Path,
) -> None:
    async def story(here: Served) -> None:
        async with opened(here.url, expects_failures=True) as page:
            await page.locator("body:not(.away) #up", has_text="up ").wait_for()
            here.gateway.kill()
            await page.get_by_text("no word from the gateway").wait_for()
            here.gateway.start()
            await page.locator("body:not(.away) #up", has_text="up ").wait_for()

    with served(tmp_path) as here:
        look(story(here))

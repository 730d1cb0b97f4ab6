"""Debian's chromium, driven by Playwright, for the tests of the status page.

Where either is not to be had (no build of Playwright for 32-bit ARM, no chromium installed, no
right to install it) the tests that need them are not run and say why. Nothing is downloaded:
`make test` installs the package `chromium` where it may.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page, Route

Answer = TypeVar("Answer")
Scheme = Literal["light", "dark"]
DESKTOP, PHONE = (1280, 860), (390, 844)
# As root chromium has no sandbox; containers have little shared memory.
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
PATIENCE_MS = 60_000


def chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium")


@cache
def why_not() -> str | None:
    """Why no browser can be had here, with what to do."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed (64-bit machines only): make setup"
    if chromium() is None:
        return "chromium is not installed: sudo apt-get install -y chromium"
    if subprocess.run(
        [sys.executable, "-m", "playwright", "--version"], capture_output=True
    ).returncode:
        return "Playwright's Node.js does not start: sudo apt-get install -y libatomic1"
    return None


needs_browser = pytest.mark.skipif(why_not() is not None, reason=f"not run: {why_not()}")


@dataclass
class Seen:
    """What the page did beside what it shows."""

    asked: list[str]
    foreign: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    async def route(self, route: Route) -> None:
        """Only this machine is there."""
        self.asked.append(route.request.url)
        if urlsplit(route.request.url).hostname in ("127.0.0.1", None):
            await route.continue_()
        else:
            self.foreign.append(route.request.url)
            await route.abort()

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)


@asynccontextmanager
async def started() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield browser
        await browser.close()


class Kept:
    """A browser and the event loop it is driven in, from one story to the next: its start takes
    more than a second of CPU, a window that shares nothing with the others a third of one.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._parts = AsyncExitStack()
        self.browser: Browser | None = None

    def look(self, story: Coroutine[Any, Any, Answer]) -> Answer:
        """Runs it to its end. What one that fails leaves behind is for no other: all is closed."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(self._with_browser(story))
        except BaseException:
            self.close()
            raise

    async def _with_browser(self, story: Coroutine[Any, Any, Answer]) -> Answer:
        if self.browser is None:
            self.browser = await self._parts.enter_async_context(started())
        return await story

    def close(self) -> None:
        runner, self._runner, self.browser = self._runner, None, None
        if runner is not None:
            with runner:
                runner.run(self._parts.aclose())


KEPT = Kept()  # conftest.py closes it behind each file
look = KEPT.look


@asynccontextmanager
async def _kept_or_new() -> AsyncIterator[Browser]:
    if KEPT.browser is not None:
        yield KEPT.browser
    else:
        async with started() as browser:
            yield browser


@asynccontextmanager
async def opened(
    url: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Scheme = "light",
    expects_failures: bool = False,
    asked: list[str] | None = None,
) -> AsyncIterator[Page]:
    """The page in a window of its own, of a new browser but in `look`. At the end nothing has asked
    another host, and, unless requests were expected to fail, nothing has complained. `asked` gets
    the URL of each request.
    """
    width, height = size
    seen = Seen([] if asked is None else asked)
    async with _kept_or_new() as browser:
        context = await browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        context.set_default_timeout(PATIENCE_MS)
        await context.route("**/*", seen.route)
        page = await context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", seen.console)
        await page.goto(url)
        yield page
        await context.close()
    assert errors == [], errors
    assert seen.foreign == [], seen.foreign
    if not expects_failures:
        assert seen.problems == [], seen.problems

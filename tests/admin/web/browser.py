"""Debian's chromium, driven by Playwright, for the tests of the status page.

Where either is not to be had (no build of Playwright for 32-bit ARM, no chromium installed, no
right to install it) the tests that need them are not run and say why. Nothing is downloaded:
`make test` installs the package `chromium` where it may.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Page, Route

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
async def opened(
    url: str,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Scheme = "light",
    expects_failures: bool = False,
    asked: list[str] | None = None,
) -> AsyncIterator[Page]:
    """The page in a browser of its own. At the end nothing has asked another host, and, unless
    requests were expected to fail, nothing has complained. `asked` gets the URL of each request.
    """
    from playwright.async_api import async_playwright

    width, height = size
    seen = Seen([] if asked is None else asked)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
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
        await browser.close()
    assert errors == [], errors
    assert seen.foreign == [], seen.foreign
    if not expects_failures:
        assert seen.problems == [], seen.problems

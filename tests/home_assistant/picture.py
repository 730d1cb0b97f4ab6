"""The page of a device in Home Assistant's own frontend, as docs/home_assistant.md shows it."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path

from hil.rig.mosquitto import Mosquitto
from tests.admin.web.browser import ARGUMENTS, PATIENCE_MS, Seen, chromium
from tests.home_assistant.home import Home
from tests.home_assistant.site import gateway, home_with_broker, sensor

NAME = "home-assistant-device.png"
SIZE = (1280, 860)
DEVICE, TOPIC = "greenhouse-1", "garden/greenhouse"
DRAWN_MS = 4000  # until icons, and the states of the logbook, have been drawn
READINGS = [
    {"temperature": 21.5 + n / 10, "humidity": 64 - n, "battery": 87, "co2": 540 + 12 * n}
    for n in range(6)
]


def take_device_page(folder: Path) -> None:
    with home_with_broker() as (broker, home), tempfile.TemporaryDirectory() as state:
        publish(broker, home, Path(state), folder)


def publish(broker: Mosquitto, home: Home, state: Path, folder: Path) -> None:
    with gateway(state, broker, name="garden") as serving, sensor(serving, DEVICE) as greenhouse:
        greenhouse.connect()
        for number, reading in enumerate(READINGS):
            greenhouse.publish(TOPIC, reading | {"door": number % 2 == 0})
            shown = f"{reading['temperature']:.1f}".removesuffix(".0")
            home.api.shows(DEVICE, Temperature=shown)
        home.api.shows(DEVICE, Door="off")
        asyncio.run(take(home, folder / NAME))


async def take(home: Home, picture: Path) -> None:
    from playwright.async_api import async_playwright

    device = home.api.device(DEVICE)
    assert device is not None
    url = home.api.url
    tokens = home.tokens | {
        "hassUrl": url,
        "clientId": f"{url}/",
        "expires": int((time.time() + home.tokens["expires_in"]) * 1000),
    }
    signed_in = f"localStorage.setItem('hassTokens', {json.dumps(json.dumps(tokens))})"
    width, height = SIZE
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        context = await browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(PATIENCE_MS)
        await context.route("**/*", Seen([]).route)  # nothing of other hosts, as in all tests
        await context.add_init_script(signed_in)
        page = await context.new_page()
        await page.goto(f"{url}/config/devices/device/{device['id']}")
        await page.get_by_text("Temperature").first.wait_for()
        await page.wait_for_timeout(DRAWN_MS)
        await page.screenshot(path=picture)
        await browser.close()

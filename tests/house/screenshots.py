"""Makes the pictures of the status page, and of Home Assistant, that the documents show.

    python -m tests.house.screenshots [FOLDER]

A real gateway with a broker and sensors that are simulated, looked at by chromium in two widths and
two colour schemes. Without FOLDER they go to docs/images. Takes half a minute, and mosquitto,
chromium and playwright; that of Home Assistant is made where `make home-test` has installed one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gateway.cli.sensors.pace import Pace
from gateway.cli.sensors.sensor import SimulatedSensor
from gateway.cli.sensors.sensor_link import SensorLink
from hil.rig.scripted_client import sensor
from tests.admin.web.browser import DESKTOP, PHONE, Scheme, opened, why_not
from tests.admin.web.served import Served, served
from tests.admin.web.test_live import sign_in
from tests.home_assistant.installing import why_not_there
from tests.home_assistant.picture import take_device_page

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
NAMES = ("bees", "cellar", "compost", "greenhouse-1", "greenhouse-2", "meadow", "pond", "tank")
SLEEPERS = {"bees": 900, "compost": 1800, "meadow": 600, "pond": 900}
WARM_UP_S = 22.0


@dataclass(frozen=True)
class Picture:
    name: str
    view: str
    size: tuple[int, int]
    scheme: Scheme
    shows: str  # a text that is there when the view is

    async def take(self, here: Served, folder: Path) -> None:
        url = f"{here.url}#/{self.view}"
        async with opened(url, size=self.size, scheme=self.scheme) as page:
            if self.view == "buffer":
                await sign_in(page)
            await page.locator("main").get_by_text(self.shows).first.wait_for()
            await page.wait_for_timeout(2500)  # until rates and pasts have been drawn
            await page.screenshot(path=folder / f"{self.name}.png")


CALM = (
    Picture("overview", "", DESKTOP, "light", "connected"),
    Picture("devices", "devices", DESKTOP, "light", "greenhouse-1"),
    Picture("device", "devices/greenhouse-1", DESKTOP, "light", "temperature"),
    Picture("devices-phone", "devices", PHONE, "light", "greenhouse-1"),
    Picture("device-phone-dark", "devices/greenhouse-1", PHONE, "dark", "temperature"),
)
OUTAGE = (
    Picture("buffer", "buffer", DESKTOP, "light", "the oldest for"),
    Picture("overview-outage-phone", "", PHONE, "dark", "the broker is away"),
)


@asynccontextmanager
async def sensors(port: int) -> AsyncIterator[None]:
    """As at a small place: some speak all the time, some sleep, one is late."""
    dice = Random(7)
    async with AsyncExitStack() as stack:
        for number, name in enumerate(NAMES):
            sleep_s = SLEEPERS.get(name)
            pace = Pace() if sleep_s is None else Pace(sleep_s=sleep_s)
            interval_s = 0.7 if sleep_s is None else 1.5
            one = SimulatedSensor(name, number % 3, interval_s, 0.0, Random(dice.random()), pace)
            link = SensorLink(one, lambda _name, _news: None)
            await link.open("127.0.0.1", port)
            stack.callback(link.close)
        late = await stack.enter_async_context(sensor(port, "well"))
        await late.connect(clean=False)
        topic = await late.register("site/well")
        await late.publish(topic, b'[{"n":"level","u":"m","v":2.31}]', qos=1)
        await late.ask(0x18, (25).to_bytes(2, "big"), 0x18)
        yield


async def story(here: Served, folder: Path) -> None:
    async with sensors(here.gateway.port):
        await asyncio.sleep(WARM_UP_S)
        for picture in CALM:
            await picture.take(here, folder)
        here.broker.kill()
        await asyncio.sleep(WARM_UP_S / 2)
        for picture in OUTAGE:
            await picture.take(here, folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.screenshots", description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=IMAGES, help="where they go (docs/images)"
    )
    folder: Path = parser.parse_args().folder
    problem = why_not()
    if problem is not None:
        sys.stderr.write(f"no pictures: {problem}\n")
        return 69
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TIDEGATE_GATEWAY__NAME"] = "garden"
    with tempfile.TemporaryDirectory() as state, served(Path(state), password=True) as here:
        asyncio.run(story(here, folder))
    if why := why_not_there():
        sys.stderr.write(f"no picture of Home Assistant: {why}\n")
    else:
        take_device_page(folder)
    for picture in sorted(folder.glob("*.png")):
        sys.stdout.write(f"{picture} {picture.stat().st_size // 1024} KiB\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""At a start, and with the first key, protected packets wait until their counters are saved."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from gateway.app.daemon import _Parts


class Held:
    def __init__(self) -> None:
        self.told: list[str] = []

    def hold(self) -> None:
        self.told.append("hold")

    def release(self) -> None:
        self.told.append("release")


def test_they_are_held_until_the_state_is_flushed() -> None:
    async def story() -> None:
        on_disk = asyncio.Event()
        parts: Any = SimpleNamespace(
            committers=SimpleNamespace(state=SimpleNamespace(flush=on_disk.wait)), saving=None
        )
        held: Any = Held()
        _Parts._protect_when_saved(parts, held)
        await asyncio.sleep(0.01)
        assert held.told == ["hold"]
        on_disk.set()
        await parts.saving
        await asyncio.sleep(0)
        assert held.told == ["hold", "release"]

    asyncio.run(story())

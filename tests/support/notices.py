"""What the gateway says of itself at a broker, as somebody who subscribes to it gets it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiomqtt

TIMEOUT_S = 200.0


class Listener:
    """The last payload of each topic, in the order in which topics were heard first."""

    def __init__(self, client: aiomqtt.Client) -> None:
        self.last: dict[str, bytes] = {}
        self.messages: list[tuple[str, bytes]] = []
        self._client = client

    async def until(self, is_there: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not is_there():
                    message = await anext(self._client.messages)
                    assert isinstance(message.payload, bytes)
                    self.last[str(message.topic)] = message.payload
                    self.messages.append((str(message.topic), message.payload))
        except TimeoutError:
            raise AssertionError(f"not said; what was: {self.last}") from None

    async def count(self, messages: int) -> None:
        """Until that many have come."""
        await self.until(lambda: len(self.messages) >= messages)

    def json(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.last[topic])
        return found

    async def document(self, topic: str, **wanted: Any) -> dict[str, Any]:
        """The first one there with these members."""

        def is_there() -> bool:
            payload = self.last.get(topic)
            if not payload:
                return False
            document: dict[str, Any] = json.loads(payload)
            return wanted.items() <= document.items()

        await self.until(is_there)
        return self.json(topic)

    async def cleared(self, topic: str) -> None:
        await self.until(lambda: self.last.get(topic) == b"")

"""The state of each sensor as the gateway has it, from its own API, as any operator can ask for it.

Limit: as many clients as the demo can have, in one answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway.admin.clients import CLIENTS_SCHEMA
from gateway.cli import asking
from gateway.cli.clients import state_words
from gateway.cli.demo.seen import Event, Seen
from gateway.config import HostPort

POLL_S = 0.25
CLIENTS_MAX = 1000


@dataclass(slots=True)
class PresenceWatcher:
    port: int
    seen: Seen
    on_event: Callable[[Event], None]

    async def run(self) -> None:
        """Until cancelled. A gateway that does not answer is reported elsewhere."""
        place = asking.Place(HostPort("127.0.0.1", self.port))
        query = {"limit": CLIENTS_MAX}
        while True:
            with contextlib.suppress(asking.NoAnswerError):
                answer = await asyncio.to_thread(
                    asking.ask, place, "/api/clients", CLIENTS_SCHEMA, query
                )
                for client in answer["clients"]:
                    state = state_words(client, time.time()).removeprefix("asleep, ")
                    for event in self.seen.presence(client["id"], state):
                        self.on_event(event)
            await asyncio.sleep(POLL_S)

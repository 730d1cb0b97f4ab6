"""Messages from the broker that listening clients have not acknowledged, and no disk has yet.

The broker keeps a QoS 1 message until it hears from us, and sends it again if we are gone. So for
clients that listen nothing is written for `SOON_S`: nearly all acknowledge sooner. What is
left then is saved, and the broker may forget it.

The broker would send it behind what was saved meanwhile, though it came before: so the one that
saves anything for a client saves all of this first (`save`, with infinity).

Limit: the broker sends no more than our Receive Maximum before it hears of any; acknowledged ones
stand here until the one before them is acknowledged or saved, for `SOON_S` at most.
"""

from __future__ import annotations

from collections import deque
from math import inf

from gateway.core.effects import DeliveryComplete, Save, WhenSaved
from gateway.core.events import Output
from gateway.core.message_expiry import saved
from gateway.core.state_records import MessageRecord
from gateway.core.values import Publication

SOON_S = 0.05  # as long as a reading waits for its broker before it is written


class WriteBehind:
    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Publication]] = deque()  # by when they are to be saved

    def add(self, publication: Publication, now: float) -> None:
        waiting = self._waiting
        while waiting and not waiting[0][1].copies:
            waiting.popleft()
        waiting.append((now + SOON_S, publication))

    def wake_at(self) -> float:
        return self._waiting[0][0] if self._waiting else inf

    def save(self, until: float) -> list[Output]:
        """Those that were to be saved by then, each for the clients that it still waits for."""
        effects: list[Output] = []
        waiting = self._waiting
        while waiting and (waiting[0][0] <= until or not waiting[0][1].copies):
            _, publication = waiting.popleft()
            if not publication.copies:
                continue
            assert publication.unsaved is not None, "what is here is saved here alone"
            topic, payload = publication.message.topic, publication.message.payload
            expiry = saved(publication.message.expiry)
            for client_id, position in publication.unsaved.items():
                effects.append(
                    Save(
                        MessageRecord(
                            client_id=client_id,
                            position=position,
                            topic=topic,
                            payload=payload,
                            qos=1,
                            expiry=expiry,
                        )
                    )
                )
            publication.unsaved.clear()
            effects.append(WhenSaved([DeliveryComplete(publication)]))
        return effects

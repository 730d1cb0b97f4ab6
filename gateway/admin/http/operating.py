"""What an operator may have the gateway do, as the page asks for it.

The words of the answers are for people. What is done goes the ways that it goes without an
operator: a message to a sensor waits in its outbox, a forgotten sensor receives DISCONNECT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PERMIT_MINUTES_MAX = 24 * 60
RELEASE_MINUTES_MAX = 4 * 60  # many boards, one after the other


@dataclass(frozen=True, slots=True)
class Publication:
    """A message for one sensor."""

    client_id: str
    topic: str
    payload: bytes
    qos: int


class CannotError(Exception):
    """Why it cannot be done, in a sentence."""


class Operations(Protocol):
    """Each says what came of it, or raises CannotError. `numbers`: None for all."""

    def pause_drain(self) -> str: ...
    def resume_drain(self) -> str: ...
    # `retained`: also of one that is not known, what the broker has of it.
    def forget(self, client_id: str, *, retained: bool = False) -> str: ...
    def publish(self, publication: Publication) -> str: ...
    def permit(self, minutes: float) -> str: ...
    def join(self, seconds: int) -> str: ...
    def approve(self, client_id: str) -> str: ...
    def reject(self, client_id: str) -> str: ...
    def send_aside(self, numbers: Sequence[int] | None) -> str: ...
    def delete_aside(self, numbers: Sequence[int] | None) -> str: ...
    async def release(self, line: str, minutes: float) -> str: ...

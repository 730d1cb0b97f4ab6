"""What presence and announcements count, for status and metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceNumbers:
    """What is published beside readings, at `topic` and below.

    `devices`: those whose presence is published; `announced`: those that are announced to Home
    Assistant in this connection. None where that is off. `waiting`: messages that are due.
    `refusal`: the broker's, of the subscription to Home Assistant's birth message;
    `announcement_refusal`: of an announcement in this connection. `error`: why what was published
    is not recorded on disk. `left_out`: values that a limit keeps from Home Assistant.
    """

    topic: str = ""
    devices: int | None = None
    announced: int | None = None
    waiting: int = 0
    refusal: str | None = None
    announcement_refusal: str | None = None
    error: str | None = None
    left_out: str | None = None

"""What presence and announcements count, for status and metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceNumbers:
    """What is said on MQTT beside readings, at `topic` and below.

    `devices`: those whose presence was told; `announced`: those that Home Assistant was told of in
    this connection. None where that is off. `waiting`: devices of whom something is due. `refusal`:
    the broker's, of the subscription to Home Assistant's birth message. `error`: why what was said
    is not noted on disk.
    """

    topic: str = ""
    devices: int | None = None
    announced: int | None = None
    waiting: int = 0
    refusal: str | None = None
    error: str | None = None

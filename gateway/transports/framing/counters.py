"""What a serial line brought, in numbers: for metrics, health and `tidegate doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

# Why what stood between two marks is no message; each is the name of a counter.
Fault = Literal["bad_check", "too_long", "too_short", "aborted", "not_messages"]


@dataclass(slots=True)
class FramingCounters:
    """Frames, but for `chatter_bytes`. None of them ever falls."""

    good: int = 0
    bad_check: int = 0  # FCS, or a length or content that does not fit where there is no FCS
    too_long: int = 0  # beyond message_bytes_max, or no end within it
    too_short: int = 0  # no room for a message: RFC 1662 does not count these as errors
    aborted: int = 0  # given up by its sender, or damaged into one that looks so
    not_messages: int = 0  # the FCS is right, and it is not MQTT-SN: another protocol's peer
    resyncs: int = 0  # good ones that came after one that was not
    chatter_bytes: int = 0  # text that is no frame: what a console or a boot ROM prints

    def frames(self) -> dict[str, int]:
        """By what became of them."""
        return {name: getattr(self, name) for name in ("good", *get_args(Fault))}

    def add(self, fault: Fault) -> None:
        setattr(self, fault, getattr(self, fault) + 1)

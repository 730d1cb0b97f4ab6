"""The framing of a serial line; the framings themselves are in transports/framing.

Pure: nothing here waits or knows a port. Framings hold at most one frame of the largest size, and
none of them raises for anything that a line brings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from gateway.transports.framing.counters import FramingCounters
from gateway.transports.framing.delimited import DelimitedFraming
from gateway.transports.framing.hdlc import DEFAULT_ESCAPES, HdlcFrames
from gateway.transports.framing.raw import GAP_S, RawFraming
from gateway.transports.framing.slip import SlipFrames

__all__ = ["DEFAULT_ESCAPES", "GAP_S", "Framing", "FramingCounters", "FramingKind", "framing"]

FramingKind = Literal["hdlc", "slip", "raw"]


class Framing(Protocol):
    counters: FramingCounters

    def wrap(self, message: bytes) -> bytes:
        """What goes on the line for one message."""

    def feed(self, chunk: bytes, now: float) -> list[bytes]:
        """The messages that these bytes make whole, in order. `now`: monotonic seconds."""

    def wait_s(self, now: float) -> float | None:
        """How long until `feed(b"", now)` should be called if nothing comes; None: not at all."""

    def reset(self) -> None:
        """The line was interrupted: what comes next belongs to nothing that is held."""

    @property
    def held_bytes(self) -> int: ...


def framing(
    kind: FramingKind,
    *,
    message_bytes_max: int,
    gap_s: float = GAP_S,
    escapes: frozenset[int] = DEFAULT_ESCAPES,
    chatter: Callable[[bytes], None] | None = None,
) -> Framing:
    """`gap_s` is raw's, `escapes` hdlc's. `chatter` is given lines of text, 200 bytes at most."""
    match kind:
        case "hdlc":
            return DelimitedFraming(HdlcFrames(message_bytes_max, escapes), chatter)
        case "slip":
            return DelimitedFraming(SlipFrames(message_bytes_max), chatter)
        case "raw":
            return RawFraming(message_bytes_max, gap_s, chatter)

"""Whether the gateway still gets anywhere; only then the watchdog of systemd is fed.

That the event loop turns is not enough: a worker thread that hangs, a socket that nobody reads, a
timer that nobody rings would be served by a loop that looks well. So each part gives a mark of the
work that it has before it: None without any, and another mark as soon as some of it is done. A mark
that stays the same for longer than the part's patience means that it is stuck.

What another start of the process would not mend is no reason here: a broker that is away, a disk
that refuses. Those are in /healthz.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

# A card that tidies up hangs for seconds, a dying one for a minute; in both cases a new process
# would wait for the same card. What is longer is most likely ours.
DISK_PATIENCE_S = 120.0
# Everything else is done within one turn of the loop.
LOOP_PATIENCE_S = 10.0


@dataclass(slots=True)
class Organ:
    """`name` as it is said in "... is stuck"."""

    name: str
    mark: Callable[[], Hashable | None]
    patience_s: float = LOOP_PATIENCE_S
    _last: Hashable | None = field(init=False, default=None)
    _since: float = field(init=False, default=0.0)

    def stuck_s(self, now: float) -> float | None:
        """How long, if longer than its patience."""
        mark = self.mark()
        if mark is None or mark != self._last:
            self._last, self._since = mark, now
            return None
        waited_s = now - self._since
        return waited_s if waited_s > self.patience_s else None


class Vitals:
    def __init__(self, organs: Iterable[Organ]) -> None:
        self._organs = tuple(organs)

    def problem(self, now: float) -> str | None:
        """Which part is stuck, or None. To be asked each second."""
        found = [(organ.name, organ.stuck_s(now)) for organ in self._organs]
        stuck = [f"{name} for {waited_s:.0f} s" for name, waited_s in found if waited_s is not None]
        return ", ".join(stuck) or None

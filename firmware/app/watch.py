"""How long a wake may last, and each of its steps; and the board's watchdog.

A wake that lasts because the network is away empties the battery, so every wait asks `left()`. The
watchdog is fed by waits whose step has time left, and by nothing else: a step that hangs, or loops
for ever without waiting, is the board's end, and `loader/slots.py` counts it.
"""

try:
    from time import ticks_add, ticks_diff, ticks_ms  # type: ignore[attr-defined]
except ImportError:
    from ..mqttsn.cpython import ticks_add, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Watch:
    def __init__(self, feed: "Callable[[], None]", budget_ms: int) -> None:
        self._feed = feed
        self._ends = self._step_ends = ticks_add(ticks_ms(), budget_ms)
        self.what = "start"

    def step(self, what: str, limit_ms: int) -> None:
        self.what = what
        self._step_ends = ticks_add(ticks_ms(), min(limit_ms, self.budget()))
        self.left()

    def budget(self) -> int:
        """Milliseconds until the wake is to end."""
        left: int = ticks_diff(self._ends, ticks_ms())
        return max(0, left)

    def left(self) -> int:
        """Milliseconds until the step is to end; feeds the watchdog unless there are none."""
        left: int = ticks_diff(self._step_ends, ticks_ms())
        if left <= 0:
            return 0
        self._feed()
        return left

"""Decides whether readings are recorded for the status page.

To record one costs a third of a microsecond of the four that a reading takes. So they are recorded
while a page is open, and while so few come that the cost cannot be measured; else for one second of
SAMPLE_EVERY, so that a page that is opened later shows the last values of most sensors. For Home
Assistant all are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.engine import Engine
from gateway.presence import values
from gateway.presence.latest import Latest

FEW_PER_S = 200
SAMPLE_EVERY = 10


class Sampler:
    def __init__(self, engine: Engine, latest: Latest, *, hears_all: bool = False) -> None:
        """`hears_all`: every reading is recorded, whatever it costs."""
        values.prepare()
        self.latest = latest
        self._engine = engine
        self._taken: Sequence[int] = engine.uplink.taken
        self._total = 0
        self._beats = 0
        self._pages = 0
        self._receives = False
        self._receives_all = hears_all
        self._set(receives=True)

    # From the page

    def pages_open(self, pages: int) -> None:
        """`pages`: how many are open."""
        self._pages = pages
        if pages:
            self._set(receives=True)

    # From the daemon

    def beat(self) -> None:
        """Once a second."""
        total = sum(self._taken)
        received, self._total = total - self._total, total
        self._beats += 1
        is_sample = self._beats % SAMPLE_EVERY == 0
        is_wanted = self._receives_all or self._pages > 0
        self._set(receives=is_wanted or received < FEW_PER_S or is_sample)
        self.latest.beat()

    def _set(self, *, receives: bool) -> None:
        if receives is not self._receives:
            self._receives = receives
            self._engine.report_readings(is_on=receives)

"""Whether readings are heard for the page.

To hear one costs a third of a microsecond of the four that a reading takes. So they are heard while
somebody looks, and while so few come that nobody could measure it; else for one second of
SAMPLE_EVERY, so that who opens the page later sees what most sensors said not long ago. Home
Assistant looks always.
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
        """`hears_all`: somebody wants every reading, whatever it costs."""
        values.prepare()
        self.latest = latest
        self._engine = engine
        self._taken: Sequence[int] = engine.uplink.taken
        self._total = 0
        self._beats = 0
        self._pages = 0
        self._hears = False
        self._hears_all = hears_all
        self._set(hears=True)

    # From the page

    def looked_at(self, pages: int) -> None:
        """So many are open."""
        self._pages = pages
        if pages:
            self._set(hears=True)

    # From the daemon

    def beat(self) -> None:
        """Once a second."""
        total = sum(self._taken)
        came, self._total = total - self._total, total
        self._beats += 1
        is_sample = self._beats % SAMPLE_EVERY == 0
        is_wanted = self._hears_all or self._pages > 0
        self._set(hears=is_wanted or came < FEW_PER_S or is_sample)
        self.latest.beat()

    def _set(self, *, hears: bool) -> None:
        if hears is not self._hears:
            self._hears = hears
            self._engine.report_readings(is_on=hears)

"""Whether memory is scarce, looked at each second: before the kernel ends the process for it.

From `limits.memory_percent_max` on new sensors are refused (congestion), and readings that would
wait in memory for the broker go to the disk. It is over some percent below, so that it does not
come and go with each message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from gateway.admin.part_numbers import MemoryNumbers
from gateway.host.memory_use import MemoryUse, memory_use

log = logging.getLogger("tidegate.memory")

# Of the limit: how far below the watermark it is over.
HYSTERESIS = 0.05


class MemoryWatch:
    def __init__(
        self,
        percent_max: int,
        tell: Callable[[bool], None],
        read: Callable[[], MemoryUse | None] = memory_use,
    ) -> None:
        """`tell`: that it is scarce from now on, or no longer. 100 percent: never."""
        self.is_scarce = False
        self._share_max = percent_max / 100
        self._tell = tell
        self._read = read
        self._use: MemoryUse | None = None

    def look(self) -> None:
        """Each second."""
        use = self._use = self._read()
        share = 0.0 if use is None or self._share_max >= 1 else use.share
        least = self._share_max - (HYSTERESIS if self.is_scarce else 0.0)
        if (share >= least) == self.is_scarce or self._share_max >= 1:
            return
        self.is_scarce = not self.is_scarce
        self._tell(self.is_scarce)
        if self.is_scarce and use is not None:
            log.error(
                "memory is scarce: %.0f %% of the %d MiB of %s are used. New sensors are refused, "
                "and readings go to the disk instead of waiting in memory",
                100 * share,
                use.limit_bytes >> 20,
                use.place,
            )
        else:
            log.warning("memory is no longer scarce: new sensors are let in again")

    def numbers(self) -> MemoryNumbers:
        use = self._use
        if use is None:
            return MemoryNumbers()
        return MemoryNumbers(self.is_scarce, use.used_bytes, use.limit_bytes, use.place)

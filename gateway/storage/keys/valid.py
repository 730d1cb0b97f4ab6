"""Which keys are valid now: those of the file, without those whose time is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from gateway.core.access.device_keys import DeviceKeys
from gateway.storage.keys.records import KeyRecords


class ValidKeys:
    """A call is one look at the wall clock. While a clock is wrong, rotations end at the wrong
    time; nothing else depends on it.
    """

    def __init__(self, records: KeyRecords, now_s: Callable[[], float] = time.time) -> None:
        self._records = records
        self._now_s = now_s
        self._next_end_s = -inf
        self._valid = DeviceKeys()

    def __len__(self) -> int:
        """Devices."""
        return len(self._records)

    def __call__(self) -> DeviceKeys:
        now_s = self._now_s()
        if now_s >= self._next_end_s:
            valid = [each for each in self._records if not each.is_over(now_s)]
            ends = [each.until_s for each in valid if each.until_s is not None]
            self._next_end_s = min(ends, default=inf)
            self._valid = DeviceKeys(each.device_key() for each in valid)
        return self._valid

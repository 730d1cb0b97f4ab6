"""Many lives of one board in this process, most of them cut short: `Lives` of power_cuts.py starts
it, and no one else. A process for each life would take four times as long.

Standard input: a JSON object for each life, with `fuel` (0 for no end). Standard output: one for
how it ended, with what it printed. RTC memory and reset cause are carried from life to life.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from hil.boards.wasi.machine import Setting, live
from hil.boards.wasi.outcome import FUEL_FULL
from hil.boards.wasi.services import DEEP_SLEEP, HARD_RESET, POWER_ON

CAUSES = {"deepsleep": DEEP_SLEEP, "reset": HARD_RESET}


def main() -> None:
    setting = Setting(Path(sys.argv[1]), sys.argv[2])
    cause, rtc_memory = POWER_ON, b""
    for line in sys.stdin:
        asked = json.loads(line)
        printed = bytearray()
        outcome = live(
            setting,
            asked["program"],
            printed.extend,
            cause=cause,
            rtc_memory=rtc_memory,
            fuel=asked["fuel"] or FUEL_FULL,
        )
        cause, rtc_memory = CAUSES.get(outcome.how, POWER_ON), outcome.rtc_memory
        told = {"how": outcome.how, "fuel": outcome.fuel_used, "output": printed.decode()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    os._exit(0)  # as in hil/boards/wasi/__main__.py


if __name__ == "__main__":
    main()

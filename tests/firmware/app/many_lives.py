"""Many lives of one board in this process, most of them cut short: `Lives` of power_cuts.py starts
it, and no one else. A process for each life would take four times as long.

Standard input: a JSON object for each life, with `fuel` (0 for no end), the reset cause and the RTC
memory. Standard output: one for how it ended, with what it printed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from hil.boards.wasi.machine import Setting, run_program
from hil.boards.wasi.outcome import FUEL_FULL


def main() -> None:
    setting = Setting(Path(sys.argv[1]), sys.argv[2])
    for line in sys.stdin:
        asked = json.loads(line)
        printed = bytearray()
        outcome = run_program(
            setting,
            asked["program"],
            printed.extend,
            cause=asked["cause"],
            rtc_memory=bytes.fromhex(asked["rtc_memory"]),
            fuel=asked["fuel"] or FUEL_FULL,
        )
        told = {"how": outcome.how, "fuel": outcome.fuel_used, "output": printed.decode()}
        told["rtc_memory"] = outcome.rtc_memory.hex()
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    os._exit(0)  # as in hil/boards/wasi/__main__.py


if __name__ == "__main__":
    main()

"""One life of a board in a process of its own: `board.py` starts it, and no one else.

Standard input: a JSON object with the life's setting, and the descriptor `told` to which goes
another one that says how the life ended. Standard output: what the board prints.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from hil.boards.wasi.machine import Setting, live


def main() -> None:
    asked = json.load(sys.stdin)
    setting = Setting(Path(asked["flash"]), asked["heap"], uarts=tuple(asked["uarts"]))
    outcome = live(
        setting,
        asked["program"],
        lambda octets: _write(sys.stdout.fileno(), octets),
        cause=asked["cause"],
        rtc_memory=bytes.fromhex(asked["rtc_memory"]),
        fuel=asked["fuel"],
    )
    text = json.dumps({**asdict(outcome), "rtc_memory": outcome.rtc_memory.hex()})
    _write(asked["told"], text.encode())
    # An ordinary exit lets wasmtime's own threads end as they like, and one in ten writes a panic.
    os._exit(0)


def _write(descriptor: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(descriptor, octets) :]


if __name__ == "__main__":
    main()

"""Lives of boards, one after another, in a process that `host.py` starts, and no one else.

Argument: a descriptor, to which goes a JSON object for each life that ended, with how. Standard
input: one for each, with its setting. Standard output: what the boards print.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from hil.boards.wasi.machine import Setting, live


def main() -> None:
    told = int(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        outcome = live(
            Setting(Path(asked["flash"]), asked["heap"], uarts=tuple(asked["uarts"])),
            asked["program"],
            lambda octets: _write(sys.stdout.fileno(), octets),
            cause=asked["cause"],
            rtc_memory=bytes.fromhex(asked["rtc_memory"]),
            fuel=asked["fuel"],
        )
        text = json.dumps({**asdict(outcome), "rtc_memory": outcome.rtc_memory.hex()})
        _write(told, text.encode() + b"\n")
    # An ordinary exit lets wasmtime's own threads end as they like, and one in ten writes a panic.
    os._exit(0)


def _write(descriptor: int, octets: bytes) -> None:
    while octets:
        octets = octets[os.write(descriptor, octets) :]


if __name__ == "__main__":
    main()

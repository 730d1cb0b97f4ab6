"""Runs of boards, one after another, in a process that `host.py` starts, and nothing else.

Argument: a descriptor, to which goes a JSON object for each run that ended, with how. Standard
input: one for each, with its setting. Standard output: what the boards print.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from hil.boards.wasi.machine import Setting, run_program


def main() -> None:
    report_fd = int(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        outcome = run_program(
            Setting(Path(request["flash"]), request["heap"], uarts=tuple(request["uarts"])),
            request["program"],
            lambda chunk: _write(sys.stdout.fileno(), chunk),
            cause=request["cause"],
            rtc_memory=bytes.fromhex(request["rtc_memory"]),
            fuel=request["fuel"],
        )
        text = json.dumps({**asdict(outcome), "rtc_memory": outcome.rtc_memory.hex()})
        _write(report_fd, text.encode() + b"\n")
    # An ordinary exit lets wasmtime's own threads end as they like, and one in ten writes a panic.
    os._exit(0)


def _write(descriptor: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]


if __name__ == "__main__":
    main()

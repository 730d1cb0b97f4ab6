"""A board that is switched on and does what boards on a wall do: wake, sleep, wake, in one process.

Only `PoweredBoard` of `power.py` starts it. Standard input: a JSON object with what the board is;
then, at any time, one with the share of the next wake's work after which its power goes. Standard
output: what the board prints. To the descriptor `told` goes a JSON object for each wake that ended.
SIGUSR1 resets the interpreter; to cut the power the process is killed.

A sleep is as long as the board requests, but not longer than `pause_s`.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from hil.boards.reset_causes import CAUSES, POWER_ON, SOFT_RESET
from hil.boards.wasi.machine import Setting, interpreter, run_program
from hil.boards.wasi.outcome import FUEL_FULL, Outcome

LINE_BYTES_MAX = 4096


class Powered:
    def __init__(self, request: dict[str, Any]) -> None:
        self._setting = Setting(
            Path(request["flash"]), request["heap"], uarts=tuple(request["uarts"])
        )
        self._program: str = request["program"]
        self._report_fd: int = request["told"]
        self._pause_s: float = request["pause_s"]
        self._fuel_of_a_wake = 0
        self._cuts_at = 0.0
        self._cause = POWER_ON
        self._rtc_memory = b""
        self._is_reset = False
        self._signals, report = os.pipe()
        os.set_blocking(report, False)
        signal.set_wakeup_fd(report)
        signal.signal(signal.SIGUSR1, self._reset)

    def run(self) -> None:
        while True:
            outcome = self._run_wake()
            if outcome.how in ("exit", "power_cut"):
                return
            self._cause = CAUSES[outcome.how]
            self._rtc_memory = outcome.rtc_memory
            if outcome.how == "deepsleep":
                self._sleep(min(outcome.sleep_ms / 1000, self._pause_s))

    def _run_wake(self) -> Outcome:
        fuel = FUEL_FULL
        if self._cuts_at and self._fuel_of_a_wake:
            fuel = max(1, round(self._cuts_at * self._fuel_of_a_wake))
        began_at = time.monotonic()
        self._is_reset = False
        outcome = run_program(
            self._setting,
            self._program,
            lambda chunk: _write(sys.stdout.fileno(), chunk),
            cause=self._cause,
            rtc_memory=self._rtc_memory,
            fuel=fuel,
            is_reset=lambda: self._is_reset,
        )
        if outcome.how == "deepsleep":
            self._fuel_of_a_wake = outcome.fuel_used
        report = {"began_at": began_at, "ended_at": time.monotonic(), "how": outcome.how}
        _write(self._report_fd, json.dumps(report).encode() + b"\n")
        return outcome

    def _sleep(self, pause_s: float) -> None:
        """Orders come meanwhile, and a reset ends it."""
        ends_at = time.monotonic() + pause_s
        while (left := ends_at - time.monotonic()) > 0:
            ready = select.select([sys.stdin, self._signals], [], [], left)[0]
            if sys.stdin in ready:
                order = os.read(sys.stdin.fileno(), LINE_BYTES_MAX)
                if not order:  # the process that started us is gone
                    os._exit(0)
                self._cuts_at = float(json.loads(order)["cut_at"])
            if self._signals in ready:
                os.read(self._signals, LINE_BYTES_MAX)
                if self._is_reset:
                    self._cause = SOFT_RESET
                    return

    def _reset(self, number: int, frame: FrameType | None) -> None:
        self._is_reset = True


def _write(descriptor: int, chunk: bytes) -> None:
    while chunk:
        chunk = chunk[os.write(descriptor, chunk) :]


def main() -> None:
    # wasmtime keeps some folders of each interpreter open that did not come to its end.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as unread:
        request = json.loads(unread.readline())
    interpreter()
    Powered(request).run()
    os._exit(0)  # as in __main__.py


if __name__ == "__main__":
    main()

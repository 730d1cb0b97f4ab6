"""The gateway with a clock at the doors of its parts: `python -m tests.bench.timed_gateway`.

    python -m tests.bench.timed_gateway REPORT run --config FILE

It is the gateway itself; each named function counts the CPU time of the loop's thread that passes
in it and in nothing timed below it. What is in none of them is the loop's own: waiting, the sockets
of the broker's connection, tasks. The clocks cost something too, so the sum is compared with a run
without them. Counting begins with the first datagram; the report is written when the gateway
ends.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from gateway.__main__ import main as gateway_main
from gateway.app.shell import Shell
from gateway.core.engine import Engine
from gateway.storage.journal.committer import JournalCommitter
from gateway.storage.state.committer import StateCommitter
from gateway.transports.broker import link as broker
from gateway.transports.broker.link import BrokerLink
from gateway.transports.udp import mmsg
from gateway.transports.udp.datagrams import BatchedDatagrams
from gateway.transports.udp.link import UdpLink

LOOP = "loop"
# Functions that are methods, by the part that they are of.
METHODS: dict[str, tuple[tuple[type, str], ...]] = {
    "link": ((UdpLink, "_turn"), (UdpLink, "send_all")),
    "datagrams in": ((BatchedDatagrams, "receive"),),
    "datagrams out": ((BatchedDatagrams, "send"),),
    "shell": (
        (Shell, "on_datagrams"),
        (Shell, "on_bytes"),
        (Shell, "on_stored"),
        (Shell, "on_durable"),
    ),
    "engine, sensors": ((Engine, "receive"),),
    "engine, broker": ((Engine, "receive_upstream"),),
    "engine, other": (
        (Engine, "stored"),
        (Engine, "durable"),
        (Engine, "handle_time"),
        (Engine, "wake_at"),
    ),
    "broker link": ((BrokerLink, "write"),),
    "journal": ((JournalCommitter, "perform"),),
    "state": ((StateCommitter, "save"), (StateCommitter, "when_saved")),
}
CALLS = ("recvmmsg", "sendmmsg")
QUICK_ACK = "quick ack"
BEGINS_WITH = "shell"
PARTS = (*METHODS, *CALLS, QUICK_ACK, LOOP)


@dataclass(slots=True)
class Clocks:
    """Seconds of the loop's thread, and calls, by part."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    calls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    process_began: float = 0.0
    thread_began: float = 0.0
    now: Callable[[], float] = time.thread_time
    _inside: list[str] = field(default_factory=lambda: [LOOP])
    _latest: float = -1.0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        seconds, calls, inside = self.seconds, self.calls, self._inside
        clock = self.now
        may_begin = part == BEGINS_WITH

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._latest < 0:
                if not may_begin:
                    return function(*args, **kwargs)
                self._begin()
            at = clock()
            seconds[inside[-1]] += at - self._latest
            self._latest = at
            inside.append(part)
            calls[part] += 1
            try:
                return function(*args, **kwargs)
            finally:
                at = clock()
                seconds[part] += at - self._latest
                self._latest = at
                inside.pop()

        return timed

    def report(self) -> dict[str, Any]:
        """Other threads: what the process took beside this one."""
        process = time.process_time() - self.process_began
        return {
            "seconds": self.seconds,
            "calls": self.calls,
            "other_threads_s": process - (self.now() - self.thread_began),
        }

    def _begin(self) -> None:
        self._latest = self.thread_began = self.now()
        self.process_began = time.process_time()


def install(clocks: Clocks) -> None:
    """Before the gateway is built. What is not there any more is an AttributeError."""
    for part, functions in METHODS.items():
        for owner, name in functions:
            setattr(owner, name, clocks.timed(part, owner.__dict__[name]))
    assert mmsg.CALLS is not None, "this C library has no recvmmsg"
    receive, send = (
        clocks.timed(name, _plain(call)) for name, call in zip(CALLS, mmsg.CALLS, strict=True)
    )
    mmsg.CALLS = (receive, send)
    names = vars(broker)  # it has this function from elsewhere
    names["acknowledge_at_once"] = clocks.timed(QUICK_ACK, names["acknowledge_at_once"])


def _plain(call: Callable[..., int]) -> Callable[..., int]:
    """A function of C has no attributes that could be copied."""

    def plain(*args: Any) -> int:
        return call(*args)

    return plain


def main(words: Sequence[str]) -> int:
    clocks = Clocks()
    install(clocks)
    code = gateway_main(words[1:])
    Path(words[0]).write_text(json.dumps(clocks.report()))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

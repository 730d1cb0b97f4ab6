"""What a client costs in memory, in an engine that holds very many.

    python -m tests.bench.session_memory [--sessions N]

Octets are those that Python allocated (tracemalloc), the tables of the engine included. Nothing is
shared between clients but the configuration. `active`: connected in a session that stays, with one
topic registered and a filter of its own. `asleep`: the same, asleep. `caller`: has said CONNECT,
and nothing else yet.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from collections.abc import Callable

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.engine import Engine, EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.frames import Connect, Disconnect, Frame, Register, Subscribe, encode

SESSIONS = 20_000

Says = Callable[[int], list[Frame]]


def calls(number: int) -> list[Frame]:
    return [Connect(b"sensor-%05d" % number, 60)]


def connects(number: int) -> list[Frame]:
    name = b"greenhouse/%05d/" % number
    return [*calls(number), Register(0, 1, name + b"temperature"), Subscribe(2, name + b"valve", 1)]


def falls_asleep(number: int) -> list[Frame]:
    return [*connects(number), Disconnect(900)]


def bytes_for(says: Says, count: int) -> float:
    options = AdmissionOptions(clients_max=count, connects_at_once_max=count, callers_max=count)
    engine = Engine(EngineOptions(MqttOptions("gh", 1, "tidegate-gh"), admission=options))
    gc.collect()
    tracemalloc.start()
    for number in range(count):
        address = number.to_bytes(16, "big")
        engine.receive(0, [(address, encode(frame)) for frame in says(number)], 0.0)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(engine.sessions) + len(engine.half_open) == count
    return taken / count


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a client costs in memory.")
    parser.add_argument("--sessions", type=int, default=SESSIONS, metavar="N")
    count = parser.parse_args().sessions
    for what, says in (("caller", calls), ("active", connects), ("asleep", falls_asleep)):
        sys.stdout.write(f"{what:8} {bytes_for(says, count):8.0f} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What `Engine.receive` costs for one datagram, without sockets, broker and disk.

    python -m tests.bench.receive_cost [--rounds N]

`reading`: a PUBLISH at QoS 1 from a member, to the packet for the broker. `refused`: a CONNECT from
a stranger beyond `limits.connects_per_s_max`. `welcomed`: one within it. The best of all rounds,
for the machine is shared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from random import Random

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.engine import EngineOptions
from gateway.frames import Connect, Pingreq, encode
from tests.support.engine_bench import UPSTREAM, Bench, short

BATCH = 64
BATCHES = 100

Batch = list[tuple[bytes, bytes]]


def readings(bench: Bench) -> Callable[[int], Batch]:
    names = [b"s%d" % number for number in range(BATCH)]
    for name in names:
        bench.join(name)
        bench.say(name, Pingreq())

    def batch(number: int) -> Batch:
        datagram = encode(short(b"21.5", 1, number % 65_535 + 1))
        return [(name, datagram) for name in names]

    return batch


def strangers(_: Bench) -> Callable[[int], Batch]:
    dice = Random(1)

    def batch(_: int) -> Batch:
        return [
            (dice.randbytes(16), encode(Connect(b"spoof-%08x" % dice.getrandbits(32), 60)))
            for _ in range(BATCH)
        ]

    return batch


def cost_us(make: Callable[[Bench], Callable[[int], Batch]], at_once: int, rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        options = AdmissionOptions(connects_per_s_max=1, connects_at_once_max=at_once)
        bench = Bench(EngineOptions(UPSTREAM, admission=options))
        batch = make(bench)
        taken = 0.0
        for number in range(BATCHES):
            datagrams = batch(number)
            began = time.perf_counter()
            effects = bench.engine.receive(0, datagrams, bench.at)
            taken += time.perf_counter() - began
            bench.take(effects)
        best = min(best, taken / BATCHES / BATCH * 1e6)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what one datagram costs the engine.")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    most = BATCH * (BATCHES + 1)
    for what, make, at_once in (
        ("reading", readings, most),
        ("refused", strangers, 1),
        ("welcomed", strangers, most),
    ):
        sys.stdout.write(f"{what:8} {cost_us(make, at_once, rounds):6.2f} us\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

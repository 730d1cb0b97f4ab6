"""What protected packets cost the engine, beside plain ones, in turns.

    python -m tests.bench.protection_cost [--rounds N]

A PUBLISH at QoS 1 from each of 100 clients, and its PUBACK sealed, in CPU time of this process
alone. The best of all rounds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from gateway.frames import Connect, Pingreq, Puback, encode
from tests.support.engine_bench import short
from tests.support.protected_sensor import ProtectedBench, ProtectedSensor

CLIENTS = 100
TURNS = 20


def plain_us() -> float:
    bench = ProtectedBench()
    names = [b"s%d" % number for number in range(CLIENTS)]
    for name in names:
        bench.join(name)
    return _taken_us(
        bench, lambda number: [(name, encode(short(b"21.5", 1, number + 1))) for name in names]
    )


def protected_us(scheme: int, tag_bytes: int) -> float:
    names = [f"s{number}" for number in range(CLIENTS)]
    bench = ProtectedBench(*names)
    sensors = []
    for name in names:
        sensor = ProtectedSensor(
            bench, name, address=name.encode(), scheme=scheme, tag_bytes=tag_bytes
        )
        sensor.say(Connect(name.encode(), 60), Pingreq())
        sensors.append(sensor)
        bench.protected.append(sensor.peer)
    return _taken_us(
        bench,
        lambda number: [
            (each.address, each.channel.seal(encode(short(b"21.5", 1, number + 1))))
            for each in sensors
        ],
    )


def _taken_us(bench: ProtectedBench, batch: Callable[[int], list[tuple[bytes, bytes]]]) -> float:
    taken = 0.0
    for number in range(TURNS):
        datagrams = batch(number)
        began = time.process_time()
        effects = bench.engine.receive(0, datagrams, bench.at)
        taken += time.process_time() - began
        bench.take(effects)  # the broker answers, and bench.datagrams has PUBACK in its envelope
        answer = encode(Puback(1, number, 0))
        began = time.process_time()
        for address in bench.protected:
            bench.engine.sealed(address, answer)
        taken += time.process_time() - began
        bench.datagrams.clear()
    return taken / TURNS / CLIENTS * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what protected packets cost.")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    best: dict[str, float] = {}
    for _ in range(parser.parse_args().rounds):
        for what, taken in (
            ("plain", plain_us()),
            ("hmac-sha256, 64 bits", protected_us(0, 8)),
            ("aes-ccm-64", protected_us(0x40, 8)),
        ):
            best[what] = min(taken, best.get(what, taken))
    for what, taken in best.items():
        sys.stdout.write(f"{what:22} {taken:6.2f} us\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What one frame on a serial line costs, without the line.

    python -m tests.bench.serial_framing [--rounds N]

Microseconds for a frame around a PUBLISH at QoS 1 of 20 and of 200 octets: `wrap` for one that is
sent; `alone` for one that a read brings by itself, `many` for one of 64, `pieces` for one that
comes in reads of 8 octets; `noise` for as many octets of it. The best of all rounds, for the
machine is shared. The last column is the share of one processor that a line at 115,200 baud full of
such frames would take.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from random import Random

from gateway.frames import Publish, encode
from gateway.transports.serial.framing_choice import Framing, FramingKind, framing

KINDS: tuple[FramingKind, ...] = ("hdlc", "slip", "raw")
SIZES = (20, 200)
AT_ONCE = 64
PIECE_OCTETS = 8
REPEATS = 200
OCTETS_PER_S = 11_520  # at 115,200 baud: ten bits for each


def messages_of(octets: int) -> list[bytes]:
    """Payloads are random, so that there is something to escape, as there is in any message id."""
    dice = Random(octets)
    return [
        encode(Publish(5, number, dice.randbytes(octets - 7), qos=1)) for number in range(AT_ONCE)
    ]


def best_us(work: Callable[[], object], rounds: int) -> float:
    """For one frame; `work` is AT_ONCE of them."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(REPEATS):
            work()
        best = min(best, time.perf_counter() - began)
    return best / REPEATS / AT_ONCE * 1e6


def feeding(line: Framing, reads: list[bytes]) -> Callable[[], None]:
    def feed() -> None:
        for octets in reads:
            line.feed(octets, 0.0)

    return feed


def costs_us(kind: FramingKind, octets: int, rounds: int) -> list[float]:
    line = framing(kind, message_bytes_max=1024)
    messages = messages_of(octets)
    frames = [line.wrap(message) for message in messages]
    stream = b"".join(frames)
    pieces = [stream[at : at + PIECE_OCTETS] for at in range(0, len(stream), PIECE_OCTETS)]
    noise = [Random(octets).randbytes(len(frame)) for frame in frames]
    if line.feed(stream, 0.0) != messages:
        raise SystemExit(f"{kind} does not receive what it sends")
    works = [
        lambda: [line.wrap(message) for message in messages],
        feeding(line, frames),
        feeding(line, [stream]),
        feeding(line, pieces),
        feeding(line, noise),
    ]
    costs = []
    for work in works:
        line.reset()
        costs.append(best_us(work, rounds))
    return [*costs, costs[1] * OCTETS_PER_S / (len(stream) / AT_ONCE) / 1e4]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a frame on a serial line costs.")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    out = sys.stdout
    out.write("framing  bytes    wrap   alone    many  pieces   noise   full line\n")
    for kind in KINDS:
        for octets in SIZES:
            *costs, percent = costs_us(kind, octets, rounds)
            cells = "".join(f"{cost:8.2f}" for cost in costs)
            out.write(f"{kind:<7}{octets:>8}{cells}{percent:>10.2f} %\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

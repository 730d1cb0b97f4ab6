"""Connects under very many client ids from one host, as fast as it is told.

    python -m tests.support.many_ids --port 1883 --host 127.0.9.9 --ids 10000 --frames 2

With two frames, CONNECT and PINGREQ, each id is a client; with one it stays half-open. Each id has
a port of its own, or all have one (`--one-port`): their sessions stay all the same, as they are not
clean. No answer is read. Prints how many ids there were and at which rate.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from gateway.frames import Connect, Pingreq, encode

BURST = 16
FIRST_PORT = 10_000


def connect(port: int, host: str, ids: int, frames: int, rate: float, *, one_port: bool) -> None:
    began = time.monotonic()
    ports = count(FIRST_PORT)
    air = _socket(port, host, ports)
    for number in range(ids):
        early_s = began + number / rate - time.monotonic()
        if number % BURST == 0 and early_s > 0:
            time.sleep(early_s)
        if number and not one_port:
            air.close()
            air = _socket(port, host, ports)
        name = b"hostile-%05d" % number
        air.send(encode(Connect(name, 600, clean_session=not one_port)))
        for _ in range(frames - 1):
            air.send(encode(Pingreq()))
    air.close()


def _socket(port: int, host: str, ports: Iterator[int]) -> socket.socket:
    """At the next port that is free: one that the kernel chose would come again."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for own in ports:
        with suppress(OSError):
            made.bind((host, own))
            break
    made.connect(("127.0.0.1", port))
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description="Connect under many ids from one host.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.9.9", help="an address of this machine")
    parser.add_argument("--ids", type=int, default=10_000)
    parser.add_argument("--frames", type=int, default=2)
    parser.add_argument("--rate", type=float, default=2000.0, help="ids a second")
    parser.add_argument("--one-port", action="store_true")
    given = parser.parse_args()
    began = time.monotonic()
    connect(
        given.port, given.host, given.ids, given.frames, given.rate, one_port=given.one_port
    )  # fmt: skip
    per_s = given.ids / (time.monotonic() - began)
    sys.stdout.write(f"{given.ids} ids, {per_s:.0f} a second\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

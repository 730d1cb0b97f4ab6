"""What a key costs a node for each reading: the time, and the heap until the next collection.

    python -m tests.firmware.protect_cost [--readings N]

A reading of 20 bytes at QoS 1 and its PUBACK, from `Client.publish` down to a transport in memory
that has all answers ready: plain, by HMAC-SHA256 with a tag of 8 bytes, and by AES-CCM with 8. On
the simulated board (32 bits, without AES) instructions of WebAssembly are counted, which depend on
no machine; on the Unix port (64 bits) the time is taken.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from firmware.mqttsn.protect import AES_CCM_64, HMAC_SHA256, _derived
from hil.boards.unix import interpreter
from hil.boards.wasi.board import WasiBoard, why_not
from tests.support.boards import board_with, built

SENDER, SECRET = b"12345678", bytes(range(16))
PLAIN = -1
SCHEMES = {"plain": PLAIN, "HMAC-SHA256": HMAC_SHA256, "AES-CCM": AES_CCM_64}
READINGS = 50
TIMEOUT_S = 120.0

PROGRAM = """
import gc, time
from struct import pack
from mqttsn import Client

scheme, sender, count = {scheme}, {sender}, {count}
cipher_of = None
if scheme >= 0:
    from mqttsn.protect import Hmac, Protected, same
    cipher_of = lambda key: Hmac(key, 8)
    if scheme:
        from mqttsn.ccm import Ccm
        cipher_of = lambda key: Ccm(key[:16], 8, same)

class Air:
    gateways, index = 1, 0
    def __init__(self):
        self.counter, self.token, self.said, self.ready = 1, b"", b"", []
        self.is_asked = False
        if cipher_of:
            self.up, self.down = cipher_of({up}), cipher_of({down})
    def send(self, frame, size):
        self.is_asked = True
        if not self.ready:
            self.said = bytearray(memoryview(frame)[:size])
    def receive(self, buffer, wait_ms):
        if not self.is_asked:
            return 0
        self.is_asked = False
        if self.ready:
            answer = self.ready[self.at]
            self.at += 1
            if self.at == len(self.ready):
                self.ready = b""
        else:
            said = self.opened(self.said)
            if said[1] == 4:
                answer = self.sealed(b"\\3\\5\\0")
            else:
                self.number = said[5] << 8 | said[6]
                answer = self.puback(self.number)
        buffer[:len(answer)] = answer
        return len(answer)
    def puback(self, number):
        return self.sealed(pack(">BB2sHB", 7, 13, b"ab", number, 0))
    def opened(self, said):
        if not cipher_of:
            return said
        if not self.up.open(said, 24, len(said) - 8, len(said)):
            raise ValueError
        said = said[24:-8]
        if said[0]:
            return said
        self.token = bytes(said[2:10])
        return said[18:]
    def sealed(self, packet):
        if not cipher_of:
            return packet
        if self.token:
            packet, self.token = b"\\0\\2" + self.token + packet, b""
        size = 32 + len(packet)
        whole = bytearray(size)
        whole[:24] = pack(">BBBB8s4sHHI", size, 255, 26 if scheme else 74, scheme, sender, b"run1",
            1, 1, self.counter)
        whole[24:24 + len(packet)] = packet
        self.counter += 1
        self.down.seal(whole, 24, size - 8)
        return whole
    def next(self): pass
    def close(self): pass

air = transport = Air()
if cipher_of:
    transport = Protected(air, sender, {secret}, b"", print, scheme=scheme)
client = Client(transport, b"node")
payload = b"21.5" * 5
for _ in range(3):
    client.publish(b"ab", payload, 1)

def get_ready(count):
    number, answers = air.number, []
    for _ in range(count):
        number = number % 65535 + 1
        answers.append(air.puback(number))
    air.ready, air.at = answers, 0

_ = number = before = allocated = taken = 0
get_ready(1)
client.publish(b"ab", payload, 1)
air.number = air.number % 65535 + 1
get_ready(5)
gc.collect()
gc.disable()
before = gc.mem_alloc()
for _ in range(5):
    client.publish(b"ab", payload, 1)
allocated = (gc.mem_alloc() - before) // 5
gc.enable()
air.number = (air.number + 4) % 65535 + 1
get_ready(count)
gc.collect()
before = time.ticks_us()
for _ in range(count):
    client.publish(b"ab", payload, 1)
taken = time.ticks_diff(time.ticks_us(), before)
print("allocated", allocated, "us", taken, "left", len(air.ready))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """For a reading. `effort`: microseconds, or thousands of instructions."""

    allocated: int
    effort: float


def text_of(scheme: int, count: int) -> str:
    up, down = (_derived(SECRET, each, 1, max(0, scheme), SENDER) for each in (b"u", b"d"))
    return PROGRAM.format(
        scheme=scheme, sender=SENDER, secret=SECRET, count=count, up=up, down=down
    )


def in_unix(library: Path, scheme: int, count: int) -> Cost:
    done = subprocess.run(
        [interpreter.path(), "-X", "heapsize=512k", "-c", text_of(scheme, count)],
        env={**os.environ, "MICROPYPATH": str(library)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    allocated, us = _read(done.stdout + done.stderr)
    return Cost(allocated, us / count)


def in_wasi(board: WasiBoard, scheme: int, count: int) -> Cost:
    used = []
    for each in (count, 2 * count):
        outcome = board.run(text_of(scheme, each), timeout_s=TIMEOUT_S)
        allocated, _ = _read(board.output)
        used.append(outcome.fuel_used)
    # Preparing an answer costs instructions as well: those are taken from the difference.
    prepared = _prepared(board, scheme, count)
    return Cost(allocated, (used[1] - used[0] - prepared) / count / 1e3)


def _prepared(board: WasiBoard, scheme: int, count: int) -> int:
    """Instructions for so many answers."""
    measured = []
    for each in (count, 2 * count):
        text = text_of(scheme, each)
        end = text.index("for _ in range(count):\n    client.publish")
        outcome = board.run(text[:end], timeout_s=TIMEOUT_S)
        measured.append(outcome.fuel_used)
    return measured[1] - measured[0]


def _read(output: str) -> tuple[int, int]:
    found = re.fullmatch(r"(?:.*\n)*allocated (\d+) us (\d+) left 0\n", output)
    if found is None:
        raise RuntimeError(output)
    return int(found[1]), int(found[2])


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what a key costs a node.")
    parser.add_argument("--readings", type=int, default=READINGS, metavar="N")
    count = parser.parse_args().readings
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder, "library"))
        measure: dict[str, Callable[[int], Cost]] = {}
        if why_not() is None:
            board = board_with(library, Path(folder, "flash"), heap="64k")
            measure["simulated board, 1,000 instructions"] = lambda each: in_wasi(
                board, each, count
            )
        if interpreter.why_not() is None:
            measure["Unix port, us"] = lambda each: min(
                (in_unix(library, each, count * 10) for _ in range(5)), key=lambda cost: cost.effort
            )
        for where, of in measure.items():
            for what, scheme in SCHEMES.items():
                if scheme == AES_CCM_64 and "simulated" in where:
                    continue  # it has no AES
                cost = of(scheme)
                sys.stdout.write(
                    f"{where:38} {what:12} {cost.effort:8.1f} {cost.allocated:6} bytes\n"
                )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

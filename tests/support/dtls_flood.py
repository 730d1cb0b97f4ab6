"""What a hostile network sends to a DTLS listener, as fast as it is told; no answer is awaited.

    python -m tests.support.dtls_flood --port 8883 --family 4 --datagrams 100000 --rate 5000
        --as FD,RECORD,ANSWER ...

Kinds in turn: a ClientHello without a cookie from one of many addresses; one that is cut; a record
of no session; and, with sockets of sensors that are connected (`--as`: descriptor, a record of the
sensor's and one of the gateway's, in hexadecimal digits), as from a spoofed address: a ClientHello,
and records that are repeated, reflected, forged and cut. Beside them `--cookies` handshakes a
second that answer the cookie and are left then. Prints how many there were and at which rate.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import time
from contextlib import suppress

from tests.support.dtls_client import DtlsClient

PORTS = 500  # of hostile addresses; in IPv4 each is a host of its own
BURST = 16
HEAD_BYTES = 13


class Hostile:
    def __init__(self, family: int, port: int, spoofed: list[tuple[socket.socket, bytes, bytes]]):
        self.dice = random.Random(46)
        self.spoofed = spoofed
        self.gateway = ("127.0.0.1" if family == 4 else "::1", port)
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        self.places = [self._place(kind, number) for number in range(PORTS)]
        (self.hello,) = DtlsClient("unknown", bytes(16)).begin()

    def _place(self, kind: socket.AddressFamily, number: int) -> socket.socket:
        made = socket.socket(kind, socket.SOCK_DGRAM)
        made.bind(
            (f"127.9.{number // 250}.{number % 250 + 1}" if kind == socket.AF_INET else "", 0)
        )
        made.connect(self.gateway)
        made.setblocking(False)
        return made

    def send(self, number: int) -> None:
        dice = self.dice
        place = dice.choice(self.places)
        sensor, record, answer = dice.choice(self.spoofed)
        cut = dice.randrange(1, len(record))
        match number % 8:
            case 0:
                self._send(place, self.hello)
            case 1:
                self._send(place, self.hello[: dice.randrange(1, len(self.hello))])
            case 2:
                self._send(place, record)
            case 3:
                self._send(sensor, self.hello)
            case 4:
                self._send(sensor, record)
            case 5:
                self._send(sensor, answer)
            case 6:
                later = (int.from_bytes(record[5:11], "big") + dice.randrange(1 << 32)) % (1 << 48)
                self._send(sensor, record[:5] + later.to_bytes(6, "big") + record[11:])
            case _:
                self._send(sensor, record[:cut])

    def _send(self, place: socket.socket, datagram: bytes) -> None:
        with suppress(OSError):
            place.send(datagram)

    def begin_handshake(self) -> None:
        """As far as the gateway keeps something of it."""
        place, client = self.dice.choice(self.places), DtlsClient("unknown", bytes(16))
        with suppress(OSError):
            while True:
                place.recv(2048)
        for each in client.begin():
            self._send(place, each)
        time.sleep(0.002)
        with suppress(OSError):
            for each in client.receive(place.recv(2048)):
                self._send(place, each)


def main() -> int:
    parser = argparse.ArgumentParser(description="Flood a DTLS listener.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--family", type=int, choices=(4, 6), default=4)
    parser.add_argument("--datagrams", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=5000.0)
    parser.add_argument("--cookies", type=float, default=20.0)
    parser.add_argument("--as", dest="sensors", action="append", default=[])
    given = parser.parse_args()
    spoofed = []
    for each in given.sensors:
        number, record, answer = each.split(",")
        sensor = socket.socket(fileno=int(number))
        spoofed.append((sensor, bytes.fromhex(record), bytes.fromhex(answer)))
    hostile = Hostile(given.family, given.port, spoofed)
    began, begun = time.monotonic(), 0
    for number in range(given.datagrams):
        since_s = time.monotonic() - began
        if number % BURST == 0 and number / given.rate > since_s:
            time.sleep(number / given.rate - since_s)
        if since_s * given.cookies > begun:
            begun += 1
            hostile.begin_handshake()
        hostile.send(number)
    took_s = time.monotonic() - began
    sys.stdout.write(
        f"{given.datagrams} datagrams in {took_s:.1f} s, {given.datagrams / took_s:.0f} a second, "
        f"and {begun} handshakes begun\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

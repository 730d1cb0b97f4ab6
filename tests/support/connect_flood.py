"""Sends CONNECTs in the name of very many clients that are not there, as fast as it is told.

    python -m tests.support.connect_flood --port 1883 --rate 50000 --seconds 10

Each datagram has another source address below 127.0.0.0/8 and another client id; a third of them
wants a session that stays, a fifth a will. The addresses are real ones of this machine, so no
privilege is needed; what is answered reaches a socket that nobody reads. Prints how many were sent
and at which rate, which is lower where the machine cannot send as many.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import time
from random import Random

from gateway.frames import Connect, encode

SOCKETS = 16  # ports
SOURCES = 4096  # addresses, used again with other ports
IDS = 65_536
BURST = 64
IP_PKTINFO = 8


def sources(dice: Random) -> list[list[tuple[int, int, bytes]]]:
    """What sendmsg wants, to have a datagram come from an address."""
    found = []
    for _ in range(SOURCES):
        host = bytes((127, dice.randint(1, 254), dice.randint(0, 255), dice.randint(1, 254)))
        packet_info = struct.pack("=I4s4s", 0, host, bytes(4))
        found.append([(socket.IPPROTO_IP, IP_PKTINFO, packet_info)])
    return found


def connects(dice: Random) -> list[bytes]:
    return [
        encode(
            Connect(
                b"spoof-%08x" % dice.getrandbits(32),
                dice.choice((60, 600, 3600)),
                will=dice.random() < 0.2,
                clean_session=dice.random() < 2 / 3,
            )
        )
        for _ in range(IDS)
    ]


def flood(port: int, rate: float, seconds: float) -> int:
    dice = Random(port)
    air = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(SOCKETS)]
    hosts, datagrams = sources(dice), connects(dice)
    gateway = ("127.0.0.1", port)
    sent = 0
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        if sent > elapsed * rate:
            time.sleep((sent - elapsed * rate) / rate)
            continue
        sender = air[sent // BURST % SOCKETS]
        for number in range(sent, sent + BURST):
            host = hosts[number % SOURCES]
            sender.sendmsg([datagrams[number % IDS]], host, 0, gateway)
        sent += BURST
    return sent


def main() -> int:
    parser = argparse.ArgumentParser(description="Flood a gateway on this machine with CONNECTs.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, default=50_000.0, help="CONNECTs a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    began = time.monotonic()
    sent = flood(given.port, given.rate, given.seconds)
    per_s = sent / (time.monotonic() - began)
    sys.stdout.write(f"{sent} sent, {per_s:.0f} a second\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The round trip to a node's address, by ICMP and without privileges: an estimate of what its
datagrams take. Nothing where the system or the node does not answer such questions.
"""

from __future__ import annotations

import os
import socket
import struct
import time

TRIES = 3
PATIENCE_S = 1.0
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_HEAD = struct.Struct(">BBHHH")


def round_trip_s(host: str) -> float | None:
    """Of IPv4; the shortest of a few."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as asked:
            asked.settimeout(PATIENCE_S)
            asked.connect((host, 0))
            found = [_once(asked, number) for number in range(TRIES)]
    except (OSError, ValueError):
        return None
    answered = [seconds for seconds in found if seconds is not None]
    return min(answered, default=None)


def _once(asked: socket.socket, number: int) -> float | None:
    head = _HEAD.pack(_ECHO_REQUEST, 0, 0, 0, number)  # the kernel sets id and checksum
    began = time.monotonic()
    asked.send(head + os.urandom(8))
    try:
        while True:
            answer = asked.recv(256)
            if answer[0] == _ECHO_REPLY and _HEAD.unpack_from(answer)[4] == number:
                return time.monotonic() - began
    except TimeoutError:
        return None

"""Finding gateways: SEARCHGW to a group or a broadcast address, GWINFO and ADVERTISE back (6.1).

    found = find(("225.1.1.1", 1883))      # [("192.168.1.10", 1883)], or [] after a minute
    client = Client(Udp(*found), b"greenhouse-3")

Rules
- The first question comes after up to 5 s, by dice, so that a hall of nodes that got its power back
  does not ask at once; later ones after twice the pause each, up to PAUSE_MS_MAX.
- A gateway is known until it has missed ADVERTISED_MAX of its own ADVERTISEs; by GWINFO, which does
  not say, as long as by one an hour.
- An address is as the port has it: a tuple, on the Unix port bytes. `Udp` takes both.
- GWINFO with an address is another node's and passed over: 1.2 has no layout for that address.

Limits: GATEWAYS_MAX gateways; with one more the one is forgotten that would be the first.
"""

from random import getrandbits

try:
    from time import sleep_ms, ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, sleep_ms, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ADVERTISE = const(0x00)
_GWINFO = const(0x02)
_SEARCHGW = const(b"\x03\x01\x00")  # radius 0: as far as the group goes

_SEARCH_MS = const(5_000)  # T_SEARCHGW
_PAUSE_MS_MAX = const(900_000)
_ADVERTISED_MAX = const(3)  # N_ADV
_UNSAID_S = const(3_600)
_GATEWAYS_MAX = const(4)
_POLL_MS = const(20)
_DATAGRAM_MAX = const(64)


class Search:
    """When to ask, and who answered; without a clock or a network of its own."""

    def __init__(self, dice: "Callable[[int], int]") -> None:
        self.dice = dice
        self.gateways: dict[int, tuple[Any, int]] = {}  # address and remaining ms, by GwId
        self.wait_ms = dice(13) * _SEARCH_MS >> 13
        self.pause_ms = _SEARCH_MS

    def due(self, elapsed_ms: int) -> bool:
        """Whether to ask now, after so much time has passed."""
        for number in list(self.gateways):
            address, left_ms = self.gateways[number]
            self.gateways[number] = (address, left_ms - elapsed_ms)
            if left_ms <= elapsed_ms:
                del self.gateways[number]
        self.wait_ms -= elapsed_ms
        if self.wait_ms > 0:
            return False
        self.wait_ms = self.pause_ms + (self.dice(8) * self.pause_ms >> 9)
        self.pause_ms = min(2 * self.pause_ms, _PAUSE_MS_MAX)
        return True

    def receive(self, heard: bytes, address: "Any") -> bool:
        """Take a datagram from there; whether it was a gateway's."""
        if len(heard) == 5 and heard[:2] == bytes((5, _ADVERTISE)):
            duration_s = heard[3] << 8 | heard[4]
        elif len(heard) == 3 and heard[:2] == bytes((3, _GWINFO)):
            duration_s = _UNSAID_S
        else:
            return False
        number = heard[2]
        if number not in self.gateways and len(self.gateways) >= _GATEWAYS_MAX:
            first = min(self.gateways, key=lambda known: self.gateways[known][1])
            del self.gateways[first]
        self.gateways[number] = (address, duration_s * _ADVERTISED_MAX * 1000)
        return True


def find(group: tuple[str, int], limit_ms: int = 60_000, more_ms: int = 500) -> "list[Any]":
    """Addresses of gateways, in order of their ids; waits for more when one has answered."""
    from socket import AF_INET, SOCK_DGRAM, getaddrinfo, socket  # here: not every board has it

    to = getaddrinfo(*group)[0][-1]
    search = Search(getrandbits)
    asking: Any = socket(AF_INET, SOCK_DGRAM)
    try:
        asking.setblocking(False)
        _allow_broadcast(asking)
        start = at = ticks_ms()
        while not search.gateways and ticks_diff(ticks_ms(), start) < limit_ms:
            now = ticks_ms()
            if search.due(ticks_diff(now, at)):
                asking.sendto(_SEARCHGW, to)
            at = now
            _hear(search, asking)
        start = ticks_ms()
        while search.gateways and ticks_diff(ticks_ms(), start) < more_ms:
            _hear(search, asking)
    finally:
        asking.close()
    return [search.gateways[number][0] for number in sorted(search.gateways)]


def _hear(search: Search, asking: "Any") -> None:
    try:
        heard, address = asking.recvfrom(_DATAGRAM_MAX)
    except OSError:
        sleep_ms(_POLL_MS)
    else:
        search.receive(heard, address)


def _allow_broadcast(asking: "Any") -> None:
    """Some ports have no such option, and need none for a group."""
    try:
        from socket import SO_BROADCAST, SOL_SOCKET

        asking.setsockopt(SOL_SOCKET, SO_BROADCAST, 1)
    except (ImportError, OSError):
        pass

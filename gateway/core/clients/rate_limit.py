"""How many packets one address may send in a second, for those addresses that clients have.

What comes beyond that is dropped unread; an answer is not owed, as to a packet that the network
lost. Unknown peers are bounded elsewhere, all of them together (`admission.py`).

Limit: one number for each member that sent something in this second.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Effect
from gateway.core.values import Peer

WINDOW_S = 1.0

Datagram = tuple[bytes, bytes]


class RateLimit:
    def __init__(self, packets_per_s_max: int) -> None:
        self._most = packets_per_s_max
        self._counts: dict[tuple[int, bytes], int] = {}
        self._ends_at = 0.0

    def within(
        self, link: int, datagrams: Iterable[Datagram], client_table: Container[bytes], now: float
    ) -> tuple[list[Datagram], list[Effect]]:
        """What may be read of what came from this link, and news of the rest."""
        if now >= self._ends_at:
            self._counts.clear()
            self._ends_at = now + WINDOW_S
        counts, most = self._counts, self._most
        passed: list[Datagram] = []
        dropped: dict[bytes, int] = {}
        for each in datagrams:
            address = each[0]
            if address in client_table:
                key = (link, address)
                count = counts[key] = counts.get(key, 0) + 1
                if count > most:
                    dropped[address] = dropped.get(address, 0) + 1
                    continue
            passed.append(each)
        detail = f"more than {most} packets/s"
        return passed, [
            Dropped(
                reason=Reason.TOO_MANY_PACKETS,
                client_id=None,
                detail=detail,
                peer=Peer(link, address),
                count=count,
            )
            for address, count in dropped.items()
        ]

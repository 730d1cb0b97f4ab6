"""Who was just told to go, so that two gateways do not tell each other for ever.

To a gateway another one is an unknown peer, and what unknown peers say is answered with DISCONNECT.
One datagram that somebody sends to the one in the name of the other would set them off, and take
the unknown peers' budget of both for good. So a DISCONNECT within `ECHO_S` of ours is taken for the
answer to it. A client that repeats its own DISCONNECT does so after T_retry, which is longer.

Full: beyond `REMEMBERED_MAX` the oldest is forgotten. The unknown peers' budget lets fewer be told.
"""

from __future__ import annotations

from gateway.core.values import Peer

ECHO_S = 5.0  # the longest way there and back that is known of, and half of T_retry (1.2, 7.2)
REMEMBERED_MAX = 256


class DisconnectEchoes:
    def __init__(self) -> None:
        self._sent_at: dict[Peer, float] = {}  # the oldest first

    def sent(self, peer: Peer, now: float) -> None:
        """We sent DISCONNECT to this unknown peer."""
        self._sent_at.pop(peer, None)
        if len(self._sent_at) >= REMEMBERED_MAX:
            del self._sent_at[next(iter(self._sent_at))]
        self._sent_at[peer] = now

    def is_echo(self, peer: Peer, now: float) -> bool:
        """Whether a DISCONNECT from there answers ours."""
        sent_at = self._sent_at.get(peer)
        return sent_at is not None and now < sent_at + ECHO_S

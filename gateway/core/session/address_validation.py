"""Where a client is, and whether that is believed.

Whoever sends one datagram can write any address on it. So an address is believed when a second
frame comes from it: CONNECT, and PINGREQ with a client id from an address that was not the
client's, only say where a client wants to be. Until then it gets no more than `egress_budget.py`
has, which is enough for a REGISTER, whose REGACK is the second frame.

Limit of this: who sends two frames in another's name is believed. MQTT-SN 1.2 has nothing to ask
for that only one who hears us could say, and that every client says.
"""

from __future__ import annotations

from gateway.core.events import Output
from gateway.core.session.persistence import LastingSession
from gateway.core.session.states import Input
from gateway.core.values import Peer
from gateway.frames import Connect


class Whereabouts(LastingSession):
    __slots__ = ()

    @property
    def is_address_validated(self) -> bool:
        return self.outbound.is_address_validated

    def moved_to(self, peer: Peer, octets: int) -> None:
        """So many octets came from there in the client's name; they prove nothing yet."""
        if peer != self.peer:
            self.outbound.require_validation(octets)
        else:
            self.outbound.earn(octets)
        self.peer = peer

    def rebind(self, peer: Peer, octets: int, now: float) -> list[Output]:
        """A sleeper says from elsewhere that it is awake; that is saved before it is answered."""
        self.moved_to(peer, octets)
        self.outbound.moved(now)
        return self._changed_row()

    def connect_received(self, frame: Connect, now: float) -> list[Output]:
        """CONNECT of a new client, which was answered then, before there was this session."""
        self.last_received_at = now
        self.keep_alive_s = frame.duration_s
        self.clean = frame.clean_session
        effects = self._move(Input.CONNECT)
        if frame.will:
            self.silence_max_s = self._options.patience_s
            return effects
        effects += self._move(Input.ADMITTED, f"keep-alive {self.keep_alive_s} s")
        self._supervise(self.keep_alive_s)
        return effects + self._changed_row()

"""Client ids that are in use at two addresses in turn: most often two sensors with one program.

Each CONNECT takes the client to where it came from (`docs/spec_decisions.md`, "Two clients and one
address"), so both are served, and neither lastingly. A client that moves, or has another port each
time behind a NAT, does not come back to where it was; so one that does, `RETURNS_MIN` times with no
more than `RETURN_S` between two moves, is two. It changes nothing but that an operator hears of it.

Limit: the `MOVES_MAX` clients that moved last are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from gateway.core.effects import IdShared
from gateway.core.events import Output
from gateway.core.state_records import ClientId
from gateway.core.values import Peer

RETURN_S = 600.0
RETURNS_MIN = 2
MOVES_MAX = 1000


@dataclass(slots=True)
class Moves:
    """Of one client: where it was before its last move, and how often it came back."""

    before: Peer
    after: Peer
    at: float
    returns: int = 0
    told_at: float = -inf


class SharedIds:
    def __init__(self) -> None:
        self._moves: dict[ClientId, Moves] = {}  # the last one to move last

    def moved(self, client_id: ClientId, before: Peer, after: Peer, now: float) -> list[Output]:
        """A client is said to be elsewhere now."""
        moves = self._moves.pop(client_id, None)
        if moves is None or now - moves.at > RETURN_S:
            if len(self._moves) >= MOVES_MAX:
                del self._moves[next(iter(self._moves))]
            self._moves[client_id] = Moves(before, after, now)
            return []
        self._moves[client_id] = moves
        is_return = after == moves.before and before == moves.after
        moves.returns = moves.returns + 1 if is_return else 0
        moves.before, moves.after, moves.at = before, after, now
        if moves.returns < RETURNS_MIN or now - moves.told_at <= RETURN_S:
            return []
        moves.told_at = now
        return [IdShared(client_id, before, after)]

    def in_use(self, now: float) -> list[tuple[ClientId, Peer, Peer]]:
        """Those that are shared now, with both addresses."""
        return [
            (client_id, moves.before, moves.after)
            for client_id, moves in self._moves.items()
            if moves.returns >= RETURNS_MIN and now - moves.at <= RETURN_S
        ]

"""The connection that a will handshake interrupts, and to which the client may return.

CONNECT with a will from a client that is here begins a handshake. The network makes copies, and a
CONNECT that comes late looks like any other; but a client that is not in a handshake says what no
handshake knows, or nothing. By either the CONNECT is known for a copy, and the client goes on where
it was. One that is really gone then is lost by its silence as any other, and its will published.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.effects import State

# As what one returns that was here; who was awake asks again.
_RETURNS_AS = {
    State.ACTIVE: State.ACTIVE,
    State.ASLEEP: State.ASLEEP,
    State.AWAKE: State.ASLEEP,
}


@dataclass(frozen=True, slots=True)
class Interrupted:
    """What CONNECT changed before it was known whether its client is in a handshake."""

    state: State  # DISCONNECTED: a clean CONNECT has ended it, and there is no way back
    clean: bool
    keep_alive_s: int

    @classmethod
    def of(cls, state: State, clean: bool, keep_alive_s: int) -> Interrupted | None:
        """None where the client was not here."""
        returns_as = _RETURNS_AS.get(state)
        return None if returns_as is None else cls(returns_as, clean, keep_alive_s)


ENDED = Interrupted(State.DISCONNECTED, clean=True, keep_alive_s=0)

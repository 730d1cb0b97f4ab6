"""The states a client can be in, and the only arrows between them.

Everything that moves a client from state to state is in TRANSITIONS; an arrow that is not there
is not allowed, and the frame that asked for it is answered as `session.py` says. docs/states.svg
is drawn from this table by `python -m gateway.core.session.states_drawing`, so the picture cannot
disagree with the code.

CONNECT with a will from a client that is here begins a handshake. The network makes copies, and a
CONNECT that comes late looks like any other; but a client that is not in a handshake says what no
handshake knows, or nothing. By either the CONNECT is known for a copy, and the client goes on where
it was: the connection that the handshake interrupted, to which it may return, is `Interrupted`. One
that is really gone then is lost by its silence as any other, and its will published.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.core.state_records import State


class Input(Enum):
    CONNECT = "CONNECT"
    ADMITTED = "admitted"  # all that CONNECT asked for is here; CONNACK may go
    REFUSED = "refused"
    GOES_ON = "CONNECT was a copy"  # of one that is here: it says what no handshake knows
    SLEEPS_ON = "CONNECT was a copy, of a sleeper"
    SIGNAL = "CONNECT as a wake signal"  # clean=0 without will, from a client that sleeps (A14.1)
    SLEEP = "DISCONNECT with a duration"
    DISCONNECT = "DISCONNECT"
    PING = "PINGREQ with a client id"
    DRAINED = "outbox drained"
    UNANSWERED = "retries spent"
    SILENT = "silent past its deadline"


# fmt: off
TRANSITIONS: dict[State, dict[Input, State]] = {
    State.DISCONNECTED: {Input.CONNECT:    State.CONNECTING},
    State.CONNECTING:   {Input.CONNECT:    State.CONNECTING,
                         Input.ADMITTED:   State.ACTIVE,
                         Input.REFUSED:    State.DISCONNECTED,
                         Input.GOES_ON:    State.ACTIVE,
                         Input.SLEEPS_ON:  State.ASLEEP,
                         Input.DISCONNECT: State.DISCONNECTED,
                         Input.SILENT:     State.DISCONNECTED},
    State.ACTIVE:       {Input.CONNECT:    State.CONNECTING,
                         Input.PING:       State.AWAKE,     # one that slept before: it does now
                         Input.SLEEP:      State.ASLEEP,
                         Input.DISCONNECT: State.DISCONNECTED,
                         Input.UNANSWERED: State.LOST,
                         Input.SILENT:     State.LOST},
    State.ASLEEP:       {Input.CONNECT:    State.CONNECTING,
                         Input.SIGNAL:     State.ACTIVE,
                         Input.PING:       State.AWAKE,
                         Input.SLEEP:      State.ASLEEP,
                         Input.DISCONNECT: State.DISCONNECTED,
                         Input.SILENT:     State.LOST},
    State.AWAKE:        {Input.CONNECT:    State.CONNECTING,
                         Input.SIGNAL:     State.ACTIVE,
                         Input.PING:       State.AWAKE,
                         Input.DRAINED:    State.ASLEEP,
                         Input.UNANSWERED: State.ASLEEP,    # what was not acknowledged waits
                         Input.SLEEP:      State.ASLEEP,
                         Input.DISCONNECT: State.DISCONNECTED},
    State.LOST:         {Input.CONNECT:    State.CONNECTING},
}
# fmt: on


def after(state: State, given: Input) -> State | None:
    """The state that follows, or None where the table has no such arrow."""
    return TRANSITIONS[state].get(given)


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

"""From state to state: how a client comes, sleeps, leaves and is lost.

The arrows are in `states.py`; here is what goes with each of them, and what silence does. Silence
is supervised by one `deadline`, `last_received_at + silence_max_s`, whatever the state: keep-alive
for a client that is active, the declared sleep for one that sleeps, the patience of a will
handshake for one that connects; one that is awake is supervised by its retries. Hearing a client
only moves the deadline away, so no timer is touched per message.

Limit: what a client declares, at most 65,535 s and the tolerance; 0 is for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gateway.core.effects import ConnectSaved, Send, WhenSaved
from gateway.core.events import Output, PublishWill
from gateway.core.session.address_validation import Whereabouts
from gateway.core.session.states import Input, Interrupted, after
from gateway.core.state_records import State
from gateway.core.values import Peer
from gateway.frames import Connack, Connect, Pingresp, ReturnCode

# Tuples, because members are found in them by identity; hashing a member costs ten times that.
LISTENING = (State.ACTIVE, State.AWAKE)
ABSENT = (State.DISCONNECTED, State.LOST)


class Presence(Whereabouts):
    """Whether a client is there, and until when that is believed."""

    __slots__ = ()

    # From the engine

    def admitted(self, word: ConnectSaved, now: float) -> list[Output]:
        """That the client is there is durable; unless it has left or come anew since."""
        given = Input.ADMITTED if self.state is State.CONNECTING else Input.SIGNAL
        is_latest = word.peer is self.peer and self._saved_state is State.ACTIVE
        if not is_latest or after(self.state, given) is None:
            return []
        return self._welcome(given, now)

    @property
    def is_admitting(self) -> bool:
        """Whether CONNACK waits until it is durable that the client is there."""
        is_saved = self._saved_state is State.ACTIVE and self._interrupted is None
        return is_saved and self.state in (State.CONNECTING, State.ASLEEP, State.AWAKE)

    def is_at_rest(self, now: float) -> bool:
        """Whether nothing is under way either way, and no timer is overdue."""
        if self.held or self.outbound.waiting or not self.inbound.is_idle:
            return False
        if self.state is State.AWAKE or self.is_admitting or self._subscribing.is_asking:
            return False
        return now <= self.wake_at()

    def displace(self) -> list[Output]:
        """Another client id connects from this client's address: it is gone, but not lost (A4)."""
        if after(self.state, Input.DISCONNECT) is None:
            return []
        return self._leave(Input.DISCONNECT, "another client id connected from its address")

    # Time

    def deadline(self, returned_at: float = -inf) -> float:
        """Until when it may be silent. `returned_at`: when the gateway ran again after it had stood
        still. What the client sent meanwhile may be lost, so it has its full time again from then
        on; but twice its time at most, however often that happens.
        """
        deadline = self.last_received_at + self.silence_max_s
        if returned_at <= self.last_received_at:
            return deadline
        return min(returned_at, deadline) + self.silence_max_s

    def wake_at(self, returned_at: float = -inf) -> float:
        """When `handle_time` has something to do, as far as is known now; infinity for never."""
        deadline = self.deadline(returned_at)
        due_at = self.outbound.due_at
        return due_at if due_at is not None and due_at < deadline else deadline

    def handle_time(self, now: float, returned_at: float = -inf) -> list[Output]:
        if now >= self.deadline(returned_at):
            return self._silent(now, returned_at)
        due_at = self.outbound.due_at
        if due_at is None or now < due_at:
            return []
        repeated = self.outbound.retry(self.client_id, self.peer, now)
        if repeated is None:
            return self._unanswered(now)
        return self._until_drained(repeated, now)

    # Moving between states

    def _admit(self, given: Input, now: float) -> list[Output]:
        """CONNACK, at once or when it is durable that the client is there."""
        self._interrupted = None
        if self.clean and self.will is None:
            return [*self._welcome(given, now), *self._changed_row()]
        row = self._changed_row(State.ACTIVE)
        return [*row, WhenSaved([ConnectSaved(self.client_id, self.peer, self.will is not None)])]

    def _welcome(self, given: Input, now: float) -> list[Output]:
        effects = self._move(given, f"keep-alive {self.keep_alive_s} s")
        self._supervise(self.keep_alive_s)
        effects.append(Send(self.peer, Connack(ReturnCode.ACCEPTED)))
        return effects + self.outbound.resume(self.client_id, self.peer, now)

    def _interrupt(self, frame: Connect, peer: Peer) -> None:
        """CONNECT came; if it begins a handshake with one that is here it may be a copy."""
        if not frame.will or peer != self.peer:
            self._interrupted = None
            return
        interrupted = Interrupted.of(self.state, self.clean, self.keep_alive_s)
        if interrupted is not None:  # else it came again within the handshake
            self._interrupted = interrupted

    def _go_on(self) -> list[Output]:
        """The CONNECT was a copy: the client goes on where it was, if there is a way back."""
        interrupted, self._interrupted = self._interrupted, None
        assert interrupted is not None, "there is nothing to go on with"
        detail = "its CONNECT was a copy"
        self.clean, self.keep_alive_s = interrupted.clean, interrupted.keep_alive_s
        if interrupted.state in ABSENT:
            return self._leave(Input.DISCONNECT, f"{detail}, which ended its session")
        is_active = interrupted.state is State.ACTIVE
        self._supervise(self.keep_alive_s if is_active else self.sleep_s)
        moved = self._move(Input.GOES_ON if is_active else Input.SLEEPS_ON, detail)
        return moved + self._changed_row()

    def _send_on(self, now: float) -> list[Output]:
        """What the handshake held up, to one that listens."""
        if self.state is not State.ACTIVE:
            return []
        return self.outbound.resume(self.client_id, self.peer, now)

    def _leave(self, given: Input, detail: str, wills: Sequence[Output] = ()) -> list[Output]:
        self._interrupted = None
        self._end_connection()
        self.silence_max_s = inf
        effects = [*self._move(given, detail), *wills]
        # A clean session ends now, and its row with it.
        return effects if self.clean else effects + self._changed_row()

    def _lose(self, given: Input, detail: str, now: float) -> list[Output]:
        wills = [] if self.will is None else [PublishWill(self.will.reading(self.client_id, now))]
        return self._leave(given, detail, wills)

    def _silent(self, now: float, returned_at: float) -> list[Output]:
        detail = f"silent for {now - self.last_received_at:.0f} s"
        if self.state is not State.CONNECTING:
            return self._lose(Input.SILENT, detail, now)
        if self._interrupted is None or self._interrupted.state in ABSENT:
            return self._leave(Input.SILENT, f"not admitted yet, {detail}")
        effects = self._go_on()
        is_lost = now >= self.deadline(returned_at)
        return effects + (self._silent(now, returned_at) if is_lost else self._send_on(now))

    def _unanswered(self, now: float) -> list[Output]:
        """The client acknowledges nothing: its message is kept, but nobody waits (A3, A8)."""
        detail = f"no answer after {self._options.retry_count_max} retries"
        if self.state is State.AWAKE:
            self.outbound.pause()
            self._supervise(self.sleep_s)
            self.silence_max_s += (
                now - self.last_received_at
            )  # it sleeps from now on, not since then
            return self._move(Input.UNANSWERED, detail)
        if (
            not self.outbound.is_address_validated
        ):  # perhaps it heard less than it would have to answer
            self.outbound.await_word()
            return []
        return self._lose(Input.UNANSWERED, detail, now)

    def _end_connection(self) -> None:
        """Nothing more to where the client was: it may be another client's address by now."""
        self.outbound.pause()
        self.inbound.end_connection()
        self._subscribing.end_connection()
        if self._will_handshake is not None:
            self._will_handshake.end_connection()

    def _until_drained(self, effects: list[Output], now: float) -> list[Output]:
        """PINGRESP, and asleep again, as soon as one that is awake has acknowledged all (A14.2), or
        for long enough has got more than it asked for.
        """
        if self.state is not State.AWAKE:
            return effects
        waiting = self.outbound.waiting
        if waiting and not self.outbound.is_enough(now):
            return effects
        self.outbound.pause()  # its rate may have been what the next one waited for
        self._supervise(self.sleep_s)
        detail = f"{waiting} more for the next time" if waiting else ""
        return [*effects, *self._move(Input.DRAINED, detail), Send(self.peer, Pingresp())]

"""What a session has beside its conversation: its parts, where its client is and whether it is
there, what outlasts a restart, and how a client comes, sleeps, leaves and is lost.

Lifecycle: the arrows are in `states.py`; here is what goes with each of them, and what silence
does. Silence is supervised by one `deadline`, `last_received_at + silence_max_s`, whatever the
state: keep-alive for a client that is active, the declared sleep for one that sleeps, the patience
of a will handshake for one that connects; one that is awake is supervised by its retries. A frame
from a client only moves the deadline away, so no timer is touched per message.

Address: who sends one datagram can write any address on it. So an address is validated when a
second frame comes from it: CONNECT, and PINGREQ with a client id from an address that was not the
client's, only state where a client wants to be. Until then it gets no more than `egress_budget.py`
has, which is enough for a REGISTER, whose REGACK is the second frame. Two frames in a client's name
are enough to be served, and not enough to take anything from the client: its former session stays
beside the new one (`clients/contests.py`). MQTT-SN 1.2 has nothing to ask for that only one who
receives our frames could answer, and that every client answers.

Restart: a row is saved when it differs from the one before. Topics, subscriptions and messages have
rows of their own, saved where they change. What is outstanding with the broker is the journal's.

Limit: what a client declares, at most 65,535 s and the tolerance; 0 is for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from gateway.core.effects import ConnectSaved, Save, Send, StateChanged, WhenSaved
from gateway.core.events import Output, PublishWill
from gateway.core.message_expiry import ExpiryClock
from gateway.core.session.inbound import Inbound
from gateway.core.session.options import PredefinedTopics, SessionOptions, deadline_s
from gateway.core.session.outbound import Outbound
from gateway.core.session.states import Input, Interrupted, after
from gateway.core.session.subscribing import Subscribing
from gateway.core.session.topic_registry import TOPIC_ID_MIN, Announced, FormerIds, TopicRegistry
from gateway.core.session.will import Will, WillHandshake
from gateway.core.state_records import (
    ClientId,
    ClientRecord,
    SessionDeleted,
    SessionRecord,
    State,
    SubscriptionDeleted,
)
from gateway.core.values import Peer
from gateway.frames import Connack, Connect, Pingresp, ReturnCode

# Tuples, because members are found in them by identity; hashing a member costs ten times that.
LISTENING = (State.ACTIVE, State.AWAKE)
ABSENT = (State.DISCONNECTED, State.LOST)
# One that is heard so long after its session began is no made-up id of a burst: a sensor that
# publishes once in some minutes has its place by its second reading.
PROVEN_AFTER_S = 300.0
# As what a state is saved that no client can be in after a restart.
_SAVED_AS = {State.AWAKE: State.ASLEEP, State.CONNECTING: State.DISCONNECTED}


class SessionLifecycle:
    """Whether a client is there and where, and until when that counts."""

    __slots__ = (
        "_interrupted",
        "_is_restored",
        "_options",
        "_row",
        "_saved_positions",
        "_saved_state",
        "_subscribing",
        "_topics",
        "_will_handshake",
        "began_at",
        "clean",
        "client_id",
        "former",
        "held",
        "inbound",
        "is_continued",
        "keep_alive_s",
        "last_received_at",
        "noted",
        "outbound",
        "peer",
        "scheduled_at",
        "silence_max_s",
        "sleep_s",
        "state",
    )  # fmt: skip

    def __init__(
        self,
        *,
        client_id: ClientId,
        peer: Peer,
        options: SessionOptions,
        predefined: PredefinedTopics,
        first_topic_id: int = TOPIC_ID_MIN,
        former_ids: FormerIds | None = None,
        first_position: int = 0,
        beside: SessionLifecycle | None = None,
    ) -> None:
        """`beside`: the former session whose topics and readings are this one's as well; see
        `continue_from`.
        """
        # First what each message asks for: compiled, it is side by side then, and with very many
        # sessions each look further away is another miss of the caches.
        self.client_id = client_id
        self.state = State.DISCONNECTED
        self.last_received_at = 0.0
        self.peer = peer
        if beside is None:
            self._topics = TopicRegistry(predefined, options.topics_max, first_topic_id, former_ids)
            self.inbound = Inbound(self._topics, options)
        else:
            self._topics, self.inbound = beside._topics, beside.inbound
        self.outbound = Outbound(self._topics, options, first_position)
        self.silence_max_s = inf
        self.scheduled_at = inf  # the engine's own note: when it will look at this session next
        self.held: tuple[Output, ...] = ()  # and which frames to it wait for the disk
        self.noted: object = None  # by what goes through all sessions (presence/availability.py)
        self.former: SessionLifecycle | None = None  # beside which it is (clients/contests.py)
        self.is_continued = beside is not None  # whether it goes on with what the former one has
        self.clean = False
        self.began_at = 0.0  # see `Session.is_proven`
        self.keep_alive_s = 0
        self.sleep_s = 0
        # Of the row as it was saved last: its hash, its state, and the positions reserved in it.
        self._row: int | None = None
        self._saved_state = State.DISCONNECTED
        self._saved_positions = 0
        self._is_restored = False  # and has not connected since
        self._interrupted: Interrupted | None = None  # by the will handshake that is on
        self._options = options
        self._will_handshake: WillHandshake | None = None  # made when a will is spoken of
        self._subscribing = Subscribing(self._topics, options)

    @property
    def will(self) -> Will | None:
        return None if self._will_handshake is None else self._will_handshake.will

    @property
    def is_newcomer(self) -> bool:
        """Whether the former session of its client is still there; nothing of it is saved then."""
        return self.former is not None

    def restore(
        self,
        saved: ClientRecord,
        now: float,
        *,
        is_here: bool,
        send_at: float,
        expiry_clock: ExpiryClock,
    ) -> None:
        """What a previous run left. Every client has its full time again: that it was silent while
        we were down proves nothing. `is_here`: it may still be at its address, and if it listens
        there, is sent from `send_at` on what waits for it.
        """
        row = saved.session
        self.state = row.state
        if not is_here and row.state is not State.LOST:
            self.state = State.DISCONNECTED
        is_connected = self.state is State.ACTIVE or self.state is State.ASLEEP
        self.clean = row.clean
        self.keep_alive_s, self.sleep_s = row.keep_alive_s, row.sleep_s
        if row.will is not None:
            self._open_will_handshake().will = Will.of(row.will)
        told = Announced.NUMBER if is_connected else Announced.NOTHING
        self._topics.restore(saved.topics, row.next_topic_id, told)
        self._subscribing.restore(saved.subscriptions)
        self.outbound.restore(saved.messages, row.next_position, expiry_clock, now)
        self._row, self._is_restored = hash(row), True
        self._saved_state, self._saved_positions = row.state, row.next_position
        self.last_received_at = now
        self.began_at = now - PROVEN_AFTER_S  # its next frame is one of a client that stayed
        if self.state is State.ACTIVE:
            self._supervise(self.keep_alive_s)
            self.outbound.listen_from(send_at)
        elif self.state is State.ASLEEP:
            self._supervise(self.sleep_s)

    def continue_from(self, former: SessionLifecycle, latest: SessionLifecycle) -> None:
        """This session goes on, elsewhere, with what `former` has, and beside it: the names and
        numbers of topics and what is known of the client's readings are the same ones for both,
        queue and subscriptions are copies. What the client does, by the `latest` that is known.
        """
        self.outbound.continue_from(former.outbound)
        self._subscribing.continue_from(former._subscribing)
        if former.will is not None:
            self._open_will_handshake().will = former.will
        self.clean = former.clean
        self.state = State.ASLEEP if latest.state is State.AWAKE else latest.state
        self.keep_alive_s, self.sleep_s = latest.keep_alive_s, latest.sleep_s
        self.silence_max_s = latest.silence_max_s
        self.last_received_at = latest.last_received_at
        self.noted = latest.noted

    # For who looks

    @property
    def topics(self) -> TopicRegistry:
        return self._topics

    @property
    def filters(self) -> Mapping[str, int]:
        """What the client subscribed to, with the QoS of each."""
        return self._subscribing.filters

    @property
    def due_at(self) -> float | None:
        """When the client said it would send again at the latest; None where it said nothing.

        Past it the client is overdue. That changes nothing for it until its tolerance is used up.
        """
        if self.state is State.ACTIVE:
            declared_s = self.keep_alive_s
        elif self.state is State.ASLEEP:
            declared_s = self.sleep_s
        else:
            return None
        if not declared_s:
            return None
        return self.last_received_at + self.silence_max_s - (deadline_s(declared_s) - declared_s)

    # For the session

    def _open_will_handshake(self) -> WillHandshake:
        """To be read or changed by what the client says of its will."""
        if self._will_handshake is None:
            self._will_handshake = WillHandshake(self._options)
        return self._will_handshake

    def _changed_row(self, state: State | None = None) -> list[Output]:
        """The session's row, if it is another than the one saved last; `state` if it is not yet."""
        if state is None:
            state = _SAVED_AS.get(self.state, self.state)
        positions = self.outbound.reserved_positions
        row = SessionRecord(
            client_id=self.client_id,
            clean=self.clean,
            link=self.peer.link,
            address=self.peer.address,
            state=state,
            keep_alive_s=self.keep_alive_s,
            sleep_s=self.sleep_s,
            will=None if self.will is None else self.will.row,
            next_topic_id=self._topics.first_id,
            next_position=positions,
        )
        digest = hash(row)
        if digest == self._row:
            return []
        self._saved_state, self._saved_positions = state, positions
        if self.is_newcomer:
            return []
        self._row = digest
        return [Save(row)]

    def row_again(self) -> list[Output]:
        """Its row, though it was said to be saved as it is."""
        self._row = None
        return self._changed_row()

    def succeed(self, former: SessionLifecycle) -> list[Output]:
        """The former session is over, and this one is saved from now on: all its rows, but what it
        has in common with that one.
        """
        client_id = self.client_id
        if not self.is_continued:
            return [
                *self.row_again(),
                *self._topics.rows(client_id),
                *self._subscribing.rows(client_id),
                *self.outbound.rows(client_id),
            ]
        self.is_continued = False
        ended: list[Output] = [
            Save(SubscriptionDeleted(client_id, topic_filter))
            for topic_filter in former.filters
            if topic_filter not in self._subscribing
        ]
        return [
            *ended,
            *self.outbound.succeed(former.outbound, client_id),
            *self.row_again(),
            *self._subscribing.rows(client_id, former.filters),
        ]

    def _gone(self) -> list[Output]:
        """The session is over, and with it all its rows, if it has any."""
        return [] if self._row is None else [Save(SessionDeleted(self.client_id))]

    def _move(self, given: Input, detail: str = "") -> list[Output]:
        before = self.state
        following = after(before, given)
        assert following is not None, f"no arrow from {before} by {given}"
        self.state = following
        if self._is_restored and (given is Input.ADMITTED or given is Input.SIGNAL):
            self._is_restored, self.sleep_s = False, 0
        if following is before:
            return []
        if before is State.AWAKE:
            self.outbound.end_fetch()
        return [
            StateChanged(
                client_id=self.client_id,
                before=before,
                after=following,
                peer=self.peer,
                detail=detail,
            )
        ]

    def _supervise(self, declared_s: int) -> None:
        """Expect to hear from the client within what it declared; 0 is "no keep-alive" (A4)."""
        self.silence_max_s = deadline_s(declared_s) if declared_s else inf

    # Where the client is

    @property
    def is_address_validated(self) -> bool:
        return self.outbound.is_address_validated

    def moved_to(self, peer: Peer, octets: int) -> None:
        """So many bytes came from there in the client's name; they prove nothing yet."""
        if peer != self.peer:
            self.outbound.require_validation(octets)
        else:
            self.outbound.earn(octets)
        self.peer = peer

    def connect_received(self, frame: Connect, now: float) -> list[Output]:
        """CONNECT of a new client, which was answered then, before there was this session."""
        self.last_received_at = self.began_at = now
        self.keep_alive_s = frame.duration_s
        self.clean = frame.clean_session
        effects = self._move(Input.CONNECT)
        if frame.will:
            self.silence_max_s = self._options.patience_s
            return effects
        effects += self._move(Input.ADMITTED, f"keep-alive {self.keep_alive_s} s")
        self._supervise(self.keep_alive_s)
        return effects + self._changed_row()

    # From the engine

    def admitted(self, word: ConnectSaved, now: float) -> list[Output]:
        """That the client is there is durable; unless it has left or come again since."""
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

    def displace(self, why: str = "another client id connected from its address") -> list[Output]:
        """Another client id connects from this client's address, or it may not be there any more:
        it is gone, but not lost (A4).
        """
        if after(self.state, Input.DISCONNECT) is None:
            return []
        return self._leave(Input.DISCONNECT, why)

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
        wills: list[Output] = []
        if self.will is not None and not self._is_will_of_former():
            wills.append(PublishWill(self.will.reading(self.client_id, now)))
        return self._leave(given, detail, wills)

    def _is_will_of_former(self) -> bool:
        """Whether silence where the client was decides on the will."""
        former = self.former
        return former is not None and former.state not in ABSENT and self.will == former.will

    def forget_will(self) -> None:
        """The client has left in order, elsewhere."""
        self._open_will_handshake().will = None

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
            return self._sleep_on_unanswered(now, detail)
        if (
            not self.outbound.is_address_validated
        ):  # perhaps it heard less than it would have to answer
            self.outbound.await_word()
            return []
        current = self.outbound.outstanding
        assert current is not None, "something was repeated"
        if not current.spend(self.last_received_at):
            return self._lose(Input.UNANSWERED, detail, now)
        self.outbound.client_heard(self.last_received_at, is_here=True)
        return self.outbound.resume(self.client_id, self.peer, now)

    def _sleep_on_unanswered(self, now: float, detail: str) -> list[Output]:
        """PINGRESP all the same, to one that can hear it: it may wait for nothing else. It sleeps
        from now on, not since it was heard.
        """
        is_answered = self.outbound.is_address_validated or self.last_received_at == now
        current = self.outbound.outstanding
        if is_answered and current is not None:
            current.spend(self.last_received_at)
        self.outbound.pause()
        self._supervise(self.sleep_s)
        self.silence_max_s += now - self.last_received_at
        moved = self._move(Input.UNANSWERED, detail)
        return [*moved, Send(self.peer, Pingresp())] if is_answered else moved

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

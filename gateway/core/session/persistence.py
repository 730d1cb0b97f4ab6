"""What of a session outlasts a restart of the gateway: its parts, its row, and coming back.

A row is saved when it differs from the one before. Its topics, subscriptions and messages have rows
of their own, saved where they change. What is under way with the broker is the journal's.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from gateway.core.effects import Save, StateChanged
from gateway.core.events import Output
from gateway.core.session.inbound import Inbound
from gateway.core.session.options import PredefinedTopics, SessionOptions, deadline_s
from gateway.core.session.outbound import Outbound
from gateway.core.session.states import Input, Interrupted, after
from gateway.core.session.subscribing import Subscribing
from gateway.core.session.topic_registry import TOPIC_ID_MIN, Announced, TopicRegistry
from gateway.core.session.will import Will, WillHandshake
from gateway.core.state_records import ClientId, ClientRecord, SessionDeleted, SessionRecord, State
from gateway.core.values import Peer

# As what a state is saved that no client can be in after a restart.
_SAVED_AS = {State.AWAKE: State.ASLEEP, State.CONNECTING: State.DISCONNECTED}


class LastingSession:
    __slots__ = (
        "_interrupted",
        "_options",
        "_row",
        "_saved_positions",
        "_saved_state",
        "_subscribing",
        "_topics",
        "_will_handshake",
        "clean",
        "client_id",
        "held",
        "inbound",
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
        first_position: int = 0,
    ) -> None:
        # First what each message asks for: compiled, it is side by side then, and with very many
        # sessions each look further away is another miss of the caches.
        self.client_id = client_id
        self.state = State.DISCONNECTED
        self.last_received_at = 0.0
        self.peer = peer
        self._topics = TopicRegistry(predefined, options.topics_max, first_topic_id)
        self.inbound = Inbound(self._topics, options)
        self.outbound = Outbound(self._topics, options, first_position)
        self.silence_max_s = inf
        self.scheduled_at = inf  # the engine's own note: when it will look at this session next
        self.held: tuple[Output, ...] = ()  # and which frames to it wait for the disk
        self.noted: object = None  # by what goes through all sessions (presence/availability.py)
        self.clean = False
        self.keep_alive_s = 0
        self.sleep_s = 0
        # Of the row as it was saved last: its hash, its state, and the positions reserved in it.
        self._row: int | None = None
        self._saved_state = State.DISCONNECTED
        self._saved_positions = 0
        self._interrupted: Interrupted | None = None  # by the will handshake that is on
        self._options = options
        self._will_handshake: WillHandshake | None = None  # made when a will is spoken of
        self._subscribing = Subscribing(self._topics, options)

    @property
    def will(self) -> Will | None:
        return None if self._will_handshake is None else self._will_handshake.will

    def restore(self, saved: ClientRecord, now: float, *, is_here: bool, send_at: float) -> None:
        """What a former life left. Every client has its full time again: that it was silent while
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
        self.outbound.restore(saved.messages, row.next_position)
        self._row = hash(row)
        self._saved_state, self._saved_positions = row.state, row.next_position
        self.last_received_at = now
        if self.state is State.ACTIVE:
            self._supervise(self.keep_alive_s)
            self.outbound.listen_from(send_at)
        elif self.state is State.ASLEEP:
            self._supervise(self.sleep_s)

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
        """When the client said it would be heard again at the latest; None where it said nothing.

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
        self._row, self._saved_state, self._saved_positions = digest, state, positions
        return [Save(row)]

    def _gone(self) -> list[Output]:
        """The session is over, and with it all its rows, if it has any."""
        return [] if self._row is None else [Save(SessionDeleted(self.client_id))]

    def _move(self, given: Input, detail: str = "") -> list[Output]:
        before = self.state
        following = after(before, given)
        assert following is not None, f"no arrow from {before} by {given}"
        self.state = following
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

"""Readings on their way up: from a client's PUBLISH to its acknowledgement.

Rule 1: a reading is acknowledged only when it is settled. `receive()` answers with `Forward`;
        only `settled()` answers with PUBACK (QoS 1) or PUBREC (QoS 2). A client that hears either
        may forget its reading, so the gateway must not be able to.
Rule 2: a reading that comes again is forwarded once. While it is being settled the copy is
        dropped. QoS 1: afterwards a copy with the DUP flag is acknowledged again. QoS 2: until
        PUBREL a copy gets PUBREC again, and for `HOLD_DOWN_S` after it a late copy on the network
        with the same contents does too; without the contents a client that always uses the same
        message id would lose readings.

Limits: `UNSETTLED_MAX` readings at once (the specification allows a client one); a further one is
answered with congestion. `RELEASES_MAX` exchanges may wait for a PUBREL that a client gave up on,
and `RECENT_MAX` finished message ids are remembered; of both the oldest is forgotten first.
"""

from __future__ import annotations

from gateway.effects import ClientId, Dropped, Effect, Forward, Peer, Reason, Send
from gateway.frames import Puback, Pubcomp, Publish, Pubrec, ReturnCode
from gateway.session.rules import SessionRules
from gateway.session.topic_registry import TopicRegistry

UNSETTLED_MAX = 32
RELEASES_MAX = 32
RECENT_MAX = 16
HOLD_DOWN_S = 10.0  # longest life of a datagram on the way (reliability of message id reuse)

Contents = int


class Publishing:
    __slots__ = ("_awaiting_release", "_recent", "_released_at", "_rules", "_topics", "_unsettled")

    def __init__(self, topics: TopicRegistry, rules: SessionRules) -> None:
        self._topics = topics
        self._rules = rules
        self._unsettled: dict[int, Forward] = {}
        self._awaiting_release: dict[int, Contents] = {}
        self._recent: dict[int, Contents] = {}
        self._released_at: dict[int, float] = {}

    # From the client

    def receive(self, frame: Publish, client_id: ClientId, peer: Peer, now: float) -> list[Effect]:
        topic = self._topics.topic_of(frame.topic_id, frame.topic_id_type)
        if topic is None:
            code = ReturnCode.INVALID_TOPIC_ID
            return _refusal(frame, client_id, peer, code, Reason.UNKNOWN_TOPIC_ID)
        payload = frame.payload
        if len(payload) > self._rules.payload_bytes_max:
            code = ReturnCode.NOT_SUPPORTED
            return _refusal(frame, client_id, peer, code, Reason.PAYLOAD_TOO_LARGE)
        qos = frame.qos
        if qos > 0:
            answer = self._repeated(frame, (topic, payload), client_id, peer, now)
            if answer is not None:
                return answer
        message_id = frame.message_id
        forward = Forward(
            client_id, topic, payload, max(qos, 0), frame.retain, frame.topic_id, message_id, now
        )
        if qos > 0:
            self._unsettled[message_id] = forward
        return [forward]

    def receive_pubrel(self, message_id: int, peer: Peer, now: float) -> list[Effect]:
        """PUBREL ends the exchange; an unknown one is answered too, its PUBCOMP was lost."""
        contents = self._awaiting_release.pop(message_id, None)
        if contents is not None:
            self._remember(message_id, contents)
            self._released_at[message_id] = now
        return [Send(peer, Pubcomp(message_id))]

    # From the shell

    def settled(self, forward: Forward, peer: Peer) -> list[Effect]:
        """The broker has the reading: acknowledge it, if this session waits for that."""
        message_id = forward.message_id
        if self._unsettled.get(message_id) is not forward:
            return []
        del self._unsettled[message_id]
        contents = hash((forward.topic, forward.payload))
        if forward.qos == 1:
            self._remember(message_id, contents)
            return [Send(peer, Puback(forward.topic_id, message_id, ReturnCode.ACCEPTED))]
        if len(self._awaiting_release) >= RELEASES_MAX:
            del self._awaiting_release[next(iter(self._awaiting_release))]
        self._awaiting_release[message_id] = contents
        return [Send(peer, Pubrec(message_id))]

    def refused(self, forward: Forward, return_code: int, peer: Peer) -> list[Effect]:
        """The reading cannot go on: say so, by PUBACK for QoS 2 as well (1.2, 5.4.13)."""
        message_id = forward.message_id
        if self._unsettled.get(message_id) is not forward:
            return []
        del self._unsettled[message_id]
        return [Send(peer, Puback(forward.topic_id, message_id, return_code))]

    # What was here before

    def _repeated(
        self,
        frame: Publish,
        contents: tuple[str, bytes],
        client_id: ClientId,
        peer: Peer,
        now: float,
    ) -> list[Effect] | None:
        """The answer to a copy of a reading that is known already; None for a new one."""
        message_id = frame.message_id
        if message_id in self._unsettled:
            return [Dropped(Reason.REPEATED, client_id, "is being settled")]
        if message_id in self._awaiting_release:
            return [Dropped(Reason.REPEATED, client_id), Send(peer, Pubrec(message_id))]
        if message_id in self._recent and self._recent[message_id] == hash(contents):
            answer = self._late_copy(frame, peer, now)
            if answer is not None:
                return [Dropped(Reason.REPEATED, client_id), answer]
        if len(self._unsettled) >= UNSETTLED_MAX:
            code = ReturnCode.CONGESTION
            return _refusal(frame, client_id, peer, code, Reason.UNSETTLED_FULL)
        return None

    def _late_copy(self, frame: Publish, peer: Peer, now: float) -> Send | None:
        message_id = frame.message_id
        if frame.qos == 1:
            if not frame.dup:
                return None
            return Send(peer, Puback(frame.topic_id, message_id, ReturnCode.ACCEPTED))
        released_at = self._released_at.get(message_id)
        if released_at is None or now - released_at >= HOLD_DOWN_S:
            return None
        return Send(peer, Pubrec(message_id))

    def _remember(self, message_id: int, contents: Contents) -> None:
        recent = self._recent
        recent.pop(message_id, None)
        self._released_at.pop(message_id, None)
        if len(recent) >= RECENT_MAX:
            oldest = next(iter(recent))
            del recent[oldest]
            self._released_at.pop(oldest, None)
        recent[message_id] = contents


def _refusal(
    frame: Publish, client_id: ClientId, peer: Peer, return_code: int, reason: Reason
) -> list[Effect]:
    answer = Puback(frame.topic_id, frame.message_id, return_code)
    detail = f"topic id {frame.topic_id:#06x}, {len(frame.payload)} bytes, QoS {frame.qos}"
    return [Dropped(reason, client_id, detail), Send(peer, answer)]

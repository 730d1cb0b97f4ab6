"""A client's will: asked for when it connects, kept over its reconnects, published when it is
lost.

MQTT-SN keeps a will per client, not per connection (1.2, 6.3): a CONNECT with clean=0 and no will
flag leaves the stored one as it is. An empty WILLTOPIC or WILLTOPICUPD deletes it. A will that
MQTT would not take is refused: each function here gives the new will, or why there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.core.access.rules import WILL
from gateway.core.drop_reasons import Reason
from gateway.core.session.options import SessionOptions
from gateway.core.session.topic_names import topic_name
from gateway.core.state_records import ClientId, WillRecord
from gateway.core.values import Peer, Reading
from gateway.frames import ReturnCode, WillMsg, WillMsgUpd, WillTopic, WillTopicUpd


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    qos: int
    retain: bool

    def reading(self, client_id: ClientId, now: float) -> Reading:
        """The will as a reading. Nobody waits for its acknowledgement, so it has no message id."""
        return Reading(
            client_id=client_id,
            topic=self.topic,
            payload=self.payload,
            qos=self.qos,
            retain=self.retain,
            topic_id=0,
            message_id=0,
            received_at=now,
        )

    @property
    def row(self) -> WillRecord:
        return WillRecord(topic=self.topic, payload=self.payload, qos=self.qos, retain=self.retain)

    @classmethod
    def of(cls, row: WillRecord) -> Will:
        return cls(row.topic, row.payload, row.qos, row.retain)


class WillHandshake:
    """The will that is stored, and the one that a handshake has named so far."""

    __slots__ = ("_named", "_options", "will")

    def __init__(self, options: SessionOptions) -> None:
        self.will: Will | None = None
        self._named: Will | None = None
        self._options = options

    # In the handshake

    @property
    def is_named(self) -> bool:
        return self._named is not None

    def receive_topic(self, frame: WillTopic, client_id: ClientId, peer: Peer) -> Reason | None:
        """A copy names the same; an empty one deletes what is stored."""
        if not frame.topic:
            self.will = None
            return None
        named = named_by(frame, self._options)
        if isinstance(named, Reason):
            return named
        if _is_forbidden(named, client_id, peer, self._options):
            return Reason.FORBIDDEN
        self._named = named
        return None

    def receive_message(self, frame: WillMsg) -> Reason | None:
        return self._take(with_message_of(self._named, frame, self._options))

    def end_connection(self) -> None:
        self._named = None

    def ends_handshake(self, frame: WillTopic | WillMsg) -> bool:
        """Whether this repeats what ended the handshake that led to the stored will."""
        return frame == (WillTopic() if self.will is None else WillMsg(self.will.payload))

    # Later

    def update_topic(self, frame: WillTopicUpd, client_id: ClientId, peer: Peer) -> Reason | None:
        if not frame.topic:
            self.will = None
            return None
        changed = with_topic_of(self.will, frame, self._options)
        if isinstance(changed, Will) and _is_forbidden(changed, client_id, peer, self._options):
            return Reason.FORBIDDEN
        return self._take(changed)

    def update_message(self, frame: WillMsgUpd) -> Reason | None:
        return self._take(with_message_of(self.will, frame, self._options))

    def _take(self, changed: Will | Reason) -> Reason | None:
        if isinstance(changed, Reason):
            return changed
        self.will = changed
        return None


def named_by(frame: WillTopic | WillTopicUpd, options: SessionOptions) -> Will | Reason:
    """A will without its message yet."""
    if frame.qos < 0:
        return Reason.NOT_SUPPORTED
    topic = topic_name(frame.topic, options.topic_bytes_max)
    if topic is None:
        return Reason.BAD_TOPIC
    return Will(topic=topic, payload=b"", qos=frame.qos, retain=frame.retain)


def _is_forbidden(will: Will, client_id: ClientId, peer: Peer, options: SessionOptions) -> bool:
    """Its message is not counted: it comes when the topic is agreed on."""
    return options.access.refuses_message(
        client_id, peer, WILL, will.topic, qos=will.qos, payload_bytes=0, retain=will.retain
    )


def with_topic_of(will: Will | None, frame: WillTopicUpd, options: SessionOptions) -> Will | Reason:
    """The stored will with a new topic; its message stays (empty if there was none)."""
    named = named_by(frame, options)
    if isinstance(named, Will) and will is not None:
        return replace(named, payload=will.payload)
    return named


def with_message_of(
    will: Will | None, frame: WillMsg | WillMsgUpd, options: SessionOptions
) -> Will | Reason:
    """The will with a new message; a message without a topic is refused."""
    if will is None:
        return Reason.OUT_OF_TURN
    if len(frame.payload) > options.payload_bytes_max:
        return Reason.PAYLOAD_TOO_LARGE
    return replace(will, payload=frame.payload)


def return_code(refused: Reason) -> ReturnCode:
    return ReturnCode.INVALID_TOPIC_ID if refused is Reason.BAD_TOPIC else ReturnCode.NOT_SUPPORTED

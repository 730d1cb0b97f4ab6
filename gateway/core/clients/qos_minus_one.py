"""Readings without a session: PUBLISH at QoS -1, from anyone who may reach the port.

Off unless allowed. Only predefined ids and short names name a topic for an unknown peer (1.2, 6.8);
with `long_topics` also the form that some clients use although no specification has it: topic id
type 00, the length of the name in the topic id field, name and payload one after the other.
Nothing is ever answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.access.rules import QOS_MINUS_ONE
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.topic_names import topic_name
from gateway.core.session.topic_registry import short_topic
from gateway.core.state_records import ClientId
from gateway.core.values import Peer, Reading
from gateway.frames import Publish, TopicIdType

NOBODY = ClientId("")  # the `client` of the delivery tag of a reading that came without a client id


@dataclass(frozen=True, slots=True)
class QosMinusOneOptions:
    allow: bool = False
    long_topics: bool = False


class QosMinusOne:
    def __init__(
        self,
        options: QosMinusOneOptions,
        session_rules: SessionOptions,
        predefined: PredefinedTopics,
    ) -> None:
        self._options = options
        self._session_rules = session_rules
        self._predefined = predefined

    def receive(
        self, frame: Publish, peer: Peer, client_id: ClientId | None, now: float
    ) -> Reading | Dropped:
        """The reading to forward, or why there is none; `client_id` if one is known there."""
        if not self._options.allow:
            detail = "set qos_minus_one.allow = true to take such readings"
            return Dropped(
                reason=Reason.QOS_MINUS_ONE_OFF, client_id=client_id, detail=detail, peer=peer
            )
        topic, payload = self._named(frame)
        if topic is None:
            return Dropped(
                reason=Reason.UNKNOWN_TOPIC_ID,
                client_id=client_id,
                detail=f"{frame.topic_id:#06x}",
                peer=peer,
            )
        if len(payload) > self._session_rules.payload_bytes_max:
            detail = f"{topic!r}, {len(payload)} bytes"
            return Dropped(
                reason=Reason.PAYLOAD_TOO_LARGE, client_id=client_id, detail=detail, peer=peer
            )
        if self._session_rules.access.refuses_message(
            client_id or NOBODY,
            peer,
            QOS_MINUS_ONE,
            topic,
            qos=0,
            payload_bytes=len(payload),
            retain=frame.retain,
        ):
            return self._session_rules.access.denied(client_id, peer, QOS_MINUS_ONE, topic)
        return Reading(
            client_id=client_id or NOBODY,
            topic=topic,
            payload=payload,
            qos=0,
            retain=frame.retain,
            topic_id=0,
            message_id=0,
            received_at=now,
        )

    def _named(self, frame: Publish) -> tuple[str | None, bytes]:
        payload = frame.payload
        match frame.topic_id_type:
            case TopicIdType.PREDEFINED:
                return self._predefined.names.get(frame.topic_id), payload
            case TopicIdType.SHORT:
                return short_topic(frame.topic_id), payload
            case TopicIdType.NORMAL if self._options.long_topics and frame.topic_id <= len(payload):
                name, rest = payload[: frame.topic_id], payload[frame.topic_id :]
                return topic_name(name, self._session_rules.topic_bytes_max), rest
        return None, payload

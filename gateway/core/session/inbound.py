"""Readings on their way up: from a client's PUBLISH to its acknowledgement.

Rule 1: a reading is acknowledged only when it is durable: in the journal or at the broker.
        `receive()` returns a `Reading`; only `acknowledged()` returns PUBACK (QoS 1) or
        PUBREC (QoS 2). A client that hears either may forget its reading, so the gateway must not
        be able to.
Rule 2: a reading that comes again is forwarded once. While it is being acknowledged the copy is
        dropped. Then for `COPY_S` a copy with the DUP flag is acknowledged again. QoS 2: until
        PUBREL any copy gets PUBREC again, and a client that misses PUBCOMP may repeat its PUBLISH.
        One without DUP is a copy that the network made, for `HOLD_DOWN_S`, the life of a datagram:
        at QoS 2 always, at QoS 1 if the client counts its message ids (`dedup.py`).
Rule 3: a copy has the message id, the topic, the payload and the QoS of what it copies. A client
        that restarted counts from 1 again, and one that always uses the same id is not rare:
        by the id alone their new readings would be acknowledged and lost.
Rule 4: an acknowledgement goes to the connection that the reading came in, or nowhere: in the next
        one the same id may be another reading's, at the same address even another client's.
        A client that still waits for it asks by a copy.
Rule 5: PUBREL of a reading that is in the journal is recorded there before PUBCOMP: a client that
        hears it may use the message id again, and after a restart its new reading must not be
        taken for a copy.

Limits: `UNACKNOWLEDGED_MAX` readings at once (the specification allows a client one); a further
one is answered with congestion. `RELEASES_MAX` exchanges may wait for a PUBREL that a client gave
up on, and `RECENT_MAX` finished message ids are remembered; of both the oldest is forgotten first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gateway.core.access.rules import PUBLISH, RECEIVE
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, RecordRelease, ReleaseRecorded, Send
from gateway.core.events import Output
from gateway.core.session.dedup import RECENT_MAX as RECENT_MAX
from gateway.core.session.dedup import Contents, RecentReadings
from gateway.core.session.options import SessionOptions
from gateway.core.session.topic_names import topic_name
from gateway.core.session.topic_registry import TopicRegistry
from gateway.core.state_records import ClientId, Exchanges
from gateway.core.values import Peer, Reading, contents_of
from gateway.frames import Puback, Pubcomp, Publish, Pubrec, Regack, Register, ReturnCode

UNACKNOWLEDGED_MAX = 32
RELEASES_MAX = 32
HOLD_DOWN_S = 10.0  # longest life of a datagram on the way (reliability of message id reuse)
COPY_S = 90.0  # T_retry 15 s, N_retry 5 (1.2, 7.2), and the life of a datagram


class _Stage(Enum):
    """Where the journal is with a QoS 2 exchange that its client has not released."""

    UNRECORDED = "not in it"
    RECORDED = "in it"
    RELEASING = "PUBREL is being recorded"


@dataclass(slots=True)
class _Exchange:
    contents: Contents
    stage: _Stage


class Inbound:
    __slots__ = (
        "_awaiting_release", "_options", "_topics", "_unacknowledged", "_unheard", "recent",
    )  # fmt: skip

    def __init__(self, topics: TopicRegistry, options: SessionOptions) -> None:
        self._topics = topics
        self._options = options
        # None where there is nothing: sleepers are many, and each empty dictionary is 64 bytes.
        self._unacknowledged: dict[int, Reading] | None = None  # in the order in which they came
        # Of these, those of a connection that ended: nobody listens for their acknowledgement.
        self._unheard: set[int] | None = None
        self._awaiting_release: dict[int, _Exchange] | None = None
        self.recent: RecentReadings | None = None

    # From the client

    def receive(self, frame: Publish, client_id: ClientId, peer: Peer, now: float) -> list[Output]:
        topic = self._topics.topic_of(frame.topic_id, frame.topic_id_type)
        if topic is None:
            code = ReturnCode.INVALID_TOPIC_ID
            return _refusal(frame, client_id, peer, code, Reason.UNKNOWN_TOPIC_ID)
        payload = frame.payload
        if len(payload) > self._options.payload_bytes_max:
            code = ReturnCode.NOT_SUPPORTED
            return _refusal(frame, client_id, peer, code, Reason.PAYLOAD_TOO_LARGE)
        qos, message_id = frame.qos, frame.message_id
        access = self._options.access
        if access.rules is not None and access.refuses_message(
            client_id,
            peer,
            PUBLISH,
            topic,
            qos=qos,
            payload_bytes=len(payload),
            retain=frame.retain,
        ):
            denied = access.denied(client_id, peer, PUBLISH, topic)
            answer = Puback(frame.topic_id, message_id, ReturnCode.NOT_SUPPORTED)
            return [denied, Send(peer, answer)]
        reading = Reading(
            client_id=client_id,
            topic=topic,
            payload=payload,
            qos=qos,
            retain=frame.retain,
            topic_id=frame.topic_id,
            message_id=message_id,
            received_at=now,
        )
        if qos > 0:
            recent, waiting = self.recent, self._unacknowledged
            if (
                (waiting is not None and message_id in waiting)
                or (recent is not None and recent.find(message_id) is not None)
                or self._awaiting_release
            ):
                again = self._repeated(frame, reading, peer)
                if again is not None:
                    return [Dropped(Reason.REPEATED, client_id), *again]
            if waiting is not None and len(waiting) >= UNACKNOWLEDGED_MAX:
                code = ReturnCode.CONGESTION
                return _refusal(frame, client_id, peer, code, Reason.UNSETTLED_FULL)
            self._await(reading)
        return [reading]

    def receive_register(self, frame: Register, client_id: ClientId, peer: Peer) -> list[Output]:
        name = topic_name(frame.topic_name, self._options.topic_bytes_max)
        if name is None:
            refused = Regack(0, frame.message_id, ReturnCode.INVALID_TOPIC_ID)
            detail = f"REGISTER of {frame.topic_name[:64]!r}"
            return [Dropped(Reason.BAD_TOPIC, client_id, detail), Send(peer, refused)]
        access = self._options.access
        if all(access.refuses(client_id, peer, each, name) for each in (PUBLISH, RECEIVE)):
            refused = Regack(0, frame.message_id, ReturnCode.NOT_SUPPORTED)
            return [access.denied(client_id, peer, PUBLISH, name), Send(peer, refused)]
        topic_id = self._topics.register(name)
        if topic_id is None:
            full = Regack(0, frame.message_id, ReturnCode.CONGESTION)
            detail = f"{len(self._topics)} topic names, and no further one"
            return [Dropped(self._topics.full_because(), client_id, detail), Send(peer, full)]
        return [Send(peer, Regack(topic_id, frame.message_id, ReturnCode.ACCEPTED))]

    def receive_pubrel(
        self, message_id: int, client_id: ClientId, peer: Peer, now: float
    ) -> list[Output]:
        """PUBREL ends the exchange; an unknown one is answered too, its PUBCOMP was lost."""
        exchange = (self._awaiting_release or {}).get(message_id)
        if exchange is None or exchange.stage is _Stage.UNRECORDED:
            return self.released(message_id, peer, now)
        if exchange.stage is _Stage.RELEASING:
            return []  # answered when it is recorded
        exchange.stage = _Stage.RELEASING
        return [RecordRelease(client_id, message_id, ReleaseRecorded(client_id, message_id))]

    def released(self, message_id: int, peer: Peer, now: float) -> list[Output]:
        """Nothing will bring the exchange back, so the client may use its message id again."""
        waiting = self._awaiting_release
        if waiting is not None and message_id in waiting:
            contents = waiting[message_id].contents
            del waiting[message_id]
            if not waiting:
                self._awaiting_release = None
            self._remember(message_id, contents, now, now + COPY_S)
        return [Send(peer, Pubcomp(message_id))]

    # From the session

    def rest(self, now: float) -> None:
        """Give back what is outdated: sleepers are many, and for long."""
        if self.recent is not None:
            self.recent = self.recent.at(now)

    def end_connection(self) -> None:
        """The one that publishes from now on may be a client that restarted, or none."""
        if self.recent is not None:
            self.recent.end_connection()
        unacknowledged = self.unacknowledged
        if unacknowledged:
            self._unheard = {reading.message_id for reading in unacknowledged}

    def end(self, client_id: ClientId) -> list[Output]:
        """The session is over: nobody will release what it received."""
        return [
            RecordRelease(client_id, message_id)
            for message_id, exchange in (self._awaiting_release or {}).items()
            if exchange.stage is not _Stage.UNRECORDED
        ]

    def restore(self, exchanges: Exchanges, now: float) -> None:
        """What a previous run knew of this client's readings."""
        self._awaiting_release = {
            message_id: _Exchange(contents, _Stage.RECORDED)
            for message_id, contents in exchanges.unreleased[-RELEASES_MAX:]
        } or None
        for message_id, contents, age_s in exchanges.recent[-RECENT_MAX:]:
            self._remember(message_id, contents, now, now - age_s + COPY_S)

    # From the engine

    def acknowledged(self, reading: Reading, peer: Peer, last_received_at: float) -> list[Output]:
        """The reading is safe: acknowledge it, if this session waits for that.

        A client that was last heard at `last_received_at` may send copies for `COPY_S` after it.
        """
        if not self._take_from_unacknowledged(reading):
            return []  # of an older one, under the message id of a new one
        message_id = reading.message_id
        if reading.qos == 1:
            self._remember(
                message_id, _contents(reading), last_received_at, last_received_at + COPY_S
            )
            if self._unheard is not None and self._take_from_unheard(message_id):
                return []
            return [Send(peer, Puback(reading.topic_id, message_id, 0))]
        effects = self._await_release(message_id, _contents(reading), reading)
        if not self._take_from_unheard(message_id):
            effects.append(Send(peer, Pubrec(message_id)))
        return effects

    def refused(self, reading: Reading, return_code: int, peer: Peer) -> list[Output]:
        """The reading cannot go on: say so, by PUBACK for QoS 2 as well (1.2, 5.4.13)."""
        if not self._take_from_unacknowledged(reading):
            return []
        message_id = reading.message_id
        if self._take_from_unheard(message_id):
            return []
        return [Send(peer, Puback(reading.topic_id, message_id, return_code))]

    # What is not acknowledged yet

    @property
    def unacknowledged(self) -> list[Reading]:
        """Readings whose client still waits for their acknowledgement, as they came, at most
        `UNACKNOWLEDGED_MAX`.
        """
        return list((self._unacknowledged or {}).values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing is owed for a reading, nor expected of the client."""
        return self._unacknowledged is None and self._awaiting_release is None

    def is_releasing(self, message_id: int) -> bool:
        """Whether PUBCOMP for this waits for the journal."""
        exchange = (self._awaiting_release or {}).get(message_id)
        return exchange is not None and exchange.stage is _Stage.RELEASING

    @property
    def releasing(self) -> object | None:
        """The oldest exchange whose PUBCOMP waits for the journal."""
        waiting = self._awaiting_release or {}
        return next((one for one in waiting.values() if one.stage is _Stage.RELEASING), None)

    def _await(self, reading: Reading) -> None:
        if self._unacknowledged is None:
            self._unacknowledged = {}
        self._unacknowledged[reading.message_id] = reading

    def _take_from_unacknowledged(self, reading: Reading) -> bool:
        """Whether it was there."""
        waiting = self._unacknowledged
        if waiting is None or waiting.get(reading.message_id) is not reading:
            return False
        del waiting[reading.message_id]
        if not waiting:
            self._unacknowledged = None
        return True

    # What was here before

    def _repeated(self, frame: Publish, reading: Reading, peer: Peer) -> list[Output] | None:
        """The answer to a copy of a reading that is known already; None for a new reading."""
        message_id = frame.message_id
        before = (self._unacknowledged or {}).get(message_id)
        if before is not None:
            self._take_from_unheard(message_id)
            if _is_copy_of(_contents(before), reading):
                return []  # answered when the broker has acknowledged it
            self._take_from_unacknowledged(before)  # goes on, but the client has begun again
            return None
        if reading.qos == 1:
            if not self._is_recent(reading, is_repeat=frame.dup):
                return None
            now = reading.received_at  # one that sends copies still may do so for another COPY_S
            self._remember(message_id, _contents(reading), now, now + COPY_S)
            return [Send(peer, Puback(frame.topic_id, message_id, ReturnCode.ACCEPTED))]
        if self._is_awaiting_release(reading) or self._is_recent(reading, is_repeat=frame.dup):
            return [Send(peer, Pubrec(message_id))]
        return None

    def _is_recent(self, reading: Reading, *, is_repeat: bool) -> bool:
        """`is_repeat`: its client says so; else the network may have made a copy."""
        readings = self.recent
        recent = None if readings is None else readings.find(reading.message_id)
        if readings is None or recent is None:
            return False
        until = recent.until if is_repeat else recent.until - COPY_S + HOLD_DOWN_S
        if reading.received_at >= until or not _is_copy_of(recent.contents, reading):
            return False
        return is_repeat or reading.qos == 2 or readings.is_rising(recent)

    def _is_awaiting_release(self, reading: Reading) -> bool:
        if self._awaiting_release is None:
            return False
        exchange = self._awaiting_release.get(reading.message_id)
        return exchange is not None and _is_copy_of(exchange.contents, reading)

    def _await_release(self, message_id: int, contents: Contents, reading: Reading) -> list[Output]:
        waiting = self._awaiting_release
        if waiting is None:
            waiting = self._awaiting_release = {}
        if message_id in waiting:
            del waiting[message_id]
        effects: list[Output] = []
        if len(waiting) >= RELEASES_MAX:
            oldest = next(iter(waiting))
            del waiting[oldest]
            effects.append(RecordRelease(reading.client_id, oldest))
        stage = _Stage.RECORDED if reading.record >= 0 else _Stage.UNRECORDED
        waiting[message_id] = _Exchange(contents, stage)
        return effects

    def _remember(self, message_id: int, contents: Contents, now: float, until: float) -> None:
        if self.recent is None:
            self.recent = RecentReadings()
        self.recent.remember(message_id, contents, now, until)

    def _take_from_unheard(self, message_id: int) -> bool:
        """Whether nobody listened for this acknowledgement. From now on its id is free again."""
        if self._unheard is None or message_id not in self._unheard:
            return False
        self._unheard.discard(message_id)
        if not self._unheard:
            self._unheard = None
        return True


def _contents(reading: Reading) -> Contents:
    """Of this life only; it takes a third of the time of a checksum that outlasts it.

    62 bits, which compiled are no object of their own.
    """
    return hash((reading.topic, reading.payload, reading.qos)) >> 2


def _is_copy_of(contents: Contents, reading: Reading) -> bool:
    """What was restored has the checksum of the journal."""
    if contents == _contents(reading):
        return True
    return contents == contents_of(reading.topic, reading.payload, reading.qos)


def _refusal(
    frame: Publish, client_id: ClientId, peer: Peer, return_code: int, reason: Reason
) -> list[Output]:
    answer = Puback(frame.topic_id, frame.message_id, return_code)
    detail = f"topic id {frame.topic_id:#06x}, {len(frame.payload)} bytes, QoS {frame.qos}"
    return [Dropped(reason, client_id, detail), Send(peer, answer)]

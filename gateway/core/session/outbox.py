"""What waits for a client, in order, and how it is saved.

A message is saved as it comes, or, if its client listens and the broker waits for it, when it is
not acknowledged soon; its row goes when it is acknowledged or dropped. The broker hears that a
message is durably accepted when each client's copy has been acknowledged, dropped, or made durable.

Over: what has no time left is given back to be dropped when its turn comes or room is needed.

Full: beyond `outbox_messages_max` or `outbox_bytes_max` messages are given back to be dropped, the
oldest or the newest by `when_outbox_full`, and those of QoS 0 before any other: what nobody
promised may not cost what the broker was told is durably accepted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from gateway.core.drop_reasons import Reason
from gateway.core.effects import DeliveryComplete, Dropped, Save
from gateway.core.events import Output
from gateway.core.message_expiry import is_over, saved
from gateway.core.session.options import SessionOptions, WhenOutboxFull
from gateway.core.session.topic_registry import Reference
from gateway.core.state_records import ClientId, MessageDeleted, MessageRecord
from gateway.core.values import Message, Publication
from gateway.frames import Publish, ReturnCode, TopicIdType

MESSAGE_IDS = 0xFFFF  # from 1 on
OVERHEAD_BYTES = 64  # what a queued message costs beside its topic and payload, roughly
NOWHERE = -1  # the position of a QoS 0 message, which is not saved


class Stage(Enum):
    """What the message under way waits for."""

    SAVING = "our disk, before REGISTER or PUBLISH"
    REGACK = "REGACK"
    RECEIPT = "PUBACK or PUBREC"
    RELEASING = "our disk, before PUBREL"
    PUBCOMP = "PUBCOMP"


@dataclass(slots=True)
class Queued:
    """A message in its place; `arrived` counts what becomes of it."""

    message: Message
    position: int
    publication: Publication | None
    is_offered: bool = False  # it went, or at QoS 0 may go, to where the client is said to be


@dataclass(slots=True)
class Outstanding:
    """The one message that a client has not acknowledged yet."""

    message: Message
    position: int
    message_id: int
    publication: Publication | None = None
    stage: Stage = Stage.REGACK
    published: bool = False  # a PUBLISH went out, so the next one is a repeat
    is_under_way: bool = False  # it went out in this run
    tries: int = 0  # repeats since the client was last heard about it
    since: float = 0.0  # when they began
    is_spent: bool = False  # whether they ended without an answer
    rounds: int = 0  # how often they did, though the client was heard again
    disowned: int = 0  # how often the client did not know the number of its topic
    reference: Reference | None = None  # how the last PUBLISH named the topic
    is_offered: bool = False  # as of `Queued`

    def is_over(self, now: float) -> bool:
        """Whether its time ended before a PUBLISH went out. What a former run sent is not known, so
        of that only what the client has received (PUBREC) is completed.
        """
        if self.message.expiry is None or self.is_under_way:
            return False
        is_received = self.stage is Stage.RELEASING or self.stage is Stage.PUBCOMP
        return not is_received and self.message.expiry.is_over(now)

    def is_unanswered(self, now: float, patience_s: float) -> bool:
        """Whether all its repeats have had their time, however often the client asked meanwhile."""
        waits_for_disk = self.stage is Stage.SAVING or self.stage is Stage.RELEASING
        return not waits_for_disk and now >= self.since + patience_s

    def spend(self, heard_at: float) -> bool:
        """The repeats are spent; whether the client was heard since they began."""
        self.is_spent = True
        return heard_at > self.since

    def ends_round(self, heard_at: float) -> bool:
        """Whether the repeats were spent on a client that is there, as it was heard again."""
        if not self.is_spent or heard_at <= self.since:
            return False
        self.is_spent = False
        self.rounds += 1
        return True

    def begin_round(self, now: float) -> None:
        """All repeats are to come again."""
        self.tries = self.rounds = 0
        self.since = now

    def is_congested(self, return_code: int, tries_max: int) -> bool:
        """Whether to wait for the retry timer because the client cannot take it just now."""
        return return_code == ReturnCode.CONGESTION and self.tries < tries_max

    def disowned_by(self, return_code: int, times_max: int) -> int | None:
        """The number of the topic if the client has forgotten it, so that it is told again."""
        if return_code != ReturnCode.INVALID_TOPIC_ID or self.reference is None:
            return None
        kind, topic_id = self.reference
        if kind is not TopicIdType.NORMAL or self.disowned >= times_max:
            return None
        self.disowned += 1
        self.tries = 0
        return topic_id


@dataclass(slots=True)
class GivenUp:
    """Messages that a client never acknowledged, though it was heard."""

    count: int = 0
    last_topic: str = ""

    def add(self, client_id: ClientId, current: Outstanding) -> Dropped:
        """What it has received (PUBREC) is not lost by it, and not counted."""
        is_received = current.stage is Stage.RELEASING or current.stage is Stage.PUBCOMP
        self.count += 1
        self.last_topic = current.message.topic
        return Dropped(
            Reason.UNACKNOWLEDGED,
            client_id,
            f"{self.last_topic!r}: {current.rounds} times no {current.stage.value} to any repeat",
            count=0 if is_received else 1,
        )


class SharedPositions:
    """Of the two queues of a client that is said to be elsewhere: a message that comes for both has
    one position and one message id, as it may be one client that hears it from both.
    """

    __slots__ = ("_last", "next_position")

    def __init__(self, next_position: int) -> None:
        self.next_position = next_position
        self._last: Message | None = None  # it has the position before the next

    def take(self, message: Message) -> int:
        if message is self._last:
            return self.next_position - 1
        self._last = message
        self.next_position += 1
        return self.next_position - 1


class Outbox:
    __slots__ = ("_bytes", "_expiring", "_options", "_qos_0", "_queue", "owed")

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._queue: deque[Queued] = deque()
        self._bytes = 0
        self._qos_0 = 0  # so many of them
        self._expiring = 0  # and so many that will be over some day
        self.owed = 0  # so many, the first ones, waited when their client asked for them

    def __len__(self) -> int:
        return len(self._queue)

    def __bool__(self) -> bool:
        """As `len` says; but compiled, of one that may be None only this is asked."""
        return bool(self._queue)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def head(self) -> Queued:
        return self._queue[0]

    def put(self, queued: Queued) -> None:
        self._queue.append(queued)
        self._bytes += cost_of(queued.message)
        self._qos_0 += queued.message.qos == 0
        self._expiring += queued.message.expiry is not None

    def take(self) -> Queued:
        return self._take_at(0)

    def owe_all(self) -> None:
        """The client asks for what waits now."""
        self.owed = len(self._queue)

    def has(self, message_id: int, restored_to: int) -> bool:
        """Whether this is the id of a message that a previous run left, up to that position."""
        if restored_to == NOWHERE:
            return False
        return any(
            NOWHERE < each.position <= restored_to and message_id_of(each.position) == message_id
            for each in self._queue
        )

    def __iter__(self) -> Iterator[Queued]:
        return iter(self._queue)

    def take_all(self) -> list[Queued]:
        return [self.take() for _ in range(len(self))]

    def forget_offered(self) -> None:
        """Leave out what went elsewhere at QoS 0."""
        for queued in self.take_all():
            if queued.message.qos or not queued.is_offered:
                self.put(queued)

    def take_over(self, now: float) -> list[Queued]:
        """Those whose time is over, if room is needed."""
        options = self._options
        is_full = len(self) > options.outbox_messages_max or self._bytes > options.outbox_bytes_max
        if not is_full or not self._expiring:
            return []
        over = [at for at, each in enumerate(self._queue) if is_over(each.message.expiry, now)]
        return [self._take_at(at - taken) for taken, at in enumerate(over)]

    def excess(self) -> tuple[list[Queued], str]:
        """Those that there is no room for, and which limit says so."""
        options = self._options
        dropped: list[Queued] = []
        detail = ""
        while len(self) > options.outbox_messages_max:
            detail = f"more than {options.outbox_messages_max} messages"
            dropped.append(self._take_superfluous())
        while self._bytes > options.outbox_bytes_max and len(self) > 1:
            detail = f"more than {options.outbox_bytes_max} bytes"
            dropped.append(self._take_superfluous())
        return dropped, detail

    def _take_superfluous(self) -> Queued:
        is_newest_first = self._options.when_outbox_full is WhenOutboxFull.DROP_NEWEST
        places = range(len(self._queue))
        candidates = reversed(places) if is_newest_first else iter(places)
        if self._qos_0:
            return self._take_at(next(at for at in candidates if not self._queue[at].message.qos))
        return self._take_at(next(candidates))

    def _take_at(self, place: int) -> Queued:
        queued = self._queue[place]
        del self._queue[place]
        self.owed -= place < self.owed
        self._bytes -= cost_of(queued.message)
        self._qos_0 -= queued.message.qos == 0
        self._expiring -= queued.message.expiry is not None
        return queued


def message_id_of(position: int) -> int:
    return position % MESSAGE_IDS + 1


def publish_frame(message: Message, reference: Reference, message_id: int, *, dup: bool) -> Publish:
    kind, topic_id = reference
    return Publish(topic_id, message_id, message.payload, message.qos, message.retain, dup, kind)


def row(client_id: ClientId, queued: Queued | Outstanding) -> MessageRecord:
    message = queued.message
    return MessageRecord(
        client_id=client_id,
        position=queued.position,
        topic=message.topic,
        payload=message.payload,
        qos=message.qos,
        retain=message.retain,
        expiry=saved(message.expiry),
    )


def saving(client_id: ClientId, queued: Queued | Outstanding) -> list[Output]:
    """What makes it durable, if that is not for later."""
    publication = queued.publication
    if publication is not None and publication.unsaved is not None:
        publication.unsaved[client_id] = queued.position
        return []
    return [Save(row(client_id, queued))]


def gone(client_id: ClientId, queued: Queued | Outstanding) -> list[Output]:
    """A message leaves the queue, and its row if it has one."""
    if not queued.message.qos:
        return []
    publication = queued.publication
    is_unsaved = (
        publication is not None and publication.unsaved and client_id in publication.unsaved
    )
    left = let_go(client_id, publication)
    if is_unsaved:
        return left
    expires = queued.message.expiry is not None
    return [Save(MessageDeleted(client_id, queued.position, expires)), *left]


def let_go(client_id: ClientId, publication: Publication | None) -> list[Output]:
    """One copy less to wait for, before the broker may forget the message."""
    if publication is None:
        return []
    if publication.unsaved:
        publication.unsaved.pop(client_id, None)
    publication.copies -= 1
    return [] if publication.copies else [DeliveryComplete(publication)]


def offered(queue: Sequence[Queued | Outstanding]) -> list[Queued | Outstanding]:
    """What of a queue goes to where the client is said to be as well. QoS 0 goes to one such place
    only: it may be the client that is there.
    """
    taken = [each for each in queue if each.message.qos or not each.is_offered]
    for each in taken:
        each.is_offered |= not each.message.qos
        if each.publication is not None:
            each.publication.copies += 1
    return taken


def dropped_as_over(client_id: ClientId, over: Sequence[Queued | Outstanding]) -> list[Output]:
    topic = over[0].message.topic
    effects: list[Output] = [Dropped(Reason.MESSAGE_EXPIRED, client_id, topic, count=len(over))]
    for each in over:
        effects += gone(client_id, each)
    return effects


def cost_of(message: Message) -> int:
    """What a message counts in `outbox_bytes_max`."""
    return len(message.payload) + len(message.topic) + OVERHEAD_BYTES

"""All that waits for a client, in order, the message under way included: its positions, its rows,
and what another queue of the same client continues.

A client that is said to be elsewhere has two sessions (`clients/contests.py`), and each has a
queue. The newer one continues the former one: it begins with what waits there, and a message that
comes for both has one position, so one message id. When one of them ends, what only that one has
leaves, and what the other one has is saved.

Limits: those of `outbox.py`.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.core.effects import Save
from gateway.core.events import Output
from gateway.core.session.egress_budget import Egress
from gateway.core.session.options import SessionOptions
from gateway.core.session.outbox import (
    NOWHERE,
    GivenUp,
    Outbox,
    Outstanding,
    Queued,
    SharedPositions,
    Stage,
    cost_of,
    gone,
    let_go,
    offered,
    row,
    saving,
)
from gateway.core.state_records import ClientId
from gateway.core.values import Message

# Positions are reserved in blocks, so that a session's row changes once for a block of messages.
POSITIONS_BLOCK = 1024
_BLOCK_ENDS = [(block + 1) * POSITIONS_BLOCK for block in range(64)]


class ClientQueue(Egress):
    """The queue of one session, without what sends it."""

    __slots__ = (
        "_durable_to", "_first_position", "_next_position", "_outbox", "_restored_to",
        "_shared_positions", "given_up", "outstanding",
    )  # fmt: skip

    def __init__(self, options: SessionOptions, next_position: int) -> None:
        super().__init__(options)
        self._outbox: Outbox | None = None  # made when needed: it costs 700 bytes
        self._durable_to = NOWHERE  # the highest position that is known to be durable
        self._restored_to = NOWHERE  # the highest one of a previous run
        self._next_position = self._first_position = next_position
        self._shared_positions: SharedPositions | None = None  # while two queues are the client's
        self.outstanding: Outstanding | None = None
        self.given_up: GivenUp | None = None

    @property
    def next_position(self) -> int:
        """The one that no message has had yet."""
        shared = self._shared_positions
        return self._next_position if shared is None else shared.next_position

    @property
    def waiting(self) -> int:
        """Messages not yet acknowledged, the one under way included."""
        return (len(self._outbox) if self._outbox else 0) + (self.outstanding is not None)

    @property
    def waiting_bytes(self) -> int:
        """Their size, as `outbox_bytes_max` counts it."""
        size = self._outbox.size_bytes if self._outbox else 0
        return size if self.outstanding is None else size + cost_of(self.outstanding.message)

    @property
    def is_used(self) -> bool:
        """Whether anything was for the client that it had to acknowledge, or still is."""
        return self.next_position != self._first_position

    @property
    def head(self) -> object:
        """What is under way, or the first that waits."""
        if self.outstanding is not None:
            return self.outstanding
        assert self._outbox is not None, "something waits"
        return self._outbox.head

    @property
    def reserved_positions(self) -> int:
        """The end of the block that the next position is in."""
        block = self.next_position // POSITIONS_BLOCK
        if block < len(_BLOCK_ENDS):
            return _BLOCK_ENDS[block]  # nearly all, so they share the number
        return (block + 1) * POSITIONS_BLOCK

    def end(self, client_id: ClientId) -> list[Output]:
        """The session is over, and what waits for its client with it."""
        effects: list[Output] = []
        if self.outstanding is not None:
            effects += let_go(client_id, self.outstanding.publication)
        for queued in self._outbox.take_all() if self._outbox is not None else ():
            effects += let_go(client_id, queued.publication)
        return effects

    @property
    def queue(self) -> list[Queued | Outstanding]:
        """All that waits, in order, the one under way included."""
        waiting: list[Queued | Outstanding] = [*(self._outbox or ())]
        return waiting if self.outstanding is None else [self.outstanding, *waiting]

    def rows(self, client_id: ClientId, saved: frozenset[int] = frozenset()) -> list[Output]:
        """Of all that waits here and is not for later (`saving`), to be saved. Those at `saved`
        positions are, in the queue that this one takes the place of.
        """
        current = self.outstanding
        rows: list[Output] = []
        for queued in self.queue:
            if queued.message.qos and queued.position not in saved:
                rows += saving(client_id, queued)
        if current is not None and current.stage in (Stage.RELEASING, Stage.PUBCOMP):
            received = row(client_id, current)
            received.is_released = True
            rows.append(Save(received))
        return rows

    def continue_from(self, former: ClientQueue) -> None:
        """What waits in another queue of the client waits here as well."""
        self._shared_positions = former._shared_positions = SharedPositions(former.next_position)
        outbox = Outbox(self._options)
        for each in offered(former.queue):
            if isinstance(each, Outstanding):
                self.outstanding = replace(each)
            else:
                outbox.put(each)
        self._outbox = outbox if outbox else None
        self._durable_to, self._restored_to = former._durable_to, former._restored_to
        self.given_up, self._first_position = former.given_up, former._first_position

    def succeed(self, former: ClientQueue, client_id: ClientId) -> list[Output]:
        """The queue that this one continues is over: what it has more leaves it, what this one has
        more is saved.
        """
        own = {each.position for each in self.queue}
        saved = frozenset(each.position for each in former.queue)
        effects: list[Output] = []
        for each in former.queue:
            if each.position in own:
                effects += let_go(client_id, each.publication)
            else:
                effects += gone(client_id, each)
        self._end_sharing()
        return effects + self.rows(client_id, saved)

    def take_back(self, former: ClientQueue) -> None:
        """This queue ends, and the one that it continues does not: what waits here of QoS 0 was not
        sent, and what is under way was.
        """
        unsent = {id(each.message) for each in self.queue}
        for each in former.queue:
            if not each.message.qos and id(each.message) in unsent:
                each.is_offered = False
        current, first = self.outstanding, former.queue[:1]
        if current is not None and current.published and first:
            first[0].is_offered |= first[0].position == current.position
        former._end_sharing()

    def _end_sharing(self) -> None:
        self._next_position = self.next_position
        self._shared_positions = None

    def forget_offered(self) -> None:
        """The client is not here any more: what went elsewhere at QoS 0 is not sent again."""
        if self._outbox is not None:
            self._outbox.forget_offered()

    def offer_last(self, message: Message) -> None:
        """If this was queued, it has also come for where the client is said to be."""
        queue = self.queue
        if queue and queue[-1].message is message:
            queue[-1].is_offered = True

    def wait_on(self, now: float) -> None:
        """The client answers, and that does not count yet: its message is repeated as before."""
        current = self.outstanding
        assert current is not None, "it answers what is under way"
        current.begin_round(now)

    def _take_position(self, message: Message) -> int:
        shared = self._shared_positions
        if shared is not None:
            return shared.take(message)
        position = self._next_position
        self._next_position = position + 1
        return position

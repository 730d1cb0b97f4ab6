"""What the broker was told of each device, and what it is to be told next.

Nobody reports changes here: the board looks at all sessions, slice by slice and round by round, and
compares them with what it said. So the way of a reading asks nothing of it, what was missed is seen
in the next round, and a device that wakes for a moment within two looks is told once. The design
that lost queued a message for each change of state: with 100,000 sleepers that is thousands a
second, and one that gets lost stays wrong.

Rule 1: what somebody should see goes first: overdue, lost, gone, back, forgotten; then new devices;
        then what only goes on.
Rule 2: a device that only goes on is told again when it was heard and what was said of it is over
        (the time until it sleeps) or `REFRESH_S` old. What was told is told again after `AGAIN_S`,
        should a broker have lost it unnoticed.
Rule 3: what is said is made when it goes, not when it was due, and a device is due at most once.
Rule 4: a new connection makes everything due again: the broker may have lost what it retained.
Rule 5: what is forgotten here is cleared there. A device without a session to come back to (clean)
        is told as lost or disconnected for `LEFT_S`, then forgotten.

Limits: one entry for each session, and `LEFT_MAX` of devices without one; the oldest gives way. A
round takes at most `ROUND_LOOKS` looks. How many notices go is for the caller to say.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from math import inf

from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.presence.documents import Device, Notice, device_json, device_of
from gateway.presence.standing import (
    ASLEEP,
    GONE,
    SLEEPS,
    Standing,
    is_overdue,
    standing_in,
    standing_of,
)
from gateway.presence.topics import Topics

SLICE_MIN = 1000  # sessions at one look: half a millisecond, or one that is all cache misses
ROUND_LOOKS = 120  # 30 s at four looks a second, for 120,000 sessions; 1000 are seen in each look
REFRESH_S = 60.0
AGAIN_S = 6 * 3600.0
LEFT_S = 7 * 24 * 3600.0
LEFT_MAX = 1000

_NOT_WELL = (Standing.OVERDUE, *GONE)  # no set: to hash a member costs more than to find it here
# Rule 1
_FIRST = 0
_NEW = 1
_REST = 2
_WAITS = object()  # noted of a session whose client is due, and was never told of


class _Published:
    """What the broker knows of a device: 100,000 of them are 9 MiB."""

    __slots__ = ("connection", "last_received_at", "look_at", "standing", "state", "valid_until")

    def __init__(
        self, *, device: Device, session: Session | None, now: float, connection: int
    ) -> None:
        self.standing = device.standing
        self.connection = connection
        self.state = None if session is None else session.state
        self.last_received_at = 0.0 if session is None else session.last_received_at
        until = inf if device.until is None else device.until
        # Until then what was said is true, if the device was heard again.
        self.valid_until = min(until, now + REFRESH_S)
        # Until then nothing is to be said, if it was not.
        self.look_at = now + AGAIN_S
        due_at = None if session is None else session.due_at
        if due_at is not None and device.standing is not Standing.OVERDUE:
            self.look_at = min(due_at, self.look_at)


class Availability:
    def __init__(
        self,
        sessions: Mapping[ClientId, Session],
        topics: Topics,
        link_of: Callable[[Peer], str],
    ) -> None:
        self.unix_s_at_zero = 0.0
        self.born_at = 0.0  # up to then the gateway was not there to hear anybody
        self.counts: Mapping[Standing, int] = Counter()  # of the last whole round
        self._sessions = sessions
        self._topics = topics
        self._link_of = link_of
        self._published: dict[ClientId, _Published] = {}
        self._left: OrderedDict[ClientId, tuple[Device, float]] = OrderedDict()
        self._due: tuple[OrderedDict[ClientId, None], ...] = tuple(OrderedDict() for _ in range(3))
        self._connection = 0
        self._round: list[Session] = []
        self._tally: Counter[Standing] = Counter()

    # From the connection

    def connected(self) -> None:
        """Rule 4."""
        self._connection += 1
        self._round.clear()
        self._tally.clear()

    # From the engine's news

    def left(self, client_id: ClientId, state: State, peer: Peer | None, now: float) -> None:
        """A device is lost or said goodbye, and if it has no session any more, this is known."""
        if client_id in self._sessions:
            return
        link = "" if peer is None else self._link_of(peer)
        self._left[client_id] = (
            Device(
                client_id=client_id, standing=standing_in(state), link=link, last_received_at=now
            ),
            now,
        )
        if len(self._left) > LEFT_MAX:
            self._left.popitem(last=False)
        self._due[_FIRST][client_id] = None

    # From those who show

    @property
    def told(self) -> int:
        """Devices that the broker knows of."""
        return len(self._published)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._due))

    @property
    def presses(self) -> bool:
        """Whether there is something that somebody should see."""
        return bool(self._due[_FIRST])

    # Time

    def look(self, now: float) -> None:
        """At the next slice."""
        if not self._round:
            self._begin_round(now)
        slice_size = max(SLICE_MIN, -(-len(self._sessions) // ROUND_LOOKS))
        connection = self._connection
        found: list[Standing] = []
        for session in self._round[-slice_size:]:
            said = session.noted  # in no table, because each of those is a cache miss or two
            if (  # nearly always, so it takes no detour
                type(said) is _Published
                and said.last_received_at == session.last_received_at
                and said.state is session.state
                and said.connection == connection
                and now <= said.look_at
            ):
                found.append(said.standing)
            elif (  # while very many are new: the same as below, and cheaper
                said is _WAITS and session.state is SLEEPS and not is_overdue(session, now)
            ):
                found.append(ASLEEP)
            elif (standing := self._look_at(session.client_id, now)) is not None:
                found.append(standing)
        del self._round[-slice_size:]
        for standing in Standing:  # to hash a member costs more than to find them all
            if count := found.count(standing):
                self._tally[standing] += count
        if not self._round:
            self.counts, self._tally = self._tally, Counter()

    def next_first(self, now: float) -> Notice | None:
        """What somebody should see, if there is any such thing to say."""
        return self._next(self._due[:_REST], now)

    def next_rest(self, now: float) -> Notice | None:
        """What only goes on."""
        return self._next(self._due[_REST:], now)

    def _next(self, queues: tuple[OrderedDict[ClientId, None], ...], now: float) -> Notice | None:
        for queue in queues:
            while queue:
                client_id, _ = queue.popitem(last=False)
                notice = self._notice(client_id, now)
                if notice is not None:
                    return notice
        return None

    # Looking

    def _begin_round(self, now: float) -> None:
        while self._left:
            client_id, (_, left_at) = next(iter(self._left.items()))
            if now - left_at < LEFT_S:
                break
            del self._left[client_id]
        sessions = self._sessions
        for client_id in self._published:
            if client_id not in sessions and client_id not in self._left:
                self._due[_FIRST][client_id] = None
        self._round = list(sessions.values())[::-1]

    def _look_at(self, client_id: ClientId, now: float) -> Standing | None:
        session, said = self._sessions.get(client_id), self._published.get(client_id)
        if session is None:
            return None  # since the round began; the next one says so
        standing = standing_of(session, now)
        if said is None:
            self._due[_FIRST if standing in _NOT_WELL else _NEW][client_id] = None
            session.noted = _WAITS
        elif said.standing is not standing:
            is_news = said.standing in _NOT_WELL or standing in _NOT_WELL
            self._due[_FIRST if is_news else _REST][client_id] = None
        elif said.connection != self._connection:
            self._due[_FIRST if standing in _NOT_WELL else _REST][client_id] = None
        elif now >= said.valid_until and (
            session.last_received_at != said.last_received_at or now > said.look_at
        ):
            self._due[_REST][client_id] = None
        return standing

    # Saying

    def _notice(self, client_id: ClientId, now: float) -> Notice | None:
        for queue in self._due:
            queue.pop(client_id, None)
        device = self._device(client_id, now)
        topic = self._topics.client(client_id)
        if device is None:
            was_said = self._published.pop(client_id, None) is not None
            return Notice(topic, b"", client_id) if was_said else None
        is_first = client_id not in self._published
        session = self._sessions.get(client_id)
        said = self._published[client_id] = _Published(
            device=device, session=session, now=now, connection=self._connection
        )
        if session is not None:
            session.noted = said
        payload = device_json(device, self.unix_s_at_zero)
        return Notice(topic=topic, payload=payload, client_id=client_id, is_first=is_first)

    def _device(self, client_id: ClientId, now: float) -> Device | None:
        session = self._sessions.get(client_id)
        if session is not None:
            self._left.pop(client_id, None)
            link = self._link_of(session.peer)
            return device_of(session, standing_of(session, now), link, self.born_at)
        left = self._left.get(client_id)
        return None if left is None else left[0]

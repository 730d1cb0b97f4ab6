"""Presence of devices: what the broker has of each device, and what is published of it next.

Nothing reports changes to this class. It scans all sessions, slice by slice and round by round, and
compares them with what was published. So the path of a reading does not call it, a missed change is
found in the next round, and a device that is awake for a moment between two scans is published
once. The design that lost queued a message for each change of state: with 100,000 sleepers that is
thousands a second, and one that gets lost stays wrong.

Rule 1: changes that matter to a person go first: overdue, lost, disconnected, back, forgotten; then
        new devices; then devices whose state goes on.
Rule 2: the state of a device that goes on is published again when the device was heard from and
        what was published is over (the time until it sleeps) or `REFRESH_S` old. Whatever was
        published is published again after `AGAIN_S`: a broker may have lost it.
Rule 3: a message is made when it is sent, not when it is due, and a device is due at most once.
Rule 4: a new connection makes everything due again: the broker may have lost what it retained.
Rule 5: what is forgotten here is cleared at the broker. A device without a session (clean) is
        published as lost or disconnected for `DEPARTED_S`, then forgotten.

Limits: one entry for each session, and `DEPARTED_MAX` of devices without one; the oldest gives way.
A round takes at most `ROUND_SCANS` scans. The caller decides how many messages are sent.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from math import inf

from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.presence.documents import Device, RetainedMessage, device_json, device_of
from gateway.presence.standing import (
    ASLEEP,
    OFFLINE,
    SLEEPS,
    Standing,
    is_overdue,
    standing_in,
    standing_of,
)
from gateway.presence.topics import Topics

SLICE_MIN = 1000  # sessions in one scan: half a millisecond, or one that is all cache misses
ROUND_SCANS = 120  # 30 s at four scans a second, for 120,000 sessions; SLICE_MIN in each
REFRESH_S = 60.0
AGAIN_S = 6 * 3600.0
DEPARTED_S = 7 * 24 * 3600.0
DEPARTED_MAX = 1000

_ABSENT = (Standing.OVERDUE, *OFFLINE)  # no set: to hash a member costs more than to find it here
# Rule 1
_URGENT = 0
_NEW = 1
_REFRESH = 2
_QUEUED = object()  # noted of a session whose client is due for the first time


class _Published:
    """What was published of a device: 100,000 of them are 9 MiB."""

    __slots__ = ("check_at", "connection", "last_received_at", "standing", "state", "valid_until")

    def __init__(
        self, *, device: Device, session: Session | None, now: float, connection: int
    ) -> None:
        self.standing = device.standing
        self.connection = connection
        self.state = None if session is None else session.state
        self.last_received_at = 0.0 if session is None else session.last_received_at
        until = inf if device.until is None else device.until
        # Until then what was published is right, if the device was heard from again.
        self.valid_until = min(until, now + REFRESH_S)
        # Until then nothing is to be published, if it was not.
        self.check_at = now + AGAIN_S
        due_at = None if session is None else session.due_at
        if due_at is not None and device.standing is not Standing.OVERDUE:
            self.check_at = min(due_at, self.check_at)


class Availability:
    def __init__(
        self,
        sessions: Mapping[ClientId, Session],
        topics: Topics,
        link_of: Callable[[Peer], str],
    ) -> None:
        self.unix_s_at_zero = 0.0
        self.started_at = 0.0  # before that the gateway did not run, and received nothing
        self.counts: Mapping[Standing, int] = Counter()  # of the last whole round
        self._sessions = sessions
        self._topics = topics
        self._link_of = link_of
        self._published: dict[ClientId, _Published] = {}
        self._departed: OrderedDict[ClientId, tuple[Device, float]] = OrderedDict()
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

    # From the engine's events

    def departed(self, client_id: ClientId, state: State, peer: Peer | None, now: float) -> None:
        """A device is lost or has disconnected; recorded if it has no session any more."""
        if client_id in self._sessions:
            return
        link = "" if peer is None else self._link_of(peer)
        self._departed[client_id] = (
            Device(
                client_id=client_id, standing=standing_in(state), link=link, last_received_at=now
            ),
            now,
        )
        if len(self._departed) > DEPARTED_MAX:
            self._departed.popitem(last=False)
        self._due[_URGENT][client_id] = None

    # For status and metrics

    @property
    def published_count(self) -> int:
        """Devices whose presence is at the broker."""
        return len(self._published)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._due))

    @property
    def is_urgent(self) -> bool:
        """Whether a change is due that matters to a person (rule 1)."""
        return bool(self._due[_URGENT])

    # Time

    def scan(self, now: float) -> None:
        """The next slice of all sessions."""
        if not self._round:
            self._begin_round(now)
        slice_size = max(SLICE_MIN, -(-len(self._sessions) // ROUND_SCANS))
        connection = self._connection
        found: list[Standing] = []
        for session in self._round[-slice_size:]:
            published = session.noted  # in no table, because each of those is a cache miss or two
            if (  # nearly always, so it takes no detour
                type(published) is _Published
                and published.last_received_at == session.last_received_at
                and published.state is session.state
                and published.connection == connection
                and now <= published.check_at
            ):
                found.append(published.standing)
            elif (  # while very many are new: the same as below, and cheaper
                published is _QUEUED and session.state is SLEEPS and not is_overdue(session, now)
            ):
                found.append(ASLEEP)
            elif (standing := self._check(session.client_id, now)) is not None:
                found.append(standing)
        del self._round[-slice_size:]
        for standing in Standing:  # to hash a member costs more than to find them all
            if count := found.count(standing):
                self._tally[standing] += count
        if not self._round:
            self.counts, self._tally = self._tally, Counter()

    def next_change(self, now: float) -> RetainedMessage | None:
        """A change that matters, or a new device."""
        return self._next(self._due[:_REFRESH], now)

    def next_refresh(self, now: float) -> RetainedMessage | None:
        """The state of a device that goes on."""
        return self._next(self._due[_REFRESH:], now)

    def _next(
        self, queues: tuple[OrderedDict[ClientId, None], ...], now: float
    ) -> RetainedMessage | None:
        for queue in queues:
            while queue:
                client_id, _ = queue.popitem(last=False)
                message = self._message(client_id, now)
                if message is not None:
                    return message
        return None

    # Scanning

    def _begin_round(self, now: float) -> None:
        while self._departed:
            client_id, (_, left_at) = next(iter(self._departed.items()))
            if now - left_at < DEPARTED_S:
                break
            del self._departed[client_id]
        sessions = self._sessions
        for client_id in self._published:
            if client_id not in sessions and client_id not in self._departed:
                self._due[_URGENT][client_id] = None
        self._round = list(sessions.values())[::-1]

    def _check(self, client_id: ClientId, now: float) -> Standing | None:
        session, published = self._sessions.get(client_id), self._published.get(client_id)
        if session is None:
            return None  # it went after the round began; the next one finds that
        standing = standing_of(session, now)
        if published is None:
            self._due[_URGENT if standing in _ABSENT else _NEW][client_id] = None
            session.noted = _QUEUED
        elif published.standing is not standing:
            is_change = published.standing in _ABSENT or standing in _ABSENT
            self._due[_URGENT if is_change else _REFRESH][client_id] = None
        elif published.connection != self._connection:
            self._due[_URGENT if standing in _ABSENT else _REFRESH][client_id] = None
        elif now >= published.valid_until and (
            session.last_received_at != published.last_received_at or now > published.check_at
        ):
            self._due[_REFRESH][client_id] = None
        return standing

    # Messages

    def _message(self, client_id: ClientId, now: float) -> RetainedMessage | None:
        for queue in self._due:
            queue.pop(client_id, None)
        device = self._device(client_id, now)
        topic = self._topics.client(client_id)
        if device is None:
            was_published = self._published.pop(client_id, None) is not None
            return RetainedMessage(topic, b"", client_id) if was_published else None
        is_first = client_id not in self._published
        session = self._sessions.get(client_id)
        published = self._published[client_id] = _Published(
            device=device, session=session, now=now, connection=self._connection
        )
        if session is not None:
            session.noted = published
        payload = device_json(device, self.unix_s_at_zero)
        return RetainedMessage(topic=topic, payload=payload, client_id=client_id, is_first=is_first)

    def _device(self, client_id: ClientId, now: float) -> Device | None:
        session = self._sessions.get(client_id)
        if session is not None:
            self._departed.pop(client_id, None)
            link = self._link_of(session.peer)
            return device_of(session, standing_of(session, now), link, self.started_at)
        departed = self._departed.get(client_id)
        return None if departed is None else departed[0]

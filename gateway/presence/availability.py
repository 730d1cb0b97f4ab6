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
Rule 6: a client that connects, publishes and disconnects within `VISIT_S_MAX` is a visitor, and
        available until it should have come again: for `visitor_available_s`, and once its habit
        is known, for three of its usual gaps, or one and a half of the longest in some days. So is
        one that is lost as often as it comes. One that was here for longer has left when it
        disconnects. Of some the operator says how long (`fixed`), whatever their habit is.
Rule 7: a sensor without any connection (QoS -1) is awake while it keeps its habit, then lost.
Rule 8: what the broker has of a device that is not known here, because the state folder was lost,
        is lost for `visitor_available_s`, and forgotten if it does not connect by then.
Rule 9: a device that another gateway has now is cleared, and not published before it is received
        here again.
Rule 10: of a device with commands it is published as well how many messages wait for it, and again
        when that changes (pending_commands.py).

Limits: one entry for each session, and `DEPARTED_MAX` of devices without one; the oldest gives way.
`VISITORS_MAX` habits; the one that came the longest ago is forgotten. `CONNECTIONLESS_MAX` sensors
without a connection; further ones are not published.
A round takes at most `ROUND_SCANS` scans. The caller decides how many messages are sent.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from gateway.config.patterns import matches
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.presence.documents import Device, RetainedMessage, device_json, device_of
from gateway.presence.standing import (
    ASLEEP,
    OFFLINE,
    SLEEPS,
    Rhythm,
    Standing,
    is_overdue,
    standing_in,
    standing_of,
)
from gateway.presence.topics import Topics

if TYPE_CHECKING:
    from gateway.presence.pending_commands import PendingCommands

SLICE_MIN = 1000  # sessions in one scan: half a millisecond, or one that is all cache misses
ROUND_SCANS = 120  # 30 s at four scans a second, for 120,000 sessions; SLICE_MIN in each
REFRESH_S = 60.0
AGAIN_S = 6 * 3600.0
DEPARTED_S = 7 * 24 * 3600.0
DEPARTED_MAX = 1000
VISIT_S_MAX = 120.0
# From CONNECT to the end of the tolerance of a client that is lost as it always is.
LOST_VISIT_S_MAX = 600.0
VISITOR_AVAILABLE_S = 24 * 3600.0
PEAK_S = 4 * 24 * 3600.0  # the longest gap of as long, and twice as long, is remembered
BURST_S = 10.0  # what comes without a connection within that is one visit
VISITORS_MAX = 10_000
CONNECTIONLESS_MAX = 256
FOUND_MAX = 100_000  # clients whose patterns are known

_ABSENT = (Standing.OVERDUE, *OFFLINE)  # no set: to hash a member costs more than to find it here
# Rule 1
_URGENT = 0
_NEW = 1
_REFRESH = 2
_QUEUED = object()  # noted of a session whose client is due for the first time


class FixedTimes:
    """How long clients are available when they are away, in seconds: of some by their ids, of
    others by the first pattern that fits; None of one whose habit decides.
    """

    __slots__ = ("_by_id", "_found", "_patterns")

    def __init__(
        self, by_id: Mapping[ClientId, float], patterns: Sequence[tuple[str, float | None]]
    ) -> None:
        self._by_id = by_id
        self._patterns = patterns
        self._found: dict[ClientId, float | None] = {}  # it is asked for again and again

    def of(self, client_id: ClientId) -> float | None:
        if not self._patterns:
            return self._by_id.get(client_id)
        if client_id in self._found:
            return self._found[client_id]
        if len(self._found) >= FOUND_MAX:
            self._found.clear()
        fitting = (seconds for pattern, seconds in self._patterns if matches(pattern, client_id))
        found = self._found[client_id] = self._by_id.get(client_id, next(fitting, None))
        return found


class _Visitor:
    """When a client comes, as far as it goes again at once."""

    __slots__ = (
        "gaps",
        "is_over",
        "is_short",
        "is_visit",
        "peak",
        "peak_at",
        "peak_before",
        "visit_at",
    )

    def __init__(self, visit_at: float) -> None:
        self.visit_at = visit_at
        self.gaps = Rhythm()
        self.peak = 0.0
        self.peak_before = 0.0
        self.peak_at = visit_at
        self.is_short = False  # the last visit was one
        self.is_visit = False  # and ended with DISCONNECT
        self.is_over = False  # it did not come again in time, as was published

    def come(self, now: float) -> None:
        gap = now - self.visit_at
        self.gaps.note(gap)
        if now - self.peak_at > PEAK_S:
            self.peak_before, self.peak, self.peak_at = self.peak, 0.0, now
        self.peak = max(self.peak, gap)
        self.visit_at = now
        self.is_short = self.is_visit = self.is_over = False

    def leave(self, now: float, *, was_here: bool, is_lost: bool) -> None:
        """`was_here`: it did not sleep."""
        stay_s_max = LOST_VISIT_S_MAX if is_lost else VISIT_S_MAX
        self.is_short = was_here and now - self.visit_at <= stay_s_max
        self.is_visit = self.is_short and not is_lost

    def until(self, first_s: float) -> float:
        """When it is to be believed gone, if it does not come again."""
        usual = self.gaps.usual()
        if self.is_over or not self.is_short:
            return -inf
        if usual is None:
            return self.visit_at + first_s if self.is_visit else -inf
        longest = max(self.peak, self.peak_before)
        return self.visit_at + max(3 * usual, 1.5 * longest) + REFRESH_S

    def row(self, state: str, link: str) -> tuple[object, ...]:
        ago_s = self.peak_at - self.visit_at
        peaks = (self.peak, self.peak_before, ago_s)
        return (state, link, self.gaps.gaps, peaks, self.is_short, self.is_visit, self.is_over)


class _Published:
    """What was published of a device: 100,000 of them are 9 MiB."""

    __slots__ = (
        "check_at",
        "connection",
        "is_available",
        "last_received_at",
        "standing",
        "state",
        "valid_until",
    )

    def __init__(
        self,
        *,
        device: Device,
        session: Session | None,
        now: float,
        connection: int,
        available_until: float,
    ) -> None:
        self.standing = device.standing
        self.is_available = device.is_available
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
        if now < available_until:
            self.check_at = min(available_until, self.check_at)


class Availability:
    def __init__(
        self,
        sessions: Mapping[ClientId, Session],
        topics: Topics,
        link_of: Callable[[Peer], str],
        *,
        fixed: FixedTimes | None = None,
        visitor_available_s: float = VISITOR_AVAILABLE_S,
        pending: PendingCommands | None = None,
    ) -> None:
        self.unix_s_at_zero = 0.0
        self.started_at = 0.0  # before that the gateway did not run, and received nothing
        self.counts: Mapping[Standing, int] = Counter()  # of the last whole round
        self.pending = pending
        self._sessions = sessions
        self._topics = topics
        self._link_of = link_of
        self._published: dict[ClientId, _Published] = {}
        self._departed: OrderedDict[ClientId, tuple[Device, float]] = OrderedDict()
        self._due: tuple[OrderedDict[ClientId, None], ...] = tuple(OrderedDict() for _ in range(3))
        self._connection = 0
        self._round: list[Session] = []
        self._tally: Counter[Standing] = Counter()
        self._fixed = fixed or FixedTimes({}, ())
        self._visitor_available_s = visitor_available_s
        self._visitors: OrderedDict[ClientId, _Visitor] = OrderedDict()
        self._left_at: dict[ClientId, float] = {}  # of those in `fixed`
        self._connectionless: dict[ClientId, float] = {}  # when they were received last
        self._unsaved: dict[ClientId, None] = {}  # visitors
        self._left_over: dict[ClientId, float] = {}  # rule 8: until when
        self._let_go: dict[ClientId, float] = {}  # rule 9: when it was received last

    # From the connection

    def connected(self) -> None:
        """Rule 4."""
        self._connection += 1
        self._round.clear()
        self._tally.clear()

    # From the engine's events

    def departed(
        self,
        client_id: ClientId,
        state: State,
        peer: Peer | None,
        now: float,
        before: State = State.ACTIVE,
    ) -> None:
        """A device is lost or has disconnected; recorded if it has no session any more."""
        visitor = self._visitors.get(client_id)
        if visitor is not None:
            was_here = before is not SLEEPS and before is not State.AWAKE
            visitor.leave(now, was_here=was_here, is_lost=state is State.LOST)
            self._unsaved[client_id] = None
        if self._fixed.of(client_id) is not None:
            self._left_at[client_id] = now
        if client_id in self._sessions:
            return
        self._come_back(client_id)
        link = "" if peer is None else self._link_of(peer)
        device = Device(
            client_id=client_id, standing=standing_in(state), link=link, last_received_at=now
        )
        self._enter_departed(device, now)
        self._due[_URGENT][client_id] = None

    def _enter_departed(self, device: Device, now: float) -> None:
        self._departed[device.client_id] = (device, now)
        if len(self._departed) > DEPARTED_MAX:
            oldest, _ = self._departed.popitem(last=False)
            self._left_at.pop(oldest, None)

    def came(self, client_id: ClientId, now: float) -> None:
        """A client has connected, and was not connected before."""
        visitor = self._visitors.pop(client_id, None)
        if visitor is None:
            visitor = _Visitor(now)
            if len(self._visitors) >= VISITORS_MAX:
                self._forget_visitor(next(iter(self._visitors)))
        else:
            visitor.come(now)
        self._visitors[client_id] = visitor

    def received_without_connection(self, client_id: ClientId, now: float) -> bool:
        """Rule 7. False where there are too many."""
        if client_id not in self._connectionless:
            if len(self._connectionless) >= CONNECTIONLESS_MAX or client_id in self._sessions:
                return False
            self._due[_NEW][client_id] = None
            self._come_back(client_id)
        self._connectionless[client_id] = now
        visitor = self._visitors.get(client_id)
        if visitor is None or now - visitor.visit_at >= BURST_S:
            self.came(client_id, now)
            self._visitors[client_id].leave(now, was_here=True, is_lost=False)
            self._unsaved[client_id] = None
        published = self._published.get(client_id)
        if published is not None and not published.is_available:
            self._due[_URGENT][client_id] = None
        elif published is not None and now >= published.valid_until:
            self._due[_REFRESH][client_id] = None
        return True

    # From the broker

    def left_over(self, client_id: ClientId, now: float) -> None:
        """Rule 8. There is a message of it at the broker."""
        self._left_over[client_id] = now + self._visitor_available_s
        self._due[_URGENT][client_id] = None

    def _come_back(self, client_id: ClientId) -> None:
        """It is left over no more, and what is published of it now is the first of this run."""
        if self._left_over.pop(client_id, None) is not None:
            self._published.pop(client_id, None)

    def is_left_over(self, client_id: ClientId) -> bool:
        return client_id in self._left_over

    def let_go(self, client_id: ClientId) -> None:
        """Rule 9."""
        self.forget(client_id)
        self._published.pop(client_id, None)
        session = self._sessions.get(client_id)
        if session is not None:
            session.noted = None
            self._let_go[client_id] = session.last_received_at

    def heard_at(self, client_id: ClientId) -> float | None:
        """When it was received last; None: not since the start."""
        session, departed = self._sessions.get(client_id), self._departed.get(client_id)
        if session is not None:
            at: float | None = session.last_received_at
        elif client_id in self._connectionless:
            at = self._connectionless[client_id]
        else:
            at = None if departed is None else departed[0].last_received_at
        return None if at is None or at <= self.started_at else at

    def _is_let_go(self, session: Session) -> bool:
        at = self._let_go.get(session.client_id)
        if at is None:
            return False
        if at == session.last_received_at:
            return True
        del self._let_go[session.client_id]
        return False

    def forget(self, client_id: ClientId) -> None:
        """What is known of it without a session."""
        self._left_over.pop(client_id, None)
        self._connectionless.pop(client_id, None)
        self._left_at.pop(client_id, None)
        self._departed.pop(client_id, None)
        self._forget_visitor(client_id)

    def _forget_visitor(self, client_id: ClientId) -> None:
        if self._visitors.pop(client_id, None) is not None:
            self._unsaved[client_id] = None

    # Over restarts

    def knows(self, client_id: ClientId) -> bool:
        """Whether it is published though it has no session."""
        return (
            client_id in self._departed
            or client_id in self._connectionless
            or client_id in self._left_over
        )

    def take_rows(self) -> list[tuple[ClientId, tuple[object, ...]]]:
        """Visitors that have come or gone since the last call; an empty row of one that is
        forgotten.
        """
        rows = [(client_id, self._row(client_id)) for client_id in self._unsaved]
        self._unsaved.clear()
        return rows

    def _row(self, client_id: ClientId) -> tuple[object, ...]:
        visitor = self._visitors.get(client_id)
        if visitor is None:
            return ()
        departed = self._departed.get(client_id)
        if client_id in self._connectionless:
            return visitor.row("", "")
        if departed is None:
            return visitor.row("session", "")
        return visitor.row(departed[0].standing.value, departed[0].link)

    def restore(self, client_id: ClientId, row: list[Any], now: float) -> None:
        """It has its full time again: that it did not come while we were down proves nothing.

        Raises ValueError or TypeError for what is no row of ours.
        """
        state, link, gaps, (peak, peak_before, ago_s), is_short, is_visit, is_over = row
        visitor = _Visitor(now)
        visitor.gaps = Rhythm([float(gap) for gap in gaps])
        visitor.peak, visitor.peak_before = float(peak), float(peak_before)
        visitor.peak_at = now + float(ago_s)
        visitor.is_short, visitor.is_visit = bool(is_short), bool(is_visit)
        visitor.is_over = bool(is_over)
        if state == "":
            self._connectionless[client_id] = now
        elif client_id not in self._sessions:
            device = Device(
                client_id=client_id,
                standing=Standing(state),
                link=str(link),
                last_received_at=None,
            )
            self._enter_departed(device, now)
        self._visitors[client_id] = visitor

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
        """The next slice of all sessions, and of those with commands."""
        self._look_at_commands(now)
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

    def _look_at_commands(self, now: float) -> None:
        for client_id in () if self.pending is None else self.pending.look(now):
            if client_id in self._published:
                self._due[_URGENT][client_id] = None

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
        self._forget_old(now)
        sessions = self._sessions
        for client_id, published in self._published.items():
            if client_id in sessions:
                continue
            if not self.knows(client_id) or now > published.check_at:
                self._due[_URGENT][client_id] = None
        for client_id in (*self._departed, *self._connectionless, *self._left_over):
            published_before = self._published.get(client_id)
            if published_before is None or published_before.connection != self._connection:
                self._due[_REFRESH][client_id] = None
        self._round = list(sessions.values())[::-1]

    def _forget_old(self, now: float) -> None:
        for client_id, (_, left_at) in list(self._departed.items()):
            if now >= max(left_at + DEPARTED_S, self._available_until(client_id)):
                self.forget(client_id)
        for client_id, received_at in list(self._connectionless.items()):
            if now >= max(received_at + DEPARTED_S, self._available_until(client_id)):
                self.forget(client_id)
        for client_id, until in list(self._left_over.items()):
            if now >= until:
                self.forget(client_id)
        for client_id in [each for each in self._let_go if each not in self._sessions]:
            del self._let_go[client_id]

    def _check(self, client_id: ClientId, now: float) -> Standing | None:
        session, published = self._sessions.get(client_id), self._published.get(client_id)
        if session is None:
            return None  # it went after the round began; the next one finds that
        standing = standing_of(session, now)
        if published is None:
            if self._is_let_go(session):
                return standing
            self._due[_URGENT if standing in _ABSENT else _NEW][client_id] = None
            session.noted = _QUEUED
        elif published.standing is not standing:
            is_change = published.standing in _ABSENT or standing in _ABSENT
            self._due[_URGENT if is_change else _REFRESH][client_id] = None
        elif published.is_available is not self._is_available(client_id, standing, now):
            self._due[_URGENT][client_id] = None
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
            self._left_at.pop(client_id, None)
            return RetainedMessage(topic, b"", client_id) if was_published else None
        is_first = client_id not in self._published
        session = self._sessions.get(client_id)
        published = self._published[client_id] = _Published(
            device=device,
            session=session,
            now=now,
            connection=self._connection,
            available_until=self._available_until(client_id),
        )
        visitor = self._visitors.get(client_id)
        if visitor is not None and not device.is_available and not visitor.is_over:
            visitor.is_over = True
            self._unsaved[client_id] = None
        if session is not None:
            session.noted = published
        payload = device_json(device, self.unix_s_at_zero)
        return RetainedMessage(topic=topic, payload=payload, client_id=client_id, is_first=is_first)

    def _device(self, client_id: ClientId, now: float) -> Device | None:
        session = self._sessions.get(client_id)
        if session is not None:
            if self._is_let_go(session):
                return None
            self._departed.pop(client_id, None)
            self._come_back(client_id)
            self._connectionless.pop(client_id, None)
            standing, link = standing_of(session, now), self._link_of(session.peer)
            device = device_of(session, standing, link, self.started_at)
        elif client_id in self._connectionless:
            received_at = self._connectionless[client_id]
            is_here = now < self._available_until(client_id)
            device = Device(
                client_id=client_id,
                standing=Standing.AWAKE if is_here else Standing.LOST,
                link="",
                last_received_at=received_at if received_at > self.started_at else None,
            )
        elif client_id in self._departed:
            device, _ = self._departed[client_id]
        elif client_id in self._left_over:
            return Device(
                client_id=client_id,
                standing=Standing.LOST,
                link="",
                last_received_at=None,
                is_available=False,
            )
        else:
            return None
        is_available = self._is_available(client_id, device.standing, now)
        waiting = None if self.pending is None else self.pending.waiting(client_id)
        return replace(device, is_available=is_available, waiting=waiting)

    # Rule 6

    def _is_available(self, client_id: ClientId, standing: Standing, now: float) -> bool:
        return standing not in OFFLINE or now < self._available_until(client_id)

    def _available_until(self, client_id: ClientId) -> float:
        """Of one that is away."""
        fixed_s = self._fixed.of(client_id)
        if fixed_s is not None:
            left_at = self._left_at.get(client_id, self.started_at)
            return self._connectionless.get(client_id, left_at) + fixed_s
        visitor = self._visitors.get(client_id)
        return -inf if visitor is None else visitor.until(self._visitor_available_s)

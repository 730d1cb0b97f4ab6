"""All that the gateway has to say on MQTT of itself and its devices, in order.

Order: the gateway itself; what somebody should see of devices; Home Assistant's announcements;
then, turn and turn about, values, what only goes on, and what a former life left behind. Each
connection begins anew, because the broker may have lost what it retained. How much goes is for the
herald.

Limits: those of the board, the announcements and the ledger.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING, Protocol

from gateway.core.effects import ClientId
from gateway.presence.availability import Availability
from gateway.presence.documents import Notice, as_json
from gateway.presence.entries import LedgerEntry
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.topics import Topics

if TYPE_CHECKING:
    from gateway.presence.catalogue import Known
    from gateway.presence.homeassistant.announcements import Announcements

STATE_AGAIN_S = 300.0
ONLINE = b"online"


class RetainedLedger(Protocol):
    """What is noted of the retained messages that the broker may have (retained_ledger.py)."""

    @property
    def error(self) -> str | None: ...  # why something is not noted

    def load(self) -> dict[str, LedgerEntry]: ...
    def begin(self, kept: dict[str, LedgerEntry]) -> None: ...
    def told(self, topic: str, entry: LedgerEntry) -> None: ...
    def cleared(self, topic: str) -> None: ...
    def flush(self) -> bool: ...


class PresenceQueue:
    """`stats` is asked each `stats_s`, 0 for never. Without a board no device is told of, without
    announcements nothing is said to Home Assistant.
    """

    def __init__(
        self,
        topics: Topics,
        ledger: RetainedLedger,
        *,
        board: Availability | None,
        announcements: Announcements | None,
        stats: Callable[[], Mapping[str, object]],
        stats_s: float,
    ) -> None:
        self.board = board
        self.announcements = announcements
        self._topics = topics
        self._ledger = ledger
        self._stats, self._stats_s = stats, stats_s
        # Infinity: a connection began, and the session said so itself.
        self._state_at, self._stats_at = inf, 0.0
        self._of_gateway: deque[Notice] = deque()
        self._together: deque[Notice] = deque()  # after a device's forgotten announcement
        self._kept: dict[str, LedgerEntry] = {}  # in the ledger, and not said again yet
        # Of announcements and values, by topic: what the ledger has of them in this life.
        self._written: dict[str, tuple[Known, ...]] = {}
        self._stale: OrderedDict[str, None] = OrderedDict()
        self._turn = 0

    # From a former life

    def restore(self, has_session: Callable[[ClientId], bool]) -> None:
        """What the broker may have: what is still wanted is kept, the rest will be cleared."""
        found = self._ledger.load()
        for topic, entry in found.items():
            client_id = entry.client_id
            if topic in self._wanted(client_id) and (not client_id or has_session(client_id)):
                self._kept[topic] = entry
                if entry.values and self.announcements is not None:
                    self.announcements.restore(entry)
            else:
                self._stale[topic] = None
        if found:
            self._ledger.begin(found)

    def _wanted(self, client_id: ClientId) -> tuple[str, ...]:
        wanted = () if self.announcements is None else self.announcements.topics_of(client_id)
        if client_id and self.board is not None:
            wanted = (*wanted, self._topics.client(client_id))
        return wanted

    # From the connection

    def connected(self) -> None:
        self._state_at, self._stats_at = inf, 0.0
        if self.board is not None:
            self.board.connected()
        if self.announcements is not None:
            self.announcements.connected()

    # From those who show

    @property
    def waiting(self) -> int:
        """Devices, announcements and values that something is to be said of."""
        board, announcements = self.board, self.announcements
        return (
            (0 if board is None else board.waiting)
            + (0 if announcements is None else announcements.waiting)
            + len(self._stale)
        )

    @property
    def presses(self) -> bool:
        """Whether somebody should see at once what goes next."""
        if self._together or self._of_gateway:
            return True
        return self.board is not None and self.board.presses

    def numbers(self) -> PresenceNumbers:
        board, announcements = self.board, self.announcements
        return PresenceNumbers(
            topic=self._topics.base,
            devices=None if board is None else board.told,
            announced=None if announcements is None else announcements.announced,
            waiting=self.waiting,
            error=self._ledger.error,
        )

    # Time

    def look(self, now: float) -> None:
        if self.board is not None:
            self.board.look(now)
        if self._state_at == inf:
            self._state_at = now + STATE_AGAIN_S
        if now >= self._state_at:
            self._state_at = now + STATE_AGAIN_S
            self._of_gateway.append(Notice(self._topics.state, ONLINE))
        if self._stats_s and now >= self._stats_at:
            self._stats_at = now + self._stats_s
            self._of_gateway.append(Notice(self._topics.stats, as_json(self._stats())))

    def next(self, now: float) -> Notice | None:
        """What goes next; None when all is said."""
        notice = self._next(now)
        if notice is not None and notice.client_id is not None:
            self._note(notice)
        return notice

    def flush(self) -> bool:
        """Write down what was sent for the first time; whether that is still under way."""
        return self._ledger.flush()

    def _next(self, now: float) -> Notice | None:
        for queue in (self._together, self._of_gateway):
            if queue:
                return queue.popleft()
        notice = None if self.board is None else self.board.next_first(now)
        if notice is not None:
            return self._of_device(notice)
        if self.announcements is not None:
            notice = self.announcements.next_announcement()
        return notice or self._in_turns(now)

    def _in_turns(self, now: float) -> Notice | None:
        turns = (self._next_values, self._next_rest, self._next_stale)
        for _ in turns:
            self._turn = (self._turn + 1) % len(turns)
            notice = turns[self._turn](now)
            if notice is not None:
                return notice
        return None

    def _next_values(self, _now: float) -> Notice | None:
        return None if self.announcements is None else self.announcements.next_values()

    def _next_rest(self, now: float) -> Notice | None:
        notice = None if self.board is None else self.board.next_rest(now)
        return None if notice is None else self._of_device(notice)

    def _next_stale(self, _now: float) -> Notice | None:
        if not self._stale:
            return None
        topic, _ = self._stale.popitem(last=False)
        return Notice(topic, b"", ClientId(""))

    def _of_device(self, notice: Notice) -> Notice:
        """Its presence; where that is cleared, what was announced of it goes before."""
        client_id = notice.client_id
        if self.announcements is None or client_id is None:
            return notice
        if notice.payload:
            self.announcements.told_of(client_id)
            return notice
        self._together.extend([*self.announcements.forget(client_id), notice])
        return self._together.popleft()

    # The ledger

    def _note(self, notice: Notice) -> None:
        topic, client_id = notice.topic, notice.client_id
        assert client_id is not None, "only what is of devices, or for Home Assistant, is noted"
        self._stale.pop(topic, None)
        if not notice.payload:
            self._kept.pop(topic, None)
            self._written.pop(topic, None)
            self._ledger.cleared(topic)
            return
        if self.board is not None and topic == self._topics.client(client_id):
            if not notice.is_first:
                return
        elif self._written.get(topic) == notice.values:
            return
        else:
            self._written[topic] = notice.values
        entry = LedgerEntry(client_id, notice.values)
        if self._kept.pop(topic, None) != entry:
            self._ledger.told(topic, entry)

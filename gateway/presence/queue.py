"""All that the gateway publishes about itself and its devices, in order.

Order: the gateway itself; announcements of a previous run that are not wanted any more; values that
changed and may change again before they would have their turn; changes of devices that matter to a
person; Home Assistant's announcements; then, in turn, values, states that go on, and what else a
previous run left at the broker. Each connection begins with everything, because the broker may have
lost what it retained. The publisher decides how much is sent.

Limits: those of the availability, the announcements and the ledger.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from gateway.core.state_records import ClientId
from gateway.presence.availability import Availability
from gateway.presence.documents import LedgerEntry, RetainedMessage, as_json
from gateway.presence.numbers import PresenceNumbers
from gateway.presence.topics import Topics, is_announcement

if TYPE_CHECKING:
    from gateway.presence.homeassistant.announcements import Announcements
    from gateway.presence.last_values import LastValues

STATE_AGAIN_S = 300.0
# After a connection began, and after the delay of the will: a broker may publish the will of the
# connection before it although there is a new one, and so after our `online`.
STATE_SOON_S = 5.0
ONLINE = b"online"


class RetainedLedger(Protocol):
    """The record of the retained messages that the broker may have (retained_ledger.py)."""

    @property
    def error(self) -> str | None: ...  # why something is not recorded

    def load(self) -> dict[str, LedgerEntry]: ...
    def begin(self, entries: dict[str, LedgerEntry]) -> None: ...
    def published(self, topic: str, entry: LedgerEntry) -> None: ...
    def cleared(self, topic: str) -> None: ...
    def flush(self) -> bool: ...


class PresenceQueue:
    """`stats` is called each `stats_s`, 0 for never. Without a `board` no presence of devices is
    published, without announcements nothing for Home Assistant.
    """

    def __init__(
        self,
        topics: Topics,
        ledger: RetainedLedger,
        *,
        board: Availability | None,
        announcements: Announcements | None,
        values: LastValues | None = None,
        stats: Callable[[], Mapping[str, object]],
        stats_s: float,
        will_delay_s: float,
    ) -> None:
        self.board = board
        self.announcements = announcements
        self.values = values
        self._topics = topics
        self._ledger = ledger
        self._stats, self._stats_s = stats, stats_s
        self._will_delay_s = will_delay_s
        # When `online` is due again; None: a connection began, and the session published it.
        self._state_due: deque[float] | None = None
        self._stats_at = 0.0
        self._gateway_messages: deque[RetainedMessage] = deque()
        self._clearing: deque[RetainedMessage] = deque()  # of one device, without others between
        self._unconfirmed: dict[str, LedgerEntry] = {}  # in the ledger, and not sent again yet
        # Of announcements and values, by topic: what the ledger has of them since the start.
        self._written: dict[str, LedgerEntry] = {}
        self._stale: OrderedDict[str, None] = OrderedDict()
        # Of these the announcements: Home Assistant must not have an old one beside the new one,
        # nor read what an old one names while that is being cleared.
        self._stale_announcements: OrderedDict[str, None] = OrderedDict()
        self._turn = 0

    # Restore after a restart

    def restore(self, has_session: Callable[[ClientId], bool]) -> None:
        """What the broker may have: what is still wanted stays, the rest will be cleared."""
        found = self._ledger.load()
        if self.announcements is not None:
            self.announcements.restore_ids(found, has_session)
        for topic, entry in found.items():
            client_id = entry.client_id
            if topic in self._wanted(client_id) and (not client_id or has_session(client_id)):
                self._unconfirmed[topic] = entry
                if self.announcements is not None:
                    self.announcements.restore(topic, entry)
            elif is_announcement(topic):
                self._stale_announcements[topic] = None
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
        self._state_due, self._stats_at = None, 0.0
        if self.board is not None:
            self.board.connected()
        if self.announcements is not None:
            self.announcements.connected()

    # From an operator

    def clear(self, client_id: ClientId) -> None:
        """Whatever the broker may have of a device, though nothing is known of it here."""
        if self.announcements is not None:
            self._clearing.extend(self.announcements.forget(client_id))
        self._clearing.append(RetainedMessage(self._topics.client(client_id), b"", client_id))

    # For status and metrics

    @property
    def waiting(self) -> int:
        """Devices, announcements and values that are to be published."""
        board, announcements = self.board, self.announcements
        return (
            (0 if board is None else board.waiting)
            + (0 if announcements is None else announcements.waiting)
            + len(self._stale)
            + len(self._stale_announcements)
        )

    @property
    def is_urgent(self) -> bool:
        """Whether the next message should not wait."""
        if self._clearing or self._gateway_messages:
            return True
        if self.values is not None and self.values.has_changes:
            return True
        return self.board is not None and self.board.is_urgent

    def numbers(self) -> PresenceNumbers:
        board, announcements = self.board, self.announcements
        return PresenceNumbers(
            topic=self._topics.base,
            devices=None if board is None else board.published_count,
            announced=None if announcements is None else announcements.announced,
            waiting=self.waiting,
            error=self._ledger.error,
            left_out=None if self.values is None else self.values.left_out,
        )

    # Time

    def collect(self, now: float) -> None:
        """Adds what is due by now."""
        if self.board is not None:
            self.board.scan(now)
        if self._state_due is None:
            soon_at = now + STATE_SOON_S
            self._state_due = deque((soon_at, soon_at + self._will_delay_s))
        if now >= self._state_due[0]:
            self._state_due.popleft()
            if not self._state_due:
                self._state_due.append(now + STATE_AGAIN_S)
            self._gateway_messages.append(RetainedMessage(self._topics.state, ONLINE))
        if self._stats_s and now >= self._stats_at:
            self._stats_at = now + self._stats_s
            self._gateway_messages.append(
                RetainedMessage(self._topics.stats, as_json(self._stats()))
            )

    def next(self, now: float) -> RetainedMessage | None:
        """The next message; None when everything is sent."""
        return self._recorded(self._next(now))

    def next_value_change(self, now: float) -> RetainedMessage | None:
        """The next change of a value that is to be published by itself."""
        return self._recorded(self._next_value_change(now))

    def _next_value_change(self, now: float) -> RetainedMessage | None:
        values, announcements = self.values, self.announcements
        if values is None or announcements is None:
            return None
        while (change := values.next_change(now)) is not None:
            client_id = change.client_id
            if change.is_event:
                return RetainedMessage(self._topics.events(client_id), change.payload, retain=False)
            if announcements.is_announced(client_id):  # else it follows the announcement
                return RetainedMessage(self._topics.values(client_id), change.payload, client_id)
        return None

    def flush(self) -> bool:
        """Write what was sent for the first time to the ledger; whether that is still under way."""
        return self._ledger.flush()

    def _next(self, now: float) -> RetainedMessage | None:
        for queue in (self._clearing, self._gateway_messages):
            if queue:
                return queue.popleft()
        if self._stale_announcements:
            topic, _ = self._stale_announcements.popitem(last=False)
            return RetainedMessage(topic, b"", ClientId(""))
        message = self._next_value_change(now)
        if message is not None:
            return message
        message = None if self.board is None else self.board.next_change(now)
        if message is not None:
            return self._device_message(message)
        if self.announcements is not None:
            message = self.announcements.next_announcement()
        return message or self._in_turns(now)

    def _in_turns(self, now: float) -> RetainedMessage | None:
        turns = (self._next_values, self._next_refresh, self._next_stale)
        for _ in turns:
            self._turn = (self._turn + 1) % len(turns)
            message = turns[self._turn](now)
            if message is not None:
                return message
        return None

    def _next_values(self, _now: float) -> RetainedMessage | None:
        return None if self.announcements is None else self.announcements.next_values()

    def _next_refresh(self, now: float) -> RetainedMessage | None:
        message = None if self.board is None else self.board.next_refresh(now)
        return None if message is None else self._device_message(message)

    def _next_stale(self, _now: float) -> RetainedMessage | None:
        if not self._stale:
            return None
        topic, _ = self._stale.popitem(last=False)
        return RetainedMessage(topic, b"", ClientId(""))

    def _device_message(self, message: RetainedMessage) -> RetainedMessage:
        """Its presence; where that is cleared, its announcement is cleared before."""
        client_id = message.client_id
        if self.announcements is None or self.values is None or client_id is None:
            return message
        if message.payload:
            self.announcements.presence_published(client_id)
            return message
        self.values.forget(client_id)
        self._clearing.extend([*self.announcements.forget(client_id), message])
        return self._clearing.popleft()

    # The ledger

    def _recorded(self, message: RetainedMessage | None) -> RetainedMessage | None:
        if message is not None and message.client_id is not None:
            self._record(message)
        return message

    def _record(self, message: RetainedMessage) -> None:
        topic, client_id = message.topic, message.client_id
        assert client_id is not None, (
            "only messages of devices, or for Home Assistant, are recorded"
        )
        self._stale.pop(topic, None)
        self._stale_announcements.pop(topic, None)
        if not message.payload:
            self._unconfirmed.pop(topic, None)
            self._written.pop(topic, None)
            self._ledger.cleared(topic)
            return
        entry = LedgerEntry(client_id, message.values, message.components, message.declared)
        if self.board is not None and topic == self._topics.client(client_id):
            if not message.is_first:
                return
        elif self._written.get(topic) == entry:
            return
        else:
            self._written[topic] = entry
        if self._unconfirmed.pop(topic, None) != entry:
            self._ledger.published(topic, entry)

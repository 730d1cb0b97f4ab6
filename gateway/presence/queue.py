"""All that the gateway publishes about itself and its devices, in order.

Order: the gateway itself; announcements of a previous run that are not wanted any more; values that
changed and may change again before they would have their turn; changes of devices that matter to a
person; Home Assistant's announcements; then, in turn, values, states that go on, and what else a
previous run left at the broker. Each connection begins with everything, because the broker may have
lost what it retained. The publisher decides how much is sent.

With Home Assistant, and at the first start in a state folder, messages about devices wait until it
is known what the broker retains (retained_search.py), for a second or two. The announcement of a
device that another gateway has now is never cleared.

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
from gateway.presence.topics import (
    Topics,
    announcement,
    is_announcement,
    plain_name,
    usual_device_id,
)

if TYPE_CHECKING:
    from gateway.presence.claims import Claim
    from gateway.presence.homeassistant.announcements import Announcements
    from gateway.presence.last_values import LastValues
    from gateway.presence.retained_search import RetainedSearch

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
        search: Callable[[], RetainedSearch] | None = None,
        prefix: str = "homeassistant",
    ) -> None:
        """`search`: looks for what the broker retains; made only if that is needed. `prefix`: of
        Home Assistant's discovery.
        """
        self.search: RetainedSearch | None = None
        self._make_search = search
        self._prefix = prefix
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
        self._is_known: Callable[[ClientId], bool] = lambda _client_id: False

    # Restore after a restart

    def restore(self, has_session: Callable[[ClientId], bool]) -> None:
        """What the broker may have: what is still wanted stays, the rest will be cleared."""
        self._is_known = has_session
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
        is_needed = not found or self._stale_announcements or self.announcements is not None
        if self._make_search is not None and is_needed:
            self.search = self._make_search()
            for topic in self._stale:
                self.search.claims.ignore(topic)

    def _wanted(self, client_id: ClientId) -> tuple[str, ...]:
        wanted = () if self.announcements is None else self.announcements.topics_of(client_id)
        if client_id and self.board is not None:
            wanted = (*wanted, self._topics.client(client_id))
        return wanted

    # From the connection

    def connected(self) -> None:
        self._state_due, self._stats_at = None, 0.0
        if self.search is not None:
            self.search.connected()
        if self.board is not None:
            self.board.connected()
        if self.announcements is not None:
            self.announcements.connected()

    def stats_due(self) -> None:
        """They are to be published at once."""
        self._stats_at = 0.0

    # From an operator

    def clear(self, client_id: ClientId) -> None:
        """Whatever the broker may have of a device, though nothing is known of it here."""
        if self.board is not None and self.board.is_left_over(client_id):
            self.board.forget(client_id)
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
        if self.search is not None:
            self._look_around(self.search, now)
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

    def _look_around(self, search: RetainedSearch, now: float) -> None:
        """What the broker has, and what other gateways did."""
        if search.settle(now):
            for client_id, claim, has_values in search.take_found():
                self._enter_found(client_id, claim, now, has_values=has_values)
        if search.identities is None or self.announcements is None:
            return
        self.announcements.announce_again(search.identities.take_due(now))
        for client_id, topic in search.identities.take_let_go().items():
            self._let_go(client_id, topic)

    def _enter_found(
        self, client_id: ClientId, claim: Claim | None, now: float, *, has_values: bool
    ) -> None:
        """Of a previous run: what nothing here knows of is cleared, a device after a while."""
        topics = self._topics
        presence, values = topics.client(client_id), topics.values(client_id)
        is_known = self._is_known(client_id) or presence in self._unconfirmed
        if self.announcements is not None and self.board is not None:
            if not is_known:
                if claim is not None:
                    self.announcements.keep_id(client_id, claim.topic)
                self.board.left_over(client_id, now)
            return
        if has_values or claim is not None:
            usual = announcement(self._prefix, usual_device_id(topics.name, client_id))
            gateway = announcement(self._prefix, f"tidegate_{plain_name(topics.name)}")
            announced = usual if claim is None else claim.topic
            self._stale_announcements |= dict.fromkeys((announced, gateway))
            self._stale |= dict.fromkeys((values, topics.announced(client_id)))
        if self.board is None:
            self._stale[presence] = None
        elif not is_known:
            self.board.left_over(client_id, now)

    def _let_go(self, client_id: ClientId, topic: str) -> None:
        """Another gateway has it now."""
        announcements, board, values = self.announcements, self.board, self.values
        assert announcements is not None, "without them there are no identities"
        assert board is not None, "by which announcements know who is there"
        assert values is not None, "which are announced"
        self._forget_line(topic)
        values.forget(client_id)
        board.let_go(client_id)
        cleared = [each for each in announcements.forget(client_id) if each.topic != topic]
        self._clearing.extend(cleared)
        self._clearing.append(RetainedMessage(self._topics.client(client_id), b"", client_id))

    def next(self, now: float) -> RetainedMessage | None:
        """The next message; None when everything is sent."""
        while (message := self._next(now)) is not None:
            if message.payload or not self._is_anothers(message.topic):
                break
            self._forget_line(message.topic)
        return self._recorded(message)

    def _is_anothers(self, topic: str) -> bool:
        if self.search is None or not is_announcement(topic):
            return False
        identities = self.search.identities
        if identities is None:
            return self.search.claims.best_to(topic) is not None
        return identities.is_anothers(topic)

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
        if self.search is not None and not self.search.is_settled:
            return self._gateway_messages.popleft() if self._gateway_messages else None
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
            message = self.announcements.next_announcement(now)
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
            self._forget_line(topic)
            return
        if self.board is not None and self.board.is_left_over(client_id):
            return  # so that the next start finds it, and gives it its time again
        entry = LedgerEntry(
            client_id,
            message.values,
            message.components,
            message.declared,
            message.turn,
            message.without_unit,
        )
        if self.board is not None and topic == self._topics.client(client_id):
            if not message.is_first:
                return
        elif self._written.get(topic) == entry:
            return
        else:
            self._written[topic] = entry
        if self._unconfirmed.pop(topic, None) != entry:
            self._ledger.published(topic, entry)

    def _forget_line(self, topic: str) -> None:
        self._stale.pop(topic, None)
        self._stale_announcements.pop(topic, None)
        self._unconfirmed.pop(topic, None)
        self._written.pop(topic, None)
        self._ledger.cleared(topic)

"""How many messages wait for each device that has commands, and whether it listens for them.

Each such device is looked at once a second or more often, a slice of them in each beat, and no
other: nothing is called on the way of a message. A device that is there and takes one message after
the other has none that wait. One that was received again `GRACE_S` after it was announced, and has
not subscribed to the topic of a command, is named in the log, once.

Limit: one entry for each device that is announced with commands.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.config.topic_filters import covers
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State

BEATS = 4  # those of a second
GRACE_S = 60.0


class _Device:
    __slots__ = ("topics", "unheard", "waiting", "watched_at")

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.topics = topics
        self.unheard = dict(topics)  # those without a subscription, as far as it is known
        self.waiting: int | None = None
        self.watched_at: float | None = None


class PendingCommands:
    def __init__(self, sessions: Mapping[ClientId, Session]) -> None:
        self._sessions = sessions
        self._devices: dict[ClientId, _Device] = {}
        self._round: list[ClientId] = []
        self._slice = 0
        self._lines: list[str] = []

    # From the announcements

    def watch(self, client_id: ClientId, topics: Mapping[str, str]) -> None:
        """Names of the commands that the device has now, by their topics; none: no more."""
        known = self._devices.get(client_id)
        if not topics:
            self._devices.pop(client_id, None)
        elif known is None or known.topics != topics:
            self._devices[client_id] = _Device(topics)

    # From the availability

    def waiting(self, client_id: ClientId) -> int | None:
        """None of a device without commands."""
        device = self._devices.get(client_id)
        if device is None:
            return None
        device.waiting = self._count(client_id)
        return device.waiting

    def look(self, now: float) -> list[ClientId]:
        """In each beat: those of the next slice of which another number is to be published."""
        if not self._devices:
            return []
        if not self._round:
            self._round = list(self._devices)
            self._slice = -(-len(self._round) // BEATS)
        found = self._round[-self._slice :]
        del self._round[-self._slice :]
        return [client_id for client_id in found if self._is_changed(client_id, now)]

    def take_lines(self) -> list[str]:
        """What is to be logged since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def _is_changed(self, client_id: ClientId, now: float) -> bool:
        device = self._devices.get(client_id)
        if device is None:  # it went after the round began
            return False
        if device.unheard:
            self._check_subscriptions(client_id, device, now)
        return device.waiting != self._count(client_id)

    def _count(self, client_id: ClientId) -> int:
        session = self._sessions.get(client_id)
        if session is None:
            return 0
        outbound = session.outbound
        if session.state is State.ACTIVE:
            current = outbound.outstanding
            if current is None or not current.tries:
                return 0
        return outbound.waiting

    def _check_subscriptions(self, client_id: ClientId, device: _Device, now: float) -> None:
        session = self._sessions.get(client_id)
        if session is None:
            return
        if device.watched_at is None:
            device.watched_at = now
        filters = session.filters
        device.unheard = {
            topic: name
            for topic, name in device.unheard.items()
            if not any(covers(each, topic) for each in filters)
        }
        if session.last_received_at < device.watched_at + GRACE_S:
            return
        for topic, name in device.unheard.items():
            self._lines.append(
                f"{client_id}: the command {name!r} goes to {topic!r}, to which it has not "
                "subscribed"
            )
        device.unheard = {}

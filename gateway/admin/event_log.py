"""Counts and logs what has happened: the shell tells it every past-tense effect.

- Counters are plain numbers under the members of an enum. Nothing a client chose, be it an id or a
  topic, ever becomes a key: the tables are as long as the enums.
- Each kind of event (a reason, a state, an answer of the broker) has lines of its own to write, few
  in any ten seconds (throttle.py); the counters count everything.
- A drop that is held back costs less than a microsecond: a flood must not be paid for twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from gateway.admin.event_levels import DROPPED, SHARED_ADVICE, level_of, level_of_discovery
from gateway.admin.http.throttle import Suppressed, Throttle
from gateway.admin.log.logs import Value, fields
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Denied,
    DiscoveryChanged,
    DiscoveryRole,
    Dropped,
    Effect,
    IdShared,
    OwnTopicBlocked,
    PropertiesIgnored,
    Rebound,
    SetAside,
    StateChanged,
    SubscriptionRefused,
    UpstreamRefused,
    UpstreamUp,
)
from gateway.core.state_records import State
from gateway.core.values import Peer

if TYPE_CHECKING:  # most refuse nothing
    from gateway.admin.refusals import Refusals

DROPPED_LINES_MAX = 5  # in ten seconds, of each reason: enough to see what it is
STATE_LINES_MAX = 20  # of each state: after a power cut this many sensors are named
UPSTREAM_LINES_MAX = 5
DISCOVERY_LINES_MAX = 5

_log = logging.getLogger("tidegate")
_client_log = logging.getLogger("tidegate.client")
_discovery_log = logging.getLogger("tidegate.discovery")
_upstream_log = logging.getLogger("tidegate.upstream")


class _Tally:
    """How often one kind of event happened, and the lines it may write."""

    __slots__ = ("lines", "total")

    def __init__(self, lines_max: int) -> None:
        self.total = 0
        self.lines: Throttle[Effect] = Throttle(lines_max)


class EventLog:
    def __init__(self, *, peer_text: Callable[[Peer], str], now: Callable[[], float]) -> None:
        self.upstream_resent = 0
        self.refusals: Refusals | None = None
        self._peer_text = peer_text
        self._now = now
        self._dropped = {reason: _Tally(DROPPED_LINES_MAX) for reason in Reason}
        self._states = {state: _Tally(STATE_LINES_MAX) for state in State}
        self._rebound = _Tally(STATE_LINES_MAX)
        self._shared = _Tally(STATE_LINES_MAX)
        self._sessions = {is_kept: _Tally(UPSTREAM_LINES_MAX) for is_kept in (False, True)}
        self._refusals = _Tally(UPSTREAM_LINES_MAX)
        self._subscription_refusals = _Tally(UPSTREAM_LINES_MAX)
        self._set_aside = _Tally(UPSTREAM_LINES_MAX)
        self._own_blocked = _Tally(UPSTREAM_LINES_MAX)
        self._ignored = _Tally(UPSTREAM_LINES_MAX)
        self._parts = {part: _Tally(DISCOVERY_LINES_MAX) for part in DiscoveryRole}

    # From the shell

    def record(self, effect: Effect) -> None:
        """Count it and log it if it is news; anything else is ignored."""
        if type(effect) is Dropped:
            if effect.denied is None or self._is_worth_a_line(effect, effect.denied):
                self._count(effect, self._dropped[effect.reason], effect.count)
            else:
                self._dropped[effect.reason].total += effect.count
        elif type(effect) is StateChanged:
            self._count(effect, self._states[effect.after])
        elif type(effect) is Rebound:
            self._count(effect, self._rebound)
        elif type(effect) is IdShared:
            self._count(effect, self._shared)
        else:
            self._tell_of_the_gateway(effect)

    def _is_worth_a_line(self, dropped: Dropped, denied: Denied) -> bool:
        """Each client and topic is, once in a time."""
        return self.refusals is None or self.refusals.note(dropped, denied, self._now())

    def _tell_of_the_gateway(self, effect: Effect) -> None:
        """What is about no client."""
        if type(effect) is UpstreamUp:
            self.upstream_resent += effect.resent
            self._count(effect, self._sessions[effect.session_present])
        elif type(effect) is UpstreamRefused:
            self._count(effect, self._refusals)
        elif type(effect) is SubscriptionRefused:
            self._count(effect, self._subscription_refusals)
        elif type(effect) is SetAside:
            self._count(effect, self._set_aside)
        elif type(effect) is OwnTopicBlocked:
            self._count(effect, self._own_blocked)
        elif type(effect) is PropertiesIgnored:
            self._count(effect, self._ignored)
        elif type(effect) is DiscoveryChanged:
            self._count(effect, self._parts[effect.after])

    # From the daemon

    def list_refusals(self) -> None:
        """There are rules of access, so that something may be refused."""
        from gateway.admin.refusals import Refusals  # only when wanted

        self.refusals = self.refusals or Refusals()

    def flush(self) -> None:
        """Each second: say how many were held back, where it is time to."""
        now = self._now()
        for tally in self._tallies():
            self._write_held_back(tally.lines.due(now))

    def close(self) -> None:
        """At the end: say what has not been said."""
        now = self._now()
        for tally in self._tallies():
            self._write_held_back(tally.lines.rest(now))

    # From metrics and status

    @property
    def dropped(self) -> Mapping[Reason, int]:
        return {reason: tally.total for reason, tally in self._dropped.items()}

    @property
    def state_changes(self) -> Mapping[State, int]:
        """Under the state that was entered."""
        return {state: tally.total for state, tally in self._states.items()}

    @property
    def changes(self) -> int:
        """Of the state of any client, so far."""
        return sum(tally.total for tally in self._states.values())

    @property
    def rebound(self) -> int:
        return self._rebound.total

    @property
    def upstream_sessions_kept(self) -> int:
        return self._sessions[True].total

    @property
    def upstream_sessions_new(self) -> int:
        """Connections at which the broker knew nothing of us, the first one among them."""
        return self._sessions[False].total

    @property
    def upstream_refusals(self) -> int:
        return self._refusals.total

    @property
    def subscription_refusals(self) -> int:
        return self._subscription_refusals.total

    def _count(self, effect: Effect, tally: _Tally, count: int = 1) -> None:
        tally.total += count
        level = _level(effect)
        if not _log.isEnabledFor(level):
            return
        lines = tally.lines
        if lines.ends_at is not None:
            lines.hold(effect, count)
        elif lines.may_write(effect, count, self._now()):
            _logger(effect).log(level, _words(effect), extra=fields(**self._about(effect)))

    def _write_held_back(self, held_back: Suppressed[Effect] | None) -> None:
        if held_back is None:
            return
        count, seconds, effect = held_back
        words = f"{_words(effect)}: {count} more in {seconds:.0f} s, the last of them"
        _logger(effect).log(_level(effect), words, extra=fields(**self._about(effect)))

    def _tallies(self) -> Iterator[_Tally]:
        yield from self._dropped.values()
        yield from self._states.values()
        yield self._rebound
        yield self._shared
        yield from self._sessions.values()
        yield self._refusals
        yield self._subscription_refusals
        yield self._set_aside
        yield self._own_blocked
        yield self._ignored
        yield from self._parts.values()

    def _about(self, effect: Effect) -> dict[str, Value | None]:
        match effect:
            case Dropped(reason, client_id, detail, peer, count, denied):
                return {
                    "client": client_id,
                    "peer": self._peer(peer),
                    "identity": None if denied is None else denied.identity or None,
                    "count": count if count > 1 else None,
                    "detail": detail or None,
                    "advice": DROPPED[reason].advice,
                }
            case StateChanged(client_id, before, _, peer, detail):
                return {
                    "client": client_id,
                    "peer": self._peer(peer),
                    "before": before.value,
                    "detail": detail or None,
                }
            case Rebound(client_id, before, after):
                return {
                    "client": client_id,
                    "peer": self._peer(after),
                    "before": self._peer(before),
                }
            case IdShared(client_id, before, after):
                return {
                    "client": client_id,
                    "peer": self._peer(after),
                    "before": self._peer(before),
                    "advice": SHARED_ADVICE,
                }
            case DiscoveryChanged(before, _, detail):
                return {"before": before.value, "detail": detail or None}
        return _about_upstream(effect)

    def _peer(self, peer: Peer | None) -> str | None:
        return None if peer is None else self._peer_text(peer)


def _about_upstream(effect: Effect) -> dict[str, Value | None]:
    match effect:
        case UpstreamUp(session_present, resent):
            return {"session": "kept" if session_present else "new", "resent": resent}
        case UpstreamRefused(reason):
            return {"reason": reason}
        case PropertiesIgnored(packet, detail):
            return {"packet": packet, "properties": detail}
        case SubscriptionRefused(topic_filter, reason, client_ids):
            return {
                "client": client_ids[0] if client_ids else None,
                "clients": len(client_ids),
                "filter": topic_filter,
                "reason": reason,
            }
        case SetAside(record):
            return {
                "client": record.client_id,
                "topic": record.topic,
                "number": record.number,
                "reason": record.reason,
                "advice": "see `tidegate buffer aside`",
            }
        case OwnTopicBlocked(topic):
            return {"topic": topic, "advice": "see the broker's log and its access rules"}
    raise AssertionError(f"{effect} is no news")


def _logger(effect: Effect) -> logging.Logger:
    match effect:
        case Dropped(client_id=None, peer=None):
            return _upstream_log  # it has no sender, so the broker sent it
        case Dropped() | StateChanged() | Rebound() | IdShared():
            return _client_log
        case DiscoveryChanged():
            return _discovery_log
    return _upstream_log


def _level(effect: Effect) -> int:
    if type(effect) is Dropped:  # before all others: a flood is made of these
        return DROPPED[effect.reason].level
    if type(effect) is StateChanged:
        return level_of(effect)
    if type(effect) is DiscoveryChanged:
        return level_of_discovery(effect)
    if type(effect) is PropertiesIgnored:
        return logging.DEBUG
    return logging.INFO if isinstance(effect, UpstreamUp | Rebound) else logging.WARNING


def _words(effect: Effect) -> str:
    match effect:
        case Dropped(reason):
            return f"dropped {reason.value}"
        case StateChanged(after=after):
            return f"= {after.value}"
        case DiscoveryChanged(after=part):
            return f"= {part.value}"
    return _WORDS[type(effect)]


_WORDS: dict[type, str] = {
    Rebound: "= rebound",
    IdShared: "client id in use at two addresses",
    UpstreamUp: "= connected",
    UpstreamRefused: "the broker refused us",
    SetAside: "set aside",
    OwnTopicBlocked: (
        "the broker ended the connection for a message of ours, not sent for a while"
    ),
    PropertiesIgnored: "ignored properties that the broker may not send",
    SubscriptionRefused: "the broker refused a subscription",
}

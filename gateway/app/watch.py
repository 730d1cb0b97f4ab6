"""Whether anything stands still: looked at each second, logged, shown, reported to the watchdog.

Each look says what waits and how far it is (a mark). The same mark for longer than the bound of its
name is a *standstill*: an alarm with that name, logged once when it begins and once when it is
over, in the metrics, and a failure of /healthz.

Rule 1: only time in which we ran counts. After a standstill of the whole process (a suspended
        host, SIGSTOP) nothing else has had its turn yet either.
Rule 2: the cause decides what helps. `disk` and `broker` are outside: a restart helps neither, so
        the watchdog of the service is fed on. `inside` is ours: it is fed no more, and systemd
        starts the gateway again. Without systemd nothing ends it; health and log say so.
Rule 3: of several things that stand still under one name the one that has stood the longest is
        shown, and one that is ours before all others.

Limits: `SUSPECTS_MAX` clients are looked at again each second; with as many the sweep waits. So a
client's own standstill is known after its bound and one round of all sessions (100 s for 100,000).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gateway.admin.conditions import standstill
from gateway.admin.part_numbers import Cause, Standstill
from gateway.core.alarm_names import AlarmName
from gateway.core.engine import Engine
from gateway.core.liveness import LivenessSweep, OwedAnswer, WaitsFor, owed
from gateway.core.state_records import ClientId

log = logging.getLogger("tidegate.liveness")

SUSPECTS_MAX = 1000
LOOK_S_MAX = 2.0  # what may lie between two looks and count (rule 1)

# For how long nothing may move, in seconds. What waits for a disk: longer than a card that tidies
# up, a write that is held for 10 s after a failed one (indeterminate_writes.py), two jobs of 5 s.
# Answers to sensors: the longest T_retry that MQTT-SN recommends (1.2, 7.2). The broker: half of
# the default keep-alive. Everything else is done within one turn of the loop.
BOUNDS_S: Mapping[AlarmName, float] = {
    AlarmName.READING_WAITS_FOR_DISK: 15.0,
    AlarmName.JOURNAL_STALLED: 15.0,
    AlarmName.STATE_STALLED: 15.0,
    AlarmName.ANSWER_OVERDUE: 15.0,
    AlarmName.DELIVERY_STALLED: 15.0,
    AlarmName.UPLINK_STALLED: 30.0,
    AlarmName.BACKLOG_STALLED: 15.0,
    AlarmName.SUBSCRIPTION_UNANSWERED: 30.0,
    AlarmName.WILL_STALLED: 30.0,
    AlarmName.TIMER_OVERDUE: 10.0,
    AlarmName.LINK_STALLED: 10.0,
    AlarmName.NOTICES_STALLED: 60.0,
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part with work of its own. `mark`: None without work, another one as soon as some is done.
    `what`: as it is logged.
    """

    name: AlarmName
    what: str
    mark: Callable[[], Hashable | None]
    cause: Callable[[], Cause] = lambda: Cause.INSIDE


@dataclass(slots=True)
class _Seen:
    """A mark: since when it is the same, and at which look it was there last."""

    mark: object
    since: float
    look: int


@dataclass(frozen=True, slots=True)
class _Wait:
    name: AlarmName
    key: Hashable  # of what waits, under this name
    mark: object
    what: str
    cause: Callable[[], Cause]


_Key = tuple[AlarmName, Hashable]


class Watch:
    def __init__(
        self,
        *,
        engine: Engine,
        parts: Iterable[Part],
        causes: Mapping[WaitsFor, Callable[[], Cause]],
        bounds_s: Mapping[AlarmName, float] = BOUNDS_S,
    ) -> None:
        """`causes`: what is behind a wait, at this moment."""
        self.found: tuple[Standstill, ...] = ()
        # Of each name: how long the oldest that waits has not moved.
        self.unmoved_s: Mapping[AlarmName, float] = dict.fromkeys(bounds_s, 0.0)
        self._engine = engine
        self._parts = tuple(parts)
        self._causes = causes
        self._bounds_s = bounds_s
        self._sweep = LivenessSweep(engine)
        self._clock = 0.0  # seconds in which we ran
        self._looked_at: float | None = None
        self._looks = 0
        self._seen: dict[_Key, _Seen] = {}
        self._suspects: dict[ClientId, None] = {}

    # From the daemon

    def look(self, now: float) -> None:
        """Each second."""
        if self._looked_at is not None:
            self._clock += min(max(0.0, now - self._looked_at), LOOK_S_MAX)
        self._looked_at = now
        self._looks += 1
        unmoved = dict.fromkeys(self._bounds_s, 0.0)
        found: dict[AlarmName, Standstill] = {}
        for wait in self._waits(now):
            name, since_s = wait.name, self._unmoved_s(wait)
            unmoved[name] = max(unmoved[name], since_s)
            if since_s > self._bounds_s[name]:
                one = Standstill(name=name, cause=wait.cause(), what=wait.what, unmoved_s=since_s)
                found[name] = max(found.get(name, one), one, key=_weight)
        self._seen = {key: one for key, one in self._seen.items() if one.look == self._looks}
        self.unmoved_s = unmoved
        before, self.found = self.found, tuple(found.values())
        _log_changes(before, self.found)

    # From /healthz and the watchdog of the service

    def check(self) -> str | None:
        """What stands still, or None."""
        return "; ".join(f"{one.name.value}: {standstill(one)}" for one in self.found) or None

    def fault(self) -> str | None:
        """What stands still by a fault of our own, which a restart helps; or None."""
        ours = [one for one in self.found if one.cause is Cause.INSIDE]
        return "; ".join(f"{one.name.value}, {one.what}" for one in ours) or None

    # Looking

    def _waits(self, now: float) -> Iterator[_Wait]:
        for part in self._parts:
            mark = part.mark()
            if mark is not None:
                yield _Wait(
                    name=part.name, key=part.what, mark=mark, what=part.what, cause=part.cause
                )
        for one in owed(self._engine, now):
            yield self._wait(one, one.kind)
        suspects, self._suspects = self._suspects, {}
        is_full = len(suspects) >= SUSPECTS_MAX
        for one in self._sweep.look(now, suspects, is_full=is_full):
            assert one.client_id is not None, "a session is a client's"
            self._suspects[one.client_id] = None
            yield self._wait(one, (one.kind, one.client_id))

    def _wait(self, one: OwedAnswer, key: Hashable) -> _Wait:
        return _Wait(
            name=one.name, key=key, mark=one.mark, what=one.what, cause=self._causes[one.waits_for]
        )

    def _unmoved_s(self, wait: _Wait) -> float:
        key = wait.name, wait.key
        seen = self._seen.get(key)
        if seen is None or seen.mark != wait.mark:
            seen = self._seen[key] = _Seen(wait.mark, self._clock, self._looks)
        seen.look = self._looks
        return self._clock - seen.since


def _weight(one: Standstill) -> tuple[bool, float]:
    return one.cause is Cause.INSIDE, one.unmoved_s


def _log_changes(before: Iterable[Standstill], after: Iterable[Standstill]) -> None:
    """Each once when it begins or turns out to be ours, and once when it is over."""
    was = {one.name: one for one in before}
    for one in after:
        known = was.pop(one.name, None)
        is_ours = one.cause is Cause.INSIDE
        if known is None or (is_ours and known.cause is not Cause.INSIDE):
            level = logging.ERROR if is_ours else logging.WARNING
            name, cause = one.name.value, one.cause.value
            log.log(level, "standstill %s (%s): %s", name, cause, standstill(one))
    for one in was.values():
        log.warning("standstill %s is over after %.0f s", one.name.value, one.unmoved_s)

"""When the gateway's loop is late and its clocks jump, and what must not come of it.

In all worlds of the kind "late" and in one of LATE_WORLDS others; with dice of their own, so that
no other world is another one for it.

The promise: no client is lost, and so no will goes out, for time in which the process stood still.
A client that is lost was silent for its whole time while the process ran, and has had its whole
time again after the last pause, but not more than twice its time in all. One that did not
answer had all repeats, and the time for them, while the process ran.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from gateway.core.effects import Effect, StateChanged
from gateway.core.process_pauses import BEAT_S, LATE_S
from gateway.core.session.options import SessionOptions, deadline_s
from gateway.core.session.session import Session
from gateway.core.state_records import State
from gateway.frames import Frame, Publish, Pubrel, Register
from tests.simulation.agenda import Agenda
from tests.simulation.gateway_host import UNIX_MS_AT_ZERO, GatewayHost
from tests.simulation.late_loop import LateLoop
from tests.simulation.plan import CALM_AT_S, Plan
from tests.simulation.sensor import KEEP_ALIVE_S, Sensor
from tests.simulation.watch import broken

NOT_THERE = "10 its pause is not the silence of others"
LATE_WORLDS, LATE_AT = 50, 25  # an odd one, see pauses.py
LATE_S_MAX = 200.0
LATE_MAX = 6
OVERLOADED_TURNS = 20
HOUR_MS, DECADES_MS = 3_600_000.0, 50 * 365 * 86_400_000.0
JUMPS_MS = (-DECADES_MS, -HOUR_MS, HOUR_MS, DECADES_MS)
MACHINE_JUMPS_S = (-1e9, 0.0, 1000.0, *[10 * 365 * 86_400.0] * 3)
# What of a pause is not left out, and how long a loop may be late unnoticed.
COUNTED_S = BEAT_S + 2 * LATE_S
ROUNDED_MS, ROUNDED_S = 2.0, 0.01


def is_late_world(seed: int, kind: str) -> bool:
    return kind == "late" or (kind == "any" and seed % LATE_WORLDS == LATE_AT)


class WorldsClocks:
    """Of one world: when its gateway stands still, and what its clocks say."""

    def __init__(
        self,
        plan: Plan,
        seed: int,
        kind: str,
        agenda: Agenda,
        note: Callable[[str], None],
        set_ahead: Callable[[], None],
    ) -> None:
        """`set_ahead`: called when the wall clock was."""
        self.is_late = is_late_world(seed, kind)
        self.watch = LateWatch(plan)
        self._agenda = agenda
        self._note = note
        self._set_ahead = set_ahead
        self._dice = Random(f"late {seed}")
        # Where both clocks are wrong nobody can tell an age.
        self._has_other_machine = self._dice.random() < 0.5
        self._machine_s = 0.0
        self._unix_ms_at_zero = UNIX_MS_AT_ZERO
        self.watch.clock_is(UNIX_MS_AT_ZERO)

    def fill(self, gateway: Callable[[], GatewayHost]) -> None:
        """The last pause is over when the calm begins."""
        if not self.is_late:
            return
        agenda, dice = self._agenda, self._dice
        for _ in range(dice.randint(1, LATE_MAX)):
            self._plan(gateway, dice.uniform(1.0, CALM_AT_S), 0.3 + dice.random() ** 2 * LATE_S_MAX)
        if dice.random() < 0.3:  # a board that is overloaded for a while
            begins, lasts_s = dice.uniform(1.0, CALM_AT_S / 2), dice.choice((0.5, 1.0, 3.0))
            for number in range(OVERLOADED_TURNS):
                self._plan(gateway, begins + number * (lasts_s + BEAT_S), lasts_s)
        for _ in range(dice.randint(0, 3)):
            jumps_ms = (-HOUR_MS,) if self._has_other_machine else JUMPS_MS
            at, jump_ms = dice.uniform(0.0, CALM_AT_S), dice.choice(jumps_ms)
            agenda.at(at, self._set_clock, gateway, jump_ms)

    def _plan(self, gateway: Callable[[], GatewayHost], at: float, lasts_s: float) -> None:
        lasts_s = min(lasts_s, CALM_AT_S - at)
        if lasts_s > 0:
            timers_first = self._dice.random() < 0.5
            self._agenda.at(at, self._stand_still, gateway, lasts_s, timers_first)

    def give_to(self, host: GatewayHost) -> None:
        """A run of the gateway begins; in the same boot its monotonic clock may be another one."""
        if not self.is_late:
            return
        if self._has_other_machine:
            self._machine_s = max(0.0, self._machine_s + self._dice.choice(MACHINE_JUMPS_S))
        machine_s = self._machine_s
        host.late, host.beats = LateLoop(self._agenda, machine_s), True
        host.late.on_return = self._returned
        host.set_wall_clock(self._unix_ms_at_zero - machine_s * 1000)
        self.watch.began(self._agenda.now)
        self.watch.machine_is(machine_s)

    # What the watch hears

    def heard(self, sensor: Sensor, frame: Frame, session: Session | None) -> None:
        self.watch.heard(sensor.plan.client_id, frame, session, self._agenda.now)

    def said(self, sensor: Sensor, frame: Frame) -> None:
        self.watch.said(sensor.plan.client_id, frame, self._agenda.now)

    # What happens

    def _stand_still(
        self, gateway: Callable[[], GatewayHost], lasts_s: float, timers_first: bool
    ) -> None:
        host = gateway()
        if host.is_listening and not host.late.is_late:
            self._note(f"the gateway stands still for {lasts_s:.1f} s")
            host.late.stand_still()
            go_on = partial(host.late.go_on, timers_first=timers_first)
            self._agenda.after(lasts_s, go_on)

    def _returned(self, began_at: float) -> None:
        self._note("the gateway runs again")
        self.watch.paused(began_at, self._agenda.now)

    def _set_clock(self, gateway: Callable[[], GatewayHost], jump_ms: float) -> None:
        self._note(f"the wall clock jumps by {jump_ms / 1000} s")
        if self._unix_ms_at_zero + jump_ms < 0:
            return  # no machine shows a time before 1970
        self._unix_ms_at_zero += jump_ms
        self.watch.clock_is(self._unix_ms_at_zero)
        if jump_ms > 0:
            self._set_ahead()
        host = gateway()
        host.set_wall_clock(self._unix_ms_at_zero - host.late.machine_s_at_zero * 1000)


class LateWatch:
    """Hears what the gateway receives, sends and finds; `told` of one that is lost."""

    def __init__(self, plan: Plan) -> None:
        self._options = SessionOptions(plan.retry_after_s)
        self._sleeps_s = {one.client_id: one.sleeps_s for one in plan.sensors}
        self._pauses: list[tuple[float, float]] = []  # from, to
        self._received_at: dict[str, float] = {}
        self._sent: dict[str, deque[float]] = {}
        self._began_at = 0.0
        self._taken_at: dict[bytes, list[float]] = {}
        self._unix_ms_at_zero: list[float] = []
        self._machine_s: set[float] = {0.0}

    # The gateway

    def began(self, at: float) -> None:
        """A run of it; every client has its full time again."""
        self._began_at = at
        self._received_at.clear()
        self._sent.clear()

    def paused(self, begin: float, end: float) -> None:
        self._pauses.append((begin, end))

    def heard(self, client_id: str, frame: Frame, session: Session | None, at: float) -> None:
        if isinstance(frame, Publish):
            self._taken_at.setdefault(frame.payload, []).append(at)
        if session is not None:
            self._received_at[client_id] = at

    def said(self, client_id: str, frame: Frame, at: float) -> None:
        if isinstance(frame, Register | Pubrel) or (isinstance(frame, Publish) and frame.qos > 0):
            sent = self._sent.setdefault(client_id, deque(maxlen=self._options.retry_count_max + 1))
            sent.append(at)

    def told(self, news: Effect, at: float) -> None:
        if not isinstance(news, StateChanged) or news.after is not State.LOST:
            return
        client_id = str(news.client_id)
        if news.detail.startswith("silent"):
            self._check_silence(client_id, news.before, at)
        elif news.detail.startswith("no answer"):
            self._check_repeats(client_id, at)

    def clock_is(self, unix_ms_at_zero: float) -> None:
        """The wall clock, from now on."""
        self._unix_ms_at_zero.append(unix_ms_at_zero)

    def machine_is(self, machine_s: float) -> None:
        """The monotonic clock, of one run; a later run cannot tell that from a step."""
        self._machine_s.add(machine_s)

    # Rules

    def routed(self, payload: bytes, unix_ms: int | None) -> None:
        """A reading says when it came, as one setting of the wall clock had it."""
        came_at = self._taken_at.get(payload)
        if unix_ms is None or came_at is None:
            return
        moved_ms = {(one - other) * 1000 for one in self._machine_s for other in self._machine_s}
        stamps = [
            zero + at * 1000 + moved
            for zero in self._unix_ms_at_zero
            for at in came_at
            for moved in moved_ms
        ]
        if all(abs(unix_ms - stamp) > ROUNDED_MS for stamp in stamps):
            broken(NOT_THERE, f"{payload[:8]!r} has the time {unix_ms}, not one of {stamps}")

    def _check_silence(self, client_id: str, before: State, at: float) -> None:
        received_at = self._received_at.get(client_id, self._began_at)
        silence_max_s = deadline_s(KEEP_ALIVE_S)
        if before is not State.ACTIVE:
            silence_max_s = deadline_s(self._sleeps_s[client_id] or 1)
        ran_s = self._ran_s(received_at, at)
        if ran_s < silence_max_s - ROUNDED_S:
            broken(NOT_THERE, f"{client_id} is lost, {ran_s:.1f} s after it was received last")
        returned_at = max((end for end in self._noticed() if end > received_at), default=0.0)
        again_s = at - returned_at
        if again_s < silence_max_s - COUNTED_S and ran_s < 2 * silence_max_s:
            broken(NOT_THERE, f"{client_id} is lost {again_s:.1f} s after a pause")

    def _check_repeats(self, client_id: str, at: float) -> None:
        sent = self._sent.get(client_id)
        if not sent:
            return
        # After a restart the gateway repeats what another run may have sent; and PUBLISH follows
        # REGACK at once, and goes on counting.
        ran_s, times = self._ran_s(sent[0], at), len(sent)
        is_early = ran_s < (times - 1) * self._options.retry_after_s - ROUNDED_S
        if times < self._options.retry_count_max or is_early:
            broken(NOT_THERE, f"{client_id} is lost, {times} times in {ran_s:.1f} s")

    def _noticed(self) -> list[float]:
        """Ends of those that no beat of the loop can have missed."""
        return [end for begin, end in self._pauses if end - begin > COUNTED_S]

    def _ran_s(self, since: float, until: float) -> float:
        """How long the process ran, at most."""
        stood_s = count = 0.0
        for begin, end in self._pauses:
            overlap_s = min(end, until) - max(begin, since)
            if overlap_s > 0:
                stood_s += overlap_s
                count += 1
        return until - since - stood_s + count * COUNTED_S

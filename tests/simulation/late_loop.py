"""The gateway's event loop when it is late: nothing is handled for a while, and then everything.

What comes meanwhile waits in the order in which it came: datagrams in a socket that holds
`SOCKET_MAX` of them and loses what comes beyond, bytes of the broker, ends of jobs, timers. Then a
loop like uvloop runs the timers that are due before it reads, one like asyncio after.

The machine's monotonic clock is here too, because it may be another one in each run of the gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.core.process_pauses import ProcessPauses
from tests.simulation.agenda import Agenda
from tests.simulation.stream import nothing

SOCKET_MAX = 8
ROUNDED_S = 1e-6  # so that no timer rings a bit too early for one clock, again and again


class LateLoop:
    def __init__(self, agenda: Agenda, machine_s_at_zero: float = 0.0) -> None:
        self.pauses = ProcessPauses()
        self.is_late = False
        self.is_over = False  # the process is gone, and all that waited for it
        self.lost = 0  # datagrams
        self.is_reading = False  # timers run, and what has arrived is not handled yet
        self.after_reading: Callable[[], None] | None = None
        self.on_return: Callable[[float], None] = nothing  # hears when it began
        self._began_at = 0.0
        self._agenda = agenda
        self.machine_s_at_zero = machine_s_at_zero
        self._timers: list[Callable[[], None]] = []
        self._arrived: list[Callable[[], None]] = []
        self._datagrams = 0

    # Clocks

    def machine_now(self) -> float:
        return self._agenda.now + self.machine_s_at_zero

    def now(self) -> float:
        """By the clock of the core."""
        return self.pauses.now(self.machine_now())

    def at_machine(
        self, machine_at: float, action: Callable[..., None], *arguments: object
    ) -> None:
        """A timer, by the machine's clock."""
        at = machine_at - self.machine_s_at_zero + (ROUNDED_S if self.machine_s_at_zero else 0.0)
        self._agenda.at(at, self.timer, action, *arguments)

    def at_core(self, core_at: float, action: Callable[..., None], *arguments: object) -> None:
        """A timer, by the clock of the core."""
        if not self.machine_s_at_zero and not self.pauses.left_out_s:
            self._agenda.at(core_at, self.timer, action, *arguments)
        else:
            delay_s = core_at - self.now() + ROUNDED_S
            self._agenda.after(delay_s, self.timer, action, *arguments)

    # What waits for the loop

    def timer(self, action: Callable[..., None], *arguments: object) -> None:
        self._take(self._timers, partial(action, *arguments))

    def arrive(self, action: Callable[..., None], *arguments: object) -> None:
        self._take(self._arrived, partial(action, *arguments))

    def datagram(self, action: Callable[..., None], *arguments: object) -> None:
        if not self.is_late:
            action(*arguments)
            return
        if self._datagrams >= SOCKET_MAX:
            self.lost += 1
            return
        self._datagrams += 1
        self._take(self._arrived, partial(action, *arguments))

    def _take(self, waiting: list[Callable[[], None]], action: Callable[[], None]) -> None:
        if self.is_over:
            return
        if self.is_late:
            waiting.append(action)
        else:
            action()

    def stand_still(self) -> None:
        self.is_late, self._began_at = True, self._agenda.now

    def go_on(self, *, timers_first: bool) -> None:
        """The loop is back. A timer may ask for what has arrived to be handled first."""
        if not self.is_late or self.is_over:
            return
        self.on_return(self._began_at)
        self.is_late, self._datagrams = False, 0
        timers, self._timers = self._timers, []
        arrived, self._arrived = self._arrived, []
        self.after_reading = None
        queues = (timers, arrived) if timers_first else (arrived, timers)
        self.is_reading = timers_first
        for queue in queues:
            for action in queue:
                if not self.is_over:
                    action()
        self.is_reading = False
        if self.after_reading is not None and not self.is_over:
            self.after_reading()
        self.after_reading = None

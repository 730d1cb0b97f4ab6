"""When to look at the socket next: at once, or up to some milliseconds later with more to fetch.

**The tick.** At sensor loads a datagram arrives alone, and waking up costs several times more than
handling it. To look only every few milliseconds while traffic lasts costs 2 to 6 times less CPU,
here and in the broker. It must not slow down those who wait for us, so a wait has four limits, all
measured over a short window:

- interval: no source is read later than a quarter of its own interval. Clients in closed loop
  send as fast as we answer, so that their interval is our own delay and the wait shrinks to
  nothing;
- enough: past some 32 datagrams a look, waiting longer saves nothing more;
- worth: a look that finds fewer than 2 saves nothing at all, and one that takes a timer of the
  kernel must find 8;
- busy: who works more than seven tenths of the time finds enough without waiting. With `interval`
  this also covers clients in closed loop whom only our speed holds up: if no more than a quarter of
  their interval is waiting, the rest is work.

A source's interval is that of the source of the average *datagram*, not of the average source: one
client in request and response among a hundred slow sensors counts by what it sends, and so does
not have to wait. Waits are whole milliseconds, because event loops count in those, or shorter than
one, by a timer of the kernel (fine_timer.py) where there is one: many clients that send a few
hundred times a second each are gathered so. But only where hardly anything is answered, as at QoS
0: PUBACKs gather what comes by themselves, and measured a wait made each reading a fifth dearer.

**The busy poll.** To sleep, and to be woken up by the broker's PUBACK or by the disk, takes longer
than a broker on the same machine takes to answer, and costs more CPU than to look a few more times.
So we stay awake until a datagram that came alone is answered. Where that does not pay it must cost
nothing, which are four limits again:

- processors: the only one is wanted by the process that is to answer;
- alone: what came with others, or is followed by others before its answer, is not waited for;
- soon: an answer that takes longer than `busy_poll_ms_max` is not worth it;
- without success: each time that none came doubles the number of lone datagrams that are not waited
  for, up to SKIPPED_MAX; an answer in time begins again. So readings at QoS 0, which nobody
  answers, and those for a broker far away are hardly ever waited for.

No clock, no loop, no socket: times and addresses come in.
"""

from __future__ import annotations

from collections.abc import Sequence

WINDOW_S = 0.05
WAIT_SHARE_MAX = 0.25
DATAGRAMS_ENOUGH = 32
DATAGRAMS_WORTH = 2
DATAGRAMS_WORTH_A_TIMER = 8
FINE_MS_MIN = 0.125
ANSWERED_SHARE_MAX = 0.1  # of what arrives, for waits of less than a millisecond
BUSY_SHARE_MAX = 0.7

# At this many in one window the limit `enough` alone forbids the shortest wait: who sent them is
# no longer of interest, and not counted, which also bounds the memory of a window.
COUNTED_MAX = int(DATAGRAMS_ENOUGH * WINDOW_S * 1000 / FINE_MS_MIN)

SKIPPED_MAX = 1023


class AdaptiveTick:
    """The wait between two looks, at most `tick_ms_max`; 0 means never to wait. `is_fine`: waits
    of less than a millisecond can be had.
    """

    def __init__(self, tick_ms_max: float, *, is_fine: bool) -> None:
        self.tick_ms_max = tick_ms_max
        self.is_fine = is_fine
        self._wait_s = 0.0
        self._since: float | None = None
        self._arrived = 0
        self._sent = 0
        self._busy_s = 0.0
        self._by_source: dict[bytes, int] = {}

    def arrived(self, batch: Sequence[tuple[bytes, bytes]]) -> None:
        """What one call to the socket brought: (source, datagram)."""
        if self._arrived < COUNTED_MAX and self.tick_ms_max:
            counts = self._by_source
            for source, _ in batch:
                counts[source] = counts.get(source, 0) + 1
        self._arrived += len(batch)

    def sent(self, count: int) -> None:
        """How many datagrams were sent."""
        self._sent += count

    def wait_s(self, began: float, now: float, *, full: bool) -> float:
        """Seconds until the next look; 0: as soon as something is there.

        The look and the work on what it found took from `began` to `now`. `full`: its last call
        brought as many as it could, so that more is waiting already.
        """
        self._busy_s += now - began
        if self._since is None:
            self._since = now
        elif now - self._since >= WINDOW_S:
            self._wait_s = self._best_wait_ms(now - self._since) / 1000
            self._since = now
            self._arrived = self._sent = 0
            self._busy_s = 0.0
            self._by_source.clear()
        return 0.0 if full else self._wait_s

    def _best_wait_ms(self, elapsed_s: float) -> float:
        counts = self._by_source.values()
        counted = sum(counts)
        busy = self._busy_s > BUSY_SHARE_MAX * elapsed_s
        if not counted or busy or self._arrived >= COUNTED_MAX:
            return 0.0
        arrived_per_ms = self._arrived / elapsed_s / 1000
        own_per_ms = sum(count * count for count in counts) / counted / elapsed_s / 1000
        wait_ms = min(
            self.tick_ms_max, WAIT_SHARE_MAX / own_per_ms, DATAGRAMS_ENOUGH / arrived_per_ms
        )
        if wait_ms >= 1:
            wait_ms, worth = float(int(wait_ms)), DATAGRAMS_WORTH
        elif self._may_be_fine() and wait_ms >= FINE_MS_MIN:
            worth = DATAGRAMS_WORTH_A_TIMER
        else:
            return 0.0
        return wait_ms if arrived_per_ms * wait_ms >= worth else 0.0

    def _may_be_fine(self) -> bool:
        return self.is_fine and self._sent <= ANSWERED_SHARE_MAX * self._arrived


class BusyPoll:
    """For one socket. `busy_poll_ms_max` 0 means never to stay awake."""

    def __init__(self, busy_poll_ms_max: float, *, processors: int) -> None:
        self._longest_s = busy_poll_ms_max / 1000 if processors > 1 else 0.0
        self._awaits: bytes | None = None  # the source of a datagram that came alone
        self._until = 0.0  # while we stay awake for it, else 0
        self._to_skip = 0
        self._skips = 0  # after the last time without success

    def arrived(self, batch: Sequence[tuple[bytes, bytes]]) -> None:
        """What one call to the socket brought, (source, datagram), before it is worked on."""
        if self._until:
            self._in_vain()
        self._awaits = batch[0][0] if len(batch) == 1 else None

    def sent(self, batch: Sequence[tuple[bytes, bytes]]) -> None:
        """What goes out, (source, datagram): the answer that is awaited, or what is for others."""
        if self._until:
            if batch and batch[0][0] == self._awaits:
                self._until, self._skips = 0.0, 0
            else:
                self._in_vain()
        self._awaits = None

    def starts(self, now: float) -> bool:
        """All that arrived was worked on: whether to stay awake from now on."""
        if self._awaits is None or not self._longest_s:
            return False
        if self._to_skip:
            self._to_skip -= 1
            return False
        self._until = now + self._longest_s
        return True

    def goes_on(self, now: float) -> bool:
        """Whether to look again without sleeping."""
        if self._until and now >= self._until:
            self._in_vain()
        return bool(self._until)

    def _in_vain(self) -> None:
        self._awaits, self._until = None, 0.0
        self._to_skip = self._skips = min(2 * self._skips + 1, SKIPPED_MAX)

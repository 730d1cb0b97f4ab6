"""A serial line between a board and the gateway, which damages, loses, stops and comes apart.

The board's end is a descriptor: of a port of this machine, or of the terminal whose other side is
the board's UART. The gateway's end is a pseudo-terminal under a name, as in /dev/serial/by-id, that
vanishes with the cable and comes back as another device.

- Bytes go at the pace of the line's baud rate.
- `impairment` decides what happens to each byte; `burst` damages all for a while, as a motor does
  that starts; `is_stuck` is a line that is held low: nothing passes, and the gateway gets zeros.
- One seed decides about each byte; when bytes come depends on the machine.

Limits: WAITING_OCTETS_MAX each way, and more is lost, as in a UART that overruns.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tty
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hil.faults.tap import NoTap, Tap
from hil.rig.line_framings import Kind, line_framing

TICK_S = 0.004
NOBODY_THERE_S = 0.02  # between two reads of a line that is not open
WAITING_BYTES_MAX = 8192
READ_BYTES_MAX = 4096
ZEROS_PER_TICK = 4
HELD_LOW, IN_A_BURST, PULLED_OUT = "held low", "in a burst", "pulled out"


@dataclass(frozen=True, slots=True)
class LineImpairment:
    """Shares of bytes, each way."""

    flips: float = 0.0  # one bit of it is turned over
    drops: float = 0.0

    @property
    def marks(self) -> tuple[str, ...]:
        """Fates that it brings about."""
        brings = {"flipped": self.flips, "dropped": self.drops}
        return tuple(fault for fault, share in brings.items() if share)


class SerialProxy:
    """Made and used inside a running loop."""

    def __init__(
        self,
        name: Path,
        seed: int,
        impairment: LineImpairment,
        *,
        baud: int = 115_200,
        framing: Kind = "hdlc",
        tap: Tap | None = None,
    ) -> None:
        self.impairment = impairment
        self.is_stuck = False
        self.fault_counts: Counter[str] = Counter()
        self.name = name
        self._board_end = -1
        self._dice = random.Random(seed)
        self._bytes_per_tick = max(1, round(baud / 10 * TICK_S))
        self._tap: Tap = tap or NoTap()
        self._from_board, self._to_board = line_framing(framing), line_framing(framing)
        self._up, self._down = bytearray(), bytearray()
        self._burst_bytes = 0
        self._master = -1
        self._reopen_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.plug_in()
        self._task = self._loop.create_task(self._carry(), name="serial line")

    def connect(self, board_end: int) -> None:
        """The board is at this end, which is the proxy's from now on."""
        os.set_blocking(board_end, False)
        self._board_end = board_end
        self._loop.add_reader(board_end, self._on_board_bytes)

    def close(self) -> None:
        """Does nothing the second time."""
        self._task.cancel()
        self.unplug()
        if self._board_end >= 0:
            self._loop.remove_reader(self._board_end)
            os.close(self._board_end)
            self._board_end = -1

    # Faults

    def unplug(self) -> None:
        if self._master < 0:
            return
        self.name.unlink(missing_ok=True)
        if self._reopen_timer is not None:
            self._reopen_timer.cancel()
            self._reopen_timer = None
        self._loop.remove_reader(self._master)
        os.close(self._master)
        self._master = -1

    def plug_in(self) -> None:
        self._master, end = os.openpty()
        tty.setraw(end)
        os.set_blocking(self._master, False)
        self.name.unlink(missing_ok=True)
        self.name.symlink_to(os.ttyname(end))
        os.close(end)
        self._loop.add_reader(self._master, self._on_gateway_bytes)

    def burst(self, chunk: int) -> None:
        """So many that come next, either way, are anything."""
        self._burst_bytes += chunk

    # From the loop

    def _on_board_bytes(self) -> None:
        chunk = self._read(self._board_end)
        self._tap.on_air(len(chunk), 0)
        for message in self._from_board.feed(chunk):
            self._tap.up(message)
        self._queue(self._up, chunk)

    def _on_gateway_bytes(self) -> None:
        chunk = self._read(self._master)
        if not chunk:  # the gateway does not have it open
            self._reopen_timer = self._loop.call_later(NOBODY_THERE_S, self._read_again)
        self._queue(self._down, chunk)

    def _read_again(self) -> None:
        self._loop.add_reader(self._master, self._on_gateway_bytes)

    def _read(self, descriptor: int) -> bytes:
        """Nothing when the other end is closed: then it is not read any more."""
        try:
            return os.read(descriptor, READ_BYTES_MAX)
        except OSError:
            self._loop.remove_reader(descriptor)
            return b""

    def _queue(self, waiting: bytearray, chunk: bytes) -> None:
        room = WAITING_BYTES_MAX - len(waiting)
        self.fault_counts["overrun"] += max(0, len(chunk) - room)
        waiting += chunk[:room]

    async def _carry(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            up = self._spoilt(self._taken(self._up))
            down = self._spoilt(self._taken(self._down))
            if self.is_stuck:
                self.fault_counts[HELD_LOW] += len(up) + len(down)
                up, down = bytes(ZEROS_PER_TICK), b""
            if up and self._master >= 0:
                self._write(self._master, up)
            if down:
                self._tap.on_air(0, len(down))
                for message in self._to_board.feed(down):
                    self._tap.down(message)
                self._write(self._board_end, down)

    def _taken(self, waiting: bytearray) -> bytes:
        taken = bytes(waiting[: self._bytes_per_tick])
        del waiting[: len(taken)]
        return taken

    def _write(self, descriptor: int, chunk: bytes) -> None:
        with contextlib.suppress(OSError):  # full, or gone: lost, as on a line
            os.write(descriptor, chunk)

    def _spoilt(self, chunk: bytes) -> bytes:
        found = bytearray()
        for byte in chunk:
            if self._burst_bytes:
                self._burst_bytes -= 1
                self.fault_counts[IN_A_BURST] += 1
                found.append(self._dice.randrange(256))
            elif self._dice.random() < self.impairment.drops:
                self.fault_counts["dropped"] += 1
            elif self._dice.random() < self.impairment.flips:
                self.fault_counts["flipped"] += 1
                found.append(byte ^ 1 << self._dice.randrange(8))
            else:
                found.append(byte)
        return bytes(found)

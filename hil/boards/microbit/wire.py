"""The line between a board's UART and a serial port of this machine: a pseudo-terminal.

Rules
- Octets go to the board no faster than a line of 115,200 baud would carry them. QEMU itself knows
  no baud rate, and the board's ring of 64 octets then runs over as no real one does.
- `errors` is the share of octets, each way, of which one bit is turned over, by dice of one seed.
- What the board says while nobody has the port open is lost, as with a USB adapter; `heard` has it
  all the same.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import socket
import sys
import termios
import threading
import time
import tty
from contextlib import suppress

OCTETS_AT_ONCE = 8
PAUSE_S = OCTETS_AT_ONCE * 10 / 115_200
LOOK_S = 0.02
NOBODY_THERE_S = 0.002  # between two looks at a port that nobody has open
READ_OCTETS_MAX = 4096
DEAF_S = 1.0  # a board that takes nothing for so long does not listen


class Wire:
    """The port stays while boards on it come and go."""

    def __init__(self) -> None:
        self.heard = bytearray()  # whatever the board said
        self.errors = 0.0
        self.damaged = 0
        self._dice = random.Random(1)
        self._port, end = os.openpty()
        tty.setraw(end)
        self.device = os.ttyname(end)
        os.close(end)
        os.set_blocking(self._port, False)
        self._uart: socket.socket | None = None
        self._taken_at = 0.0  # what was sent to the board
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def connect(self, uart: socket.socket) -> None:
        """A board was switched on."""
        self.disconnect()
        self._ends.clear()
        self._uart = uart
        self._thread = threading.Thread(target=self._carry, args=(uart,), daemon=True)
        self._thread.start()

    def disconnect(self) -> None:
        if self._thread is not None:
            self._ends.set()
            self._thread.join()
            self._thread = None
        if self._uart is not None:
            self._uart.close()
            self._uart = None

    def close(self) -> None:
        self.disconnect()
        os.close(self._port)

    def _carry(self, uart: socket.socket) -> None:
        while not self._ends.is_set():
            is_open, is_behind = self._is_open(), self._is_behind(uart)
            watched: list[socket.socket | int] = [uart]
            if is_open and not is_behind:
                watched.append(self._port)
            pause_s = LOOK_S if is_open else NOBODY_THERE_S
            ready = select.select(watched, [], [], PAUSE_S if is_behind else pause_s)[0]
            try:
                if uart in ready and not self._up(uart, is_open=is_open):
                    return
                if self._port in ready:
                    self._down(uart)
            except ConnectionError:  # the power was cut
                return

    def _is_behind(self, uart: socket.socket) -> bool:
        """A busy machine lets the board stand still: it has not taken yet what was sent. More of it
        would come at once when it goes on, and run over its ring.
        """
        unread = int.from_bytes(fcntl.ioctl(uart, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        if not unread:
            self._taken_at = time.monotonic()
            return False
        return time.monotonic() - self._taken_at < DEAF_S

    def _is_open(self) -> bool:
        looked_at = select.poll()
        looked_at.register(self._port, 0)
        return not any(events & select.POLLHUP for _, events in looked_at.poll(0))

    def _up(self, uart: socket.socket, *, is_open: bool) -> bool:
        octets = uart.recv(READ_OCTETS_MAX)
        self.heard += octets
        if is_open:
            with suppress(BlockingIOError):  # whoever has it open does not read
                os.write(self._port, self._noisy(octets))
        return bool(octets)

    def _down(self, uart: socket.socket) -> None:
        try:
            octets = os.read(self._port, OCTETS_AT_ONCE)
        except OSError:  # was closed just now
            return
        uart.sendall(self._noisy(octets))
        time.sleep(PAUSE_S)

    def _noisy(self, octets: bytes) -> bytes:
        found = bytearray(octets)
        for at in range(len(found)):
            if self._dice.random() < self.errors:
                found[at] ^= 1 << self._dice.randrange(8)
                self.damaged += 1
        return bytes(found)

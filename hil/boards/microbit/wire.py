"""The line between a board's UART and a serial port of this machine: a pseudo-terminal.

Rules
- Bytes go to the board no faster than a line of 115,200 baud would carry them. QEMU itself knows
  no baud rate, and the board's ring of 64 bytes then runs over as no real one does.
- `errors` is the share of bytes, each way, of which one bit is turned over, by dice of one seed.
- What the board sends while the port is not open is lost, as with a USB adapter; `received` has it
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

BYTES_AT_ONCE = 8
PAUSE_S = BYTES_AT_ONCE * 10 / 115_200
POLL_S = 0.02
CLOSED_POLL_S = 0.002  # between two polls of a port that is not open
READ_BYTES_MAX = 4096
STALLED_S_MAX = 1.0  # a board that takes nothing for so long does not read


class Wire:
    """The port stays while boards on it come and go."""

    def __init__(self) -> None:
        self.received = bytearray()  # all that the board sent
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
            pause_s = POLL_S if is_open else CLOSED_POLL_S
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
        return time.monotonic() - self._taken_at < STALLED_S_MAX

    def _is_open(self) -> bool:
        poller = select.poll()
        poller.register(self._port, 0)
        return not any(events & select.POLLHUP for _, events in poller.poll(0))

    def _up(self, uart: socket.socket, *, is_open: bool) -> bool:
        chunk = uart.recv(READ_BYTES_MAX)
        self.received += chunk
        if is_open:
            with suppress(BlockingIOError):  # the program that has it open does not read
                os.write(self._port, self._noisy(chunk))
        return bool(chunk)

    def _down(self, uart: socket.socket) -> None:
        try:
            chunk = os.read(self._port, BYTES_AT_ONCE)
        except OSError:  # was closed just now
            return
        uart.sendall(self._noisy(chunk))
        time.sleep(PAUSE_S)

    def _noisy(self, chunk: bytes) -> bytes:
        found = bytearray(chunk)
        for at in range(len(found)):
            if self._dice.random() < self.errors:
                found[at] ^= 1 << self._dice.randrange(8)
                self.damaged += 1
        return bytes(found)

"""A serial port of this machine: opened and set by pyserial, then read and written on the loop.

- No thread and no polling while it is open: the file descriptor is non-blocking, and the loop says
  when it can be read or written. Only opening and closing have a thread, for they can hang.
- No other program gets it: it is locked (flock), which others may check, and marked exclusive
  (TIOCEXCL), which the kernel enforces for all but root. The mark stays until the last program has
  closed it: a pseudo-terminal, which the program at its other end keeps open, is not marked, or a
  gateway that was killed would find it busy.
- DTR and RTS are both on, as the kernel sets them when a port is opened, and stay on when it is
  closed (no HUPCL): the reset circuits of ESP32 boards act on one of the two alone. Not possible:
  boards that reset on any rise of DTR (Arduino) do so when their port is opened for the first
  time after they were plugged in.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import termios
from contextlib import suppress
from typing import NamedTuple

import serial  # type: ignore[import-untyped]

from gateway.host.limits import LimitError
from gateway.transports.in_thread import in_thread
from gateway.transports.port_owner import PSEUDO_TERMINALS, device_owner
from gateway.transports.serial.faults import why_not_opened
from gateway.transports.serial.line import LineCallbacks, PortOptions, short_name

READ_BYTES_MAX = 4096
READS_PER_TURN = 4
CLOSE_AGAIN_S = 1.0
UNPLUGGED = "it was unplugged"

_PARITIES = {
    "none": serial.PARITY_NONE,
    "even": serial.PARITY_EVEN,
    "odd": serial.PARITY_ODD,
}


class _Opened(NamedTuple):
    fd: int
    warning: str | None


async def open_device(options: PortOptions, callbacks: LineCallbacks) -> DeviceLine:
    """Raises LineError."""
    name = short_name(options.port)
    try:
        opened = await in_thread(lambda: _open(options), f"open {name}", _discard)
    except LimitError as error:
        raise why_not_opened(options, error) from error
    return DeviceLine(opened, name, callbacks)


def _open(options: PortOptions) -> _Opened:
    other = device_owner(options.port)
    port = serial.Serial()
    try:
        port.port = options.port
        port.baudrate = options.baud
        port.parity = _PARITIES[options.parity]
        port.stopbits = options.stop_bits
        port.rtscts = options.rtscts
        port.timeout = 0
        port.exclusive = True
        port.open()
        _configure(port.fileno())
        # The port itself without what pyserial has beside it; its lock stays.
        fd = os.dup(port.fileno())
    except (OSError, ValueError, OverflowError, termios.error) as error:
        raise why_not_opened(options, error) from error
    finally:
        port.close()
    if other is None:
        return _Opened(fd, None)
    return _Opened(fd, f"{other} has it open too, and each of the two misses what the other reads")


def _configure(fd: int) -> None:
    """What pyserial does not do."""
    if not is_pseudo_terminal(fd):
        with suppress(OSError):
            fcntl.ioctl(fd, termios.TIOCEXCL)
    attributes = termios.tcgetattr(fd)
    attributes[2] &= ~termios.HUPCL
    # Else nothing to read would look like the end of the port.
    attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def is_pseudo_terminal(fd: int) -> bool:
    return os.major(os.fstat(fd).st_rdev) in PSEUDO_TERMINALS


def _discard(opened: _Opened) -> None:
    _close(opened.fd)


def _close(fd: int) -> None:
    """Without waiting for what was written, which the kernel would else do for half a minute."""
    with suppress(OSError, termios.error):
        termios.tcflush(fd, termios.TCOFLUSH)
    with suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCNXCL)  # another program, root's, may have it open and keep it
    with suppress(OSError):
        os.close(fd)


async def _closed(fd: int, name: str) -> None:
    while True:
        try:
            await in_thread(lambda: _close(fd), name, _nothing)
        except LimitError:  # of threads; the port is not opened again before it is closed
            await asyncio.sleep(CLOSE_AGAIN_S)
        else:
            return


class DeviceLine:
    def __init__(self, opened: _Opened, name: str, callbacks: LineCallbacks) -> None:
        self._fd, self.warning = opened
        self._name = name
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._is_waiting = False  # for room
        self._closing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._loop.add_reader(self._fd, self._readable)

    def write(self, chunk: bytes) -> int:
        if not self._is_open:
            return 0
        try:
            taken = os.write(self._fd, chunk)
        except (BlockingIOError, InterruptedError):
            taken = 0
        except OSError as error:
            self._lose(_why_lost(error))
            return 0
        if taken < len(chunk) and not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._fd, self._writable)
        return taken

    def close(self) -> None:
        if self._closing is not None:
            return
        self._stop()
        name = f"close {self._name}"
        self._closing = self._loop.create_task(_closed(self._fd, name), name=name)

    async def closed(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _readable(self) -> None:
        for _ in range(READS_PER_TURN):
            try:
                chunk = os.read(self._fd, READ_BYTES_MAX)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._lose(_why_lost(error))
                return
            if not chunk:
                self._lose(UNPLUGGED)
                return
            self._callbacks.received(chunk)
            if len(chunk) < READ_BYTES_MAX or not self._is_open:
                return

    def _writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._is_waiting = False
        self._callbacks.writable()

    def _lose(self, reason: str) -> None:
        if self._is_open:
            self._stop()
            self._callbacks.lost(reason)

    def _stop(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)


def _why_lost(error: OSError) -> str:
    if error.errno in (errno.EIO, errno.ENXIO, errno.ENODEV):
        return UNPLUGGED
    return error.strerror or str(error)


def _nothing(_result: None) -> None:
    """A port that is closed needs nothing more."""

"""What the interpreter asks of its host: UDP, serial ports, what survives its sleep, a watchdog.

A call is a name and a text, and so is the answer: bytes go in hexadecimal. What the world refuses
comes back as `!` and its name (the interpreter's numbers are others), which `modules/` raises as
OSError in the program.

Limits: `SOCKETS_MAX` sockets at once, as the smallest boards have; one more is ENOMEM.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import termios
import threading
import tty
from collections.abc import Callable

RTC_MEMORY_BYTES_MAX = 2048  # ESP32's default
SOCKETS_MAX = 8
READABLE, WRITABLE = 1, 4  # MicroPython's ioctl flags for poll
# The interpreter's `poll` asks again and again; so long each of its questions may wait for bytes.
POLL_PAUSE_S = 0.001


class Ended(Exception):  # noqa: N818, it is no error
    """The program asked for its own end: `reset` or `deepsleep`."""

    def __init__(self, how: str, sleep_ms: int = 0) -> None:
        super().__init__(how)
        self.how = how
        self.sleep_ms = sleep_ms


class Services:
    def __init__(
        self,
        uarts: tuple[str, ...],
        cause: int,
        rtc_memory: bytes,
        bite: Callable[[], None],
        is_reset: Callable[[], bool],
    ) -> None:
        """`bite`: what the watchdog does, from a thread of its own. `is_reset`: whether somebody
        outside wants the interpreter to begin again, which it does at its next call.
        """
        self._is_reset = is_reset
        self.rtc_memory = rtc_memory
        self._bite = bite
        self._watchdog_s = 0.0
        self._watchdog: threading.Timer | None = None
        self.ended: Ended | None = None
        self._cause = cause
        self._devices = uarts
        self._sockets: dict[int, socket.socket] = {}
        self._uarts: dict[int, int] = {}
        self._calls: dict[str, Callable[[str], str]] = {
            "udp_open": self._udp_open,
            "udp_bind": self._udp_bind,
            "udp_connect": self._udp_connect,
            "udp_send": self._udp_send,
            "udp_recv": self._udp_recv,
            "udp_close": self._udp_close,
            "poll": self._poll,
            "uart_open": self._uart_open,
            "uart_write": self._uart_write,
            "uart_read": self._uart_read,
            "rtc_get": lambda _: self.rtc_memory.hex(),
            "rtc_set": self._rtc_set,
            "reset_cause": lambda _: str(self._cause),
            "watchdog": self._start_watchdog,
            "feed": lambda _: self._feed(),
            "reset": lambda _: self._end("reset", ""),
            "deepsleep": lambda asked: self._end("deepsleep", asked),
        }

    def call(self, name: str, asked: str) -> str:
        if self._is_reset():
            self._end("soft_reset", "")
        try:
            return self._calls[name](asked)
        except OSError as error:
            return f"!{errno.errorcode.get(error.errno or 0, 'EIO')}"

    def close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        for each in self._sockets.values():
            each.close()
        for descriptor in self._uarts.values():
            os.close(descriptor)

    # Sockets

    def _udp_open(self, _: str) -> str:
        if len(self._sockets) >= SOCKETS_MAX:
            raise OSError(errno.ENOMEM, "too many sockets")
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setblocking(False)
        self._sockets[opened.fileno()] = opened
        return str(opened.fileno())

    def _udp_bind(self, asked: str) -> str:
        descriptor, host, port = asked.split()
        self._socket(descriptor).bind((host, int(port)))
        return ""

    def _udp_connect(self, asked: str) -> str:
        descriptor, host, port = asked.split()
        self._socket(descriptor).connect((host, int(port)))
        return ""

    def _udp_send(self, asked: str) -> str:
        """To where it is connected, or to `host port` where they are given."""
        descriptor, octets, *address = asked.split(" ")
        opened, datagram = self._socket(descriptor), bytes.fromhex(octets)
        if address:
            opened.sendto(datagram, (address[0], int(address[1])))
        else:
            opened.send(datagram)
        return ""

    def _udp_recv(self, asked: str) -> str:
        """`octets host port`; blocks for so many milliseconds."""
        descriptor, size, wait_ms = asked.split()
        opened = self._socket(descriptor)
        if not select.select([opened], [], [], _seconds(wait_ms))[0]:
            raise OSError(errno.EAGAIN if wait_ms == "0" else errno.ETIMEDOUT, "nothing came")
        datagram, (host, port) = opened.recvfrom(int(size))
        return f"{datagram.hex()} {host} {port}"

    def _udp_close(self, asked: str) -> str:
        closed = self._sockets.pop(int(asked), None)
        if closed is not None:
            closed.close()
        return ""

    def _socket(self, descriptor: str) -> socket.socket:
        found = self._sockets.get(int(descriptor))
        if found is None:
            raise OSError(errno.EBADF, "closed")
        return found

    def _poll(self, asked: str) -> str:
        """What of `flags` is so of a socket or UART."""
        descriptor, flags = map(int, asked.split())
        pause_s = 0.0 if flags & WRITABLE else POLL_PAUSE_S
        readable = bool(select.select([descriptor], [], [], pause_s)[0])
        return str((READABLE * readable | WRITABLE) & flags)

    # Serial ports

    def _uart_open(self, asked: str) -> str:
        number = int(asked)
        if number >= len(self._devices):
            raise OSError(errno.ENODEV, f"no UART {number}")
        if number not in self._uarts:
            descriptor = os.open(self._devices[number], os.O_RDWR | os.O_NOCTTY)
            tty.setraw(descriptor, termios.TCSANOW)  # what has come already stays
            self._uarts[number] = descriptor
        return str(self._uarts[number])

    def _uart_write(self, asked: str) -> str:
        descriptor, octets = asked.split(" ")
        return str(os.write(int(descriptor), bytes.fromhex(octets)))

    def _uart_read(self, asked: str) -> str:
        """What is there now."""
        descriptor, size = map(int, asked.split())
        if not select.select([descriptor], [], [], 0.0)[0]:
            return ""
        return os.read(descriptor, size).hex()

    # The board

    def _rtc_set(self, asked: str) -> str:
        memory = bytes.fromhex(asked)
        if len(memory) > RTC_MEMORY_BYTES_MAX:
            raise OSError(errno.EINVAL, "too much for the RTC memory")
        self.rtc_memory = memory
        return ""

    def _start_watchdog(self, timeout_ms: str) -> str:
        self._watchdog_s = int(timeout_ms) / 1000
        return self._feed()

    def _feed(self) -> str:
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watchdog = threading.Timer(self._watchdog_s, self._bite)
        self._watchdog.daemon = True
        self._watchdog.start()
        return ""

    def _end(self, how: str, sleep_ms: str) -> str:
        self.ended = Ended(how, int(sleep_ms or 0))
        raise self.ended


def _seconds(wait_ms: str) -> float | None:
    return None if int(wait_ms) < 0 else int(wait_ms) / 1000

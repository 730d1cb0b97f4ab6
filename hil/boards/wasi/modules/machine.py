"""What the simulated board has of MicroPython's `machine`."""

import io
from binascii import hexlify

from hosted import call, octets

try:  # noqa: SIM105, there is no contextlib here
    import socket  # noqa: F401, a board has it built in: it is not to be compiled in a full heap
except ImportError:
    pass  # a test has taken the network from this one

PWRON_RESET = 1
HARD_RESET = 2
WDT_RESET = 3
DEEPSLEEP_RESET = 4
SOFT_RESET = 5

_POLL = 3


def reset_cause():
    return int(call("reset_cause"))


def reset():
    call("reset")


def deepsleep(time_ms=0):
    call("deepsleep", str(time_ms))


def lightsleep(time_ms=0):
    pass  # it passes at once, as every sleep here


class WDT:
    def __init__(self, id=0, timeout=5000):
        call("watchdog", str(timeout))

    def feed(self):
        call("feed")


class RTC:
    def memory(self, kept=None):
        if kept is None:
            return octets(call("rtc_get"))
        call("rtc_set", hexlify(kept).decode())


class UART(io.IOBase):
    def __init__(self, number=0, baudrate=115200, **_):
        self._descriptor = int(call("uart_open", str(number)))

    def any(self):
        return int(call("poll", f"{self._descriptor} 1"))

    def write(self, buffer, size=-1):
        text = hexlify(buffer if size < 0 else memoryview(buffer)[:size]).decode()
        return int(call("uart_write", f"{self._descriptor} {text}"))

    def read(self, size=64):
        text = call("uart_read", f"{self._descriptor} {size}")
        return octets(text) if text else None

    def readinto(self, buffer, size=-1):
        found = self.read(len(buffer) if size < 0 else size)
        if found is None:
            return None
        buffer[: len(found)] = found
        return len(found)

    def ioctl(self, request, argument):
        if request == _POLL:
            return int(call("poll", f"{self._descriptor} {argument}"))
        return -1

"""What the simulated board has of MicroPython's `machine`.

What survives a sleep is /host/rtc; why this life began is /host/cause; how it ended is /host/ended:
`deepsleep MS` or `reset`. The watchdog is a timer of the kernel, which nothing in here can stop.
"""

import ffi

PWRON_RESET = 1
HARD_RESET = 2
WDT_RESET = 3
DEEPSLEEP_RESET = 4
SOFT_RESET = 5

_RTC_OCTETS_MAX = 2048  # ESP32's default
_F_GETFL, _F_SETFL, _O_NONBLOCK = 3, 4, 0o4000
_EIO, _EINVAL, _ENODEV = 5, 22, 19

uart_0 = ""  # the terminal, for boot.py to say
supply = ""  # what /host is on the host, likewise

_libc = ffi.open("libc.so.6")
_exit = _libc.func("v", "_exit", "i")
_fcntl = _libc.func("i", "fcntl", "iii")
_ualarm = _libc.func("I", "ualarm", "II")
_rename = _libc.func("i", "rename", "ss")  # os.rename of a VfsPosix below a folder fails


def _keep(name, octets):
    """As a whole or not at all: this life may be ended at any moment."""
    with open("/host/new", "wb") as file:
        file.write(octets)
    if _rename(supply + "/new", supply + "/" + name):
        raise OSError(_EIO)


def _end(how):
    from flash import device

    _keep("writes", str(device.writes))
    _keep("ended", how)
    _exit(0)


def reset_cause():
    with open("/host/cause") as file:
        return int(file.read())


def reset():
    _end("reset")


def deepsleep(time_ms=0):
    _end("deepsleep " + str(time_ms))


def lightsleep(time_ms=0):
    pass  # it passes at once, as every sleep here


class WDT:
    def __init__(self, id=0, timeout=5000):
        self._timeout_us = timeout * 1000
        self.feed()

    def feed(self):
        _ualarm(self._timeout_us, 0)


class RTC:
    def memory(self, kept=None):
        if kept is None:
            try:
                with open("/host/rtc", "rb") as file:
                    return file.read()
            except OSError:
                return b""
        if len(kept) > _RTC_OCTETS_MAX:
            raise OSError(_EINVAL)
        _keep("rtc", kept)


def UART(number=0, baudrate=115200, **_):
    """A stream of the port itself: it reads what is there, and `poll` waits in the kernel."""
    import termios

    if number or not uart_0:
        raise OSError(_ENODEV)
    opened = open(uart_0, "r+b", buffering=0)
    termios.setraw(opened.fileno())
    _fcntl(opened.fileno(), _F_SETFL, _fcntl(opened.fileno(), _F_GETFL, 0) | _O_NONBLOCK)
    return opened

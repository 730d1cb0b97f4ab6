"""UDP sockets as MicroPython has them on boards, by calls of the host.

As there, a connected socket is a stream too. `write(buffer, size)` sends one datagram; `read` and
`readinto` go on until the buffer is full or nothing waits, as most ports do: they join datagrams,
and cut the last one. `recv` takes one.
"""

import io
from binascii import hexlify
from errno import EAGAIN, ETIMEDOUT

from hosted import call, octets

AF_INET = 2
SOCK_STREAM = 1
SOCK_DGRAM = 2
SOL_SOCKET = 1
SO_REUSEADDR = 4
SO_BROADCAST = 6
IPPROTO_IP = 0
IP_ADD_MEMBERSHIP = 35

_POLL = 3
_CLOSE = 4
_DATAGRAM_MAX = 1400


def getaddrinfo(host, port, *_):
    return [(AF_INET, SOCK_DGRAM, 0, "", (host, port))]


class socket(io.IOBase):
    def __init__(self, family=AF_INET, kind=SOCK_DGRAM, protocol=0):
        if kind != SOCK_DGRAM:
            raise OSError(95)
        self._descriptor = int(call("udp_open"))
        self._wait_ms = -1

    def fileno(self):
        return self._descriptor

    def bind(self, address):
        call("udp_bind", f"{self._descriptor} {address[0] or '0.0.0.0'} {address[1]}")

    def connect(self, address):
        call("udp_connect", f"{self._descriptor} {address[0]} {address[1]}")

    def settimeout(self, seconds):
        self._wait_ms = -1 if seconds is None else int(seconds * 1000)

    def setblocking(self, blocks):
        self._wait_ms = -1 if blocks else 0

    def setsockopt(self, level, option, value):
        pass

    def send(self, octets):
        call("udp_send", f"{self._descriptor} {hexlify(octets).decode()}")
        return len(octets)

    def sendto(self, octets, address):
        text = hexlify(octets).decode()
        call("udp_send", f"{self._descriptor} {text} {address[0]} {address[1]}")
        return len(octets)

    def recvfrom(self, size):
        answer = call("udp_recv", f"{self._descriptor} {size} {self._wait_ms}")
        text, host, port = answer.split(" ")
        return octets(text), (host, int(port))

    def recv(self, size):
        return self.recvfrom(size)[0]

    def write(self, buffer, size=-1):
        return self.send(buffer if size < 0 else memoryview(buffer)[:size])

    def read(self, size=_DATAGRAM_MAX):
        data = bytearray(size)
        count = self.readinto(data)
        return None if count is None else bytes(data[:count])

    def readinto(self, buffer, size=-1):
        size = len(buffer) if size < 0 else size
        at = 0
        while at < size:
            try:
                heard = self.recv(size - at)
            except OSError as error:
                if error.errno not in (EAGAIN, ETIMEDOUT):
                    raise
                return at or None
            if not heard:
                break
            buffer[at : at + len(heard)] = heard
            at += len(heard)
        return at

    def close(self):
        call("udp_close", str(self._descriptor))

    def ioctl(self, request, argument):
        if request == _POLL:
            return int(call("poll", f"{self._descriptor} {argument}"))
        if request == _CLOSE:
            self.close()
            return 0
        return -1

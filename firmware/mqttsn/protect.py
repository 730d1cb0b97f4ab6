"""Packets that are protected by a key, each in an envelope of MQTT-SN 2.0 (draft, 3.17).

    from mqttsn.protect import Protected

    transport = Protected(Udp(("192.168.1.10", 1883)), sender_id, key, kept, save)
    client = Client(transport, b"greenhouse-3")

A transport around another one. It shows who has sent a packet (HMAC-SHA256) and hides nothing.

Rules (docs/decisions/0038-protected-packets.md)
- Counters are saved in blocks of _BLOCK before they are used: `save(kept)` writes 6 bytes to the
  flash and returns when they are there. `kept` is what it was given last; b"" where that is lost.
- What is received is known to be new by a question that goes with the first packet, and by a window
  of 32 from then on. Nothing of it is kept.
- A plain packet is not looked at.

Limits: a packet is 58 bytes shorter than the longest datagram of the transport.
"""

from hashlib import sha256
from os import urandom
from struct import pack, unpack_from

try:
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BLOCK = const(1000)
_WINDOW = const(32)
_RECENT = const(8)
_COUNTER_MAX = const(0xFFFFFFFF)
_AROUND = const(58)
_TOKEN = const(8)
_QUESTION = const(16)


class Protected:
    def __init__(
        self,
        inner: "Any",
        sender_id: bytes,
        key: bytes,
        kept: bytes,
        save: "Callable[[bytes], object]",
        epoch: int = 1,
        tag_bytes: int = 8,
        size: int = 256,
    ) -> None:
        """`sender_id`: 8 bytes. `epoch`: of the key. `size`: that of the client."""
        self._inner = inner
        self._sender_id = sender_id
        self._epoch = epoch
        self._tag_bytes = tag_bytes
        self._keys = [_derived(key, each, epoch, sender_id) for each in (b"u", b"d")]
        self._save = save
        self._run = urandom(4)
        self._heard = bytearray(size + _AROUND)
        self._series = self._next = 0
        if len(kept) == 6:
            self._series, self._next = unpack_from(">HI", kept)
        self._top = self._first = self._next
        if not self._series:
            self._begin(0)
        self._packet = b""  # the last one
        self._asked = urandom(_TOKEN)
        self._received = self._offered = 0  # series; 0: none is known yet
        self._highest = self._bits = 0
        self.gateways = inner.gateways

    @property
    def index(self) -> int:
        index: int = self._inner.index
        return index

    @index.setter
    def index(self, index: int) -> None:
        self._inner.index = index

    # From the client

    def send(self, frame: bytearray, size: int) -> None:
        packet = self._packet = bytes(memoryview(frame)[:size])
        self._put(packet if self._received else b"\0\1" + self._question(0, 0) + packet)

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        start = ticks_ms()
        while True:
            left = wait_ms - ticks_diff(ticks_ms(), start)
            size = self._inner.receive(self._heard, max(0, left))
            if not size:
                return 0
            packet = self._opened(bytes(memoryview(self._heard)[:size]))
            if packet:
                size = min(len(packet), len(buffer))
                buffer[:size] = packet[:size]
                return size
            if left <= 0:
                return 0

    def next(self) -> None:
        """Another gateway, of which nothing is known."""
        self._inner.next()
        self._received = 0
        self._asked = urandom(_TOKEN)

    def close(self) -> None:
        self._inner.close()

    # Out

    def _put(self, content: bytes) -> None:
        if self._next >= _COUNTER_MAX:
            self._begin(0)  # the gateway says in which series to go on
        if self._series and self._next >= self._top:
            self._reserve()
        code = 1 if self._tag_bytes == 32 else self._tag_bytes // 2
        head = pack(">BBB", 0xFF, code << 4 | 0x0A, 0) + self._sender_id + self._run
        head += pack(">HHI", self._epoch, self._series, self._next)
        self._next += 1
        size = 1 + len(head) + len(content) + self._tag_bytes
        before = pack(">B", size) if size <= 255 else pack(">BH", 1, size + 2)
        datagram = before + head + content
        datagram += _hmac(self._keys[0], datagram)[: self._tag_bytes]
        self._inner.send(bytearray(datagram), len(datagram))

    def _begin(self, series: int) -> None:
        self._series = series
        self._first = self._next = self._top = 1 + (unpack_from(">I", urandom(4))[0] & 0x3FFFFFFF)

    def _reserve(self) -> None:
        self._top = self._next + _BLOCK
        self._save(pack(">HI", self._series, self._top))

    def _question(self, series: int, counter: int) -> bytes:
        if not self._received:
            series = counter = 0
            self._offered = self._offered or 1 + unpack_from(">H", urandom(2))[0] % 0xFFFF
            return self._asked + pack(">HIH", 0, 0, self._offered)
        return self._asked + pack(">HIH", series, counter, 1 + self._received % 0xFFFF)

    # In

    def _opened(self, datagram: bytes) -> bytes:
        """The packet inside, if it is to be looked at."""
        at = 4 if datagram[0] == 1 else 2
        if len(datagram) < at + 2 or datagram[at - 1] != 0xFF or datagram[at + 1]:
            return b""
        size = datagram[0] if at == 2 else datagram[1] << 8 | datagram[2]
        code = datagram[at] >> 4
        # A gateway that has not heard us yet sends tags of 128 bits.
        tag = len(datagram) - (32 if code == 1 else code * 2)
        if size != len(datagram) or tag <= at + 22 or datagram[at] & 15 != 10 or 1 != code < 4:
            return b""
        if datagram[at + 2 : at + 10] != self._sender_id:
            return b""
        wrong = 0
        right = _hmac(self._keys[1], datagram[:tag])
        for place in range(len(datagram) - tag):
            wrong |= right[place] ^ datagram[tag + place]
        epoch, series, counter = unpack_from(">HHI", datagram, at + 14)
        if wrong or epoch != self._epoch:
            return b""
        return self._taken(series, counter, datagram[at + 22 : tag])

    def _taken(self, series: int, counter: int, content: bytes) -> bytes:
        question = answer = b""
        if content[0] == 0:
            flags = content[1] if len(content) > 1 else 0
            at = 2
            if flags & 1:
                question = content[at : at + _QUESTION]
                at += _QUESTION
            if flags & 2:
                answer = content[at : at + _TOKEN]
                at += _TOKEN
            if not flags or flags > 3 or len(content) < at:
                return b""
            content = content[at:]
        is_new = self._is_new(series, counter, answer)
        if is_new is None:
            return b""
        reply = b""
        if question:
            reply = self._reply(question)
        if not is_new:
            asked = self._question(series, counter)
            self._put(pack("BB", 0, 3 if reply else 1) + asked + reply)
            return b""
        if reply:
            self._put(b"\0\2" + reply)
        return content

    def _is_new(self, series: int, counter: int, answer: bytes) -> "bool | None":
        """None for a copy; False if it may be one."""
        if not series:
            return False
        if answer and answer == self._asked:
            wanted = 1 + self._received % 0xFFFF
            if not self._received or series in (self._received, wanted):
                self._received, self._highest, self._bits = series, counter, (1 << _WINDOW) - 1
                self._asked = urandom(_TOKEN)
                return True
        if series != self._received:
            return False
        behind = self._highest - counter
        if behind < 0:
            shift = min(-behind, _WINDOW)
            self._bits = (self._bits << shift | 1) & ((1 << _WINDOW) - 1)
            self._highest = counter
            return True
        if behind >= _WINDOW or self._bits >> behind & 1:
            return None
        self._bits |= 1 << behind
        return True

    def _reply(self, question: bytes) -> bytes:
        """The answer, and the last packet where that was refused."""
        series, counter, new = unpack_from(">HIH", question, _TOKEN)
        if not counter:
            return question[:_TOKEN]
        if series != self._series or not max(self._first, self._next - _RECENT) <= counter:
            return b""
        if counter >= self._next:
            return b""
        packet = self._packet if counter == self._next - 1 else b""
        if new and new != self._series:
            self._begin(new)
        return question[:_TOKEN] + packet


def _hmac(key: bytes, message: bytes) -> bytes:
    """`key`: at most 64 bytes."""
    key += bytes(64 - len(key))
    inside = sha256(bytes(each ^ 0x36 for each in key) + message).digest()
    return sha256(bytes(each ^ 0x5C for each in key) + inside).digest()


def _derived(key: bytes, direction: bytes, epoch: int, sender_id: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), of 32 bytes."""
    info = b"tidegate" + direction + pack(">HB", epoch, 0) + sender_id
    return _hmac(_hmac(bytes(32), key), info + b"\1")

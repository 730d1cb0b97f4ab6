"""Packets that are protected by a key, each in an envelope of MQTT-SN 2.0 (draft, 3.17).

    from mqttsn.protect import Protected

    transport = Protected(Udp(("192.168.1.10", 1883)), sender_id, key, kept, save)
    client = Client(transport, b"greenhouse-3")

A transport around another one. It shows who has sent a packet (HMAC-SHA256), or hides it as well
(AES-CCM, `ccm.py`).

Rules (docs/decisions/0038-protected-packets.md)
- Counters are saved in blocks of _BLOCK before they are used: `save(kept)` writes 6 bytes to the
  flash and returns when they are there. `kept` is what it was given last; b"" where that is lost.
- What is received is known to be new by a question that goes with the first packet, and by a window
  of 32 from then on. The flash has nothing of it.
- A node that sleeps deeply goes on where it was, with what `take` gives for its RTC memory: that
  writes no flash and asks nothing. It has to be gone there before `put_back`, which must not be
  called twice with the same: counters would come again.
- A plain packet is not looked at.

Limits: a packet is 58 bytes shorter than the longest datagram of the transport. A key has at most
64 bytes.
"""

from hashlib import sha256
from os import urandom
from struct import pack, pack_into, unpack_from

try:
    from time import ticks_diff, ticks_ms  # type: ignore[attr-defined]

    from micropython import const
except ImportError:
    from .cpython import const, ticks_diff, ticks_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HMAC_SHA256 = 0x00
AES_CCM_64 = 0x40
AES_CCM_128 = 0x43

_BLOCK = const(1000)
_WINDOW = const(32)
_RECENT = const(8)
_COUNTER_MAX = const(0xFFFFFFFF)
_AROUND = const(58)
_FIELDS = const(">BBB8s4sHHI")
_HEAD = const(24)  # bytes, with a length of one
_TOKEN = const(8)
_QUESTION = const(16)
_STATE = const(">HIIHII4s4s")
_STATE_BYTES = const(28)
_CHECK = const(8)


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
        scheme: int = HMAC_SHA256,
    ) -> None:
        """`sender_id`: 8 bytes. `epoch`: of the key. `tag_bytes`: 8, 16 or 32, of HMAC-SHA256.
        `size`: that of the client. Raises ImportError for AES-CCM where there is no `cryptolib`.
        """
        self._inner = inner
        self._sender_id = sender_id
        self._epoch = epoch
        self._scheme = scheme
        if scheme:
            tag_bytes = 8 if scheme == AES_CCM_64 else 16
        self._tag_bytes = tag_bytes
        self._up, self._down, self._own = [
            _cipher(
                each != b"s" and scheme, _derived(key, each, epoch, scheme, sender_id), tag_bytes
            )
            for each in (b"u", b"d", b"s")
        ]
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
        self._heard_run = b""  # random bytes of the gateway that answered
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
        self._put(b"" if self._received else b"\0\1" + self._question(0, 0), packet)

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        start = ticks_ms()
        while True:
            left = wait_ms - ticks_diff(ticks_ms(), start)
            size = self._inner.receive(self._heard, max(0, left))
            if not size:
                return 0
            packet = self._opened(size)
            if packet:
                size = min(len(packet), len(buffer))
                buffer[:size] = packet[:size]
                return size
            if left <= 0:
                return 0

    def next(self) -> None:
        """Another gateway, of which nothing is known."""
        self._inner.next()
        # In the series of the former one, what that said would be new from this one.
        self._received = self._offered = 0
        self._asked = urandom(_TOKEN)

    def close(self) -> None:
        self._inner.close()

    # Over a deep sleep

    def take(self) -> bytes:
        """36 bytes, which only a node with this key takes back."""
        state = pack(
            _STATE, self._series, self._next, self._top,
            self._received, self._highest, self._bits, self._heard_run, self._run,
        )  # fmt: skip
        return state + self._check_of(state)

    def put_back(self, kept: bytes) -> bool:
        """Before anything is sent. False: there is nothing, and it begins as after a reset."""
        state = bytes(kept[:_STATE_BYTES])
        if len(kept) < _STATE_BYTES + _CHECK:
            return False
        if self._check_of(state) != kept[_STATE_BYTES : _STATE_BYTES + _CHECK]:
            return False
        (
            self._series, self._next, self._top,
            self._received, self._highest, self._bits, self._heard_run, self._run,
        ) = unpack_from(_STATE, state)  # fmt: skip
        self._first = self._next
        return True

    def _check_of(self, state: bytes) -> bytes:
        check: bytes = self._own.mac(state)[:_CHECK]
        return check

    # Out

    def _put(self, before: bytes, packet: bytes) -> None:
        """`before`: question and answer."""
        if self._next >= _COUNTER_MAX:
            self._begin(0)  # the gateway says in which series to go on
        if self._series and self._next >= self._top:
            self._reserve()
        content = len(before) + len(packet)
        size = _HEAD + content + self._tag_bytes
        at = 2
        if size > 255:
            at = 4
            size += 2
        datagram = bytearray(size)
        if at == 2:
            datagram[0] = size
        else:
            pack_into(">BH", datagram, 0, 1, size)
        is_nominal = self._scheme or self._tag_bytes == 32
        code = 1 if is_nominal else self._tag_bytes // 2
        pack_into(
            _FIELDS, datagram, at - 1, 0xFF, code << 4 | 0x0A, self._scheme, self._sender_id,
            self._run, self._epoch, self._series, self._next,
        )  # fmt: skip
        self._next += 1
        at += _HEAD - 2
        datagram[at : at + len(before)] = before
        datagram[at + len(before) : at + content] = packet
        self._up.seal(datagram, at, at + content)
        self._inner.send(datagram, size)

    def _begin(self, series: int) -> None:
        self._series = series
        self._run = urandom(4)  # another gateway may ask for a series that a former one had
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

    def _opened(self, heard: int) -> bytes:
        """The packet inside of so many bytes, if it is to be looked at."""
        datagram = self._heard
        at = 4 if datagram[0] == 1 else 2
        size = datagram[0] if at == 2 else datagram[1] << 8 | datagram[2]
        kind, flags, scheme, sender_id, run, epoch, series, counter = unpack_from(
            _FIELDS, datagram, at - 1
        )
        code = flags >> 4
        tag_bytes = self._tag_bytes
        if not scheme:  # a gateway that has not heard us yet sends tags of 128 bits
            tag_bytes = 32 if code == 1 else code * 2
        at += _HEAD - 2
        if size != heard or size <= at + tag_bytes or kind != 0xFF or flags & 15 != 10:
            return b""
        if code != 1 and (scheme or code < 4):
            return b""
        if (scheme, sender_id, epoch) != (self._scheme, self._sender_id, self._epoch):
            return b""
        end = size - tag_bytes
        if not self._down.open(datagram, at, end, size):
            return b""
        return self._taken(run, series, counter, bytes(memoryview(datagram)[at:end]))

    def _taken(self, run: bytes, series: int, counter: int, content: bytes) -> bytes:
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
        is_new = self._is_new(run, series, counter, answer)
        if is_new is None:
            return b""
        reply = b""
        if question:
            reply = self._reply(question)
        if not is_new:
            asked = self._question(series, counter)
            self._put(pack("BB", 0, 3 if reply else 1) + asked, reply)
            return b""
        if reply:
            self._put(b"\0\2", reply)
        return content

    def _is_new(self, run: bytes, series: int, counter: int, answer: bytes) -> "bool | None":
        """None for a copy; False if it may be one."""
        if not series:
            return False
        if answer and answer == self._asked:
            wanted = 1 + self._received % 0xFFFF
            if not self._received or series in (self._received, wanted):
                self._received, self._highest, self._bits = series, counter, (1 << _WINDOW) - 1
                self._heard_run = run
                self._asked = urandom(_TOKEN)
                return True
        # Two gateways may have a series of the same number: then the run tells them apart.
        is_other = self.gateways > 1 and run != self._heard_run
        if series != self._received or is_other:
            return False
        behind = self._highest - counter
        if behind < 0:
            shift = min(-behind, _WINDOW)
            self._bits = (self._bits << shift | 1) & ((1 << _WINDOW) - 1)
            self._highest = counter
            return True
        if behind >= _WINDOW:  # a gateway that lost its memory may be in that series again
            return False
        if self._bits >> behind & 1:
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


class Hmac:
    """HMAC-SHA256 (RFC 2104) with a key of at most 64 bytes, whose two blocks are made once."""

    def __init__(self, key: bytes, tag_bytes: int = 32) -> None:
        key += bytes(64 - len(key))
        self._inside = bytes(each ^ 0x36 for each in key)
        self._outside = bytes(each ^ 0x5C for each in key)
        self._tag_bytes = tag_bytes

    def mac(self, message: "bytes | bytearray | memoryview") -> bytes:
        inside = sha256(self._inside)
        inside.update(message)
        outside = sha256(self._outside)
        outside.update(inside.digest())
        return outside.digest()

    def seal(self, datagram: bytearray, at: int, end: int) -> None:
        """In its place: the packet is at `at`, and the tag comes behind `end`."""
        tag = self.mac(memoryview(datagram)[:end])
        datagram[end : end + self._tag_bytes] = tag[: self._tag_bytes]

    def open(self, datagram: bytearray, at: int, end: int, size: int) -> bool:
        """Whether the tag is right, which goes from `end` to `size`; the packet is in its place."""
        return same(self.mac(memoryview(datagram)[:end]), datagram, end, size)


def same(right: bytes, datagram: bytearray, end: int, size: int) -> bool:
    """It takes as long wherever they differ."""
    wrong = 0
    for at in range(end, size):
        wrong |= right[at - end] ^ datagram[at]
    return not wrong


def _cipher(scheme: int, key: bytes, tag_bytes: int) -> "Any":
    if scheme:
        from .ccm import Ccm  # seldom wanted

        return Ccm(key[:16], tag_bytes, same)
    return Hmac(key, tag_bytes)


def _derived(key: bytes, direction: bytes, epoch: int, scheme: int, sender_id: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869), of 32 bytes."""
    info = b"tidegate" + direction + pack(">HB", epoch, scheme) + sender_id
    return Hmac(Hmac(bytes(32)).mac(key)).mac(info + b"\1")

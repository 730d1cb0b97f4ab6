"""How messages go over a serial line, written a second time and as plainly as can be.

A sensor of the tests speaks with these, so that a mistake in `framing` cannot hide behind the
same mistake here. Damage is dropped without a word, as small boards do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

Kind = Literal["hdlc", "slip", "raw"]


class LineFraming(ABC):
    def __init__(self) -> None:
        self.held = bytearray()

    @abstractmethod
    def wrap(self, message: bytes) -> bytes: ...

    @abstractmethod
    def feed(self, octets: bytes) -> list[bytes]: ...


def fcs(message: bytes) -> bytes:
    register = 0xFFFF
    for octet in message:
        register ^= octet
        for _ in range(8):
            register = register >> 1 ^ 0x8408 if register & 1 else register >> 1
    register ^= 0xFFFF
    return bytes((register & 0xFF, register >> 8))


class Hdlc(LineFraming):
    def wrap(self, message: bytes) -> bytes:
        line = bytearray(b"\x7e")
        for octet in message + fcs(message):
            if octet in b"\x7e\x7d\x01\x02\x03\x04\x11\x13":
                line += bytes((0x7D, octet ^ 0x20))
            else:
                line.append(octet)
        return bytes(line + b"\x7e")

    def feed(self, octets: bytes) -> list[bytes]:
        messages = []
        for octet in octets:
            if octet != 0x7E:
                self.held.append(octet)
                continue
            frame, self.held = self._plain(), bytearray()
            if len(frame) > 3 and fcs(frame[:-2]) == frame[-2:]:
                messages.append(frame[:-2])
        return messages

    def _plain(self) -> bytes:
        plain, is_escaped = bytearray(), False
        for octet in self.held:
            if octet == 0x7D and not is_escaped:
                is_escaped = True
                continue
            plain.append(octet ^ 0x20 if is_escaped else octet)
            is_escaped = False
        return b"" if is_escaped else bytes(plain)


class Slip(LineFraming):
    def wrap(self, message: bytes) -> bytes:
        escaped = message.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
        return b"\xc0" + escaped + b"\xc0"

    def feed(self, octets: bytes) -> list[bytes]:
        *whole, rest = (bytes(self.held) + octets).split(b"\xc0")
        self.held = bytearray(rest)
        plain = [each.replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb") for each in whole]
        return [each for each in plain if each]


class Raw(LineFraming):
    def wrap(self, message: bytes) -> bytes:
        return message

    def feed(self, octets: bytes) -> list[bytes]:
        self.held += octets
        messages = []
        while (length := self._length(0)) is not None and len(self.held) >= length:
            messages.append(bytes(self.held[:length]))
            del self.held[:length]
        return messages

    def _length(self, at: int) -> int | None:
        """Of an envelope (1.2, 5.5) with what is in it, whose length it does not count."""
        head = self.held[at : at + 4]
        if len(head) < (4 if head[:1] == b"\x01" else 2):
            return None
        if head[0] == 1:
            return int.from_bytes(head[1:3], "big")
        if head[1] != 0xFE:
            return head[0]
        inner = self._length(at + head[0])
        return None if inner is None else head[0] + inner


def line_framing(kind: Kind) -> LineFraming:
    kinds: dict[Kind, Callable[[], LineFraming]] = {"hdlc": Hdlc, "slip": Slip, "raw": Raw}
    return kinds[kind]()

"""How messages go over a serial line, written a second time and as plainly as can be.

A sensor of the tests speaks with these, so that a mistake in `gateway.lines` cannot hide behind the
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
        while len(self.held) >= 3:
            length = int.from_bytes(self.held[1:3], "big") if self.held[0] == 1 else self.held[0]
            if len(self.held) < length:
                break
            messages.append(bytes(self.held[:length]))
            del self.held[:length]
        if len(self.held) == 2 and self.held[0] == 2:
            messages.append(bytes(self.held))
            self.held.clear()
        return messages


def line_framing(kind: Kind) -> LineFraming:
    kinds: dict[Kind, Callable[[], LineFraming]] = {"hdlc": Hdlc, "slip": Slip, "raw": Raw}
    return kinds[kind]()

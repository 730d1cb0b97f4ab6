"""DTLS 1.2 records as far as they are read before a session is known (RFC 6347, 4.1 and 4.2).

Pure, and without state: what answers a ClientHello that has no cookie is here, so that one from a
spoofed address costs an answer of 44 bytes and no memory. Whatever the bytes are, nothing here
raises.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2s
from hmac import compare_digest

RECORD_HEAD_BYTES = 13
HANDSHAKE_HEAD_BYTES = 12
# A record's content (RFC 6347, 4.1.1), beyond which an application message cannot be sent.
CONTENT_BYTES_MAX = 1 << 14
# The most that a record of a suite here adds: 13 of its head, 8 of a nonce, 16 of a tag.
RECORD_OVERHEAD_BYTES = 37
COOKIE_BYTES = 16
COOKIE_S = 60.0  # a cookie is good for so long at least, and twice as long at most

HANDSHAKE = 22
APPLICATION_DATA = 23
CONTENT_TYPES = range(20, 24)
CLIENT_HELLO, HELLO_VERIFY_REQUEST, CLIENT_KEY_EXCHANGE = 1, 3, 16

_RECORD = struct.Struct(">BHHHIH")  # type, version, epoch, sequence number (2 + 4 bytes), length
_VERSION = b"\xfe\xff"  # of HelloVerifyRequest, also where DTLS 1.2 is spoken (4.2.1)
_VERSIONS = (0xFEFF, 0xFEFD)
_VERSION_AND_RANDOM = 2 + 32


@dataclass(frozen=True, slots=True)
class Hello:
    """A ClientHello. `sequence`: that of its record, 6 bytes; `message` counts those of the
    handshake.
    """

    random: bytes
    cookie: bytes
    sequence: bytes
    message: int


def epoch_of(datagram: bytes) -> int | None:
    """Of the first record; None for what is no record of DTLS 1.0 or 1.2."""
    if len(datagram) <= RECORD_HEAD_BYTES:
        return None
    kind, version, epoch = datagram[0], datagram[1:3], datagram[4] | datagram[3] << 8
    if kind not in CONTENT_TYPES or (version != b"\xfe\xfd" and version != _VERSION):
        return None
    return epoch


def is_one_record(datagram: bytes) -> bool:
    return len(datagram) == RECORD_HEAD_BYTES + (datagram[11] << 8 | datagram[12])


def is_hello(datagram: bytes) -> bool:
    """Whether it begins with a ClientHello in the clear, whole or not."""
    return (
        len(datagram) > RECORD_HEAD_BYTES
        and datagram[0] == HANDSHAKE
        and datagram[RECORD_HEAD_BYTES] == CLIENT_HELLO
        and datagram[3:5] == b"\x00\x00"
    )


def hello_of(datagram: bytes) -> Hello | None:
    """None for one that is cut, damaged or in fragments: to put those together would need memory
    before the address is known to be real.
    """
    body = next((each for kind, each in _messages(datagram) if kind == CLIENT_HELLO), None)
    if body is None or len(body) < _VERSION_AND_RANDOM + 2:
        return None
    session_end = _VERSION_AND_RANDOM + 1 + body[_VERSION_AND_RANDOM]
    if len(body) <= session_end:
        return None
    cookie_end = session_end + 1 + body[session_end]
    if len(body) < cookie_end + 2:  # the length of the suites
        return None
    return Hello(
        random=body[2:_VERSION_AND_RANDOM],
        cookie=body[session_end + 1 : cookie_end],
        sequence=datagram[5:11],
        message=int.from_bytes(datagram[17:19], "big"),
    )


def psk_identity_of(datagram: bytes) -> bytes | None:
    """What a ClientKeyExchange in it names (RFC 4279, 2; RFC 5489, 2); None without any."""
    for kind, body in _messages(datagram):
        if kind == CLIENT_KEY_EXCHANGE and len(body) >= 2:
            size = int.from_bytes(body[:2], "big")
            return body[2 : 2 + size] if len(body) >= 2 + size else None
    return None


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole messages of a handshake in the clear, as (type, body), of all records of a datagram."""
    at = 0
    while at + RECORD_HEAD_BYTES <= len(datagram):
        kind, version, epoch, _, _, size = _RECORD.unpack_from(datagram, at)
        start, at = at + RECORD_HEAD_BYTES, at + RECORD_HEAD_BYTES + size
        if version not in _VERSIONS or at > len(datagram):
            return
        if kind == HANDSHAKE and not epoch:
            yield from _messages_of_record(datagram[start:at])


def _messages_of_record(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + HANDSHAKE_HEAD_BYTES <= len(content):
        size = int.from_bytes(content[at + 1 : at + 4], "big")
        offset = content[at + 6 : at + 9]
        here = int.from_bytes(content[at + 9 : at + 12], "big")
        start, end = at + HANDSHAKE_HEAD_BYTES, at + HANDSHAKE_HEAD_BYTES + here
        if end > len(content):
            return
        if here == size and offset == b"\x00\x00\x00":
            yield content[at], content[start:end]
        at = end


def hello_verify_request(hello: Hello, cookie: bytes) -> bytes:
    """Its record has the number of the ClientHello's (RFC 6347, 4.2.1)."""
    body = _VERSION + bytes((len(cookie),)) + cookie
    size = len(body).to_bytes(3, "big")
    message = (
        bytes((HELLO_VERIFY_REQUEST,)) + size + hello.message.to_bytes(2, "big") + bytes(3) + size
    )
    content_size = (len(message) + len(body)).to_bytes(2, "big")
    return b"\x16" + _VERSION + bytes(2) + hello.sequence + content_size + message + body


class Cookies:
    """A cookie is a MAC over an address and the client's random bytes: it shows that who sent it
    receives at that address, and nothing is kept for it.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def cookie(self, address: bytes, hello: Hello, now: float) -> bytes:
        return self._of(address, hello.random, int(now // COOKIE_S))

    def is_valid(self, address: bytes, hello: Hello, now: float) -> bool:
        if len(hello.cookie) != COOKIE_BYTES:
            return False
        period = int(now // COOKIE_S)
        latest = self._of(address, hello.random, period)
        return compare_digest(hello.cookie, latest) or compare_digest(
            hello.cookie, self._of(address, hello.random, period - 1)
        )

    def _of(self, address: bytes, random: bytes, period: int) -> bytes:
        content = random + (period & 0xFFFF_FFFF).to_bytes(4, "big") + address
        return blake2s(content, key=self._secret, digest_size=COOKIE_BYTES).digest()


def datagrams_of(flight: bytes, bytes_max: int) -> list[bytes]:
    """A flight, record behind record, in datagrams of at most so many bytes; a record alone may be
    longer.
    """
    found: list[bytes] = []
    start = at = 0
    while at + RECORD_HEAD_BYTES <= len(flight):
        end = at + RECORD_HEAD_BYTES + (flight[at + 11] << 8 | flight[at + 12])
        if end - start > bytes_max and at > start:
            found.append(flight[start:at])
            start = at
        at = end
    if start < len(flight):
        found.append(flight[start:])
    return found

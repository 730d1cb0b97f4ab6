"""AES-CCM (RFC 3610) for protected packets, on boards that have `cryptolib`: it hides them too.

Two calls of the port do the work: CBC for the tag, ECB for the key stream. The nonce has 13 bytes
and is the hash of the head (MQTT-SN 2.0 draft, 3.17), so no head may come twice with one key.
"""

from hashlib import sha256
from struct import pack_into

try:
    from micropython import const
except ImportError:
    from .cpython import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ECB = const(1)
_CBC = const(2)
_BLOCK = const(16)
_NONCE = const(13)


class Ccm:
    """Raises ImportError where the port has no `cryptolib`."""

    def __init__(self, key: bytes, tag_bytes: int, same: "Any") -> None:
        """`key`: 16 bytes. `same`: see protect.py."""
        from cryptolib import aes  # not every board has it

        self._aes: Any = aes
        self._key = key
        self._tag_bytes = tag_bytes
        self._same = same

    def seal(self, datagram: bytearray, at: int, end: int) -> None:
        """In its place: the packet is at `at`, and the tag comes behind `end`."""
        nonce = self._nonce(datagram, at)
        datagram[end : end + self._tag_bytes] = self._mac(nonce, datagram, at, end)
        self._crypt(nonce, datagram, at, end)

    def open(self, datagram: bytearray, at: int, end: int, size: int) -> bool:
        """Whether the tag is right, which goes from `end` to `size`; the packet is in its place."""
        nonce = self._nonce(datagram, at)
        self._crypt(nonce, datagram, at, end)
        return bool(self._same(self._mac(nonce, datagram, at, end), datagram, end, size))

    def _nonce(self, datagram: bytearray, at: int) -> bytes:
        return sha256(memoryview(datagram)[:at]).digest()[:_NONCE]

    def _mac(self, nonce: bytes, datagram: bytearray, at: int, end: int) -> bytes:
        """CBC-MAC of all (RFC 3610, 2.2)."""
        first = 1 + 8 * ((self._tag_bytes - 2) // 2) + 64
        known = -(at + 2) % _BLOCK  # zeros behind each part
        blocks = bytearray(_BLOCK + 2 + at + known + end - at + -(end - at) % _BLOCK)
        pack_into(">B13sHH", blocks, 0, first, nonce, end - at, at)
        blocks[_BLOCK + 2 : _BLOCK + 2 + at] = memoryview(datagram)[:at]
        behind = _BLOCK + 2 + at + known
        blocks[behind : behind + end - at] = memoryview(datagram)[at:end]
        self._aes(self._key, _CBC, bytes(_BLOCK)).encrypt(blocks, blocks)
        return bytes(memoryview(blocks)[-_BLOCK:])[: self._tag_bytes]

    def _crypt(self, nonce: bytes, datagram: bytearray, at: int, end: int) -> None:
        """Packet and tag, either way (2.3); the first block of the key stream is the tag's."""
        stream = bytearray((1 + (end - at + 15) // _BLOCK) * _BLOCK)
        for number in range(len(stream) // _BLOCK):
            pack_into(">B13sH", stream, number * _BLOCK, 1, nonce, number)
        self._aes(self._key, _ECB).encrypt(stream, stream)
        _xor(datagram, at, end, stream, _BLOCK)
        _xor(datagram, end, end + self._tag_bytes, stream, 0)


def _xor(datagram: bytearray, at: int, end: int, stream: bytearray, start: int) -> None:
    """As numbers: a loop over bytes takes a board twenty times as long."""
    size = end - at
    number = int.from_bytes(memoryview(stream)[start : start + size], "big")
    number ^= int.from_bytes(memoryview(datagram)[at:end], "big")
    datagram[at:end] = number.to_bytes(size, "big")

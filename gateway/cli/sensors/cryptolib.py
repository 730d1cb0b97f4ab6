"""MicroPython's `cryptolib` on CPython: of AES what the library of the nodes calls for AES-CCM."""

from __future__ import annotations

import sys
from types import ModuleType

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

_CBC = 2  # MicroPython's number; 1 is ECB


class Aes:
    def __init__(self, key: bytes, mode: int, start: bytes = b"") -> None:
        by: modes.Mode = modes.CBC(start) if mode == _CBC else modes.ECB()
        self._cipher: CipherContext = Cipher(algorithms.AES(key), by).encryptor()  # type: ignore[misc]

    def encrypt(self, blocks: bytearray, into: bytearray) -> None:
        into[:] = self._cipher.update(bytes(blocks))


def install() -> None:
    """Where the library finds it, unless there is one."""
    if "cryptolib" not in sys.modules:
        module = ModuleType("cryptolib")
        module.aes = Aes  # type: ignore[attr-defined]
        sys.modules["cryptolib"] = module

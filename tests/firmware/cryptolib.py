"""MicroPython's `cryptolib` for tests on CPython: of AES what the library calls."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

pytest.importorskip("cryptography", reason="not run: the package cryptography is not installed")

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

ECB, CBC = 1, 2


class aes:  # noqa: N801, its name there
    def __init__(self, key: bytes, mode: int, start: bytes = b"") -> None:
        by: modes.Mode = modes.CBC(start) if mode == CBC else modes.ECB()
        self._cipher: CipherContext = Cipher(algorithms.AES(key), by).encryptor()  # type: ignore[misc]

    def encrypt(self, blocks: bytearray, into: bytearray) -> None:
        into[:] = self._cipher.update(bytes(blocks))


@pytest.fixture
def cryptolib(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("cryptolib")
    module.aes = aes  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cryptolib", module)

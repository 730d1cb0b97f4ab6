"""A DTLS client on pyOpenSSL, without a socket: what is to be sent comes out, what came goes in.

`DtlsSocket` is the same in front of a UDP socket, with the methods of one that the scripted client
uses, so that all of its conversations go over DTLS.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from OpenSSL import SSL

_lib: Any = SSL._lib  # type: ignore[attr-defined]
_ffi: Any = SSL._ffi  # type: ignore[attr-defined]
GCM = "PSK-AES128-GCM-SHA256"
RECORD_HEAD_BYTES = 13


class DtlsClient:
    """`key`: what is shared; or `certificate` with its own key."""

    def __init__(
        self,
        name: str = "",
        key: bytes = b"",
        *,
        suites: str = GCM,
        certificate: tuple[x509.Certificate, EllipticCurvePrivateKey] | None = None,
        mtu: int = 1200,
    ) -> None:
        context = SSL.Context(SSL.DTLS_CLIENT_METHOD)
        context.set_options(SSL.OP_NO_QUERY_MTU)
        if certificate is not None:
            context.use_certificate(certificate[0])
            context.use_privatekey(certificate[1])
        if key:
            context.set_cipher_list(f"{suites}:@SECLEVEL=0".encode())

            def psk(
                _ssl: Any, _hint: Any, to: Any, _room: int, secret: Any, _secret_room: int
            ) -> int:
                named = name.encode() + b"\0"
                _ffi.memmove(to, named, len(named))
                _ffi.memmove(secret, key, len(key))
                return len(key)

            self._callback = _ffi.callback(
                "unsigned int(SSL *, const char *, char *, unsigned int, unsigned char *, "
                "unsigned int)",
                psk,
            )
            _lib.SSL_CTX_set_psk_client_callback(context._context, self._callback)
        self.connection = SSL.Connection(context)
        self.connection.set_connect_state()
        self.connection.set_ciphertext_mtu(mtu)
        self.is_open = False
        self.problem: str | None = None

    def begin(self) -> list[bytes]:
        return self.receive(None)

    def receive(self, datagram: bytes | None) -> list[bytes]:
        """What it answers while the handshake is under way."""
        if datagram is not None:
            self.connection.bio_write(datagram)
        try:
            self.connection.do_handshake()
            self.is_open = True
        except SSL.WantReadError:
            pass
        except SSL.Error as error:
            self.problem = str(error)
        return self.outgoing()

    def outgoing(self) -> list[bytes]:
        try:
            flight = self.connection.bio_read(1 << 17)
        except SSL.WantReadError:
            return []
        found, at = [], 0
        while at < len(flight):
            end = at + RECORD_HEAD_BYTES + int.from_bytes(flight[at + 11 : at + 13], "big")
            found.append(flight[at:end])
            at = end
        return found

    def sealed(self, message: bytes) -> bytes:
        self.connection.send(message)
        (record,) = self.outgoing()
        return record

    def opened(self, datagram: bytes) -> bytes | None:
        self.connection.bio_write(datagram)
        with contextlib.suppress(SSL.WantReadError, SSL.ZeroReturnError):
            return self.connection.recv(1 << 16)
        return None

    @property
    def is_ended(self) -> bool:
        """Whether the gateway has said close_notify."""
        return bool(self.connection.get_shutdown() & SSL.RECEIVED_SHUTDOWN)

    def close(self) -> list[bytes]:
        with contextlib.suppress(SSL.Error):
            self.connection.shutdown()
        return self.outgoing()


class DtlsSocket:
    """A connected UDP socket with DTLS; the handshake comes first, and repeats itself."""

    def __init__(
        self, client: DtlsClient, plain: socket.socket, *, timeout_s: float = 30.0
    ) -> None:
        self.client, self.plain = client, plain
        self._timeout_s: float | None = timeout_s
        self._shake_hands(timeout_s)

    def _shake_hands(self, timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        outgoing = self.client.begin()
        while not self.client.is_open:
            for each in outgoing:
                self.plain.send(each)
            assert time.monotonic() < until, "no handshake"
            assert self.client.problem is None, self.client.problem
            wait_s = self.client.connection.DTLSv1_get_timeout()
            if select.select([self.plain], [], [], 1.0 if wait_s is None else wait_s)[0]:
                outgoing = self.client.receive(self.plain.recv(1 << 16))
            else:
                self.client.connection.DTLSv1_handle_timeout()
                outgoing = self.client.outgoing()
        for each in outgoing:
            self.plain.send(each)

    def sealed(self, message: bytes) -> bytes:
        return self.client.sealed(message)

    def send(self, message: bytes) -> None:
        self.plain.send(self.sealed(message))

    def recv(self, _size: int) -> bytes:
        while True:
            message = self.client.opened(self.plain.recv(1 << 16))
            for each in self.client.outgoing():  # the end of a handshake, repeated
                self.plain.send(each)
            if message is not None:
                return message
            if self.client.is_ended:
                raise ConnectionResetError

    def fileno(self) -> int:
        return self.plain.fileno()

    def settimeout(self, seconds: float | None) -> None:
        self.plain.settimeout(seconds)

    def close(self) -> None:
        for each in self.client.close():
            with contextlib.suppress(OSError):
                self.plain.send(each)
        self.plain.close()

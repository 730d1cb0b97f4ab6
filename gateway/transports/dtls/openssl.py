"""OpenSSL as pyOpenSSL brings it, in memory: contexts, and one association for each peer.

pyOpenSSL's public interface has no pre-shared keys, so their callback goes through the binding
below it (`SSL._lib`), and so does each record of an open session, for which pyOpenSSL's own methods
cost twice as much. What is used of the binding is looked for at the import, so that another version
is refused at the start and not at the first handshake.

An association is fed a datagram and asked what came of it before it is fed another one: memory has
no ends of datagrams. Nothing here knows of addresses, limits or time, but for OpenSSL's own
retransmission timers.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto

from gateway.config.patterns import matches
from gateway.transports.dtls.options import CertificateFiles
from gateway.transports.dtls.records import CONTENT_BYTES_MAX
from gateway.transports.errors import LinkError

_lib: Any = SSL._lib  # type: ignore[attr-defined]
_ffi: Any = SSL._ffi  # type: ignore[attr-defined]

_NEEDED = (
    *("SSL_CTX_set_psk_server_callback", "SSL_CTX_set_min_proto_version", "SSL_read", "SSL_write"),
    *("SSL_CTX_set_cookie_generate_cb", "SSL_CTX_set_cookie_verify_cb"),
    *("SSL_CTX_set_max_proto_version", "BIO_read", "BIO_write", "ERR_clear_error"),
)
_DTLS_1_2 = 0xFEFD

# Authenticated encryption alone. CCM8 has a tag of 64 bits, for which OpenSSL wants level 0; what
# else that would allow is not in the list, and has no certificates.
PSK_SUITES = (
    "ECDHE-PSK-CHACHA20-POLY1305:PSK-AES128-GCM-SHA256:PSK-AES256-GCM-SHA384:"
    "PSK-CHACHA20-POLY1305:PSK-AES128-CCM:PSK-AES256-CCM:PSK-AES128-CCM8:PSK-AES256-CCM8"
    ":@SECLEVEL=0"
)
CERTIFICATE_SUITES = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:"
    "ECDHE-ECDSA-AES128-CCM:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-CHACHA20-POLY1305"
)

PskOf = Callable[[bytes], bytes | None]

# Callbacks are those of ctypes: cffi's need memory that can be written and executed, which
# MemoryDenyWriteExecute= of the service forbids. So does a callback of pyOpenSSL's own.
_PSK_TYPE = "unsigned int(*)(SSL *, const char *, unsigned char *, unsigned int)"
_PSK: Any = ctypes.CFUNCTYPE(
    ctypes.c_uint, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint
)
_COOKIE_TYPE = "int(*)(SSL *, unsigned char *, unsigned int *)"
_CHECK_TYPE = "int(*)(SSL *, const unsigned char *, unsigned int)"

_BUFFER_BYTES = 1 << 17
_buffer = _ffi.new("unsigned char[]", _BUFFER_BYTES)
_memory = _ffi.buffer(_buffer)


def _new_cookie(_: object, __: object, size: Any) -> int:
    size[0] = 1
    return 1


# What comes to OpenSSL has shown a cookie already (records.py).
_NEW_COOKIE: Any = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint)
)(_new_cookie)
_ANY_COOKIE: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)(
    lambda *_: 1
)


class Progress(enum.Enum):
    """Of a handshake."""

    WAITS = "waits"
    DONE = "done"
    FAILED = "failed"


class Contexts:
    """What new handshakes are made with. `is_allowed`: whether the subject of a certificate that
    was verified may come in. `is_revoked`: whether one is, of a session that is there.
    """

    def __init__(
        self,
        context: SSL.Context,
        is_allowed: Callable[[str], bool] = bool,
        *,
        is_revoked: Callable[[x509.Certificate], bool] = lambda _: False,
        keep_alive: object = None,
    ) -> None:
        self.context = context
        self.is_allowed = is_allowed
        self.is_revoked = is_revoked
        self._keep_alive = keep_alive  # a callback that OpenSSL has only the address of


def check_binding() -> None:
    """Raises LinkError where the installed pyOpenSSL or cryptography is not as it is used here."""
    missing = [name for name in _NEEDED if not hasattr(_lib, name)]
    if missing or not getattr(_lib, "Cryptography_HAS_PSK", 0):
        name = ", ".join(missing) or "pre-shared keys"
        raise LinkError(f"the installed pyOpenSSL and cryptography have no {name} for DTLS")


def psk_contexts(psk_of: PskOf) -> Contexts:
    """`psk_of` gives the key of an identity, None for one that is not known."""
    check_binding()

    def psk(_: object, name: bytes | None, room: int, room_bytes: int) -> int:
        secret = None if name is None else psk_of(name)
        if not secret or len(secret) > room_bytes:
            return 0  # which is the alert unknown_psk_identity
        ctypes.memmove(room, secret, len(secret))
        return len(secret)

    callback = _PSK(psk)
    context = _context(PSK_SUITES)
    _lib.SSL_CTX_set_psk_server_callback(context._context, _cast(_PSK_TYPE, callback))
    return Contexts(context, keep_alive=callback)


def certificate_contexts(files: CertificateFiles) -> Contexts:
    """Raises LinkError with what is wrong with a file."""
    check_binding()
    chain = _certificates("dtls.certificate", files.certificate)
    try:
        key = serialization.load_pem_private_key(files.key, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise LinkError(
            "dtls.key holds no private key in PEM form that can be read without a password"
        ) from None  # whose text may have a part of it
    context = _context(CERTIFICATE_SUITES)
    context.use_certificate(chain[0])
    for each in chain[1:]:
        context.add_extra_chain_cert(each)
    try:
        context.use_privatekey(key)  # type: ignore[arg-type]
        context.check_privatekey()
    except (SSL.Error, TypeError):
        raise LinkError("dtls.key does not belong to dtls.certificate") from None
    store = context.get_cert_store()
    assert store is not None
    for each in _certificates("dtls.ca", files.ca):
        store.add_cert(crypto.X509.from_cryptography(each))
    revoked = None if files.crl is None else _revoked(files.crl)
    if revoked is not None:
        store.add_crl(revoked)
        store.set_flags(crypto.X509StoreFlags.CRL_CHECK)
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)

    def is_revoked(certificate: x509.Certificate) -> bool:
        if revoked is None or revoked.issuer != certificate.issuer:
            return False
        return (
            revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
        )

    return Contexts(context, partial(is_one_of, tuple(files.allow)), is_revoked=is_revoked)


def _context(suites: str) -> SSL.Context:
    context = SSL.Context(SSL.DTLS_SERVER_METHOD)
    _lib.SSL_CTX_set_min_proto_version(context._context, _DTLS_1_2)
    _lib.SSL_CTX_set_max_proto_version(context._context, _DTLS_1_2)
    context.set_cipher_list(suites.encode())
    context.set_options(
        SSL.OP_NO_QUERY_MTU | SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION
    )
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_mode(_lib.SSL_MODE_RELEASE_BUFFERS)
    _lib.SSL_CTX_set_cookie_generate_cb(context._context, _cast(_COOKIE_TYPE, _NEW_COOKIE))
    _lib.SSL_CTX_set_cookie_verify_cb(context._context, _cast(_CHECK_TYPE, _ANY_COOKIE))
    return context


def _cast(kind: str, callback: Any) -> Any:
    return _ffi.cast(kind, ctypes.cast(callback, ctypes.c_void_p).value)


def _certificates(key: str, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise LinkError(f"{key} holds no certificate in PEM form, or a damaged one") from None


def _revoked(pem: bytes) -> x509.CertificateRevocationList:
    try:
        return x509.load_pem_x509_crl(pem)
    except ValueError:
        raise LinkError("dtls.crl holds no revocation list in PEM form") from None


def ends_at(pem: bytes) -> datetime | None:
    """When the first certificate in it is no longer valid; None for what is none."""
    with suppress(ValueError):
        return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc
    return None


def subject_of(certificate: x509.Certificate) -> str:
    """Its common name, else the first of its alternative names; nothing without any."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if names:
        return str(names[0].value)
    with suppress(x509.ExtensionNotFound, ValueError):
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return next((str(each.value) for each in found.value), "")
    return ""


def is_one_of(allow: Iterable[str], subject: str) -> bool:
    """Whether a pattern fits, or there is none."""
    patterns = tuple(allow)
    return bool(subject) and (not patterns or any(matches(each, subject) for each in patterns))


class Association:
    """One peer's DTLS, in either state. No call raises."""

    __slots__ = ("_connection", "_from_ssl", "_into_ssl", "_ssl")

    def __init__(self, contexts: Contexts, mtu: int) -> None:
        connection = SSL.Connection(contexts.context)
        connection.set_accept_state()
        connection.set_ciphertext_mtu(mtu)
        self._connection = connection
        self._ssl: Any = connection._ssl
        self._into_ssl: Any = connection._into_ssl
        self._from_ssl: Any = connection._from_ssl

    # While it is made

    def listen(self, hello: bytes) -> bool:
        """Takes the ClientHello whose cookie was valid; whether OpenSSL reads it as one as well."""
        self.feed(hello)
        try:
            self._connection.DTLSv1_listen()
        except SSL.Error:
            return False
        return True

    def feed(self, datagram: bytes) -> None:
        _lib.BIO_write(self._into_ssl, datagram, len(datagram))

    def handshake(self) -> Progress:
        """As far as it goes with what was fed."""
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            return Progress.WAITS
        except SSL.Error:
            return Progress.FAILED
        return Progress.DONE

    def timeout_s(self) -> float | None:
        """Until `handle_timeout`."""
        return self._connection.DTLSv1_get_timeout()

    def handle_timeout(self) -> bool:
        """Sends again what was not answered; False when it was sent too often."""
        try:
            self._connection.DTLSv1_handle_timeout()
        except SSL.Error:
            return False
        return True

    # When it is there

    def read(self) -> bytes | None:
        """The next message of what was fed; None without one. What is forged, repeated or damaged
        is dropped by OpenSSL, without a word.
        """
        size: int = _lib.SSL_read(self._ssl, _buffer, CONTENT_BYTES_MAX)
        if size > 0:
            return bytes(_memory[:size])
        _lib.ERR_clear_error()
        return None

    def sealed(self, message: bytes) -> bytes | None:
        """The record that carries a message; None for one that is too long, or after an end."""
        if _lib.SSL_write(self._ssl, message, len(message)) <= 0:
            _lib.ERR_clear_error()
            return None
        size: int = _lib.BIO_read(self._from_ssl, _buffer, _BUFFER_BYTES)
        return bytes(_memory[:size]) if size > 0 else None

    @property
    def is_ended(self) -> bool:
        """Whether the peer has said close_notify, or a fatal alert."""
        return bool(self._connection.get_shutdown() & SSL.RECEIVED_SHUTDOWN)

    def close(self) -> bytes:
        """The record with close_notify."""
        with suppress(SSL.Error):
            self._connection.shutdown()
        return self.outgoing()

    # In either state

    def outgoing(self) -> bytes:
        """What OpenSSL wants to be sent, record behind record."""
        size: int = _lib.BIO_read(self._from_ssl, _buffer, _BUFFER_BYTES)
        return bytes(_memory[:size]) if size > 0 else b""

    def certificate(self) -> x509.Certificate | None:
        """The peer's."""
        return self._connection.get_peer_certificate(as_cryptography=True)

    def subject(self) -> str:
        """Of the peer's certificate; nothing without one."""
        certificate = self.certificate()
        return "" if certificate is None else subject_of(certificate)

    def suite(self) -> str:
        return self._connection.get_cipher_name() or ""

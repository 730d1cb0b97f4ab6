"""TLS towards the broker: version 1.2 or newer, certificate and host name always verified.

All three are Python's own defaults for a client. There is no switch to turn verification off: with
it off, anyone on the way reads the password. A pinned certificate (upstream.fingerprints) without
ca_file takes the place of authority and name; it is compared before anything is sent.

The status page is the other side: one context for all connections, whose certificate is changed
while the page listens (`PageTls`).
"""

from __future__ import annotations

import hmac
import ssl
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from gateway.config.regular_file import read_regular
from gateway.config.settings import UpstreamSettings
from gateway.host.causes import brief
from gateway.transports.errors import LinkError

__all__ = ["LinkError", "PageTls", "broker_context", "client_context", "is_pinned"]

# A file of certificates is some kilobytes; all authorities of a system together are 200 KiB.
FILE_BYTES_MAX = 4 << 20
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_TRUSTED_CERTIFICATE = b"-----BEGIN TRUSTED CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"
_DER = b"\x30\x82"  # a SEQUENCE of 256 bytes to 64 KiB


_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def broker_context(upstream: UpstreamSettings) -> ssl.SSLContext:
    """As `[upstream]` says. Raises LinkError with the file and what is wrong with it."""
    context = client_context(upstream.ca_file, upstream.cert_file, upstream.key_file)
    context.minimum_version = _VERSIONS[upstream.tls_min]
    if upstream.alpn:
        context.set_alpn_protocols(list(upstream.alpn))
    if upstream.fingerprints and upstream.ca_file is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the fingerprint is what is verified: `is_pinned`
    return context


def is_pinned(certificate: bytes | None, fingerprints: Sequence[str]) -> bool:
    """Whether the certificate (DER) is one of those of which these are the SHA-256."""
    found = sha256(certificate or b"").hexdigest()
    return any(hmac.compare_digest(found, one) for one in fingerprints)


def client_context(
    ca_file: str | Path | None, cert_file: str | Path | None, key_file: str | Path | None
) -> ssl.SSLContext:
    """Raises LinkError with the file and what is wrong with it.

    Without ca_file the system's authorities are trusted. The key may be in cert_file.
    """
    "".encode("idna")  # imported now: the handshake, in the event loop, must not wait for a disk
    context = ssl.create_default_context() if ca_file is None else _trusting(Path(ca_file))
    # Python 3.13 sets it: the usual home-made authority, which names no key usage, would be refused
    # after an upgrade of the system. Names, dates and signatures are verified all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # Python's own default, but not that of Debian's Python, which leaves it to OpenSSL.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file is not None:
        _present(context, Path(cert_file), Path(key_file or cert_file))
    elif key_file is not None:
        raise LinkError(f"key_file {key_file} is of no use without cert_file: give both or neither")
    return context


def _trusting(ca_file: Path) -> ssl.SSLContext:
    _check_pem("ca_file", ca_file, (_CERTIFICATE, _TRUSTED_CERTIFICATE), "certificate")
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except ssl.SSLError as error:
        raise LinkError(f"ca_file {ca_file} holds a damaged certificate: copy it again") from error


def page_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Of the status page. Raises LinkError with the file and what is wrong with it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    names = ("admin.certificate", "admin.key" if key is not None else "admin.certificate")
    _present(context, certificate, key or certificate, names)
    return context


class PageTls:
    """`context` is what the listener has; each handshake takes the certificate of that in use."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self._in_use = context
        context.sni_callback = self._choose

    def use(self, context: ssl.SSLContext) -> None:
        """For connections from now on; those that are open go on."""
        self._in_use = context

    def _choose(
        self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _first: ssl.SSLContext
    ) -> None:
        """Also where the client names no server."""
        connection.context = self._in_use


def _present(
    context: ssl.SSLContext,
    cert_file: Path,
    key_file: Path,
    names: tuple[str, str] = ("cert_file", "key_file"),
) -> None:
    """`names`: of the two keys of the configuration."""
    cert_name, key_name = names
    _check_pem(cert_name, cert_file, (_CERTIFICATE,), "certificate")
    _check_pem(key_name, key_file, (_KEY,), "private key")

    def no_password() -> str:
        # Without this OpenSSL asks on the terminal, where nobody sits.
        raise LinkError(
            f"{key_name} {key_file} is encrypted, and a daemon cannot ask for its password: "
            f"`openssl pkey -in {key_file} -out NEW_FILE` decrypts it"
        )

    try:
        context.load_cert_chain(cert_file, key_file, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{key_name} {key_file} does not belong to {cert_name} {cert_file}"
        else:
            text = f"{cert_name} {cert_file} or {key_name} {key_file} is damaged: copy them again"
        raise LinkError(text) from error


def _check_pem(key: str, path: Path, any_of: tuple[bytes, ...], content: str) -> None:
    try:
        found = read_regular(path, FILE_BYTES_MAX)
    except FileNotFoundError as error:
        raise LinkError(f"{key} {path} does not exist") from error
    except PermissionError as error:
        raise LinkError(f"{key} {path} may not be read by this user: check its mode") from error
    except OSError as error:
        raise LinkError(f"{key} {path} cannot be read: {brief(error)}") from error
    if any(mark in found for mark in any_of):
        return
    if found.startswith(_DER):
        command = "pkey" if any_of == (_KEY,) else "x509"
        raise LinkError(
            f"{key} {path} is in DER form where PEM is needed: convert it with "
            f"`openssl {command} -inform DER -in {path} -out NEW_FILE`"
        )
    raise LinkError(f"{key} {path} holds no {content} in PEM form")

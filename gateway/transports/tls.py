"""TLS towards the broker: version 1.2 or newer, certificate and host name always verified.

All three are Python's own defaults for a client. There is no switch to turn verification off: with
it off, anyone on the way reads the password.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from gateway.config.regular_file import read_regular
from gateway.host.causes import brief
from gateway.transports.errors import LinkError

__all__ = ["LinkError", "client_context"]

# A file of certificates is some kilobytes; all authorities of a system together are 200 KiB.
FILE_BYTES_MAX = 4 << 20
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_TRUSTED_CERTIFICATE = b"-----BEGIN TRUSTED CERTIFICATE-----"
_KEY = b"PRIVATE KEY-----"
_DER = b"\x30\x82"  # a SEQUENCE of 256 bytes to 64 KiB


def client_context(
    ca_file: str | Path | None, cert_file: str | Path | None, key_file: str | Path | None
) -> ssl.SSLContext:
    """Raises LinkError with the file and what is wrong with it.

    Without ca_file the system's authorities are trusted. The key may be in cert_file.
    """
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


def _present(context: ssl.SSLContext, cert_file: Path, key_file: Path) -> None:
    _check_pem("cert_file", cert_file, (_CERTIFICATE,), "certificate")
    _check_pem("key_file", key_file, (_KEY,), "private key")

    def no_password() -> str:
        # Without this OpenSSL asks on the terminal, where nobody sits.
        raise LinkError(
            f"key_file {key_file} is encrypted, and a daemon has nobody to ask: "
            f"`openssl pkey -in {key_file} -out NEW_FILE` decrypts it"
        )

    try:
        context.load_cert_chain(cert_file, key_file, password=no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"key_file {key_file} does not belong to cert_file {cert_file}"
        else:
            text = f"cert_file {cert_file} or key_file {key_file} is damaged: copy them again"
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

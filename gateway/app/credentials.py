"""The files of the configuration that hold secrets, read: passwords, and certificates with keys.

Read as a whole or not at all, at the start and at each reload, so that a gateway never goes on with
half of what is new.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from ssl import SSLContext

from gateway.config.regular_file import read_regular
from gateway.config.settings import Settings
from gateway.transports.errors import LinkError
from gateway.transports.tls import FILE_BYTES_MAX, client_context


@dataclass(frozen=True, slots=True)
class Credentials:
    """`tls_files` tells whether certificates or keys are others than before."""

    password: bytes | None
    admin_password: bytes | None
    tls: SSLContext | None = field(compare=False)
    tls_files: tuple[bytes, ...]


def read_credentials(settings: Settings) -> Credentials:
    """Raises LinkError with the file and what is wrong with it."""
    upstream, tls = settings.upstream, None
    files: list[Path] = []
    if upstream.tls:
        tls = client_context(upstream.ca_file, upstream.cert_file, upstream.key_file)
        named = (upstream.ca_file, upstream.cert_file, upstream.key_file)
        files = [path for path in named if path is not None]
    password = _password("upstream.password_file", upstream.password_file)
    admin_password = _password("admin.password_file", settings.admin.password_file)
    if admin_password == b"":
        raise LinkError(f"admin.password_file {settings.admin.password_file} holds no password")
    return Credentials(
        password=password,
        admin_password=admin_password,
        tls=tls,
        tls_files=tuple(map(_digest, files)),
    )


def _password(key: str, path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return read_regular(path, FILE_BYTES_MAX).rstrip(b"\r\n")
    except OSError as error:
        raise LinkError(f"{key} {path} cannot be read: {error.strerror}") from error


def _digest(path: Path) -> bytes:
    try:
        return sha256(read_regular(path, FILE_BYTES_MAX)).digest()
    except OSError:  # it was there a moment ago; it counts as another one
        return b""

"""The files of the configuration that hold passwords, certificates and keys, read.

`collect` and `check` read them by the same functions, so they refuse the same with the same words.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from spark_ingest.config.problems import ConfigError
from spark_ingest.config.settings import BrokerSettings


def password_of(broker: BrokerSettings) -> bytes | None:
    """Raises ConfigError."""
    path = broker.password_file
    if path is None:
        return None
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError([f"broker.password_file: {path}: {error.strerror or error}"]) from None
    return lines[0] if lines else b""


def tls_of(broker: BrokerSettings) -> ssl.SSLContext | None:
    """Version 1.2 or newer; certificate and host name are always verified. None for `mqtt://`.
    Raises ConfigError.
    """
    if not broker.url.tls:
        return None
    for key in ("ca_file", "cert_file", "key_file"):
        path = getattr(broker, key)
        if path is not None:
            _must_be_readable(f"broker.{key}", path)
    try:
        context = ssl.create_default_context(cafile=broker.ca_file)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as the gateway does, and why
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if broker.cert_file is not None:
            # Without a password it would ask on the terminal.
            context.load_cert_chain(broker.cert_file, broker.key_file, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        files = "broker.ca_file, broker.cert_file and broker.key_file"
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            [f"{files}: not usable for TLS: {reason}; PEM form without a password is expected"]
        ) from None
    return context


def _must_be_readable(key: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError([f"{key}: {path}: {error.strerror or error}"]) from None

"""Listeners with DTLS: packages, files, how long the certificate is valid, and whether any key is
known.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gateway.app.credentials import dtls_files, with_stored
from gateway.cli.doctor.findings import Finding, Level
from gateway.cli.doctor.section import Examined
from gateway.config.credential import stored_at
from gateway.transports.errors import LinkError

SOON_DAYS = 30


def about_dtls(subject: Examined) -> Iterator[Finding]:
    settings = subject.configuration.settings
    kinds = {udp.security for udp in settings.listeners if udp.has_dtls}
    if not kinds:
        return
    try:
        files = dtls_files(with_stored(settings))
    except LinkError as error:
        sentence, _, command = str(error).partition("; install them with:  ")
        command = command or subject.edit("udp.0.security")
        yield Finding(Level.FAILURE, sentence, "without it the gateway does not start", command)
        return
    if files is not None:
        yield from _about_validity(subject, files.certificate)
    has_keys = settings.dtls.key_hook is not None or stored_at(settings.keys_file).exists()
    if "dtls-psk" in kinds and not has_keys:
        yield Finding(
            Level.WARNING,
            "udp.security is dtls-psk, and no key is known: no sensor can connect",
            "give a device its key (tidegate keys add NAME), or set dtls.key_hook",
            subject.edit("dtls.key_hook"),
        )


def _about_validity(subject: Examined, certificate: bytes) -> Iterator[Finding]:
    from gateway.transports.dtls.openssl import ends_at

    ends = ends_at(certificate)
    if ends is None:
        return
    days = (ends - datetime.now(UTC)).days
    if days < 0:
        sentence = f"dtls.certificate has expired on {ends:%Y-%m-%d}: sensors refuse it"
        level = Level.FAILURE
    elif days < SOON_DAYS:
        sentence, level = f"dtls.certificate expires in {days} days", Level.WARNING
    else:
        return
    yield Finding(level, sentence, "put a new one in its place", subject.edit("dtls.certificate"))

"""What a DTLS listener keeps to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DtlsOptions:
    """`mtu`: bytes of a datagram of the handshake, without the heads of IP and UDP."""

    sessions_max: int = 500
    handshakes_max: int = 100
    idle_s: float = 300.0
    mtu: int = 1200


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What was read, in PEM form. `allow`: patterns of subjects, of which one must fit; without any
    all do that `ca` vouches for.
    """

    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes
    crl: bytes | None = None
    allow: Sequence[str] = ()

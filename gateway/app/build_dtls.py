"""DTLS listeners from the settings, in front of their UDP links; imported only when wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import token_bytes
from typing import TYPE_CHECKING

from gateway.config.settings import Settings
from gateway.transports.dtls.options import CertificateFiles, DtlsOptions

if TYPE_CHECKING:
    from gateway.app.credentials import Credentials
    from gateway.app.shell import Shell
    from gateway.core.access.device_keys import DeviceKeys
    from gateway.transports.dtls.link import DtlsLink
    from gateway.transports.udp.link import UdpLink

SECRET_BYTES = 32  # of the cookies of a run


def dtls_links(
    settings: Settings,
    udp_links: Sequence[UdpLink],
    shell: Shell,
    credentials: Credentials,
    keys: Callable[[], DeviceKeys],
) -> dict[int, DtlsLink]:
    """By link. What it needs was looked for with the credentials."""
    from gateway.transports.dtls.keys import KeyHook
    from gateway.transports.dtls.link import DtlsLink

    dtls = settings.dtls
    options = DtlsOptions(dtls.sessions_max, dtls.handshakes_max, float(dtls.idle_s), dtls.mtu)
    hook = KeyHook(dtls.key_hook) if dtls.key_hook else None
    found: dict[int, DtlsLink] = {}
    for number, udp in enumerate(settings.listeners):
        if not udp.has_dtls:
            continue
        make = partial(
            DtlsLink,
            udp_links[number],
            partial(shell.on_datagrams, number),
            secret=token_bytes(SECRET_BYTES),
            options=options,
            on_identity=partial(shell.on_identity, number),
            used=partial(shell.used_addresses, number),
        )
        if udp.security == "dtls-psk":
            found[number] = make(keys=keys, hook=hook)
        else:
            found[number] = _with_certificates(make, credentials.dtls)
        udp_links[number].hand_to(found[number].on_datagrams)
    return found


def _with_certificates(make: Callable[..., DtlsLink], files: CertificateFiles | None) -> DtlsLink:
    from gateway.transports.dtls.openssl import certificate_contexts

    assert files is not None
    return make(contexts=certificate_contexts(files))


def use(links: Mapping[int, DtlsLink], files: CertificateFiles) -> None:
    """For new handshakes."""
    from gateway.transports.dtls.openssl import certificate_contexts

    contexts = certificate_contexts(files)
    for link in links.values():
        if link.has_certificates:
            link.use(contexts)

"""What of a binding is of no use: identities that no listener gives, ids that no sensor has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.config.patterns import ANY, IDENTITY, behind, matches
from gateway.config.settings import BindingSettings, Settings
from gateway.config.spelling import shown

# What a listener gives, by its security; beside these, where there is none, names of links.
GIVEN = {"protected": "sender:", "dtls-psk": "psk:", "dtls-cert": "cert:"}
SENDER = re.compile(r"sender:[0-9a-f]{16}")


def useless_of(binding: BindingSettings, settings: Settings) -> Iterator[tuple[str, str]]:
    """By key: what is wrong with it."""
    for pattern in binding.identities:
        if not _is_given(pattern, settings):
            yield "identities", f"{shown(pattern)} is the identity of no sensor of any listener"
    most = settings.mqtt_sn.client_id_bytes_max
    for pattern in binding.clients:
        literal = pattern.replace(ANY, "").replace(IDENTITY, "")
        if len(literal.encode()) > most:
            warning = f"{shown(pattern)} fits no sensor, see mqtt_sn.client_id_bytes_max ({most})"
            yield "clients", warning


def _is_given(pattern: str, settings: Settings) -> bool:
    if pattern.startswith("sender:") and ANY not in pattern and SENDER.fullmatch(pattern) is None:
        return False
    links: list[tuple[str, str]] = [
        (f"udp{number}", each.security) for number, each in enumerate(settings.listeners)
    ]
    plain = [f"anonymous@{name}" for name, security in links if security == "none"]
    lines: list[tuple[str, str]] = [
        (f"serial{number}", each.security) for number, each in enumerate(settings.serial)
    ]
    plain += [f"serial:{name}" for name, security in lines if security == "none"]
    if any(matches(pattern, each) for each in plain):
        return True
    starts = [GIVEN[security] for _, security in (*links, *lines) if security != "none"]
    starts += [f"forwarder:{name}/" for name, security in (*links, *lines) if security == "none"]
    return any(behind(pattern, start) for start in starts)

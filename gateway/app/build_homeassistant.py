"""Announcements for Home Assistant, from the settings. Imported only when they are enabled."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import ip_address
from socket import gethostname

from gateway.config.settings import HomeAssistantValueSettings, HostPort, Settings
from gateway.core.state_records import ClientId
from gateway.host.version import version
from gateway.presence.homeassistant.announcements import Announcements, Values
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.overrides import ValueOptions
from gateway.presence.latest import Latest
from gateway.presence.topics import Topics
from gateway.presence.values import found_in


def announcements_of(settings: Settings, topics: Topics, latest: Latest) -> Announcements:
    def values_of(client_id: ClientId) -> Values:
        """The last values of a device on each topic; decoded when they are sent."""
        return {each.topic: found_in(each.payload) for each in latest.of(client_id)}

    return Announcements(_documents(settings, topics), values_of)


def _documents(settings: Settings, topics: Topics) -> DiscoveryDocuments:
    return DiscoveryDocuments(
        topics=topics,
        prefix=settings.home_assistant.discovery_prefix,
        gateway=settings.gateway.name,
        version=version(),
        value_options=tuple(map(_options, settings.home_assistant_value)),
        has_stats=settings.presence.stats_s > 0 and settings.presence.clients,
        page_url=page_url(settings.admin.listen),
    )


def _options(chosen: HomeAssistantValueSettings) -> ValueOptions:
    """The keys have the names that they have in the file."""
    return ValueOptions(**{each.name: getattr(chosen, each.name) for each in fields(chosen)})


def page_url(listen: HostPort | None) -> str | None:
    """None where a browser on another machine would not reach the status page."""
    if listen is None or not listen.port:
        return None
    try:
        address = ip_address(listen.host)
    except ValueError:
        return None if listen.host == "localhost" else f"http://{listen.host}:{listen.port}/"
    if address.is_loopback:
        return None
    if address.is_unspecified:
        return f"http://{gethostname()}:{listen.port}/"
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"http://{host}:{listen.port}/"

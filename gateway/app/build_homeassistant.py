"""Announcements for Home Assistant, from the settings. Imported only when they are enabled."""

from __future__ import annotations

from gateway.config.settings import Settings
from gateway.core.state_records import ClientId
from gateway.host.version import version
from gateway.presence.homeassistant.announcements import Announcements, Values
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments, ValueOptions
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
        value_options=tuple(
            ValueOptions(
                name=each.name,
                client=each.client,
                label=each.label,
                unit=each.unit,
                device_class=each.device_class,
                state_class=each.state_class,
                hide=each.hide,
            )
            for each in settings.home_assistant_value
        ),
        has_stats=settings.presence.stats_s > 0 and settings.presence.clients,
    )

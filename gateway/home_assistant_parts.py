"""What Home Assistant is told, from the settings. Imported only when it is wanted."""

from __future__ import annotations

from gateway.admin.latest import Latest
from gateway.admin.payloads import found_in
from gateway.config.settings import Settings
from gateway.effects import ClientId
from gateway.notices.announcements import Announcements, Values
from gateway.notices.home_assistant import Announcer, Wish
from gateway.notices.topics import Topics
from gateway.version import version


def announcements_of(settings: Settings, topics: Topics, latest: Latest) -> Announcements:
    def values_of(client_id: ClientId) -> Values:
        """What a device said last on each topic; decoded when it goes."""
        return {each.topic: found_in(each.payload) for each in latest.of(client_id)}

    return Announcements(_announcer(settings, topics), values_of)


def _announcer(settings: Settings, topics: Topics) -> Announcer:
    return Announcer(
        topics,
        settings.home_assistant.discovery_prefix,
        settings.gateway.name,
        version(),
        tuple(
            Wish(
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

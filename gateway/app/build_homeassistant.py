"""Announcements for Home Assistant, from the settings. Imported only when they are enabled."""

from __future__ import annotations

from gateway.config.settings import Settings
from gateway.core.state_records import ClientId
from gateway.host.version import version
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments, ValueOptions
from gateway.presence.last_values import NO_RULE, LastValues, ValueRule
from gateway.presence.records_file import RecordsFile
from gateway.presence.retained_ledger import in_thread
from gateway.presence.topics import Topics


def announcements_of(settings: Settings, topics: Topics, values: LastValues) -> Announcements:
    return Announcements(_documents(settings, topics), values.document)


def last_values_of(settings: Settings) -> LastValues:
    rules = [
        (
            each,
            ValueRule(
                hide=each.hide,
                min_change=each.min_change,
                expire_after_s=each.expire_after_s,
                is_event=each.event,
            ),
        )
        for each in settings.home_assistant_value
    ]

    def rule_of(client_id: ClientId, _topic: str, name: str) -> ValueRule:
        return next(
            (
                rule
                for given, rule in rules
                if given.name == name and given.client in (None, client_id)
            ),
            NO_RULE,
        )

    return LastValues(
        values_max=settings.home_assistant.values_per_device_max,
        characters_max=settings.home_assistant.text_characters_max,
        rule_of=rule_of,
    )


def records_of(settings: Settings) -> RecordsFile:
    return RecordsFile(settings.gateway.state_dir, in_thread)


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

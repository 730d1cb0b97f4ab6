"""Announcements for Home Assistant, from the settings. Imported only when they are enabled."""

from __future__ import annotations

from dataclasses import fields
from ipaddress import ip_address
from socket import gethostname

from gateway.config.settings import (
    HomeAssistantCommandSettings,
    HomeAssistantValueSettings,
    HostPort,
    Settings,
)
from gateway.core.state_records import ClientId
from gateway.host.version import version
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.commands import CommandOptions
from gateway.presence.homeassistant.declared_commands import declared_in, is_declaration
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.overrides import ValueOptions
from gateway.presence.last_values import NO_RULE, Declarations, LastValues, ValueRule
from gateway.presence.line_file import in_thread
from gateway.presence.pending_commands import PendingCommands
from gateway.presence.records_file import RecordsFile
from gateway.presence.topics import Topics


def announcements_of(
    settings: Settings, topics: Topics, values: LastValues, pending: PendingCommands
) -> Announcements:
    return Announcements(_documents(settings, topics), values.document, pending.watch)


def last_values_of(settings: Settings) -> LastValues:
    rules = [
        (
            _options(each),
            ValueRule(
                hide=each.hide,
                min_change=each.min_change,
                expire_after_s=each.expire_after_s,
                is_event=each.event,
            ),
        )
        for each in settings.home_assistant_value
    ]

    def rule_of(client_id: ClientId, topic: str, name: str) -> ValueRule:
        fitting = (rule for given, rule in rules if given.fits(client_id, topic, name))
        return next(fitting, NO_RULE)

    return LastValues(
        values_max=settings.home_assistant.values_per_device_max,
        characters_max=settings.home_assistant.text_characters_max,
        rule_of=rule_of,
        declarations=Declarations(declared_in, is_declaration),
    )


def records_of(settings: Settings) -> RecordsFile:
    return RecordsFile(settings.gateway.state_dir, in_thread)


def _documents(settings: Settings, topics: Topics) -> DiscoveryDocuments:
    return DiscoveryDocuments(
        topics=topics,
        prefix=settings.home_assistant.discovery_prefix,
        gateway=settings.gateway.name,
        version=version(),
        value_options=tuple(map(_options, settings.home_assistant_value)),
        has_stats=settings.presence.stats_s > 0 and settings.presence.clients,
        page_url=page_url(settings.admin.listen),
        command_options=tuple(map(_command, settings.home_assistant_command)),
        topic_prefix=settings.upstream.topic_prefix,
    )


def _options(chosen: HomeAssistantValueSettings) -> ValueOptions:
    """The keys have the names that they have in the file."""
    return ValueOptions(**{each.name: getattr(chosen, each.name) for each in fields(ValueOptions)})


def _command(chosen: HomeAssistantCommandSettings) -> CommandOptions:
    """The same."""
    names = {each.name for each in fields(chosen)}
    given = {name: getattr(chosen, name) for name in names - {"expiry_s"}}
    return CommandOptions(**given)


def page_url(listen: HostPort | None) -> str | None:
    """None where a browser on another machine would not reach the status page."""
    if listen is None or not listen.port:
        return None
    try:
        address = ip_address(listen.host)
    except ValueError:
        return None if listen.host == "localhost" else f"http://{listen}/"
    if address.is_loopback:
        return None
    reached = HostPort(gethostname(), listen.port) if address.is_unspecified else listen
    return f"http://{reached}/"

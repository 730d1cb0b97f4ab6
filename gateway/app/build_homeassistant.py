"""Announcements for Home Assistant, from the settings. Imported only when they are enabled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from socket import gethostname

from gateway.admin.log.logs import LEVELS, Level
from gateway.app.core_options import same_named
from gateway.config.settings import HostPort, Settings
from gateway.core.state_records import ClientId
from gateway.host.version import version
from gateway.presence.availability import Availability
from gateway.presence.gateway_commands import GatewayCommands
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.commands import CommandOptions
from gateway.presence.homeassistant.declared_commands import declared_in, is_declaration
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.identities import Identities
from gateway.presence.homeassistant.overrides import DeviceOptions, ValueOptions
from gateway.presence.last_values import NO_RULE, Declarations, LastValues, ValueRule
from gateway.presence.line_file import in_thread
from gateway.presence.pending_commands import PendingCommands
from gateway.presence.records_file import RecordsFile
from gateway.presence.topics import Topics


def announcements_of(
    settings: Settings,
    topics: Topics,
    values: LastValues,
    pending: PendingCommands,
    identities: Identities | None = None,
) -> Announcements:
    return Announcements(_documents(settings, topics), values.document, pending.watch, identities)


def identities_of(settings: Settings, topics: Topics, board: Availability) -> Identities:
    return Identities(
        topics=topics, prefix=settings.home_assistant.discovery_prefix, heard_at=board.heard_at
    )


def last_values_of(settings: Settings) -> LastValues:
    rules = [
        (
            ValueOptions(**same_named(ValueOptions, each)),
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


def commands_of(
    topics: Topics,
    restart: Callable[[], None],
    set_log_level: Callable[[Level], None],
    started_at: float,
    join: Callable[[float], None] | None,
) -> GatewayCommands:
    return GatewayCommands(
        topics.commands,
        restart=restart,
        log_levels={level: partial(set_log_level, level) for level in LEVELS},
        started_at=started_at,
        join=join,
    )


def records_of(settings: Settings) -> RecordsFile:
    return RecordsFile(settings.gateway.state_dir, in_thread)


def _documents(settings: Settings, topics: Topics) -> DiscoveryDocuments:
    return DiscoveryDocuments(
        topics=topics,
        prefix=settings.home_assistant.discovery_prefix,
        gateway=settings.gateway.name,
        version=version(),
        value_options=[
            ValueOptions(**same_named(ValueOptions, each)) for each in settings.home_assistant_value
        ],
        has_stats=settings.presence.stats_s > 0 and settings.presence.clients,
        page_url=page_url(settings.admin.listen),
        device_options=[
            DeviceOptions(**same_named(DeviceOptions, each))
            for each in settings.home_assistant_device
        ],
        takes_commands=settings.home_assistant.gateway_commands,
        log_levels=tuple(LEVELS),
        has_joining=settings.admission.permit == "listed",
        command_options=[
            CommandOptions(**same_named(CommandOptions, each))
            for each in settings.home_assistant_command
        ],
        topic_prefix=settings.upstream.topic_prefix,
    )


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

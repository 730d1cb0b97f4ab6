"""From settings to the rules of the core: which setting decides what.

A key decides the option of its name, with nothing here; what is said here is what has another name,
another type or more than one key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from gateway.config.settings import Settings, TopicSettings
from gateway.core.access.gate import AccessGate
from gateway.core.access.rules import AccessRule, AccessRules, Action
from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.discovery import DiscoveryOptions, SearchAnswer
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.engine import EngineOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session.options import PredefinedTopics, SessionOptions, WhenOutboxFull
from gateway.core.topic_options import Acknowledge, ReadingOptions
from gateway.core.uplink.custody.custody import CustodyOptions
from gateway.core.uplink.uplink import UplinkOptions
from gateway.presence.topics import Topics
from gateway.storage.journal.options import JournalOptions, WhenFull

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from gateway.core.access.bindings import Bindings
    from gateway.core.access.device_keys import DeviceKeys
    from gateway.core.protection.protection import ProtectionOptions

# What a PUBLISH from the broker has beside the payload we take: topic, properties, fixed header.
PACKET_HEAD_BYTES = 128 * 1024
# MQTT-SN heads are at most 9 bytes; names of REGISTER and filters of SUBSCRIBE must fit as well.
# Around a message, around that by a forwarder (5.5), and by what protects it: at most 26 bytes and
# a tag of 32.
DATAGRAM_HEAD_BYTES = 16 + 255 + 58
DATAGRAM_BYTES_MIN = 2048

# New sessions number elsewhere in each run of the gateway: a client that has not noticed a restart
# would otherwise publish under an id that is another topic's now. The ids of sessions that have not
# ended are on the disk, but for the last ones where that refused. Ids of 62 names fit in a byte, as
# which there are clients that keep them. Runs in a row are 64 ids apart, all of these 16.
FIRST_OF_RUNS = (1, 65, 129, 193, 33, 97, 161, 17, 81, 145, 49, 113, 177)
# Where rows may have been lost any session may be one that its client still has. All ids are below
# 0x8000: there are clients that keep them in 16 bits with a sign.
EPOCHS_TOLD_APART = 62
TOPIC_IDS_FAR_APART = 512
SECRET_BYTES = 32  # of the message ids of a run


def first_topic_id(epoch: int, run: int | None) -> int:
    """Of new sessions. `run`: see `StateFolder.run`."""
    if run is None:
        return 1 + (1 + epoch % EPOCHS_TOLD_APART) * TOPIC_IDS_FAR_APART
    return FIRST_OF_RUNS[(run - 1) % len(FIRST_OF_RUNS)]


def engine_options(
    settings: Settings,
    epoch: int,
    password: bytes | None,
    run: int | None = None,
    device_keys: Callable[[], DeviceKeys] | None = None,
) -> EngineOptions:
    """`run`: see `StateFolder.run`. `device_keys`: those that are valid now; None without any."""
    predefined = PredefinedTopics.of(settings.predefined_topics)
    limits = settings.limits
    for_clients = (settings.mqtt_sn, limits)
    return EngineOptions(
        **same_named(EngineOptions, *for_clients),
        upstream=upstream_rules(settings, epoch, password),
        session=SessionOptions(
            **same_named(SessionOptions, *for_clients),
            topics_max=limits.topics_per_client_max,
            subscriptions_max=limits.subscriptions_per_client_max,
            when_outbox_full=WhenOutboxFull(limits.outbox_when_full),
            queues_qos_0_for_sleepers=settings.mqtt_sn.queue_qos0_for_sleepers,
            access=AccessGate(
                access_rules(settings),
                bindings=client_bindings(settings),
                narrows=settings.security.subscribe_wider == "narrow",
            ),
        ),
        admission=AdmissionOptions(
            **same_named(AdmissionOptions, *for_clients),
            assign_empty_client_id=settings.mqtt_sn.empty_client_id == "assign",
            answers_per_s_max=limits.disconnects_per_s_max,
            callers_max=limits.unproven_clients_max,
            handshakes_max=limits.will_handshakes_max,
            is_listed_only=settings.admission.permit == "listed",
            listed=frozenset(settings.admission.listed),
        ),
        qos_minus_one=QosMinusOneOptions(**same_named(QosMinusOneOptions, settings.qos_minus_one)),
        discovery=discovery_options(settings),
        predefined=predefined,
        clients_predefined={
            client_id: predefined.overlaid_with(client.predefined_topics)
            for client_id, client in settings.clients.items()
        },
        first_topic_id=first_topic_id(epoch, run),
        message_id_secret=token_bytes(SECRET_BYTES),
        uplink=uplink_rules(settings),
        custody=custody_options(settings),
        protection=protection_options(settings, device_keys, run),
        saves=True,
    )


def protection_options(
    settings: Settings, device_keys: Callable[[], DeviceKeys] | None, run: int | None
) -> ProtectionOptions | None:
    """None where there are no keys, and no packet must be protected: nothing is imported then."""
    protection = settings.protection
    links = [protection.required or each.security == "protected" for each in settings.links]
    if device_keys is None and not any(links):
        return None
    from gateway.app.protected_packets import options

    return options(protection, links, device_keys, is_state_whole=run is not None)


def access_rules(settings: Settings) -> AccessRules | None:
    """None without any: then all may do all."""
    if not settings.access:
        return None
    rules = [
        AccessRule(
            filters=each.topics,
            is_allowed=each.allow,
            clients=each.clients,
            identities=each.identities,
            actions=[Action(action) for action in each.actions],
            qos_max=each.qos_max,
            may_retain=each.retain,
            payload_bytes_max=each.payload_bytes_max,
        )
        for each in settings.access
    ]
    return AccessRules(rules, is_allowed=settings.security.access_default == "allow")


def client_bindings(settings: Settings) -> Bindings | None:
    """None without any: then all may use any client id."""
    if not settings.binding:
        return None
    from gateway.core.access.bindings import Binding, Bindings

    return Bindings(Binding(each.identities, each.clients) for each in settings.binding)


def load_parts(settings: Settings) -> None:
    """Import what these settings need. Where files may be read: a reload applies them in the event
    loop, which must not wait for a disk.
    """
    if settings.access:
        pass
    if settings.security.subscribe_wider == "narrow":
        pass
    if settings.binding:
        pass


def same_named(options: type[DataclassInstance], *tables: DataclassInstance) -> dict[str, Any]:
    """Values of the keys of these tables that have the name of an option."""
    names = {option.name for option in fields(options)}
    return {
        key.name: getattr(table, key.name)
        for table in tables
        for key in fields(table)
        if key.name in names
    }


def discovery_options(settings: Settings) -> DiscoveryOptions:
    discovery = settings.discovery
    return DiscoveryOptions(
        gateway_id=settings.gateway.id,
        advertise_s=discovery.advertise_s,
        missed_max=discovery.missed_max,
        answer=SearchAnswer(discovery.answer),
        is_standby=discovery.standby,
        has_groups=any(udp.multicast is not None for udp in settings.listeners)
        or any(line.advertise for line in settings.serial),
        allow_trailing_octets=settings.mqtt_sn.allow_trailing_octets,
    )


def uplink_rules(settings: Settings) -> UplinkOptions:
    journal = settings.journal
    default = ReadingOptions(
        Acknowledge(journal.acknowledge),
        float(journal.message_expiry_s),
        journal.coalesce_retained,
        stores_qos_0=journal.qos0 == "store",
        stores_qos_0_offline=journal.qos0_offline == "store",
        keeps=journal.keep_until_ingested,
    )
    overrides = tuple((topic.filter, _overridden(default, topic)) for topic in settings.topic)
    home_assistant = settings.home_assistant
    return UplinkOptions(
        default,
        overrides,
        journal.spill_after_ms / 1000,
        None if home_assistant.sensors_may_configure else home_assistant.discovery_prefix,
        _command_times(settings),
    )


def _command_times(settings: Settings) -> Callable[[str], float] | None:
    if not settings.home_assistant.enable:
        return None
    if not any(command.expiry_s for command in settings.home_assistant_command):
        return None
    from gateway.app.command_times import command_times

    return command_times(settings.home_assistant_command)


def custody_options(settings: Settings) -> CustodyOptions:
    journal = settings.journal
    return CustodyOptions(
        journal.keep_until_ingested or any(each.keep_until_ingested for each in settings.topic),
        settings.gateway.name,
        float(journal.ingest_timeout_s),
        gives_way=journal.when_full == "drop_oldest",
    )


def _overridden(default: ReadingOptions, topic: TopicSettings) -> ReadingOptions:
    changed: dict[str, object] = {}
    if topic.acknowledge is not None:
        changed["acknowledge"] = Acknowledge(topic.acknowledge)
    if topic.message_expiry_s is not None:
        changed["expiry_s"] = float(topic.message_expiry_s)
    if topic.deliver_within_s is not None:
        changed["deliver_within_s"] = float(topic.deliver_within_s)
    if topic.coalesce_retained is not None:
        changed["coalesce_retained"] = topic.coalesce_retained
    if topic.qos0 is not None:
        changed["stores_qos_0"] = topic.qos0 == "store"
    if topic.qos0_offline is not None:
        changed["stores_qos_0_offline"] = topic.qos0_offline == "store"
    if topic.keep_until_ingested is not None:
        changed["keeps"] = topic.keep_until_ingested
    return replace(default, **changed)  # type: ignore[arg-type]


def journal_options(settings: Settings) -> JournalOptions:
    journal = settings.journal
    return JournalOptions(journal.size_max_bytes, WhenFull(journal.when_full))


def upstream_rules(settings: Settings, epoch: int, password: bytes | None) -> MqttOptions:
    upstream, home = settings.upstream, settings.home_assistant
    return MqttOptions(
        gateway_name=settings.gateway.name,
        epoch=epoch,
        **same_named(MqttOptions, upstream),
        password=password,
        trust_session=upstream.trust == "session",
        connack_timeout_s=upstream.connect_timeout_s,
        packet_bytes_max=settings.limits.payload_bytes_max + PACKET_HEAD_BYTES,
        own_filters=_own_filters(settings) if home.enable else (),
    )


def _own_filters(settings: Settings) -> tuple[tuple[str, int], ...]:
    home = settings.home_assistant
    birth = ((home.birth_topic, 0),)
    if not home.gateway_commands:
        return birth
    topics = Topics(settings.upstream.topic_prefix, settings.gateway.name)
    return *birth, (f"{topics.commands}+", 1)


def datagram_bytes_max(settings: Settings) -> int:
    """The largest datagram that can hold a frame within the limits."""
    limits = settings.limits
    content = max(limits.payload_bytes_max, limits.topic_bytes_max)
    return max(DATAGRAM_BYTES_MIN, content + DATAGRAM_HEAD_BYTES)

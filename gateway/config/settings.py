"""All that an operator can decide, as frozen values: a class for each table, units in the names.

Types and defaults stand here and nowhere else. What a key is called in TOML, which values it takes
and where its default comes from stands in `keys.py`; a key fills the field of its own name, except
`upstream.url` (host, port and tls) and `journal.size_max` (size_max_bytes).
In `TopicSettings` None stands for "as for all topics", that is as in `JournalSettings`.

These classes check nothing: `load` hands out only values that passed the schema and the checks of
`cross_checks.py`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Literal, NamedTuple

# Of the service: its RuntimeDirectory, which the members of its group may enter.
SOCKET_FILE = "admin.sock"
OF_THE_SERVICE = Path("/run/tidegate") / SOCKET_FILE

KIB = 1024
MIB = 1024 * KIB

NAME_LENGTH_MAX = 64
ACCESS_ACTIONS = ("publish", "subscribe", "receive", "will", "qos_minus_one")


class HostPort(NamedTuple):
    """Where to listen: an IPv4 or IPv6 address without brackets. Port 0 takes any free port.
    Without a host: nowhere.
    """

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return not self.host or ip_address(self.host).is_loopback

    def __str__(self) -> str:
        if not self.host:
            return ""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


# Receipts are at tidegate/ingest/GATEWAY/ack/COLLECTOR, a gateway at tidegate/NAME/...
NAME_OF_RECEIPTS = "ingest"


def host_name() -> str:
    """This machine's name, made to fit `gateway.name`: it ends up in topics and client ids."""
    name = "".join(
        "-" if letter in "+#/" or not letter.isprintable() else letter
        for letter in os.uname().nodename
    )
    name = name[:NAME_LENGTH_MAX] or "tidegate"
    return f"{name}-gateway" if name == NAME_OF_RECEIPTS else name


def client_id_for(gateway_name: str) -> str:
    return f"tidegate-{gateway_name}"


ANY_ADDRESS = HostPort("0.0.0.0", 1883)
NOWHERE = HostPort("", 0)
PROTECTION_SCHEMES = ("hmac-sha256", "aes-ccm-64", "aes-ccm-128")
# As in networks of small devices elsewhere, where permission to join is a byte of seconds, and 255
# would be for ever.
JOIN_S_MAX = 254
THIS_MACHINE_ONLY = HostPort("127.0.0.1", 8080)
KEYS_FILE = "device.keys"  # in the state folder, where no other is named


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    id: int = 1
    name: str = field(default_factory=host_name)
    state_dir: Path = Path("/var/lib/tidegate")
    scheduling: Literal["auto", "batch", "inherited"] = "auto"

    @property
    def journal_dir(self) -> Path:
        return self.state_dir / "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class UdpSettings:
    listen: HostPort = ANY_ADDRESS
    receive_buffer_bytes: int = 4 * MIB
    tick_ms_max: float = 3.0
    busy_poll_ms_max: float = 0.2
    multicast: HostPort | None = None
    multicast_interface: str | None = None
    multicast_hops: int = 1
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    security: Literal["none", "protected", "dtls-psk", "dtls-cert"] = "none"

    @property
    def has_dtls(self) -> bool:
        return self.security in ("dtls-psk", "dtls-cert")


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialSettings:
    port: str
    baud: int = 115_200
    framing: Literal["hdlc", "slip", "raw"] = "hdlc"
    parity: Literal["none", "even", "odd"] = "none"
    stop_bits: int = 1
    rtscts: bool = False
    gap_ms: float = 50.0
    burst_bytes_max: int = 0
    frame_gap_ms: float = 0.0
    advertise: bool = True
    security: Literal["none", "protected"] = "none"

    @property
    def bits_per_octet(self) -> int:
        """As they go over the line, with the start bit."""
        return 1 + 8 + (self.parity != "none") + self.stop_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverySettings:
    advertise_s: int = 900
    missed_max: int = 3
    answer: Literal["unicast", "multicast"] = "unicast"
    standby: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    host: str = "127.0.0.1"
    port: int = 1883
    tls: bool = False
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    tls_min: Literal["1.2", "1.3"] = "1.2"
    fingerprints: tuple[str, ...] = ()
    server_name: str | None = None
    alpn: tuple[str, ...] = ()
    client_id: str = field(default_factory=lambda: client_id_for(host_name()))
    topic_prefix: str = ""
    trust: Literal["connection", "session"] = "connection"
    keep_alive_s: int = 30
    session_expiry_s: int = 604_800
    filters_per_subscribe_max: int = 64
    will_delay_s: int = 10
    connect_timeout_s: float = 10.0
    reconnect_delay_s_min: float = 0.5
    reconnect_delay_s_max: float = 30.0
    waiting_messages_max: int = 100_000
    waiting_bytes_max: int = 64 * MIB


Acknowledge = Literal["auto", "journal", "upstream"]
Qos0 = Literal["forward", "store"]
Qos0Offline = Literal["drop", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    acknowledge: Acknowledge = "auto"
    size_max_bytes: int = 512 * MIB
    when_full: Literal["reject", "drop_oldest"] = "reject"
    spill_after_ms: float = 50.0
    linger_ms: float = 2.0
    message_expiry_s: int = 0
    coalesce_retained: bool = False
    qos0: Qos0 = "forward"
    qos0_offline: Qos0Offline = "drop"
    keep_until_ingested: bool = False
    ingest_timeout_s: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What is otherwise for the topics of a filter. The first filter that matches decides."""

    filter: str
    acknowledge: Acknowledge | None = None
    message_expiry_s: int | None = None
    deliver_within_s: int | None = None
    coalesce_retained: bool | None = None
    qos0: Qos0 | None = None
    qos0_offline: Qos0Offline | None = None
    keep_until_ingested: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """A rule of access. The first that fits decides."""

    topics: tuple[str, ...]
    clients: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    actions: tuple[str, ...] = ACCESS_ACTIONS
    allow: bool = True
    qos_max: int = 2
    retain: bool = True
    payload_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingSettings:
    """Which identities may use which client ids."""

    identities: tuple[str, ...]
    clients: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DtlsSettings:
    """Of all `[[udp]]` whose `security` is DTLS."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    crl: Path | None = None
    allow: tuple[str, ...] = ()
    allow_file: Path | None = None
    key_hook: str | None = None
    sessions_max: int = 500
    handshakes_max: int = 100
    idle_s: int = 300
    mtu: int = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    access_default: Literal["allow", "deny"] = "deny"
    subscribe_wider: Literal["refuse", "narrow"] = "refuse"
    keys_file: Path | None = None  # see `Settings.keys_file`


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionSettings:
    required: bool = False
    schemes: tuple[str, ...] = PROTECTION_SCHEMES
    tag_bits_min: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What is known beforehand about one sensor, by its MQTT-SN client id."""

    predefined_topics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QosMinusOneSettings:
    allow: bool = False
    long_topics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttSnSettings:
    retry_after_s: float = 10.0
    retry_count_max: int = 4
    empty_client_id: Literal["reject", "assign"] = "reject"
    rebind_sleepers: Literal["any", "same_host", "never"] = "any"
    client_id_bytes_max: int = 64
    allow_trailing_octets: bool = True
    queue_qos0_for_sleepers: bool = False
    awake_s_max: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardersSettings:
    """Radio bridges that speak for many nodes, by forwarder encapsulation."""

    allow: bool = True
    listed: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    permit: Literal["all", "listed"] = "all"
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceSettings:
    clients: bool = True
    stats_s: int = 60
    messages_per_s_max: int = 50
    visitors: tuple[str, ...] = ()
    visitor_available_s: int = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceClientSettings:
    """When some devices are available. The first entry that fits decides."""

    client: str
    visitor: bool | None = None
    available_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAssistantSettings:
    enable: bool = False
    discovery_prefix: str = "homeassistant"
    birth_topic: str = "homeassistant/status"
    sensors_may_configure: bool = False
    gateway_commands: bool = True
    values_per_device_max: int = 64
    text_characters_max: int = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAssistantDeviceSettings:
    """What a device is. The first entry that fits decides."""

    client: str
    name: str | None = None
    area: str | None = None
    manufacturer: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAssistantValueSettings:
    """What a value is, where its unit does not say so. The first entry that fits decides."""

    name: str
    client: str | None = None
    topic: str | None = None
    label: str | None = None
    unit: str | None = None
    device_class: str | None = None
    state_class: str | None = None
    precision: int | None = None
    icon: str | None = None
    entity_category: Literal["none", "diagnostic"] | None = None
    enabled_by_default: bool | None = None
    options: tuple[str, ...] | None = None
    payload_on: str | None = None
    payload_off: str | None = None
    hide: bool = False
    min_change: float = 0.0
    expire_after_s: int = 0
    event: bool = False


CommandKind = Literal["number", "switch", "button", "select", "text", "light"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAssistantCommandSettings:
    """What Home Assistant may tell a device. Of one name the first entry that fits decides."""

    name: str
    kind: CommandKind
    topic: str
    client: str | None = None
    label: str | None = None
    state: str | None = None
    state_topic: str | None = None
    qos: int = 1
    retain: bool = False
    expiry_s: int = 0
    min: float | None = None
    max: float | None = None
    step: float | None = None
    mode: Literal["auto", "box", "slider", "text", "password"] | None = None
    unit: str | None = None
    device_class: str | None = None
    options: tuple[str, ...] | None = None
    payload: str | None = None
    payload_on: str | None = None
    payload_off: str | None = None
    payload_press: str | None = None
    icon: str | None = None
    entity_category: Literal["none", "config", "diagnostic"] | None = None
    enabled_by_default: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    listen: HostPort | None = THIS_MACHINE_ONLY
    certificate: Path | None = None
    key: Path | None = None
    password_file: Path | None = None
    anonymous: Literal["auto", "viewer", "none"] = "auto"
    hosts: tuple[str, ...] = ()
    socket: str = "auto"
    socket_group: str = "tidegate"
    socket_role: Literal["viewer", "operator", "none"] = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminUserSettings:
    """`password` is a hash."""

    name: str
    password: str = field(repr=False)
    role: Literal["viewer", "operator"] = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminTokenSettings:
    """`token` is a hash."""

    name: str
    token: str = field(repr=False)
    role: Literal["viewer", "operator"] = "viewer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSettings:
    clients_max: int = 10_000
    clients_per_host_max: int = 0
    topics_per_client_max: int = 256
    topics_per_host_max: int = 100_000
    subscriptions_per_client_max: int = 64
    outbox_messages_max: int = 1000
    outbox_bytes_max: int = 256 * KIB
    outbox_when_full: Literal["drop_oldest", "drop_newest"] = "drop_oldest"
    payload_bytes_max: int = 1024
    retained_messages_max: int = 10_000
    retained_bytes_max: int = 16 * MIB
    topic_bytes_max: int = 512
    disconnects_per_s_max: int = 20
    connects_per_s_max: int = 2000
    connects_at_once_max: int = 12_000
    unproven_clients_max: int = 12_000
    will_handshakes_max: int = 12_000
    packets_per_s_max: int = 0
    egress_bytes_per_s_max: int = 0
    memory_percent_max: int = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    udp: tuple[UdpSettings, ...] = (UdpSettings(),)
    serial: tuple[SerialSettings, ...] = ()
    discovery: DiscoverySettings = DiscoverySettings()
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    journal: JournalSettings = JournalSettings()
    topic: tuple[TopicSettings, ...] = ()
    binding: tuple[BindingSettings, ...] = ()
    access: tuple[AccessSettings, ...] = ()
    security: SecuritySettings = field(default_factory=SecuritySettings)
    dtls: DtlsSettings = DtlsSettings()
    protection: ProtectionSettings = field(default_factory=ProtectionSettings)
    predefined_topics: Mapping[str, int] = field(default_factory=dict)
    clients: Mapping[str, ClientSettings] = field(default_factory=dict)
    qos_minus_one: QosMinusOneSettings = QosMinusOneSettings()
    mqtt_sn: MqttSnSettings = MqttSnSettings()
    forwarders: ForwardersSettings = ForwardersSettings()
    admission: AdmissionSettings = AdmissionSettings()
    presence: PresenceSettings = field(default_factory=PresenceSettings)
    presence_client: tuple[PresenceClientSettings, ...] = ()
    home_assistant: HomeAssistantSettings = field(default_factory=HomeAssistantSettings)
    home_assistant_device: tuple[HomeAssistantDeviceSettings, ...] = ()
    home_assistant_value: tuple[HomeAssistantValueSettings, ...] = ()
    home_assistant_command: tuple[HomeAssistantCommandSettings, ...] = ()
    admin: AdminSettings = AdminSettings()
    admin_user: tuple[AdminUserSettings, ...] = ()
    admin_token: tuple[AdminTokenSettings, ...] = ()
    limits: LimitsSettings = LimitsSettings()
    log: LogSettings = LogSettings()

    @property
    def listeners(self) -> tuple[UdpSettings, ...]:
        """None of them if UDP is switched off."""
        return tuple(udp for udp in self.udp if udp.listen != NOWHERE)

    @property
    def requires_protection(self) -> bool:
        """Whether a link drops what is not protected."""
        return self.protection.required or any(each.security == "protected" for each in self.links)

    @property
    def keys_file(self) -> Path:
        """Of the keys of devices."""
        return self.security.keys_file or self.gateway.state_dir / KEYS_FILE

    @property
    def socket_places(self) -> tuple[Path, ...]:
        """Where the socket for the command line may be, the likeliest first."""
        folder, named = self.gateway.state_dir, self.admin.socket
        if named != "auto":
            return (Path(named),) if named else ()
        of_folder = folder / SOCKET_FILE
        is_usual = folder == GatewaySettings().state_dir
        return (OF_THE_SERVICE, of_folder) if is_usual else (of_folder,)

    @property
    def has_accounts(self) -> bool:
        """Whether anyone can sign in to the page."""
        return bool(self.admin.password_file or self.admin_user or self.admin_token)

    @property
    def shows_all(self) -> bool:
        """Whether the page is shown to who has not signed in."""
        admin = self.admin
        if admin.anonymous != "auto":
            return admin.anonymous == "viewer"
        is_here = admin.listen is None or admin.listen.is_loopback
        return is_here and not self.admin_user and not self.admin_token

    @property
    def links(self) -> tuple[UdpSettings | SerialSettings, ...]:
        """All of them, in the order in which they are numbered."""
        return (*self.listeners, *self.serial)

    @property
    def stores_readings(self) -> bool:
        """Whether any reading can get into the journal."""
        sections: tuple[JournalSettings | TopicSettings, ...] = (self.journal, *self.topic)
        return any(
            section.acknowledge in ("auto", "journal")
            or "store" in (section.qos0, section.qos0_offline)
            for section in sections
        )

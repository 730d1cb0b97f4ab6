"""From all sources to one Configuration, or to one ConfigError with everything that is wrong.

Precedence: command line, environment, file, default. A configuration is read once, at the start;
changing one means starting again.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.config import cross_checks
from gateway.config.assignments import gather_environment, gather_overrides
from gateway.config.files import gather_file, gather_table
from gateway.config.gathering import Gathering
from gateway.config.problems import DEFAULT, Origin
from gateway.config.schema import separated
from gateway.config.settings import (
    AccessSettings,
    AdminSettings,
    AdminTokenSettings,
    AdminUserSettings,
    AdmissionSettings,
    BindingSettings,
    ClientSettings,
    DiscoverySettings,
    DtlsSettings,
    ForwardersSettings,
    GatewaySettings,
    HomeAssistantCommandSettings,
    HomeAssistantDeviceSettings,
    HomeAssistantSettings,
    HomeAssistantValueSettings,
    HostPort,
    JournalSettings,
    LimitsSettings,
    LogSettings,
    MqttSnSettings,
    PresenceClientSettings,
    PresenceSettings,
    ProtectionSettings,
    QosMinusOneSettings,
    SecuritySettings,
    SerialSettings,
    Settings,
    TopicSettings,
    UdpSettings,
    UpstreamSettings,
    client_id_for,
)
from gateway.config.spelling import KeyPath, dotted
from gateway.config.warnings import find_warnings


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, who gave each of them, and what is allowed but probably not meant."""

    settings: Settings
    warnings: tuple[str, ...]
    origins: Mapping[str, Origin]  # of what was given; the rest is default

    def origin_of(self, key: str) -> str:
        """Such as `config.toml:6:7`, `environment TIDEGATE_UPSTREAM__URL` or `default`.

        The key is spelled as in messages: `upstream.url`, `udp.0.listen`,
        `predefined_topics."sensors/boot"`.
        """
        return str(self.origins.get(key, DEFAULT))


def load(
    path: Path | None,
    *,
    environment: Mapping[str, str],
    overrides: Sequence[str],
    content: bytes | None = None,
) -> Configuration:
    """`overrides` are KEY=VALUE from the command line; without a path there is no file. `content`:
    what is to be in the file, if it is not read.
    """
    gathering = Gathering()
    if path is not None:
        gather_file(path, gathering, content)
    gather_environment(environment, gathering)
    gather_overrides(overrides, gathering)
    settings = _settings(gathering)
    cross_checks.check(settings, gathering)
    gathering.raise_problems()
    return Configuration(
        settings=settings,
        warnings=tuple(find_warnings(settings, gathering)),
        origins={dotted(key): given.origin for key, given in gathering.given.items()},
    )


def page_address(
    path: Path, *, environment: Mapping[str, str], overrides: Sequence[str]
) -> HostPort | None:
    """Where the status page would be, as far as a wrong configuration says so."""
    gathering = Gathering()
    gather_file(path, gathering)
    if None in gathering.unclear:  # no TOML; its [admin] may be
        gathering = Gathering()
        gather_table(path, "admin", gathering)
    gather_environment(environment, gathering)
    gather_overrides(overrides, gathering)
    return AdminSettings(**_tables(gathering)[("admin",)]).listen


def _settings(gathering: Gathering) -> Settings:
    """What was given, over the defaults that the settings classes have."""
    tables = _tables(gathering)
    gateway = GatewaySettings(**tables[("gateway",)])
    upstream = {"client_id": client_id_for(gateway.name)} | tables[("upstream",)]
    listeners = len(gathering.entries.get(("udp",), [DEFAULT]))
    lines = len(gathering.entries.get(("serial",), []))
    filters = len(gathering.entries.get(("topic",), []))
    patterns = len(gathering.entries.get(("presence_client",), []))
    devices = len(gathering.entries.get(("home_assistant_device",), []))
    bindings = len(gathering.entries.get(("binding",), []))
    rules = len(gathering.entries.get(("access",), []))
    values = len(gathering.entries.get(("home_assistant_value",), []))
    commands = len(gathering.entries.get(("home_assistant_command",), []))
    users = len(gathering.entries.get(("admin_user",), []))
    tokens = len(gathering.entries.get(("admin_token",), []))
    clients = {
        str(path[1]): ClientSettings(predefined_topics=topics)
        for path, topics in list(tables.items())
        if path[0] == "clients"
    }
    return Settings(
        gateway=gateway,
        udp=tuple(UdpSettings(**tables[("udp", index)]) for index in range(listeners)),
        serial=tuple(_line(tables[("serial", index)]) for index in range(lines)),
        discovery=DiscoverySettings(**tables[("discovery",)]),
        upstream=UpstreamSettings(**upstream),
        journal=JournalSettings(**tables[("journal",)]),
        topic=tuple(_topic(tables[("topic", index)]) for index in range(filters)),
        binding=tuple(_binding(tables[("binding", index)]) for index in range(bindings)),
        access=tuple(_rule(tables[("access", index)]) for index in range(rules)),
        security=SecuritySettings(**tables[("security",)]),
        dtls=DtlsSettings(**tables[("dtls",)]),
        protection=ProtectionSettings(**tables[("protection",)]),
        predefined_topics=tables[("predefined_topics",)],
        clients=clients,
        qos_minus_one=QosMinusOneSettings(**tables[("qos_minus_one",)]),
        mqtt_sn=MqttSnSettings(**tables[("mqtt_sn",)]),
        forwarders=ForwardersSettings(**tables[("forwarders",)]),
        admission=AdmissionSettings(**tables[("admission",)]),
        presence=PresenceSettings(**tables[("presence",)]),
        presence_client=tuple(
            _presence(tables[("presence_client", index)]) for index in range(patterns)
        ),
        home_assistant=HomeAssistantSettings(**tables[("home_assistant",)]),
        home_assistant_device=tuple(
            _device(tables[("home_assistant_device", index)]) for index in range(devices)
        ),
        home_assistant_value=tuple(
            _value(tables[("home_assistant_value", index)]) for index in range(values)
        ),
        home_assistant_command=tuple(
            _command(tables[("home_assistant_command", index)]) for index in range(commands)
        ),
        admin=AdminSettings(**tables[("admin",)]),
        admin_user=tuple(_user(tables[("admin_user", index)]) for index in range(users)),
        admin_token=tuple(_token(tables[("admin_token", index)]) for index in range(tokens)),
        limits=LimitsSettings(**tables[("limits",)]),
        log=LogSettings(**tables[("log",)]),
    )


def _line(given: dict[str, Any]) -> SerialSettings:
    """A port that is missing is a problem, which `cross_checks` reports."""
    return SerialSettings(**({"port": ""} | given))


def _topic(given: dict[str, Any]) -> TopicSettings:
    """A filter that is missing is a problem, which `cross_checks` reports."""
    return TopicSettings(**({"filter": ""} | given))


def _presence(given: dict[str, Any]) -> PresenceClientSettings:
    """A client that is missing is a problem, which `cross_checks` reports."""
    return PresenceClientSettings(**({"client": ""} | given))


def _device(given: dict[str, Any]) -> HomeAssistantDeviceSettings:
    """The same."""
    return HomeAssistantDeviceSettings(**({"client": ""} | given))


def _rule(given: dict[str, Any]) -> AccessSettings:
    """Topics that are missing are a problem, which `cross_checks` reports."""
    return AccessSettings(**({"topics": ()} | given))


def _binding(given: dict[str, Any]) -> BindingSettings:
    """What is missing is a problem, which `cross_checks` reports."""
    return BindingSettings(**({"identities": (), "clients": ()} | given))


def _value(given: dict[str, Any]) -> HomeAssistantValueSettings:
    """A name that is missing is a problem, which `cross_checks` reports."""
    return HomeAssistantValueSettings(**({"name": ""} | given))


def _command(given: dict[str, Any]) -> HomeAssistantCommandSettings:
    """What is missing is a problem, which `cross_checks` reports."""
    return HomeAssistantCommandSettings(**({"name": "", "kind": "button", "topic": ""} | given))


def _user(given: dict[str, Any]) -> AdminUserSettings:
    """The same."""
    return AdminUserSettings(**({"name": "", "password": ""} | given))


def _token(given: dict[str, Any]) -> AdminTokenSettings:
    """The same."""
    return AdminTokenSettings(**({"name": "", "token": ""} | given))


def _tables(gathering: Gathering) -> defaultdict[KeyPath, dict[str, Any]]:
    """The given settings by the table they stand in. A test holds them against their types."""
    tables: defaultdict[KeyPath, dict[str, Any]] = defaultdict(dict)
    for path, given in gathering.given.items():
        name = str(path[-1])
        filled = separated(given.key, given.value) if name == given.key.name else None
        tables[path[:-1]].update({name: given.value} if filled is None else filled)
    return tables

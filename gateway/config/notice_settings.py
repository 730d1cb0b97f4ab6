"""What the gateway says of itself and its devices on MQTT, as frozen values; see `settings.py`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceSettings:
    clients: bool = True
    stats_s: int = 60
    messages_per_s_max: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAssistantSettings:
    enable: bool = False
    discovery_prefix: str = "homeassistant"
    birth_topic: str = "homeassistant/status"


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeAssistantValueSettings:
    """What a value is, where its unit does not say so. The first entry that fits decides."""

    name: str
    client: str | None = None
    label: str | None = None
    unit: str | None = None
    device_class: str | None = None
    state_class: str | None = None
    hide: bool = False

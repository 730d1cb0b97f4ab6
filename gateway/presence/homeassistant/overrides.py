"""What the operator has set: `[[home_assistant_value]]` and `[[home_assistant_device]]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.config.home_assistant_rules import is_binary_class, is_numeric_class, is_sensor_class
from gateway.config.patterns import matches
from gateway.config.topic_filters import covers


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """None: as the value's unit or name implies."""

    name: str
    client: str | None = None
    topic: str | None = None
    label: str | None = None
    unit: str | None = None
    device_class: str | None = None
    state_class: str | None = None
    precision: int | None = None
    icon: str | None = None
    entity_category: str | None = None
    enabled_by_default: bool | None = None
    options: Sequence[str] | None = None
    payload_on: str | None = None
    payload_off: str | None = None
    hide: bool = False
    event: bool = False

    def fits(self, client_id: str, topic: str, name: str) -> bool:
        return (
            name == self.name
            and (self.client is None or matches(self.client, client_id))
            and (self.topic is None or covers(self.topic, topic))
        )

    @property
    def is_numeric(self) -> bool:
        """Whether it can be meant for a number only."""
        if self.device_class is not None and is_sensor_class(self.device_class):
            if not is_numeric_class(self.device_class):
                return False
            if not is_binary_class(self.device_class):
                return True
        return not (self.unit is None and self.state_class is None and self.precision is None)

    @property
    def is_enumeration(self) -> bool:
        return self.options is not None and self.device_class in (None, "enum")

    @property
    def is_binary(self) -> bool:
        """The same for a binary sensor."""
        if self.is_numeric:
            return False
        if self.payload_on is not None or self.payload_off is not None:
            return True
        device_class = self.device_class
        if device_class is None or not is_binary_class(device_class):
            return False
        return not is_sensor_class(device_class)


NONE_SET = ValueOptions("")


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    client: str
    name: str | None = None
    area: str | None = None
    manufacturer: str | None = None
    model: str | None = None

    def fits(self, client_id: str) -> bool:
        return matches(self.client, client_id)

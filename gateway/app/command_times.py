"""How long a command of Home Assistant is worth delivering, by its topic: `expiry_s`.

Home Assistant cannot give a message a time, so the gateway counts it from when the message comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.config.patterns import matches
from gateway.config.settings import HomeAssistantCommandSettings
from gateway.presence.homeassistant.commands import CLIENT


def command_times(commands: Sequence[HomeAssistantCommandSettings]) -> Callable[[str], float]:
    """0 for the topic of none, and where it does not expire. The first entry that fits decides."""

    def within_s(topic: str) -> float:
        fitting = (each.expiry_s for each in commands if _is_for(each, topic))
        return float(next(fitting, 0))

    return within_s


def _is_for(command: HomeAssistantCommandSettings, topic: str) -> bool:
    """Whether a device that fits is sent that command there."""
    parts = command.topic.split(CLIENT)
    if len(parts) == 1:
        return topic == command.topic
    length, remainder = divmod(len(topic) - sum(map(len, parts)), len(parts) - 1)
    if remainder or length <= 0:
        return False
    start = len(parts[0])
    client_id = topic[start : start + length]
    return command.topic.replace(CLIENT, client_id) == topic and (
        command.client is None or matches(command.client, client_id)
    )

"""Topics of the gateway's own messages, as the broker has them, and how any client id becomes one
level of a topic.
"""

from __future__ import annotations

import re

# What would be a wildcard or another level, what MQTT 5 advises against (1.5.4), and the sign that
# begins an escape.
_ESCAPED = re.compile("[%+#/\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_ESCAPES = re.compile("(?:%[0-9A-F]{2})+")
# Of devices and gateways, below any prefix of Home Assistant's discovery.
_ANNOUNCEMENT = re.compile(r".+/device/tidegate_[A-Za-z0-9_-]+/config")
# Commands to the gateway itself.
RESTART = "restart"
LOG_LEVEL = "log_level"
PERMIT_JOINING = "permit_joining"
# What the id of a sensor without a connection begins with, before the topic of its readings.
NO_CONNECTION = "topic:"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]|_(?=[0-9a-f]{2})")


class Topics:
    def __init__(self, prefix: str, gateway_name: str) -> None:
        self.prefix = prefix
        self.name = gateway_name
        self.base = f"{prefix}tidegate/{gateway_name}"
        self.state = f"{self.base}/state"
        self.stats = f"{self.base}/stats"
        self.commands = f"{self.base}/command/"  # to the gateway itself, by their names

    def client(self, client_id: str) -> str:
        return f"{self.base}/clients/{level(client_id)}"

    def values(self, client_id: str) -> str:
        """The client's last values as JSON, for consumers that cannot read SenML."""
        return f"{self.base}/values/{level(client_id)}"

    def announced(self, client_id: str) -> str:
        """Where the client is announced to Home Assistant: for other gateways (claims.py)."""
        return f"{self.base}/announced/{level(client_id)}"

    def events(self, client_id: str) -> str:
        """What happened there, such as a button that was pressed, as JSON; not retained."""
        return f"{self.base}/events/{level(client_id)}"


def level(text: str) -> str:
    """As in a URL: `a/b` is `a%2Fb`; two texts are never the same level."""
    return _ESCAPED.sub(lambda one: "".join(f"%{byte:02X}" for byte in one[0].encode()), text)


def text_of(level_of_topic: str) -> str:
    """What `level` made it of."""
    if "%" not in level_of_topic:
        return level_of_topic
    return _ESCAPES.sub(
        lambda one: bytes.fromhex(one[0].replace("%", "")).decode(errors="replace"), level_of_topic
    )


def usual_device_id(gateway: str, client_id: str) -> str:
    """Under which a gateway announces a device, if nothing is known of it."""
    return f"tidegate_{plain_name(f'{gateway}/{client_id}')}"


def announcement(prefix: str, device: str) -> str:
    """The topic of a device's announcement."""
    return f"{prefix}/device/{device}/config"


def is_announcement(topic: str) -> bool:
    """For Home Assistant, of this version or of an older one."""
    return _ANNOUNCEMENT.fullmatch(topic) is not None


def plain_name(text: str) -> str:
    """Of letters, digits, `_` and `-` alone: `a/b` is `a_2fb`; two texts never have the same."""
    return _NOT_PLAIN.sub(lambda one: "".join(f"_{byte:02x}" for byte in one[0].encode()), text)

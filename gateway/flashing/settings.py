"""What a node is told: who it is, where its gateway is, what it measures. Checked here, where the
message reaches the user who typed it, and not on a board without a screen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.config.spelling import nearest
from gateway.flashing.errors import Failure, FlashError

NAME_OCTETS_MAX = 23  # the client ids that every gateway takes (MQTT-SN 1.2, 5.4.4)
TOPIC_OCTETS_MAX = 40
INTERVAL_S_MAX = 43_200  # twelve hours, as firmware/tiny has it
NODE_INTERVAL_S_MIN = 5  # as firmware/app has it
GATEWAYS_MAX = 4
SSID_BYTES_MAX, PASSWORD_BYTES_MAX = 32, 64  # IEEE 802.11; the longest is a key in hexadecimal
TINY_SENSORS = ("temperature", "simulated", "pin0", "pin1", "pin2")


# `kind` and what else its driver is told, such as pins.
Sensor = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """`gateways` is empty for a node on a serial line. `more` goes to the board as it is.
    `is_cabled`: its network is another than Wi-Fi.
    """

    name: str
    topic: str
    interval_s: int
    gateways: tuple[tuple[str, int], ...] = ()
    uart: int | None = None
    sensors: tuple[Sensor, ...] = ()
    wifi: str | None = None
    password: str | None = None
    is_cabled: bool = False
    secrets: Mapping[str, Any] | None = None
    more: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"NodeSettings({self.name!r})"  # a traceback shows no password


def check(settings: NodeSettings) -> None:
    """Raises FlashError."""
    name = settings.name.encode()
    if not 0 < len(name) <= NAME_OCTETS_MAX or not settings.name.isprintable():
        raise _wrong(f"--name: expected 1 to {NAME_OCTETS_MAX} bytes, got {settings.name!r}")
    topic = settings.topic
    if not 2 < len(topic.encode()) <= TOPIC_OCTETS_MAX or any(sign in topic for sign in "+#\0"):
        raise _wrong(f"--topic: expected 3 to {TOPIC_OCTETS_MAX} bytes without + #, got {topic!r}")
    if not 1 <= settings.interval_s <= INTERVAL_S_MAX:
        raise _wrong(f"--interval: expected 1 to {INTERVAL_S_MAX} seconds")
    if len(settings.gateways) > GATEWAYS_MAX:
        raise _wrong(f"--gateway: at most {GATEWAYS_MAX}")
    if settings.wifi is not None and not 0 < len(settings.wifi.encode()) <= SSID_BYTES_MAX:
        raise _wrong(f"--wifi: expected 1 to {SSID_BYTES_MAX} bytes, got {settings.wifi!r}")
    if len((settings.password or "").encode()) > PASSWORD_BYTES_MAX:
        raise _wrong(f"the password of {settings.wifi}: at most {PASSWORD_BYTES_MAX} bytes")


def tiny_settings(settings: NodeSettings) -> dict[str, Any]:
    """For firmware/tiny. Raises FlashError."""
    sensors = settings.sensors or ({"kind": "temperature"},)
    kind = sensors[0]["kind"]
    if len(sensors) != 1 or len(sensors[0]) != 1 or kind not in TINY_SENSORS:
        close = nearest(str(kind), TINY_SENSORS)
        meant = f", did you mean {close}?" if close else ""
        raise _wrong(f"--sensor: this board has one of {', '.join(TINY_SENSORS)}{meant}")
    if settings.wifi or settings.gateways:
        raise _wrong("this board has no network: leave --wifi and --gateway out")
    given = {
        "CLIENT_ID": settings.name,
        "TOPIC": settings.topic,
        "INTERVAL_S": settings.interval_s,
        "SENSOR": kind,
    }
    return given | dict(settings.more or {})


def node_settings(settings: NodeSettings, has_wifi: bool | None) -> dict[str, Any]:
    """/settings.json of firmware/app. `has_wifi`: the board, None if that is not known. Raises
    FlashError.
    """
    if settings.interval_s < NODE_INTERVAL_S_MIN:
        raise _wrong(f"--interval: this board takes {NODE_INTERVAL_S_MIN} seconds or more")
    if not settings.gateways and settings.uart is None:
        raise _wrong("say where the gateway is: --gateway HOST, or --uart NUMBER for a serial line")
    _check_network(settings, has_wifi)
    given: dict[str, Any] = {
        "id": settings.name,
        "topic": settings.topic,
        "interval_s": settings.interval_s,
    }
    if settings.gateways:
        given["gateways"] = [list(gateway) for gateway in settings.gateways]
    if settings.uart is not None:
        given["uart"] = {"number": settings.uart}
    given["sensors"] = [dict(sensor) for sensor in settings.sensors or ({"kind": "internal"},)]
    return given | dict(settings.more or {})


def _check_network(settings: NodeSettings, has_wifi: bool | None) -> None:
    has_ssid = settings.wifi is not None or "ssid" in (settings.secrets or {})
    if has_wifi is False and (has_ssid or settings.gateways):
        raise _wrong(
            "this board has no network: leave --wifi and --gateway out, and say on which UART its "
            "gateway is: --uart NUMBER"
        )
    needs_network = bool(settings.gateways) and settings.uart is None
    if has_wifi and needs_network and not has_ssid and not settings.is_cabled:
        raise _wrong(
            "say which wireless network this board joins: --wifi SSID; or --no-wifi, if it has "
            "another network, such as Ethernet"
        )


def node_secrets(settings: NodeSettings) -> dict[str, Any] | None:
    """/secrets.json of firmware/app, if there are any."""
    given: dict[str, Any] = {}
    if settings.wifi is not None:
        given = {"ssid": settings.wifi, "password": settings.password or ""}
    return (given | dict(settings.secrets or {})) or None


def as_json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"


def _wrong(text: str) -> FlashError:
    return FlashError(Failure.WRONG, text)

"""The settings of the core, each for the part that its name says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.discovery import DiscoveryOptions
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.mqtt.options import MqttOptions
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.topic_registry import TOPIC_ID_MIN
from gateway.core.topic_options import UplinkOptions
from gateway.core.uplink.custody.custody import CustodyOptions


def _anybody(_link: int, _address: bytes) -> bool:
    return True


def _anywhere(_former: bytes, _address: bytes) -> bool:
    return True


def _one_host(_link: int, _address: bytes) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    upstream: MqttOptions
    session: SessionOptions = field(default_factory=SessionOptions)
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    qos_minus_one: QosMinusOneOptions = field(default_factory=QosMinusOneOptions)
    predefined: PredefinedTopics = field(default_factory=PredefinedTopics)
    clients_predefined: Mapping[str, PredefinedTopics] = field(default_factory=dict)
    retained_messages_max: int = 10_000
    retained_bytes_max: int = 16 << 20
    allow_trailing_octets: bool = True
    first_topic_id: int = TOPIC_ID_MIN
    # Of this run: where message ids towards clients begin follows from it. None is for tests.
    message_id_secret: bytes = b""
    uplink: UplinkOptions = field(default_factory=UplinkOptions)
    # Whether this address of a link may forward for others.
    may_forward: Callable[[int, bytes], bool] = _anybody
    # Whether a sleeper may wake up at another address of its link: the former one and the new one.
    may_rebind: Callable[[bytes, bytes], bool] = _anywhere
    # Which host an address of a link is of; the bytes mean nothing else.
    host_of: Callable[[int, bytes], bytes] = _one_host
    discovery: DiscoveryOptions = field(default_factory=DiscoveryOptions)
    custody: CustodyOptions = field(default_factory=CustodyOptions)
    # Of packets: ProtectionOptions, which is imported only where there are keys; else None.
    protection: Any = None
    saves: bool = False  # whether somebody performs `Save`; else all is in memory only

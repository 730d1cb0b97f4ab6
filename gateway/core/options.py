"""The settings of the core, each for the part that its name says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.core.clients.admission import AdmissionRules
from gateway.core.clients.discovery import DiscoveryRules
from gateway.core.clients.qos_minus_one import ConnectionlessRules
from gateway.core.mqtt.options import UpstreamRules
from gateway.core.session.options import PredefinedTopics, SessionRules
from gateway.core.session.topic_registry import TOPIC_ID_MIN
from gateway.core.uplink.custody.custody import CustodyRules
from gateway.core.uplink.uplink import UplinkRules


def _anybody(_link: int, _address: bytes) -> bool:
    return True


def _anywhere(_former: bytes, _address: bytes) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class EngineRules:
    upstream: UpstreamRules
    session: SessionRules = field(default_factory=SessionRules)
    admission: AdmissionRules = field(default_factory=AdmissionRules)
    connectionless: ConnectionlessRules = field(default_factory=ConnectionlessRules)
    predefined: PredefinedTopics = field(default_factory=PredefinedTopics)
    clients_predefined: Mapping[str, PredefinedTopics] = field(default_factory=dict)
    retained_messages_max: int = 10_000
    retained_bytes_max: int = 16 << 20
    allow_trailing_octets: bool = True
    first_topic_id: int = TOPIC_ID_MIN
    uplink: UplinkRules = field(default_factory=UplinkRules)
    # Whether this address of a link may forward for others.
    may_forward: Callable[[int, bytes], bool] = _anybody
    # Whether a sleeper may wake up at another address of its link: the former one and the new one.
    may_rebind: Callable[[bytes, bytes], bool] = _anywhere
    discovery: DiscoveryRules = field(default_factory=DiscoveryRules)
    custody: CustodyRules = field(default_factory=CustodyRules)
    saves: bool = False  # whether somebody performs `Save`; else all is in memory only

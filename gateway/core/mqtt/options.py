"""What the upstream session needs to know of the gateway and its settings."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.state_records import PACKET_IDS

# mosquitto walks its list of QoS 2 messages in flight for each packet: 80,000/s with a window of
# 1,000, 1,400 with 20,000. Half a thousand stays clear of that whatever the broker would allow.
QOS2_IN_FLIGHT_MAX = 500

# SUBSCRIBE and UNSUBSCRIBE have the packet ids that readings leave.
CONTROL_ID_FIRST = PACKET_IDS + 1
# The last ones are for messages of the gateway's own at QoS 1.
OWN_ID_FIRST = 65_520
OWN_IN_FLIGHT_MAX = 16
CONTROL_ID_LAST = OWN_ID_FIRST - 1

PACKET_BYTES_MAX = 268_435_460  # of MQTT itself (2.1.4), with the fixed header
RECEIVE_MAX = 1000  # unacknowledged messages from the broker at once


@dataclass(frozen=True, slots=True)
class MqttOptions:
    """`epoch` counts the starts of this gateway; name, epoch and sequence name a reading.
    `own_filters`: what the gateway subscribes to for itself, as the broker has it, with the QoS.
    """

    gateway_name: str
    epoch: int
    client_id: str
    username: str | None = None
    password: bytes | None = None
    topic_prefix: str = ""
    trust_session: bool = False
    keep_alive_s: int = 30
    session_expiry_s: int = 604_800
    will_delay_s: int = 10
    connack_timeout_s: float = 10.0
    packet_bytes_max: int = 1 << 20
    waiting_messages_max: int = 100_000
    waiting_bytes_max: int = 64 << 20
    own_filters: tuple[tuple[str, int], ...] = ()
    filters_per_subscribe_max: int = 64
    probe_s: float = 10.0  # after an outage (caution.py)

    @property
    def presence_topic(self) -> str:
        return f"{self.topic_prefix}tidegate/{self.gateway_name}/state"

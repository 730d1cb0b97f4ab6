"""What a broker does not take, and how it says so: by a reason code, or by ending the connection.

Each is seen at a broker that is in use. Most end the connection for what they do not authorise or
find too large; mosquitto answers PUBLISH with 0x87 and ends the connection where it may queue
nothing; mochi acknowledges with codes below 0x80 that MQTT 5 does not list; Artemis puts all
matching subscription identifiers into one PUBLISH.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Topics and filters are compared letter by letter. The defaults take everything."""

    ends_on_topics: tuple[str, ...] = ()  # with PUBLISH to one of these
    ends_on_filters: tuple[str, ...] = ()
    filters_max: int = 0  # a SUBSCRIBE with more ends the connection; 0: any number
    denied_topics: tuple[str, ...] = ()  # PUBACK or PUBREC 0x87
    denied_filters: tuple[str, ...] = ()  # SUBACK 0x87
    ends_after_denial: bool = False
    acknowledged_with: int = 0  # in PUBACK, PUBREC and PUBCOMP
    joins_identifiers: bool = False  # one PUBLISH for all subscriptions that match
    packet_bytes_max: int | None = None  # Maximum Packet Size, announced


TAKES_ALL = BrokerLimits()

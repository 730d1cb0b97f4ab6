"""What a broker that cannot be had here allows, as its makers document it (see models.py)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Denial(Enum):
    """How it answers a PUBLISH or SUBSCRIBE that its access rules forbid."""

    ANSWER = "answer"  # PUBACK, PUBREC or SUBACK with 0x87
    CLOSE = "close"  # the connection ends, without a word
    DISCONNECT = "disconnect"  # DISCONNECT 0x87, then the connection ends


@dataclass(frozen=True, slots=True)
class Limits:
    filters_per_subscribe_max: int | None = None
    packet_bytes_max: int | None = None
    receive_maximum: int | None = None
    qos_max: int = 2
    keep_alive_s_max: int | None = None
    session_expiry_s_max: int | None = None
    topic_slashes_max: int | None = None
    topic_bytes_max: int | None = None
    retain_available: bool = True
    identifiers_available: bool = True
    shared_available: bool = True
    topic_alias_max: int = 0
    denied_publish: Denial = Denial.ANSWER
    denied_subscribe: Denial = Denial.ANSWER

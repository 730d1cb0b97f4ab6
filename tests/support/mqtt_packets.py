"""What was written to the broker, packet by packet, read by the codec package."""

from __future__ import annotations

from typing import Any

import mqtt5


def packets_in(octets: bytes) -> list[Any]:
    """Whole packets, one behind the other."""
    view = memoryview(octets)
    packets = []
    while view:
        packet, size = mqtt5.read(view)
        packets.append(packet)
        view = view[size:]
    return packets

"""Packets of MQTT from a stream of bytes."""

from __future__ import annotations

from collections.abc import Callable

import mqtt5

SUBSCRIPTION_ID = 1


def subscription(name: str, topic_filter: str) -> bytes:
    """CONNECT and SUBSCRIBE at QoS 0, of a client without a session."""
    wanted = [mqtt5.TopicFilter(topic_filter, max_qos=mqtt5.QoS.AT_MOST_ONCE)]
    connect = mqtt5.ConnectPacket(name, clean_start=True, keep_alive=0)
    return connect.write() + mqtt5.SubscribePacket(SUBSCRIPTION_ID, wanted).write()


def take(received: bytes, each: Callable[[mqtt5.Packet], None]) -> bytes:
    """Gives every whole packet to `each`; returns the start of one that is not here in full."""
    view = memoryview(received)
    while view:
        try:
            packet, size = mqtt5.read(view)
        except IndexError:
            break
        view = view[size:]
        each(packet)
    return bytes(view)

"""Brokers that cannot be had here, as models: a mosquitto, and a proxy with their limits before it.

The limits are those that their makers document. What a model cannot show: TLS and certificates,
how fast they are, how they answer a client that is throttled, and what they do without saying so.

A connection that a model ends goes with everything that was under way: packets behind the one that
it ended for are lost, and so are acknowledgements of those before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mqtt5

from tests.brokers.broker import Settings
from tests.brokers.limits import Denial, Limits
from tests.brokers.tap import Connection, Verdict

NOT_AUTHORIZED = mqtt5.DisconnectReasonCode.NOT_AUTHORIZED


class LimitedBroker:
    """What `limits` says, as the tap asks for it."""

    def __init__(self, limits: Limits, settings: Settings) -> None:
        self._limits = limits
        self._denied = f"{settings.denied}/"

    # From the gateway

    def up(self, packet: Any, data: bytes, connection: Connection) -> Verdict:
        limits = self._limits
        if limits.packet_bytes_max and len(data) > limits.packet_bytes_max:
            return _ended(mqtt5.DisconnectReasonCode.PACKET_TOO_LARGE)
        match packet:
            case mqtt5.ConnectPacket():
                return self._connect(packet, data)
            case mqtt5.SubscribePacket():
                return self._subscribe(packet)
            case mqtt5.PublishPacket():
                return self._publish(packet, data, connection)
        return Verdict(data)

    def _connect(self, packet: mqtt5.ConnectPacket, data: bytes) -> Verdict:
        will = packet.will
        if will is not None and int(will.qos) > self._limits.qos_max:
            return _refused(mqtt5.ConnAckReasonCode.QUALITY_NOT_SUPPORTED)
        if will is not None and will.retain and not self._limits.retain_available:
            return _refused(mqtt5.ConnAckReasonCode.RETAIN_NOT_SUPPORTED)
        return Verdict(data)

    def _subscribe(self, packet: mqtt5.SubscribePacket) -> Verdict:
        limits = self._limits
        many = limits.filters_per_subscribe_max
        if many is not None and len(packet.topic_filters) > many:
            return Verdict(closes=True)
        if packet.subscription_id is not None and not limits.identifiers_available:
            return _ended(mqtt5.DisconnectReasonCode.SUBSCRIPTION_IDS_NOT_SUPPORTED)
        patterns = [each.pattern for each in packet.topic_filters]
        if any(self._is_denied(each) for each in patterns):
            if limits.denied_subscribe is Denial.DISCONNECT:
                return _ended(NOT_AUTHORIZED)
            if limits.denied_subscribe is Denial.CLOSE:
                return Verdict(closes=True)
        if any(self._is_too_deep(each) for each in patterns):
            return _ended(mqtt5.DisconnectReasonCode.TOPIC_FILTER_INVALID)
        return Verdict(_at_most(packet, limits.qos_max).write())

    def _publish(self, packet: mqtt5.PublishPacket, data: bytes, connection: Connection) -> Verdict:
        limits = self._limits
        if int(packet.qos) > limits.qos_max:
            return _ended(mqtt5.DisconnectReasonCode.QOS_NOT_SUPPORTED)
        if packet.retain and not limits.retain_available:
            return _ended(mqtt5.DisconnectReasonCode.RETAIN_NOT_SUPPORTED)
        if limits.receive_maximum and len(connection.in_flight) > limits.receive_maximum:
            return _ended(mqtt5.DisconnectReasonCode.RECEIVE_MAX_EXCEEDED)
        if self._is_denied(packet.topic):
            if limits.denied_publish is Denial.DISCONNECT:
                return _ended(NOT_AUTHORIZED)
            if limits.denied_publish is Denial.CLOSE:
                return Verdict(closes=True)
        if self._is_too_deep(packet.topic):
            return Verdict(closes=True)
        return Verdict(data)

    def _is_denied(self, topic: str) -> bool:
        return topic.startswith(self._denied)

    def _is_too_deep(self, topic: str) -> bool:
        limits = self._limits
        slashes, size = limits.topic_slashes_max, limits.topic_bytes_max
        return (slashes is not None and topic.count("/") > slashes) or (
            size is not None and len(topic.encode()) > size
        )

    # From mosquitto

    def down(self, packet: Any, data: bytes) -> bytes:
        if not isinstance(packet, mqtt5.ConnAckPacket) or packet.reason_code.value:
            return data
        limits = self._limits
        return mqtt5.ConnAckPacket(
            session_present=packet.session_present,
            session_expiry_interval=limits.session_expiry_s_max,
            server_keep_alive=limits.keep_alive_s_max,
            receive_max=limits.receive_maximum or 65535,
            topic_alias_max=limits.topic_alias_max,
            max_qos=mqtt5.QoS(limits.qos_max),
            retain_available=limits.retain_available,
            max_packet_size=limits.packet_bytes_max,
            subscription_id_available=limits.identifiers_available,
            shared_subscription_available=limits.shared_available,
        ).write()


def _ended(code: mqtt5.DisconnectReasonCode) -> Verdict:
    return Verdict(answer=mqtt5.DisconnectPacket(reason_code=code).write(), closes=True)


def _refused(code: mqtt5.ConnAckReasonCode) -> Verdict:
    return Verdict(answer=mqtt5.ConnAckPacket(reason_code=code).write(), closes=True)


def _at_most(packet: mqtt5.SubscribePacket, qos_max: int) -> mqtt5.SubscribePacket:
    """What is above Maximum QoS is not refused, less is granted (MQTT 5, 3.2.2.3.4)."""
    filters = [
        mqtt5.TopicFilter(
            each.pattern,
            max_qos=mqtt5.QoS(min(int(each.max_qos), qos_max)),
            no_local=each.no_local,
            retain_as_published=each.retain_as_published,
            retain_handling=each.retain_handling,
        )
        for each in packet.topic_filters
    ]
    return mqtt5.SubscribePacket(
        packet.packet_id,
        filters,
        subscription_id=packet.subscription_id,
        user_properties=packet.user_properties,
    )


def with_room(settings: Settings, limits: Limits) -> Settings:
    """For the mosquitto behind a model: its own limits are not in the way."""
    return replace(
        settings,
        receive_maximum=limits.receive_maximum or 1000,
        packet_bytes_max=limits.packet_bytes_max or 1 << 20,
    )

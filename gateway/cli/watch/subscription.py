"""A session at the broker that only listens: bytes in, bytes out and what they said.

It is not the gateway's: another client id, a clean start, no will, and nothing that outlasts the
connection, so nothing of the gateway's own session is touched. Each message is acknowledged when it
comes. It asks for QoS 2, so that each is shown at the QoS at which it was published.

Limits: RECEIVE_MAX unacknowledged messages, PACKET_BYTES_MAX for a packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import mqtt5

from gateway.cli.watch.reading import Arrived
from gateway.core.mqtt.reason_codes import spoken
from gateway.packets.codec import (
    CONNACK,
    CONNACK_311_BYTES,
    NO_MQTT_5,
    PUBLISH,
    BadPacketError,
    SkippedPublish,
    no_connack_but,
    packet_end,
    read_packet,
    unreadable_publish,
)

RECEIVE_MAX = 100
PACKET_BYTES_MAX = 1 << 20
PACKET_ID = 1
REFUSED = 0x80
# Refusals that stay until the configuration is changed, here or at the broker.
LASTING = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C})
DENIED = frozenset({0x86, 0x87, 0x8A, 0x8C})
FORBIDDEN = frozenset({0x80, 0x87})  # a subscription; some brokers give no reason


@dataclass(frozen=True, slots=True)
class Granted:
    """The broker has accepted the subscription."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker does not want us. `is_denied`: for want of a right."""

    reason: str
    is_lasting: bool
    is_denied: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The connection is of no more use."""

    reason: str


News: TypeAlias = Arrived | Granted | Refused | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribing:
    """`topic_filter` as the broker has it."""

    client_id: str
    topic_filter: str
    username: str | None = None
    password: bytes | None = None
    keep_alive_s: int = 30


class Subscription:
    """One connection after the other."""

    def __init__(self, options: Subscribing) -> None:
        self._options = options
        self._partial = b""
        self._is_accepted = False
        self._had_retained = False
        self._unreleased: set[int] = set()  # QoS 2, by packet id

    def opened(self) -> bytes:
        self._partial, self._is_accepted = b"", False
        self._unreleased.clear()
        options = self._options
        return mqtt5.ConnectPacket(
            options.client_id,
            username=options.username,
            password=options.password,
            clean_start=True,
            keep_alive=options.keep_alive_s,
            receive_max=RECEIVE_MAX,
            max_packet_size=PACKET_BYTES_MAX,
        ).write()

    def ping(self) -> bytes:
        return mqtt5.PingReqPacket().write()

    def receive(self, data: bytes, unix_s: float) -> tuple[list[bytes], list[News]]:
        """What to send, and what came."""
        data = self._partial + data
        answers: list[bytes] = []
        news: list[News] = []
        start = 0
        try:
            if data and not self._is_accepted and data[0] != CONNACK:
                raise BadPacketError(no_connack_but(data))
            while (end := packet_end(data, start, PACKET_BYTES_MAX)) is not None:
                if end < 0:
                    raise BadPacketError(f"a packet of {-end} bytes, more than we take")
                answer, what = self._packet(data[start:end], unix_s)
                answers += answer
                news += what
                start = end
        except BadPacketError as error:
            news.append(Ended(f"the broker sent what it may not send: {error}"))
        self._partial = data[start:]
        return answers, news

    def _packet(self, data: bytes, unix_s: float) -> tuple[list[bytes], list[News]]:
        if not self._is_accepted:
            return self._connack(data)
        if data[0] & 0xF0 == PUBLISH and (bad := unreadable_publish(data, 0, len(data))):
            return self._receipt(bad), []
        packet, codes, _ = read_packet(memoryview(data), check_text=True)
        match packet:
            case mqtt5.PublishPacket():
                return self._publish(packet, unix_s)
            case mqtt5.PubRelPacket():
                self._unreleased.discard(packet.packet_id)
                return [mqtt5.PubCompPacket(packet.packet_id).write()], []
            case mqtt5.SubAckPacket():
                return self._suback(packet, codes)
            case mqtt5.DisconnectPacket():
                code = (codes or [int(packet.reason_code)])[0]
                text = spoken("DISCONNECT", code, packet.reason_str, packet.server_reference)
                return [], [Ended(text)]
            case mqtt5.PingRespPacket():
                return [], []
        raise BadPacketError(f"{type(packet).__name__}, which was not asked for")

    def _connack(self, data: bytes) -> tuple[list[bytes], list[News]]:
        if data[0] == CONNACK and len(data) == CONNACK_311_BYTES:
            text = NO_MQTT_5.format(code=data[3])
            return [], [Refused(text, is_lasting=True, is_denied=False)]
        packet, codes, _ = read_packet(memoryview(data))
        if not isinstance(packet, mqtt5.ConnAckPacket):
            raise BadPacketError(no_connack_but(data))
        code = (codes or [int(packet.reason_code)])[0]
        if code:
            text = spoken("CONNACK", code, packet.reason_str, packet.server_reference)
            return [], [Refused(text, is_lasting=code in LASTING, is_denied=code in DENIED)]
        self._is_accepted = True
        return [self._subscribe()], []

    def _subscribe(self) -> bytes:
        """What is retained comes with the first connection only: after a break it is known."""
        handling = mqtt5.RetainHandling
        topic_filter = mqtt5.TopicFilter(
            self._options.topic_filter,
            max_qos=mqtt5.QoS.EXACTLY_ONCE,
            retain_as_published=False,
            retain_handling=handling.SEND_NEVER if self._had_retained else handling.SEND_ALWAYS,
        )
        return mqtt5.SubscribePacket(PACKET_ID, [topic_filter]).write()

    def _suback(
        self, packet: mqtt5.SubAckPacket, codes: list[int]
    ) -> tuple[list[bytes], list[News]]:
        code = (codes or [int(each) for each in packet.reason_codes])[0]
        if code >= REFUSED:
            text = spoken("SUBACK", code, packet.reason_str, None)
            return [], [Refused(text, is_lasting=True, is_denied=code in FORBIDDEN)]
        self._had_retained = True
        return [], [Granted()]

    def _publish(
        self, packet: mqtt5.PublishPacket, unix_s: float
    ) -> tuple[list[bytes], list[News]]:
        qos, packet_id = int(packet.qos), packet.packet_id or 0
        known = packet_id in self._unreleased if qos == 2 else False
        answers = self._receipt(SkippedPublish(packet.topic, qos, packet_id, 0, 0))
        if known:
            return answers, []
        arrived = Arrived(
            topic=packet.topic,
            payload=packet.payload,
            qos=qos,
            retain=packet.retain,
            properties=dict(packet.user_properties),
            unix_s=unix_s,
        )
        return answers, [arrived]

    def _receipt(self, head: SkippedPublish) -> list[bytes]:
        if head.qos == 1:
            return [mqtt5.PubAckPacket(head.packet_id).write()]
        if head.qos == 2:
            self._unreleased.add(head.packet_id)
            return [mqtt5.PubRecPacket(head.packet_id).write()]
        return []

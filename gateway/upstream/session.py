"""Our side of the one MQTT 5 session with the broker, without its socket.

Octets, readings, wishes for subscriptions and time come in; packets to write and news go out. The
rules:

Rule 1: Clean Start 0 and a Session Expiry always, also at the first start: mosquitto does not
        save over its own restart a session that began with Clean Start 1.
Rule 2: the broker's Receive Maximum is obeyed, and a QoS 2 window of our own (in_flight.py).
Rule 3: after a break, with the broker's session gone everything unsettled is published again as
        new, and PUBREL is never sent. With the session present, `trust_session` decides: by the
        specification (DUP for what had no PUBREC, PUBREL for what had), or everything again with
        DUP and the same packet id, because mosquitto says "session present" after a kill though
        it forgot the QoS 2 messages it had answered with PUBREC. The delivery tag is the same
        each time.
Rule 4: a message from the broker is acknowledged when the engine says so (`acknowledge`), not
when it comes.

Limits: see in_flight.py and subscribing.py; a packet from the broker is at most
`packet_bytes_max`; ids of QoS 2 messages from the broker are at most RECEIVE_MAX.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Any

import mqtt5

from gateway.effects import (
    Arrived,
    Dropped,
    DropUpstream,
    Effect,
    Forward,
    Message,
    Reason,
    Refused,
    Settled,
    Transmit,
    UpstreamRefused,
    UpstreamUp,
)
from gateway.frames import ReturnCode
from gateway.upstream.in_flight import InFlight
from gateway.upstream.packets import PUBACK, BadPacketError, PublishWriter, packet_end
from gateway.upstream.reasons import spoken
from gateway.upstream.rules import PUBLISH_IDS, RECEIVE_MAX, UpstreamRules
from gateway.upstream.subscribing import UpstreamSubscriptions, is_replay

REFUSED = 0x80
HEAD_OCTETS_MAX = 512  # of a PUBLISH beside its topic and payload: the tag with the longest names
_NO_PACKET_ID = 0

# What the broker may accept later; all else it will refuse again (MQTT 5, 3.4.2.1).
_PASSING = frozenset({0x80, 0x83, 0x91, 0x97})


class Phase(Enum):
    CLOSED = "closed"
    CONNECTING = "connecting"  # CONNECT sent, CONNACK due
    UP = "up"


class UpstreamSession:
    def __init__(self, rules: UpstreamRules) -> None:
        self.phase = Phase.CLOSED
        self.in_flight = InFlight(rules.waiting_messages_max, rules.waiting_bytes_max)
        self.subscriptions = UpstreamSubscriptions(rules.topic_prefix, rules.epoch)
        self.is_clogged = False  # the shell cannot write as fast as we ask; QoS 0 is dropped
        self.unix_ms_at_zero = 0.0
        self._rules = rules
        self._writer = PublishWriter(rules)
        self._sequence = 0
        self._partial = b""
        self._received: set[int] = set()  # QoS 2 from the broker, PUBREL due
        self._qos_max = 2
        self._retain_available = True
        self._packet_bytes_max: float = inf
        self._keep_alive_s = rules.keep_alive_s
        self._heard_at = 0.0
        self._pinged_at = 0.0
        self._deadline_at = inf
        self._last_live: tuple[str, bytes] | None = None

    # From the connection

    def opened(self, now: float) -> list[Effect]:
        """The transport is there: introduce ourselves."""
        rules = self._rules
        self.phase = Phase.CONNECTING
        self._partial = b""
        self._deadline_at = now + rules.connack_timeout_s
        will = mqtt5.Will(
            rules.presence_topic, payload=b"offline", qos=mqtt5.QoS.AT_LEAST_ONCE, retain=True
        )
        packet = mqtt5.ConnectPacket(
            rules.client_id,
            username=rules.username,
            password=rules.password,
            clean_start=False,
            will=will,
            keep_alive=rules.keep_alive_s,
            session_expiry_interval=rules.session_expiry_s,
            receive_max=RECEIVE_MAX,
            max_packet_size=rules.packet_bytes_max,
        )
        return [Transmit(packet.write())]

    def receive(self, data: bytes, now: float) -> list[Effect]:
        """Octets from the broker, cut anywhere."""
        self._heard_at = now
        if self._partial:
            data = self._partial + data
        effects: list[Effect] = []
        try:
            end = self._receive_packets(data, now, effects)
        except (BadPacketError, ValueError, IndexError) as error:
            self._partial = b""
            return [*effects, DropUpstream(f"the broker sent what is no MQTT 5 packet: {error}")]
        self._partial = data[end:]
        if self.in_flight.waiting:
            effects += self._pump()
        return effects

    def closed(self) -> None:
        """The transport is gone; what is unsettled stays for the next one."""
        self.phase = Phase.CLOSED
        self.is_clogged = False
        self._partial = b""
        self._deadline_at = inf
        self._last_live = None
        self.subscriptions.close()

    # From the engine

    def publish(self, forward: Forward) -> list[Effect]:
        """Carry a reading to the broker, now or in its turn."""
        qos = forward.upstream_qos = min(forward.qos, self._qos_max)
        in_flight = self.in_flight
        if forward.qos == 0:
            return self._publish_qos0(forward)
        if self.phase is Phase.UP and not in_flight.waiting and in_flight.has_room(qos):
            return [self._transmit(self._numbered(forward))]
        if in_flight.wait(forward):
            self._numbered(forward)
            return []
        detail = f"{len(in_flight.waiting)} readings wait for the broker"
        return [Refused(forward, ReturnCode.CONGESTION, Reason.WAITING_FULL, detail)]

    def acknowledge(self, arrived: Arrived) -> list[Effect]:
        """A message from the broker is in good hands."""
        packet_id = arrived.packet_id
        if packet_id == _NO_PACKET_ID or self.phase is not Phase.UP:
            return []
        if arrived.message.qos == 1:
            return [Transmit(b"\x40\x02" + packet_id.to_bytes(2, "big"))]
        return [Transmit(mqtt5.PubRecPacket(packet_id).write())]

    def stop(self) -> list[Effect]:
        """Say goodbye: presence `offline`, then DISCONNECT, which discards the will."""
        if self.phase is not Phase.UP:
            return []
        return [self._presence(b"offline"), Transmit(mqtt5.DisconnectPacket().write())]

    # Time

    def wake_at(self) -> float:
        if self.phase is Phase.UP:
            return self._pinged_at + self._keep_alive_s / 2 if self._keep_alive_s else inf
        return self._deadline_at

    def handle_time(self, now: float) -> list[Effect]:
        """Ping at half the keep-alive; silence from one ping to the next is a dead link."""
        if now < self.wake_at():
            return []
        if self.phase is not Phase.UP:
            self._deadline_at = inf
            waited = self._rules.connack_timeout_s
            return [DropUpstream(f"no CONNACK within {waited:g} s; is it an MQTT 5 broker?")]
        if self._heard_at < self._pinged_at:
            silence = now - self._heard_at
            return [DropUpstream(f"the broker has been silent for {silence:.0f} s")]
        self._pinged_at = now
        return [Transmit(mqtt5.PingReqPacket().write())]

    # Packets

    def _receive_packets(self, data: bytes, now: float, effects: list[Effect]) -> int:
        """Handle whole packets; returns where the first incomplete one begins."""
        position, size = 0, len(data)
        settle = self.in_flight.settle
        while position < size:
            if data[position] == PUBACK and data[position + 1 : position + 2] == b"\x02":
                if size - position < 4:
                    return position
                forward = settle(data[position + 2] << 8 | data[position + 3])
                if forward is not None:
                    effects.append(Settled(forward))
                position += 4
                continue
            end = packet_end(data, position, self._rules.packet_bytes_max)
            if end is None:
                return position
            packet, _ = mqtt5.read(memoryview(data)[position:end])
            receiver = _RECEIVERS.get(type(packet))
            if receiver is None:
                raise BadPacketError(type(packet).__name__)
            effects += receiver(self, packet, now)
            position = end
        return position

    def _receive_connack(self, packet: mqtt5.ConnAckPacket, now: float) -> list[Effect]:
        if self.phase is not Phase.CONNECTING:
            raise BadPacketError("a second CONNACK")
        code = int(packet.reason_code)
        if code >= REFUSED:
            reason = spoken("CONNACK", code, packet.reason_str)
            return [UpstreamRefused(reason), DropUpstream(reason)]
        self.phase = Phase.UP
        self._heard_at = self._pinged_at = now
        self._keep_alive_s = self._rules.keep_alive_s
        if packet.server_keep_alive is not None:
            self._keep_alive_s = packet.server_keep_alive
        self._qos_max = int(packet.max_qos)
        self._retain_available = packet.retain_available
        self._packet_bytes_max = packet.max_packet_size or inf
        self.in_flight.window = min(packet.receive_max, PUBLISH_IDS)
        if not packet.session_present:
            self._received.clear()
        effects: list[Effect] = [self._presence(b"online")]
        effects += self.subscriptions.open(identifiers_available=packet.subscription_id_available)
        resent = self._resend(session_present=packet.session_present)
        news = UpstreamUp(packet.session_present, len(resent) + len(self.in_flight.waiting))
        return [news, *effects, *resent]

    def _receive_publish(self, packet: mqtt5.PublishPacket, _now: float) -> list[Effect]:
        qos, packet_id = int(packet.qos), packet.packet_id or _NO_PACKET_ID
        prefix = self._rules.topic_prefix
        message = Message(packet.topic.removeprefix(prefix), packet.payload, qos, packet.retain)
        replay = is_replay(packet.subscription_ids, retain=packet.retain)
        arrived = Arrived(message, packet_id, replay)
        if qos == 2:
            if packet_id in self._received:
                return self.acknowledge(arrived)
            self._received.add(packet_id)
        ours = packet.topic.startswith(prefix) and self.subscriptions.are_ours(
            packet.subscription_ids
        )
        if not ours or self._is_twin(message, replay=replay):
            return self.acknowledge(arrived)
        return [arrived]

    def _receive_puback(self, packet: mqtt5.PubAckPacket, _now: float) -> list[Effect]:
        return self._settle(packet.packet_id, int(packet.reason_code), packet.reason_str, "PUBACK")

    def _receive_pubrec(self, packet: mqtt5.PubRecPacket, _now: float) -> list[Effect]:
        code = int(packet.reason_code)
        if code >= REFUSED:
            return self._settle(packet.packet_id, code, packet.reason_str, "PUBREC")
        known = self.in_flight.release(packet.packet_id)
        answer = mqtt5.PubRelReasonCode.SUCCESS
        if not known:
            answer = mqtt5.PubRelReasonCode.PACKET_ID_NOT_FOUND
        return [Transmit(mqtt5.PubRelPacket(packet.packet_id, reason_code=answer).write())]

    def _receive_pubcomp(self, packet: mqtt5.PubCompPacket, _now: float) -> list[Effect]:
        """Settled whatever the code: "not found" says that the broker has finished with it."""
        return self._settle(packet.packet_id, 0, None, "PUBCOMP")

    def _receive_pubrel(self, packet: mqtt5.PubRelPacket, _now: float) -> list[Effect]:
        self._received.discard(packet.packet_id)
        return [Transmit(mqtt5.PubCompPacket(packet.packet_id).write())]

    def _receive_suback(self, packet: mqtt5.SubAckPacket, _now: float) -> list[Effect]:
        return self.subscriptions.receive_suback(
            packet.packet_id, [int(code) for code in packet.reason_codes]
        )

    def _receive_unsuback(self, packet: mqtt5.UnsubAckPacket, _now: float) -> list[Effect]:
        return self.subscriptions.receive_unsuback(packet.packet_id)

    def _receive_disconnect(self, packet: mqtt5.DisconnectPacket, _now: float) -> list[Effect]:
        reason = spoken("DISCONNECT", int(packet.reason_code), packet.reason_str)
        return [UpstreamRefused(reason), DropUpstream(reason)]

    def _receive_pingresp(self, _packet: mqtt5.PingRespPacket, _now: float) -> list[Effect]:
        return []  # that it came was noted with its octets

    # Readings

    def _publish_qos0(self, forward: Forward) -> list[Effect]:
        if self.phase is not Phase.UP:
            return [Dropped(Reason.BROKER_AWAY, forward.client_id)]
        if self.is_clogged:
            return [Dropped(Reason.BROKER_SLOW, forward.client_id)]
        if not self.in_flight.waiting:
            return [self._transmit(forward)]
        if self.in_flight.wait(forward):
            return []
        return [Dropped(Reason.WAITING_FULL, forward.client_id)]

    def _numbered(self, forward: Forward) -> Forward:
        forward.sequence = self._sequence
        self._sequence += 1
        return forward

    def _transmit(self, forward: Forward, *, packet_id: int = 0, dup: bool = False) -> Effect:
        if forward.retain and not self._retain_available:
            forward.retain = False
        size = len(forward.payload) + len(forward.topic) + HEAD_OCTETS_MAX
        if size > self._packet_bytes_max:
            return self._too_large(forward, packet_id)
        if not packet_id and forward.upstream_qos:
            packet_id = self.in_flight.publish(forward)
        unix_ms = int(forward.received_at * 1000 + self.unix_ms_at_zero)
        return Transmit(self._writer.write(forward, packet_id, unix_ms, dup=dup))

    def _too_large(self, forward: Forward, packet_id: int) -> Effect:
        """The broker would close the connection, and again each time the reading is sent to it."""
        self.in_flight.settle(packet_id)
        detail = (
            f"{forward.topic!r}: larger than the {self._packet_bytes_max} bytes the broker takes"
        )
        if forward.qos == 0:
            return Dropped(Reason.PAYLOAD_TOO_LARGE, forward.client_id, detail)
        return Refused(forward, ReturnCode.NOT_SUPPORTED, Reason.PAYLOAD_TOO_LARGE, detail)

    def _pump(self) -> list[Effect]:
        """Let go what waits, as far as the window allows."""
        effects: list[Effect] = []
        if self.phase is Phase.UP:
            while (forward := self.in_flight.next_waiting()) is not None:
                effects.append(self._transmit(forward))
        return effects

    def _resend(self, *, session_present: bool) -> list[Effect]:
        """Rule 3."""
        in_flight = self.in_flight
        if not session_present:
            in_flight.start_over()
            return []
        if not self._rules.trust_session:
            in_flight.unrelease()
        effects: list[Effect] = []
        for packet_id, forward in in_flight.in_order():
            if packet_id in in_flight.released:
                effects.append(Transmit(mqtt5.PubRelPacket(packet_id).write()))
            else:
                effects.append(self._transmit(forward, packet_id=packet_id, dup=True))
        return effects

    def _settle(self, packet_id: int, code: int, detail: str | None, packet: str) -> list[Effect]:
        forward = self.in_flight.settle(packet_id)
        if forward is None:
            return []
        if code < REFUSED:
            return [Settled(forward)]
        answer = ReturnCode.CONGESTION if code in _PASSING else ReturnCode.NOT_SUPPORTED
        reason = f"{forward.topic!r}: {spoken(packet, code, detail)}"
        return [Refused(forward, answer, Reason.BROKER_REFUSED, reason)]

    def _presence(self, word: bytes) -> Transmit:
        """Retained, at QoS 0: it needs no packet id, and the connection itself is its guarantee."""
        packet = mqtt5.PublishPacket(
            self._rules.presence_topic,
            word,
            retain=self._retain_available,
            user_properties=[("gw", self._rules.gateway_name)],
        )
        return Transmit(packet.write())

    def _is_twin(self, message: Message, *, replay: bool) -> bool:
        """While two subscriptions overlap, the broker sends a message for each, in a row."""
        if not self.subscriptions.overlapping or replay:
            self._last_live = None
            return False
        contents = (message.topic, message.payload)
        if self._last_live == contents:
            self._last_live = None
            return True
        self._last_live = contents
        return False


_RECEIVERS: dict[type, Callable[[UpstreamSession, Any, float], list[Effect]]] = {
    mqtt5.ConnAckPacket: UpstreamSession._receive_connack,
    mqtt5.PublishPacket: UpstreamSession._receive_publish,
    mqtt5.PubAckPacket: UpstreamSession._receive_puback,
    mqtt5.PubRecPacket: UpstreamSession._receive_pubrec,
    mqtt5.PubCompPacket: UpstreamSession._receive_pubcomp,
    mqtt5.PubRelPacket: UpstreamSession._receive_pubrel,
    mqtt5.SubAckPacket: UpstreamSession._receive_suback,
    mqtt5.UnsubAckPacket: UpstreamSession._receive_unsuback,
    mqtt5.PingRespPacket: UpstreamSession._receive_pingresp,
    mqtt5.DisconnectPacket: UpstreamSession._receive_disconnect,
}

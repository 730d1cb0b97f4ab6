"""Our side of the collector's MQTT 5 session, without its socket. Pure.

Bytes and time come in; packets to write, messages and news go out, in order. It subscribes to
`$share/<group>/<filter>` at QoS 1, and acknowledges a message when it is told that it is durable.

Rule 1: Clean Start 0 and a Session Expiry: what is not acknowledged comes again after a break.
Rule 2: a message is acknowledged on the connection that it came on or not at all: packet ids of an
        ended connection may mean other messages by now.
Rule 3: what the broker sends again and we still have, by packet id and content, is not taken a
        second time: its acknowledgement goes out on the new connection. DUP alone proves nothing.
Rule 4: having asked for the end of a connection, we neither read from it nor write to it.

Rule 5: a message larger than `packet_bytes_max`, which a broker may not send, is skipped as it
        comes in, and refused when it has come; the connection lives. Of it no more is held than its
        topic.
Rule 6: a message whose topic is not UTF-8, which not every broker checks, is refused: the broker
        would send it again on each connection.

Limits: `receive_max` unacknowledged messages, which the broker is given; mosquitto goes beyond it
when it resumes a session, but no broker can beyond the 65,535 packet ids, of which each has one
place here. `packet_bytes_max` for one packet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, TypeAlias

import mqtt5

from gateway.packets.codec import (
    CONNACK,
    CONNACK_311_BYTES,
    NO_MQTT_5,
    PUBLISH,
    REFUSED_BY_311,
    BadPacketError,
    SkippedPublish,
    no_connack_but,
    packet_end,
    publish_head,
    read_packet,
    unreadable_publish,
)
from spark_ingest.payload.record import Delivery

REFUSED = 0x80
TOPIC_NAME_INVALID = 0x90
QUOTA_EXCEEDED = 0x97
# The only packet ids that we choose: one for each packet with filters, none used twice at a time.
SUBSCRIBE_ID_FIRST = 1
UNSUBSCRIBE_ID_FIRST = 1001
FORMER_ID_FIRST = 2001


@dataclass(frozen=True, slots=True)
class SessionOptions:
    client_id: str
    filters: tuple[str, ...]
    group: str
    receive_max: int
    packet_bytes_max: int
    keep_alive_s: int
    session_expiry_s: int
    filters_per_subscribe_max: int
    connack_timeout_s: float = 10.0
    username: str | None = None
    password: bytes | None = None
    former: tuple[str, ...] = ()  # subscriptions of former runs that are wanted no more

    @property
    def subscriptions(self) -> list[str]:
        return [f"$share/{self.group}/{each}" for each in self.filters]


@dataclass(frozen=True, slots=True)
class Transmit:
    chunk: bytes


@dataclass(frozen=True, slots=True)
class Received:
    delivery: Delivery


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The broker has accepted us, and sends."""

    session_present: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """Rule 5."""

    topic: str
    packet_bytes: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Rule 6. What is not UTF-8 in the topic is replaced."""

    topic: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """What we would publish is more than the broker takes: it would end the connection."""

    topic: str
    packet_bytes: int
    packet_bytes_max: int


@dataclass(frozen=True, slots=True)
class PropertiesIgnored:
    """The broker sent properties that MQTT 5 does not allow; the first ones of a connection."""

    packet: str
    detail: str


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """No more will come than what waits for us already."""


@dataclass(frozen=True, slots=True)
class FormerEnded:
    """The broker holds these subscriptions of former runs no more; `refused` it keeps, and why."""

    filters: tuple[str, ...]
    refused: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection. `is_final`: to ask again would not change the broker's mind."""

    reason: str
    is_final: bool = False


Effect: TypeAlias = (
    Transmit
    | Received
    | Skipped
    | Unreadable
    | NotSent
    | PropertiesIgnored
    | Subscribed
    | Unsubscribed
    | FormerEnded
    | Drop
)


class Phase(Enum):
    CLOSED = "closed"
    CONNECTING = "connecting"  # CONNECT sent, CONNACK due
    SUBSCRIBING = "subscribing"  # CONNACK came, SUBACK due; messages of an old session may come
    UP = "up"
    PAUSED = "deaf"  # up, but for want of room nothing is read from the broker


class CollectorSession:
    def __init__(self, options: SessionOptions) -> None:
        self.phase = Phase.CLOSED
        self.connection = 0  # counts them
        self.resent = 0  # messages that came again and were still here
        self._options = options
        self._partial = b""
        self._skipped: SkippedPublish | None = None  # is being read over
        self._codes: list[int] = []  # of the packet that is received, if some are not MQTT 5's
        self._has_ignored = False  # properties, on this connection
        self._has_unreadable = False  # topics, from this broker
        self._session_present = False
        self._asked: dict[int, list[str]] = {}  # filters without SUBACK yet, by packet id
        self._leaving: set[int] = set()  # packet ids without UNSUBACK yet
        self._former = options.former
        self._ending: dict[int, list[str]] = {}  # of those without UNSUBACK yet, by packet id
        self._broker_bytes_max = inf  # of a packet, as the broker takes it
        self._retain_available = True
        # Unacknowledged, by packet id. Of ended connections too: they may come again.
        self._held: dict[int, Delivery] = {}
        self._durable: set[int] = set()  # of those, packet ids of ended connections
        self._keep_alive_s = options.keep_alive_s
        self._received_at = 0.0
        self._pinged_at = 0.0
        self._deadline_at = inf

    @property
    def is_up(self) -> bool:
        return self.phase in (Phase.UP, Phase.PAUSED)

    @property
    def unacknowledged(self) -> int:
        return len(self._held)

    # From the connection

    def opened(self, now: float) -> list[Effect]:
        self.phase = Phase.CONNECTING
        self.connection += 1
        self._has_ignored = False
        options = self._options
        self._deadline_at = now + options.connack_timeout_s
        packet = mqtt5.ConnectPacket(
            options.client_id,
            username=options.username,
            password=options.password,
            clean_start=False,
            keep_alive=options.keep_alive_s,
            session_expiry_interval=options.session_expiry_s,
            receive_max=options.receive_max,
            max_packet_size=options.packet_bytes_max,
        )
        return [Transmit(packet.write())]

    def receive(self, data: bytes, now: float, unix_us: int) -> list[Effect]:
        """Bytes from the broker, cut anywhere."""
        self._received_at = now
        if self._partial:
            data = self._partial + data
        effects: list[Effect] = []
        try:
            end = self._receive_packets(data, now, unix_us, effects)
        except BadPacketError as error:
            effects += self._malformed()
            return [*effects, self._drop(f"the broker sent what it may not send: {error}")]
        self._partial = data[end:]
        return effects

    def closed(self) -> None:
        """The transport is gone."""
        self.phase = Phase.CLOSED
        self._partial = b""
        self._skipped = None
        self._asked = {}
        self._leaving = set()
        self._ending = {}
        self._deadline_at = inf

    # From the collector

    def acknowledge(self, deliveries: Sequence[Delivery]) -> list[Effect]:
        """They are durable."""
        ids = []
        for delivery in deliveries:
            packet_id = delivery.packet_id
            if self._held.get(packet_id) is not delivery:
                continue  # QoS 0, or of a session that is gone
            if self.phase is not Phase.CLOSED and delivery.connection == self.connection:
                del self._held[packet_id]
                ids.append(packet_id)
            else:
                self._durable.add(packet_id)
        return [Transmit(_pubacks(ids))] if ids else []

    def publish(self, topic: str, payload: bytes) -> list[Effect]:
        """Retained, at QoS 0: what is lost is sent again."""
        if not self.is_up:
            return []
        packet = mqtt5.PublishPacket(topic, payload, retain=self._retain_available).write()
        if len(packet) > self._broker_bytes_max:
            return [NotSent(topic, len(packet), int(self._broker_bytes_max))]
        return [Transmit(packet)]

    def pause(self) -> None:
        """Nothing is read any more; silence is no longer a fault of the broker."""
        if self.phase is Phase.UP:
            self.phase = Phase.PAUSED

    def resume(self, now: float) -> None:
        if self.phase is Phase.PAUSED:
            self.phase = Phase.UP
            self._received_at = now

    def unsubscribe(self) -> list[Effect]:
        """Leave the group: what comes from now on is for the others."""
        ours = self._options.subscriptions
        packets, _ = self._packets_of(_unsubscribe, UNSUBSCRIBE_ID_FIRST, ours)
        self._leaving = set(packets)
        return [Transmit(packet) for packet, _ in packets.values()]

    def stop(self, *, forget: bool = False) -> list[Effect]:
        """DISCONNECT. `forget` ends the session too, and with it whatever is not acknowledged."""
        if self.phase in (Phase.CLOSED, Phase.CONNECTING):
            return []
        expiry_s = 0 if forget else None
        return [Transmit(mqtt5.DisconnectPacket(session_expiry_interval=expiry_s).write())]

    # Time

    def wake_at(self) -> float:
        if self.is_up:
            return self._pinged_at + self._keep_alive_s / 2 if self._keep_alive_s else inf
        return self._deadline_at

    def handle_time(self, now: float) -> list[Effect]:
        """Ping at half the keep-alive; silence from one ping to the next is a dead link."""
        if now < self.wake_at():
            return []
        if self.phase in (Phase.CONNECTING, Phase.SUBSCRIBING):
            waited = self._options.connack_timeout_s
            due = "CONNACK" if self.phase is Phase.CONNECTING else "SUBACK"
            return [self._drop(f"no {due} within {waited:g} s; is it an MQTT 5 broker?")]
        if self.phase is Phase.UP and self._received_at < self._pinged_at:
            return [self._drop(f"the broker has been silent for {now - self._received_at:.0f} s")]
        self._pinged_at = now
        return [Transmit(mqtt5.PingReqPacket().write())]

    # Packets

    def _receive_packets(self, data: bytes, now: float, unix_us: int, effects: list[Effect]) -> int:
        """Handle whole packets; returns where the first incomplete one begins."""
        size, view = len(data), memoryview(data)
        size_max = self._options.packet_bytes_max
        position = self._read_over(0, size, effects)
        while position < size and self.phase is not Phase.CLOSED:
            end = packet_end(data, position, size_max)
            if end is None:
                if self.phase is Phase.CONNECTING and data[position] != CONNACK:
                    raise BadPacketError(no_connack_but(data[position:]))
                return position
            if end < 0:
                if not self._begin_skipping(data, position, -end, effects):
                    return position
                position = self._read_over(position, size, effects)
                continue
            self._receive_packet(view[position:end], now, unix_us, effects)
            position = end
        return position

    def _receive_packet(
        self, data: memoryview, now: float, unix_us: int, effects: list[Effect]
    ) -> None:
        if self.phase is Phase.CONNECTING and data[0] == CONNACK and len(data) == CONNACK_311_BYTES:
            effects.append(self._drop(NO_MQTT_5.format(code=data[3])))
            return
        # The codec panics at such a topic and writes that to stderr, so the next is found before.
        if self._has_unreadable and self._refuse_unreadable(data, effects):
            return
        try:
            packet, self._codes, ignored = read_packet(data, check_text=self._has_ignored)
        except BadPacketError:
            if not self._refuse_unreadable(data, effects):
                raise
            return
        if ignored:
            effects += self._note_ignored(packet, ignored)
        if type(packet) is mqtt5.PublishPacket:
            self._receive_publish(packet, unix_us, effects)
            return
        receiver = _RECEIVERS[self.phase].get(type(packet))
        if receiver is None:
            raise BadPacketError(f"{_name(packet)} while {self.phase.value}")
        effects += receiver(self, packet, now)

    def _refuse_unreadable(self, data: memoryview, effects: list[Effect]) -> bool:
        """Rule 6; whether it was one."""
        if self.phase is Phase.CONNECTING or data[0] & 0xF0 != PUBLISH:
            return False
        head = unreadable_publish(bytes(data), 0, len(data))
        if head is None or head.qos > 1:
            return False
        self._has_unreadable = True
        self._forget(head.packet_id)
        effects.append(Unreadable(head.topic))
        if head.qos:
            effects.append(Transmit(_refusing_puback(head.packet_id, TOPIC_NAME_INVALID)))
        return True

    def _forget(self, packet_id: int) -> None:
        """The broker has given it to another message than the one that we may hold."""
        self._held.pop(packet_id, None)
        self._durable.discard(packet_id)

    def _begin_skipping(self, data: bytes, start: int, size: int, effects: list[Effect]) -> bool:
        """Rule 5. False if its topic and its packet id have not come yet."""
        if self.phase is Phase.CONNECTING:
            raise BadPacketError("a packet larger than we take while connecting")
        head = publish_head(data, start, size)
        if head is None:
            return False
        if head.qos > 1:
            raise BadPacketError("PUBLISH with QoS 2, for which we did not ask")
        self._forget(head.packet_id)
        effects.append(Skipped(head.topic, size))
        self._skipped = head
        return True

    def _read_over(self, start: int, end: int, effects: list[Effect]) -> int:
        """Returns where the next packet begins."""
        skipped = self._skipped
        if skipped is None:
            return start
        come = min(skipped.left_bytes, end - start)
        skipped.left_bytes -= come
        if not skipped.left_bytes:
            self._skipped = None
            if skipped.qos:
                effects.append(Transmit(_refusing_puback(skipped.packet_id, QUOTA_EXCEEDED)))
        return start + come

    def _note_ignored(self, packet: object, ignored: list[str]) -> list[Effect]:
        if self._has_ignored:
            return []
        self._has_ignored = True
        return [PropertiesIgnored(_name(packet), ", ".join(ignored))]

    def _receive_publish(
        self, packet: mqtt5.PublishPacket, unix_us: int, effects: list[Effect]
    ) -> None:
        if self.phase is Phase.CONNECTING:
            raise BadPacketError("PUBLISH while connecting")
        qos = int(packet.qos)
        if qos > 1 or not packet.topic:  # beside a topic an alias says nothing
            raise BadPacketError("PUBLISH with a topic alias or QoS 2, for which we did not ask")
        packet_id = packet.packet_id or 0
        delivery = Delivery(
            topic=packet.topic,
            payload=packet.payload or b"",
            qos=qos,
            retain=packet.retain,
            properties=packet.user_properties,
            received_us=unix_us,
            packet_id=packet_id,
            connection=self.connection,
        )
        if qos:
            held = self._held.get(packet_id)
            if held is not None and packet.duplicate and _is_same(held, delivery):
                effects += self._receive_again(held)
                return
            self._durable.discard(packet_id)
            self._held[packet_id] = delivery
        effects.append(Received(delivery))

    def _receive_again(self, held: Delivery) -> list[Effect]:
        """Rule 3."""
        self.resent += 1
        held.connection = self.connection
        if held.packet_id not in self._durable:
            return []
        self._durable.discard(held.packet_id)
        del self._held[held.packet_id]
        return [Transmit(_pubacks([held.packet_id]))]

    def _code_of(self, packet: Any) -> Any:
        """As it came, though the codec may not know it: then it is a number."""
        return self._codes[0] if self._codes else packet.reason_code

    def _malformed(self) -> list[Effect]:
        """DISCONNECT that says why, for the broker's log; not to what may be no broker."""
        if self.phase in (Phase.CLOSED, Phase.CONNECTING):
            return []
        code = mqtt5.DisconnectReasonCode.MALFORMED_PACKET
        return [Transmit(mqtt5.DisconnectPacket(reason_code=code).write())]

    def _drop(self, reason: str, *, is_final: bool = False) -> Drop:
        """Rule 4."""
        self.closed()
        return Drop(reason, is_final)

    def _receive_connack(self, packet: mqtt5.ConnAckPacket, now: float) -> list[Effect]:
        code = self._code_of(packet)
        if int(code) == REFUSED_BY_311:  # in the form of MQTT 5
            return [self._drop(NO_MQTT_5.format(code=int(code)))]
        if int(code):
            return [self._drop(_spoken("CONNACK", code, packet.reason_str))]
        if not packet.shared_subscription_available:
            return [self._drop("the broker has no shared subscriptions, which collectors need")]
        self.phase = Phase.SUBSCRIBING
        self._deadline_at = now + self._options.connack_timeout_s
        if packet.server_keep_alive is not None:
            self._keep_alive_s = packet.server_keep_alive
        self._session_present = packet.session_present
        self._retain_available = packet.retain_available
        if not packet.session_present:
            self._held.clear()
            self._durable.clear()
        self._broker_bytes_max = packet.max_packet_size or inf
        ours = self._options.subscriptions
        packets, too_long = self._packets_of(_subscribe, SUBSCRIBE_ID_FIRST, ours)
        if too_long is not None:
            reason = f"the broker takes packets of {packet.max_packet_size} bytes at most, too few "
            return [self._drop(f"{reason}to subscribe to {too_long}", is_final=True)]
        self._asked = {packet_id: filters for packet_id, (_, filters) in packets.items()}
        return [Transmit(packet) for packet, _ in packets.values()]

    def _packets_of(
        self, write: Callable[[int, list[str]], bytes], first_id: int, waiting: list[str]
    ) -> tuple[dict[int, tuple[bytes, list[str]]], str | None]:
        """Packets that name all filters, by packet id, within the limits of the broker and ours;
        and a filter that is too long for the broker in a packet of its own.
        """
        found: dict[int, tuple[bytes, list[str]]] = {}
        while waiting:
            packet_id = first_id + len(found)
            count = min(len(waiting), self._options.filters_per_subscribe_max)
            while len(packet := write(packet_id, waiting[:count])) > self._broker_bytes_max:
                count -= 1
                if not count:
                    return found, waiting[0]
            found[packet_id] = (packet, waiting[:count])
            waiting = waiting[count:]
        return found, None

    def _receive_suback(self, packet: mqtt5.SubAckPacket, now: float) -> list[Effect]:
        filters = self._asked.pop(packet.packet_id, None)
        if filters is None:
            return []
        codes = self._codes or packet.reason_codes
        for wanted, code in zip(filters, codes, strict=False):
            if int(code) >= REFUSED:
                spoken = _spoken("SUBACK", code, packet.reason_str)
                return [self._drop(f"no subscription to {wanted}: {spoken}", is_final=True)]
        if self._asked:
            return []
        self.phase = Phase.UP
        self._received_at = self._pinged_at = now
        return [Subscribed(self._session_present), *self._end_former()]

    def _end_former(self) -> list[Effect]:
        """Behind SUBACK, so that a message for both a former filter and one of ours is not missed.
        Another session has none of them.
        """
        if not self._session_present:
            self._former = ()
        packets, _ = self._packets_of(_unsubscribe, FORMER_ID_FIRST, list(self._former))
        self._ending = {packet_id: filters for packet_id, (_, filters) in packets.items()}
        return [Transmit(packet) for packet, _ in packets.values()]

    def _former_ended(self, packet: mqtt5.UnsubAckPacket, filters: list[str]) -> list[Effect]:
        codes = zip(filters, self._codes or packet.reason_codes, strict=False)
        refused = {each: code for each, code in codes if int(code) >= REFUSED}
        first = next(iter(refused.values()), None)
        reason = "" if first is None else _spoken("UNSUBACK", first, packet.reason_str)
        ended = tuple(each for each in filters if each not in refused)
        self._former = tuple(each for each in self._former if each not in ended)
        return [FormerEnded(ended, tuple(refused), reason)]

    def _receive_unsuback(self, packet: mqtt5.UnsubAckPacket, _now: float) -> list[Effect]:
        if (filters := self._ending.pop(packet.packet_id, None)) is not None:
            return self._former_ended(packet, filters)
        if packet.packet_id not in self._leaving:
            return []
        self._leaving.discard(packet.packet_id)
        return [] if self._leaving else [Unsubscribed()]

    def _receive_disconnect(self, packet: mqtt5.DisconnectPacket, _now: float) -> list[Effect]:
        is_final = packet.reason_code == mqtt5.DisconnectReasonCode.SESSION_TAKEN_OVER
        reason = _spoken("DISCONNECT", self._code_of(packet), packet.reason_str)
        if is_final:
            reason += f"; another client is called {self._options.client_id}"
        return [self._drop(reason, is_final=is_final)]

    def _receive_pingresp(self, _packet: mqtt5.PingRespPacket, _now: float) -> list[Effect]:
        return []  # `receive` has noted the time


def _subscribe(packet_id: int, filters: list[str]) -> bytes:
    wanted = [mqtt5.TopicFilter(each, max_qos=mqtt5.QoS.AT_LEAST_ONCE) for each in filters]
    return mqtt5.SubscribePacket(packet_id, wanted).write()


def _unsubscribe(packet_id: int, filters: list[str]) -> bytes:
    return mqtt5.UnsubscribePacket(packet_id, filters).write()


def _name(packet: object) -> str:
    return type(packet).__name__.removesuffix("Packet").upper()


def _pubacks(packet_ids: Iterable[int]) -> bytes:
    """All of them at once: a packet without reason code has four bytes (MQTT 5, 3.4.2.1)."""
    return b"".join(b"\x40\x02" + each.to_bytes(2, "big") for each in packet_ids)


def _refusing_puback(packet_id: int, code: int) -> bytes:
    """With such a code a broker has to discard the message, and may not offer it to another of the
    group (MQTT 5, 4.8.2).
    """
    return b"\x40\x03" + packet_id.to_bytes(2, "big") + bytes((code,))


def _is_same(held: Delivery, again: Delivery) -> bool:
    return (
        held.topic == again.topic
        and held.payload == again.payload
        and held.properties == again.properties
    )


def _spoken(packet: str, code: Any, reason: str | None) -> str:
    text = f" ({reason})" if reason else ""
    # The codec's codes have no names of their own, but their text is `<QoS.NAME: 1>`; one that it
    # does not know is a number.
    name = repr(code).strip("<>").rpartition(":")[0].rpartition(".")[2].lower().replace("_", " ")
    return f"the broker said {packet} 0x{int(code):02x} {name or 'of no meaning in MQTT 5'}{text}"


_Receiver = Callable[[CollectorSession, Any, float], list[Effect]]

_WHILE_UP: dict[type, _Receiver] = {
    mqtt5.SubAckPacket: CollectorSession._receive_suback,
    mqtt5.UnsubAckPacket: CollectorSession._receive_unsuback,
    mqtt5.PingRespPacket: CollectorSession._receive_pingresp,
    mqtt5.DisconnectPacket: CollectorSession._receive_disconnect,
}
# What may come when, beside PUBLISH; anything else is a protocol error (MQTT 5, 4.13).
_RECEIVERS: dict[Phase, dict[type, _Receiver]] = {
    Phase.CONNECTING: {mqtt5.ConnAckPacket: CollectorSession._receive_connack},
    Phase.SUBSCRIBING: _WHILE_UP,
    Phase.UP: _WHILE_UP,
    Phase.PAUSED: _WHILE_UP,
}

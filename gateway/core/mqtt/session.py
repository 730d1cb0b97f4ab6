"""Our side of the one MQTT 5 session with the broker, without its socket.

Bytes, readings, wishes for subscriptions and time come in; packets to write and news go out.
Readings are in publisher.py, subscriptions in subscriber.py, messages from the broker in
receiver.py. This file opens the session, reads its packets, keeps it alive and gives it up.

Rule 1: Clean Start 0 and a Session Expiry always, also at the first start: mosquitto does not
        save over its own restart a session that began with Clean Start 1.
Rule 2: a message from the broker is acknowledged when the engine says so (`acknowledge`), not
        when it comes, and on the connection that it came on or not at all.
Rule 3: having asked for the end of a connection, we neither read from it nor write to it.
Rule 4: what the journal has as received by the broker counts no more from before CONNECT on: its
        session may be another one, now or by this very CONNECT, and if we are gone before the
        answer nobody knows. What is in the session that it has is recorded again. A journal that
        cannot be written to is waited for `RECORD_S`, because without a broker nothing is carried.
Rule 5: a PUBLISH larger than we announced to take is read over as it comes, and acknowledged, or
        the broker would send it again; the connection lives.
Rule 6: when the broker ends the connection, it is looked for what it ended it for (caution.py).

Limits: those of the three, and `packet_bytes_max` for a packet from the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum
from math import inf
from typing import Any

import mqtt5

from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    ConnectRecorded,
    Dropped,
    DropUpstream,
    OwnTopicBlocked,
    OwnTopicReceived,
    PropertiesIgnored,
    RecordConnect,
    Transmit,
    UpstreamEndExplained,
    UpstreamRefused,
    UpstreamReleaseSaved,
    UpstreamUp,
)
from gateway.core.events import FilterRefused, Output
from gateway.core.mqtt.caution import (
    EVERYTHING,
    FILTER,
    LASTS_S,
    OWN,
    READING,
    STRIKES_MAX,
    Alone,
    Caution,
    is_about_content,
    own_key,
)
from gateway.core.mqtt.options import PACKET_BYTES_MAX, RECEIVE_MAX, MqttOptions
from gateway.core.mqtt.own_filters import Concern
from gateway.core.mqtt.publisher import Publisher
from gateway.core.mqtt.reason_codes import spoken
from gateway.core.mqtt.receiver import Receiver, Verdict
from gateway.core.mqtt.subscriber import ENDS, Subscriber
from gateway.core.process_pauses import ProcessPauses
from gateway.core.state_records import PacketRecord
from gateway.core.topic_options import OptionsByTopic, ReadingOptions
from gateway.core.values import Publication
from gateway.frames.layout import OCTETS
from gateway.packets.codec import (
    CONNACK,
    CONNACK_311_BYTES,
    NO_MQTT_5,
    PLAIN_BYTES,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    REFUSED_BY_311,
    BadPacketError,
    SkippedPublish,
    no_connack_but,
    packet_end,
    plain_answers,
    publication_of,
    publish_head,
    read_packet,
    unreadable_publish,
)

# Twice the longest flush seen on a card that tidies up, twice over: a group may be under way.
RECORD_S = 10.0

PACKET_ID_BYTES = 2
NO_CONNACK = "no CONNACK within {seconds:g} s; is it an MQTT 5 broker?"


class Phase(Enum):
    CLOSED = "closed"
    RECORDING = "recording"  # CONNECT waits for the journal
    CONNECTING = "connecting"  # CONNECT sent, CONNACK due
    UP = "up"


class MqttSession:
    def __init__(
        self,
        options: MqttOptions,
        topic_options: OptionsByTopic | None = None,
        pauses: ProcessPauses | None = None,
    ) -> None:
        topic_options = topic_options or OptionsByTopic(ReadingOptions())
        self.phase = Phase.CLOSED
        self.said = 0  # messages of the gateway's own
        self.caution = Caution(options.probe_s)
        self.publisher = Publisher(options, topic_options, pauses or ProcessPauses(), self.caution)
        self.subscriptions = Subscriber(
            options.topic_prefix,
            self.caution,
            options.filters_per_subscribe_max,
            options.own_filters,
        )
        self._receiver = Receiver(options.topic_prefix, self.subscriptions)
        self._options = options
        self._partial = b""
        self._skipped: SkippedPublish | None = None  # is being read over
        self._filters_first = True
        self._codes: list[int] = []  # of the packet that is received, if some are not MQTT 5's
        self._has_ignored = False  # properties, on this connection
        self._transport = 0  # counts them
        self._keep_alive_s = options.keep_alive_s
        self._heard_at = 0.0
        self._pinged_at = 0.0
        self._deadline_at = inf
        # Presence, as this broker takes it: a will beyond its limits costs the connection.
        self._will_qos = mqtt5.QoS.AT_LEAST_ONCE
        self._retain_presence = True

    def restore(self, packets: Iterable[PacketRecord], filters: list[str]) -> None:
        """What the broker's session and ours have in common, from a previous run."""
        self._receiver.restore(packets)
        self.subscriptions.restore(filters)

    def use(self, username: str | None, password: bytes | None) -> None:
        """From the next connection on."""
        self._options = replace(self._options, username=username, password=password)

    # From the connection

    def opened(self, now: float) -> list[Output]:
        """The transport is there: introduce ourselves (Rule 4)."""
        self._transport += 1
        self._has_ignored = False
        if not self.publisher.may_be_on_record():
            return self._connect(now)
        self.phase = Phase.RECORDING
        self._deadline_at = now + RECORD_S
        return [RecordConnect(ConnectRecorded(self._transport))]

    def connect(self, word: ConnectRecorded, now: float) -> list[Output]:
        """That we are about to is durable."""
        if self.phase is not Phase.RECORDING or word.transport != self._transport:
            return []
        return self._connect(now)

    def _connect(self, now: float) -> list[Output]:
        options = self._options
        self.phase = Phase.CONNECTING
        self._deadline_at = now + options.connack_timeout_s
        will = mqtt5.Will(
            options.presence_topic,
            payload=b"offline",
            qos=self._will_qos,
            retain=self._retain_presence,
            will_delay_interval=options.will_delay_s,
        )
        packet = mqtt5.ConnectPacket(
            options.client_id,
            username=options.username,
            password=options.password,
            clean_start=False,
            will=will,
            keep_alive=options.keep_alive_s,
            session_expiry_interval=options.session_expiry_s,
            receive_max=RECEIVE_MAX,
            max_packet_size=options.packet_bytes_max,
        )
        return [Transmit(packet.write())]

    def receive(self, data: bytes, now: float) -> list[Output]:
        """Bytes from the broker, cut anywhere."""
        self._heard_at = self.caution.heard_at = now
        was_on = self.caution.is_on
        if self._partial:
            data = self._partial + data
        effects: list[Output] = []
        try:
            end = self._receive_packets(data, now, effects)
        except BadPacketError as error:
            return [*effects, *self._drop(f"the broker sent what it may not send: {error}", now)]
        self._partial = data[end:]
        if was_on or self.caution.is_on:
            effects += self.go_on(now)
        elif self.publisher.in_flight.has_waiting:
            effects += self.publisher.pump(now)
        return effects

    def go_on(self, now: float) -> list[Output]:
        """What had to wait for something else to be answered; readings and filters in turn."""
        caution, publisher, subscriptions = self.caution, self.publisher, self.subscriptions
        outputs = subscriptions.advance()
        is_quiet = not publisher.in_flight and not caution.asks
        if self._filters_first and is_quiet:
            outputs += subscriptions.ask_alone(may_be_suspect=False)
            if caution.is_trial_due:
                outputs += subscriptions.ask_alone(may_be_suspect=True)
        is_filters_turn = self._filters_first and caution.is_trial_due and not is_quiet
        publisher.gives_way = (
            is_filters_turn and not publisher.in_flight.to_release and subscriptions.has_suspect
        )
        if publisher.in_flight.has_waiting:
            outputs += publisher.pump(now)
        if not publisher.in_flight and not caution.asks:
            may_be_suspect = caution.is_trial_due or not publisher.in_flight.has_waiting
            outputs += subscriptions.ask_alone(may_be_suspect=False)
            if may_be_suspect:
                outputs += subscriptions.ask_alone(may_be_suspect=True)
        if is_quiet:
            self._filters_first = not self._filters_first
        elif caution.is_trial_due and subscriptions.has_suspect:
            self._filters_first = True
        caution.turn_at = inf
        return outputs

    def closed(self, now: float, *, by_broker: bool) -> list[Output]:
        """The transport is gone. `by_broker`: it ended it, perhaps for something that was sent."""
        outputs = self._look_for_cause(now, by_broker=by_broker)
        if self.phase is Phase.CONNECTING:
            # The broker may have begun a new session for this CONNECT, and will call it present
            # when it answers the next one: it need not know what the old one had released.
            self.publisher.in_flight.unrelease()
        self.phase = Phase.CLOSED
        self._partial = b""
        self._skipped = None
        self._deadline_at = inf
        self._receiver.close()
        self.publisher.close()
        self.subscriptions.close()
        return outputs

    def _look_for_cause(self, now: float, *, by_broker: bool) -> list[Output]:
        caution, in_flight = self.caution, self.publisher.in_flight
        readings = [] if self.phase is not Phase.UP else [each for _, each in in_flight.in_order()]
        asks = caution.asks
        only = readings[0] if len(readings) == 1 and not asks else None
        if self.phase is Phase.UP and by_broker and caution.alone is None:
            self.subscriptions.ended_by_broker()
        verdict = caution.closed(
            now,
            by_broker=by_broker and self.phase is Phase.UP,
            only=only,
            is_unanswered=bool(readings or asks),
        )
        outputs: list[Output] = [UpstreamEndExplained()] if verdict.is_known else []
        guilty = verdict.guilty
        if guilty is None:
            return outputs
        kind, whose, name = guilty.key
        if kind == READING:
            return outputs + self.publisher.found_guilty(guilty, STRIKES_MAX)
        if kind == FILTER and whose == OWN:
            return [*outputs, FilterRefused(name, ENDS)]
        if kind == FILTER:
            return outputs + self.subscriptions.found_guilty(name)
        return [*outputs, OwnTopicBlocked(name)]

    # From the engine

    def keep(self, publication: Publication) -> list[Output]:
        """A message whose copies are durably accepted, or are saved with it. Its packet id is left
        to be saved at QoS 2, and nothing at QoS 1.
        """
        if publication.message.qos == 2:
            return self._receiver.keep(publication)
        return self.acknowledge(publication)

    def acknowledge(self, publication: Publication) -> list[Output]:
        """A message from the broker is durably accepted."""
        if not self._receiver.may_acknowledge(publication):
            return []
        return _receipt(publication.message.qos, publication.packet_id)

    def complete(self, word: UpstreamReleaseSaved) -> list[Output]:
        """The broker's PUBREL is durable."""
        if word.connection != self._receiver.connection:
            return []  # it says so again
        answer = mqtt5.PubCompReasonCode.SUCCESS
        if not word.is_known:
            answer = mqtt5.PubCompReasonCode.PACKET_ID_NOT_FOUND
        return [Transmit(mqtt5.PubCompPacket(word.packet_id, reason_code=answer).write())]

    def say(
        self, topic: str, payload: bytes, *, retain: bool = True, wants_answer: bool = False
    ) -> list[Output]:
        """Something of the gateway's own; `topic` as the broker has it. At QoS 0, which
        needs no packet id, no place in the window and none in the journal: it delays no reading.
        `wants_answer`: at QoS 1 where there is a place in the window and all is well between the
        broker and us, so that a refusal is heard of. It is not sent again.
        """
        if self.phase is not Phase.UP or self._is_own_blocked(topic):
            return []
        message = self._own(topic, payload, retain=retain)
        more_bytes = PACKET_ID_BYTES if wants_answer else 0
        if len(message.packet) + more_bytes > self.publisher.packet_bytes_max:
            return []  # the broker would close the connection, and again each time
        if wants_answer and not self.caution.is_on:
            packet_id = self.publisher.in_flight.take_own_id(topic)
            if packet_id:
                message = self._own(topic, payload, packet_id, retain=retain)
        self.said += 1
        self.caution.sent_unread()
        return [message, *self._own_alone(topic)]

    @property
    def own_messages_max(self) -> int | None:
        """How many may be said now; None for any number. Where something ends the connections it is
        one at a time, when all else is answered.
        """
        caution, in_flight = self.caution, self.publisher.in_flight
        if in_flight.next_alone is not None:
            return 0
        if caution.degree != EVERYTHING and caution.alone is None:
            return None
        is_quiet = caution.alone is None and not in_flight and not caution.asks
        return int(is_quiet and (caution.is_trial_due or not in_flight.has_waiting))

    def _is_own_blocked(self, topic: str) -> bool:
        caution = self.caution
        return caution.has_blocked and caution.is_blocked(own_key(topic), 0, caution.heard_at)

    def _own_alone(self, topic: str) -> list[Output]:
        caution = self.caution
        if not caution.is_on or caution.alone is not None:
            return []
        if caution.degree != EVERYTHING and not caution.is_suspect(
            own_key(topic), caution.heard_at
        ):
            return []
        caution.sent_alone(Alone(own_key(topic), needs_ping=True))
        return [caution.ping()]

    def stop(self) -> list[Output]:
        """Send DISCONNECT: presence `offline`, then DISCONNECT, which discards the will."""
        if self.phase is not Phase.UP:
            return []
        return [self._presence(b"offline"), Transmit(mqtt5.DisconnectPacket().write())]

    # Time

    def paused(self, seconds: float, now: float) -> list[Output]:
        """For `seconds` the gateway was not there, and the broker waited: the ping that would have
        been due meanwhile goes now. It also finds out whether the connection outlasted it.
        """
        is_answered = self._heard_at >= self._pinged_at
        if self.phase is not Phase.UP or not is_answered or now + seconds < self.wake_at():
            return []
        self._pinged_at = now
        return [self.caution.ping()]

    def wake_at(self) -> float:
        if self.phase is not Phase.UP:
            return self._deadline_at
        ping_at = self._pinged_at + self._keep_alive_s / 2 if self._keep_alive_s else inf
        return min(ping_at, min(self.caution.wake_at(), self.publisher.paused_until))

    def handle_time(self, now: float) -> list[Output]:
        """Ping at half the keep-alive; silence from one ping to the next is a dead link."""
        if now < self.wake_at():
            return []
        if self.phase is Phase.RECORDING:
            return self._connect(now)
        if self.phase is not Phase.UP:
            return self._drop(NO_CONNACK.format(seconds=self._options.connack_timeout_s), now)
        outputs: list[Output] = []
        if now >= self.publisher.paused_until:
            self.publisher.resume()
            outputs += self.publisher.pump(now)
        if self.caution.degree == EVERYTHING and self.subscriptions.has_missing:
            self.caution.put_off_relaxing(now)
        if self.caution.handle_time(now):
            outputs += self.go_on(now)
        if not self._keep_alive_s or now < self._pinged_at + self._keep_alive_s / 2:
            return outputs
        if self._heard_at < self._pinged_at:
            silence = now - self._heard_at
            return [*outputs, *self._drop(f"the broker has been silent for {silence:.0f} s", now)]
        self._pinged_at = now
        return [*outputs, self.caution.ping()]

    # Packets

    def _receive_packets(self, data: bytes, now: float, effects: list[Output]) -> int:
        """Handle whole packets; returns where the first incomplete one begins."""
        position, size = 0, len(data)
        while position < size and self.phase is not Phase.CLOSED:
            if self._skipped is not None:
                position = self._read_over(self._skipped, position, size, effects)
                continue
            receive_run = _RUN_RECEIVERS.get(data[position])
            if receive_run is not None and self.phase is Phase.UP:
                packet_ids = plain_answers(data, position)
                if packet_ids:
                    effects += receive_run(self.publisher, packet_ids)
                    position += PLAIN_BYTES * len(packet_ids)
                    continue
            end = packet_end(data, position, self._options.packet_bytes_max)
            if end is None:
                if self.phase is Phase.CONNECTING and data[position] != CONNACK:
                    raise BadPacketError(no_connack_but(data[position:]))
                return position
            if end < 0:
                if self.phase is not Phase.UP:
                    raise BadPacketError(f"a packet of {-end} bytes, more than we take")
                self._skipped = publish_head(data, position, -end)
                if self._skipped is None:
                    return position
                continue
            effects += self._receive_packet(data, position, end, now)
            position = end
        return size if self.phase is Phase.CLOSED else position

    def _read_over(
        self, skipped: SkippedPublish, start: int, end: int, effects: list[Output]
    ) -> int:
        """Rule 5; returns where the next packet begins."""
        taken = min(skipped.left_bytes, end - start)
        skipped.left_bytes -= taken
        if skipped.left_bytes:
            return start + taken
        self._skipped = None
        detail = (
            f"{skipped.topic!r} from the broker: a packet of {skipped.size} bytes, more than "
            f"the {self._options.packet_bytes_max} that it was asked to keep to"
        )
        effects += [
            Dropped(Reason.PAYLOAD_TOO_LARGE, None, detail),
            *_receipt(skipped.qos, skipped.packet_id),
        ]
        return start + taken

    def _receive_packet(self, data: bytes, start: int, end: int, now: float) -> list[Output]:
        if self.phase is Phase.UP and data[start] >> 4 == PUBLISH >> 4:
            unreadable = unreadable_publish(data, start, end)
            if unreadable is not None:
                detail = f"{unreadable.topic!r} from the broker: the topic is not UTF-8"
                return [
                    Dropped(Reason.BAD_TOPIC, None, detail),
                    *_receipt(unreadable.qos, unreadable.packet_id),
                ]
        if (
            self.phase is Phase.CONNECTING
            and end - start == CONNACK_311_BYTES
            and data[start] == CONNACK
        ):
            return self._drop(NO_MQTT_5.format(code=data[end - 1]), now)
        try:
            packet, self._codes, ignored = read_packet(
                memoryview(data)[start:end], check_text=self._has_ignored
            )
        except BadPacketError:
            if self.phase is Phase.CONNECTING and data[start] != CONNACK:
                raise BadPacketError(no_connack_but(data[start:])) from None
            raise
        receiver = _RECEIVERS[self.phase].get(type(packet))
        if receiver is None:
            raise BadPacketError(f"{_name_of(packet)} while {self.phase.value}")
        if ignored and not self._has_ignored:
            self._has_ignored = True
            effects: list[Output] = [PropertiesIgnored(_name_of(packet), ", ".join(ignored))]
            return effects + receiver(self, packet, now)
        return receiver(self, packet, now)

    def _code_of(self, packet: Any) -> int:
        """As it came, though the codec may not know it."""
        return self._codes[0] if self._codes else int(packet.reason_code)

    def _drop(self, reason: str, now: float, *, by_broker: bool = False) -> list[Output]:
        """Rule 3."""
        return [*self.closed(now, by_broker=by_broker), DropUpstream(reason)]

    def _receive_connack(self, packet: mqtt5.ConnAckPacket, now: float) -> list[Output]:
        code = self._code_of(packet)
        if code == REFUSED_BY_311:  # in the form of MQTT 5
            return self._drop(NO_MQTT_5.format(code=code), now)
        if code:
            self._heed_refusal(code)
            reason = spoken("CONNACK", code, packet.reason_str, packet.server_reference)
            return [UpstreamRefused(reason), *self._drop(reason, now)]
        self.phase = Phase.UP
        self._heard_at = self._pinged_at = now
        self._keep_alive_s = self._options.keep_alive_s
        if packet.server_keep_alive is not None:
            self._keep_alive_s = packet.server_keep_alive
        self._retain_presence = packet.retain_available
        self.publisher.packet_bytes_max = packet.max_packet_size or PACKET_BYTES_MAX
        self.caution.heard_at = now
        self.caution.opened(
            now,
            lasts_s=min(self._keep_alive_s or LASTS_S, LASTS_S),
            has_backlog=bool(self.publisher.in_flight.backlog.of_clients),
        )
        effects: list[Output] = []
        if not self._is_own_blocked(self._options.presence_topic):
            self.caution.sent_unread()
            effects += [
                self._presence(b"online"),
                *self._own_alone(self._options.presence_topic),
            ]
        if not packet.session_present:
            effects += self._receiver.forget_all()
        effects += self.subscriptions.open(
            identifiers_available=packet.subscription_id_available,
            is_resumed=packet.session_present,
            packet_bytes_max=packet.max_packet_size,
        )
        resent = self.publisher.open(packet, now)
        waiting = len(self.publisher.in_flight.waiting)
        return [UpstreamUp(packet.session_present, len(resent) + waiting), *effects, *resent]

    def _heed_refusal(self, code: int) -> None:
        if code == mqtt5.ConnAckReasonCode.QUALITY_NOT_SUPPORTED:
            self._will_qos = mqtt5.QoS.AT_MOST_ONCE
        elif code == mqtt5.ConnAckReasonCode.RETAIN_NOT_SUPPORTED:
            self._retain_presence = False

    def _receive_publish(self, packet: mqtt5.PublishPacket, _now: float) -> list[Output]:
        received = publication_of(packet)
        publication, verdict = self._receiver.receive(received)
        concern = self.subscriptions.concern_of(received.topic, received.identifiers)
        if concern is Concern.GATEWAY and verdict is Verdict.NEW:
            verdict = Verdict.COPY  # of nothing that clients get
        effects = self._answer(publication, verdict)
        if concern is not Concern.CLIENTS and verdict in (Verdict.NEW, Verdict.COPY):
            own = OwnTopicReceived(received.topic, received.payload, is_retained=received.retain)
            effects.append(own)
        return effects

    def _answer(self, publication: Publication, verdict: Verdict) -> list[Output]:
        if verdict is Verdict.NEW:
            return [publication]
        if verdict is Verdict.KNOWN:
            return _receipt(publication.message.qos, publication.packet_id)
        if verdict is Verdict.HELD or not publication.message.qos:
            return []
        return self.keep(publication)

    def _receive_pubrel(self, packet: mqtt5.PubRelPacket, _now: float) -> list[Output]:
        return self._receiver.release(packet.packet_id)

    def _receive_puback(self, packet: mqtt5.PubAckPacket, _now: float) -> list[Output]:
        code = self._code_of(packet)
        return self.publisher.receive_puback(packet.packet_id, code, packet.reason_str)

    def _receive_pubrec(self, packet: mqtt5.PubRecPacket, _now: float) -> list[Output]:
        code = self._code_of(packet)
        return self.publisher.receive_pubrec(packet.packet_id, code, packet.reason_str)

    def _receive_pubcomp(self, packet: mqtt5.PubCompPacket, _now: float) -> list[Output]:
        return self.publisher.receive_pubcomp(packet.packet_id)

    def _receive_suback(self, packet: mqtt5.SubAckPacket, _now: float) -> list[Output]:
        self._receiver.forget_copies()
        return self.subscriptions.receive_suback(
            packet.packet_id, self._codes or [int(code) for code in packet.reason_codes]
        )

    def _receive_unsuback(self, packet: mqtt5.UnsubAckPacket, _now: float) -> list[Output]:
        self._receiver.forget_copies()
        return self.subscriptions.receive_unsuback(packet.packet_id)

    def _receive_disconnect(self, packet: mqtt5.DisconnectPacket, now: float) -> list[Output]:
        code = self._code_of(packet)
        reason = spoken("DISCONNECT", code, packet.reason_str, packet.server_reference)
        self.publisher.ended_for_pace(code)
        dropped = self._drop(reason, now, by_broker=is_about_content(code))
        return [UpstreamRefused(reason), *dropped]

    def _receive_pingresp(self, _packet: mqtt5.PingRespPacket, _now: float) -> list[Output]:
        self.publisher.receive_pingresp()
        return []

    def _presence(self, word: bytes) -> Transmit:
        """At QoS 0: the connection itself is its guarantee."""
        return self._own(self._options.presence_topic, word)

    def _own(
        self, topic: str, payload: bytes, packet_id: int = 0, *, retain: bool = True
    ) -> Transmit:
        """At QoS 1 under a packet id, else at QoS 0."""
        packet = mqtt5.PublishPacket(
            topic,
            payload,
            qos=mqtt5.QoS.AT_LEAST_ONCE if packet_id else mqtt5.QoS.AT_MOST_ONCE,
            packet_id=packet_id or None,
            retain=retain and self._retain_presence,
            user_properties=[("gw", self._options.gateway_name)],
        )
        return Transmit(packet.write())


def _name_of(packet: object) -> str:
    return type(packet).__name__.removesuffix("Packet").upper()


def _receipt(qos: int, packet_id: int) -> list[Output]:
    """That a PUBLISH was received, on its way for good (QoS 1) or until PUBREL; none at QoS 0."""
    if qos == 1:
        return [Transmit(b"\x40\x02%b%b" % (OCTETS[packet_id >> 8], OCTETS[packet_id & 0xFF]))]
    return [Transmit(mqtt5.PubRecPacket(packet_id).write())] if qos == 2 else []


# Of packets that come many at once, and nearly always without a reason.
_RUN_RECEIVERS: dict[int, Callable[[Publisher, list[int]], list[Output]]] = {
    PUBACK: Publisher.receive_pubacks,
    PUBREC: Publisher.receive_pubrecs,
    PUBCOMP: Publisher.receive_pubcomps,
}

_Receiver = Callable[[MqttSession, Any, float], list[Output]]

# What may come when; anything else is a protocol error (MQTT 5, 4.13).
_RECEIVERS: dict[Phase, dict[type, _Receiver]] = {
    Phase.RECORDING: {},
    Phase.CONNECTING: {
        mqtt5.ConnAckPacket: MqttSession._receive_connack,
    },
    Phase.UP: {
        mqtt5.PublishPacket: MqttSession._receive_publish,
        mqtt5.PubAckPacket: MqttSession._receive_puback,
        mqtt5.PubRecPacket: MqttSession._receive_pubrec,
        mqtt5.PubCompPacket: MqttSession._receive_pubcomp,
        mqtt5.PubRelPacket: MqttSession._receive_pubrel,
        mqtt5.SubAckPacket: MqttSession._receive_suback,
        mqtt5.UnsubAckPacket: MqttSession._receive_unsuback,
        mqtt5.PingRespPacket: MqttSession._receive_pingresp,
        mqtt5.DisconnectPacket: MqttSession._receive_disconnect,
    },
}

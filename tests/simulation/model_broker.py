"""A broker as mosquitto is where it matters to a gateway, speaking MQTT 5 octets.

It keeps sessions, QoS 0, 1 and 2 both ways, its Receive Maximum, retained messages with Retain
Handling, Retain As Published and subscription identifiers; it sends one copy for each subscription
that matches, as mosquitto does, and routes a QoS 2 message when it is released. `restart` keeps
its sessions, loses them, or does what mosquitto does after a kill with autosave: it says "session
present", but has forgotten the messages in flight in both directions.

What it does not take, as other brokers do not, is in broker_limits.py.

Limits: at most IN_FLIGHT_MAX messages unacknowledged towards a client, QUEUE_MAX wait; the newest
is dropped. A client that breaks the protocol is an AssertionError: here, that is a finding.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import mqtt5

from tests.simulation.broker_limits import TAKES_ALL, BrokerLimits
from tests.simulation.stream import Connection, nothing

IN_FLIGHT_MAX = 20
QUEUE_MAX = 1000
RESET_S_MAX = 0.1  # until both ends know of it
PACKET_IDS = 65_535
PUBACK, PUBREC, PUBCOMP = 0x40, 0x50, 0x70
NOT_AUTHORIZED, QUOTA_EXCEEDED = 0x87, 0x97

Tag = tuple[str, str, str]


class Restart(Enum):
    KEPT = "sessions kept"
    LOST = "sessions lost"
    FORGETFUL = "sessions present, messages in flight forgotten"


@dataclass(slots=True)
class Publication:
    """A message that the broker routes; `tag` is (gw, epoch, seq) of a QoS 1 or 2 reading."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    tag: Tag | None = None
    client_id: str | None = None  # the sensor it came from
    unix_ms: int | None = None  # when it came there


@dataclass(slots=True)
class Outgoing:
    """A message to a client, until it acknowledged it."""

    publication: Publication
    qos: int
    retain: bool
    identifiers: list[int]
    released: bool = False  # PUBREC came
    is_live: bool = True  # it was not retained before the subscription

    def packet(self, packet_id: int | None, *, dup: bool) -> bytes:
        publication = self.publication
        return mqtt5.PublishPacket(
            publication.topic,
            publication.payload,
            qos=mqtt5.QoS(self.qos),
            retain=self.retain,
            packet_id=packet_id,
            duplicate=dup,
            subscription_ids=self.identifiers,
        ).write()


@dataclass(frozen=True, slots=True)
class Subscription:
    qos: int
    retain_as_published: bool
    identifier: int | None


@dataclass(slots=True)
class BrokerSession:
    """What the broker knows of one client. `incoming` are QoS 2 messages that await PUBREL."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    incoming: dict[int, Publication] = field(default_factory=dict)
    outgoing: dict[int, Outgoing] = field(default_factory=dict)
    queue: deque[Outgoing] = field(default_factory=deque)
    connection: Connection | None = None
    will: mqtt5.Will | None = None
    last_packet_id: int = 0

    def matching(self, topic: str) -> list[Subscription]:
        return [one for each, one in self.subscriptions.items() if matches(each, topic)]

    def forget_in_flight(self) -> None:
        self.last_packet_id = 0
        self.incoming.clear()
        self.outgoing.clear()
        self.queue.clear()


class ModelBroker:
    def __init__(
        self,
        receive_max: int,
        *,
        retained_first: bool = False,
        says_not_found: bool = False,
        replaces_contents: bool = True,
        keeps_first_options: bool = True,
        has_applications: bool = False,
        limits: BrokerLimits = TAKES_ALL,
    ) -> None:
        """The defaults are mosquitto's.

        `retained_first`: retained messages go out before their SUBACK, which MQTT 5 allows.
        `says_not_found`: PUBREL for an unknown id is answered with 0x92; mosquitto says 0x00.
        `replaces_contents`: of two contents under one packet id the second counts.
        `keeps_first_options`: SUBSCRIBE to a filter again changes its QoS and identifier, but not
        Retain As Published (mosquitto 2.0).
        `has_applications`: someone is subscribed to everything, so PUBACK never says 0x10.
        """
        self.up = True
        self.sessions: dict[str, BrokerSession] = {}
        self.retained: dict[str, Publication] = {}
        self.on_routed: Callable[[Publication], None] = nothing
        self.limits = limits
        self.is_over_quota = False  # PUBLISH is answered with 0x97
        self.over_quota = 0  # so many were
        self.ended: Counter[str] = Counter()  # connections, by what it ended them for
        self.on_ended: Callable[[str], None] = nothing
        self.live: Counter[bytes] = Counter()  # sent for a subscription, by payload, each time
        self.repeated: Counter[bytes] = Counter()  # retained ones that were not acknowledged
        self._connections: list[Connection] = []
        self._receive_max = receive_max
        self._retained_first = retained_first
        self._says_not_found = says_not_found
        self._replaces_contents = replaces_contents
        self._keeps_first_options = keeps_first_options
        self._has_applications = has_applications

    # From the network

    def accept(self, connection: Connection) -> None:
        """A client opens a connection; its CONNECT says who it is."""
        self._connections = [one for one in self._connections if one.is_open]
        self._connections.append(connection)
        conversation = _Conversation(self, connection)
        connection.to_broker.deliver = conversation.receive
        connection.lost_at_broker = self._lost

    def stop(self) -> None:
        self.up = False
        for connection in self._connections:
            connection.lost_at_broker = nothing
            connection.sever()
        for session in self.sessions.values():
            session.connection = None

    def start(self, restart: Restart) -> None:
        self.up = True
        if restart is Restart.LOST:
            self.sessions.clear()
        elif restart is Restart.FORGETFUL:
            for session in self.sessions.values():
                session.forget_in_flight()

    def end(self, connection: Connection, cause: str, *, is_told: bool = False) -> None:
        """End a connection for something that came. `is_told`: what was written before arrives;
        otherwise it is lost, as with a reset.
        """
        self.ended[cause] += 1
        self.on_ended(cause)
        self._lost(connection)
        if is_told:
            connection.finish()
        else:
            connection.sever(RESET_S_MAX)

    def _lost(self, connection: Connection) -> None:
        for session in self.sessions.values():
            if session.connection is connection:
                session.connection = None
                self._publish_will(session)

    def _publish_will(self, session: BrokerSession) -> None:
        will, session.will = session.will, None
        if will is not None:
            self.route(Publication(will.topic, will.payload or b"", int(will.qos), will.retain))

    # From applications

    def route(self, publication: Publication) -> bool:
        """To everyone who is subscribed: the message has reached its subscribers, if any."""
        if publication.retain:
            if publication.payload:
                self.retained[publication.topic] = publication
            else:
                self.retained.pop(publication.topic, None)
        self.on_routed(publication)
        is_wanted = self._has_applications
        for session in self.sessions.values():
            for together in self._together(session.matching(publication.topic)):
                flag = publication.retain and any(one.retain_as_published for one in together)
                self._deliver(session, publication, together, retain=flag)
                is_wanted = True
        return is_wanted

    def _together(self, matching: list[Subscription]) -> list[list[Subscription]]:
        """Those for which one message is sent."""
        if self.limits.joins_identifiers:
            return [matching] if matching else []
        return [[each] for each in matching]

    def deliver_retained(
        self, session: BrokerSession, publication: Publication, subscription: Subscription
    ) -> None:
        """For a new subscription."""
        together = [subscription]
        if self.limits.joins_identifiers:
            together = session.matching(publication.topic)
        self._deliver(session, publication, together, retain=True, is_live=False)

    # Towards a client

    def _deliver(
        self,
        session: BrokerSession,
        publication: Publication,
        subscriptions: list[Subscription],
        *,
        retain: bool,
        is_live: bool = True,
    ) -> None:
        identifiers = [one.identifier for one in subscriptions if one.identifier is not None]
        qos = min(publication.qos, max(one.qos for one in subscriptions))
        outgoing = Outgoing(publication, qos, retain, identifiers, is_live=is_live)
        if qos > 0:
            if len(session.queue) < QUEUE_MAX:
                session.queue.append(outgoing)
            self._pump(session)
        elif session.connection is not None:
            self.live[publication.payload] += is_live
            session.connection.to_gateway.write(outgoing.packet(None, dup=False))

    def _pump(self, session: BrokerSession) -> None:
        while (
            session.connection is not None
            and session.queue
            and len(session.outgoing) < IN_FLIGHT_MAX
        ):
            outgoing = session.queue.popleft()
            packet_id = session.last_packet_id % PACKET_IDS + 1
            while packet_id in session.outgoing:
                packet_id = packet_id % PACKET_IDS + 1
            session.last_packet_id = packet_id
            session.outgoing[packet_id] = outgoing
            self.live[outgoing.publication.payload] += outgoing.is_live
            session.connection.to_gateway.write(outgoing.packet(packet_id, dup=False))

    def _resume(self, session: BrokerSession, write: Callable[[bytes], None]) -> None:
        for packet_id, outgoing in session.outgoing.items():
            if outgoing.released:
                write(mqtt5.PubRelPacket(packet_id).write())
            else:
                counted = self.live if outgoing.is_live else self.repeated
                counted[outgoing.publication.payload] += 1
                write(outgoing.packet(packet_id, dup=True))
        self._pump(session)


class _Conversation:
    """One connection of a client, from its CONNECT on."""

    def __init__(self, broker: ModelBroker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self._write = connection.to_gateway.write
        self._session: BrokerSession | None = None
        self._limits = broker.limits
        self._partial = b""
        self._is_over = False  # the broker has ended it
        self._unfinished: set[int] = set()  # QoS 2 messages from the client on this connection

    def receive(self, octets: bytes) -> None:
        octets = self._partial + octets
        start = 0
        while (end := _packet_end(octets, start)) is not None:
            packet, _ = mqtt5.read(memoryview(octets)[start:end])
            size, start = end - start, end
            if self._is_over:
                return
            assert size <= (self._limits.packet_bytes_max or size), f"{packet}, too large"
            if self._session is None:
                assert isinstance(packet, mqtt5.ConnectPacket), "the first packet is CONNECT"
                self._connect(packet)
            else:
                assert self._session.connection is self._connection
                _RECEIVERS[type(packet)](self, self._session, packet)
        self._partial = octets[start:]

    def _connect(self, packet: mqtt5.ConnectPacket) -> None:
        broker = self._broker
        session = broker.sessions.get(packet.client_id)
        present = session is not None and not packet.clean_start
        if session is None or packet.clean_start:
            session = broker.sessions[packet.client_id] = BrokerSession()
        if session.connection is not None:  # taken over
            session.connection.sever()
            session.connection = None
            broker._publish_will(session)
        session.connection, session.will = self._connection, packet.will
        self._session = session
        connack = mqtt5.ConnAckPacket(
            session_present=present,
            receive_max=broker._receive_max,
            max_packet_size=self._limits.packet_bytes_max,
        )
        self._write(connack.write())
        broker._resume(session, self._write)

    def _publish(self, session: BrokerSession, packet: mqtt5.PublishPacket) -> None:
        qos, packet_id = int(packet.qos), packet.packet_id
        if not self._takes(session, packet):
            return
        properties = dict(packet.user_properties)
        tag = None
        if "seq" in properties:
            tag = (properties["gw"], properties["epoch"], properties["seq"])
        publication = Publication(
            packet.topic,
            packet.payload,
            qos,
            packet.retain,
            tag,
            properties.get("client"),
            unix_ms=int(properties["ts"]) if "ts" in properties else None,
        )
        if qos == 2:
            assert packet_id is not None
            # The second content under one id replaces the first at mosquitto; MQTT 5 has it so
            # that the first stays until it is released.
            if self._broker._replaces_contents or packet_id not in session.incoming:
                session.incoming[packet_id] = publication
            self._unfinished.add(packet_id)
            assert len(self._unfinished) <= self._broker._receive_max, "Receive Maximum overrun"
            self._acknowledge(PUBREC, packet_id)
            return
        is_wanted = self._broker.route(publication)
        if qos == 1:
            assert packet_id is not None
            if is_wanted or self._limits.acknowledged_with:
                self._acknowledge(PUBACK, packet_id)
                return
            code = mqtt5.PubAckReasonCode.NO_MATCHING_SUBSCRIBERS
            self._write(mqtt5.PubAckPacket(packet_id, reason_code=code).write())

    def _takes(self, session: BrokerSession, packet: mqtt5.PublishPacket) -> bool:
        """Whether a PUBLISH goes on; otherwise it is answered here."""
        topic, packet_id = packet.topic, packet.packet_id
        if topic in self._limits.ends_on_topics:
            self._end(f"PUBLISH {topic}")
            return False
        if topic in self._limits.denied_topics:
            self._refuse(packet, NOT_AUTHORIZED)
            if self._limits.ends_after_denial:
                self._end(f"PUBLISH {topic}", is_told=True)
            return False
        if self._broker.is_over_quota and packet_id not in session.incoming:
            self._broker.over_quota += 1
            self._refuse(packet, QUOTA_EXCEEDED)
            return False
        return True

    def _refuse(self, packet: mqtt5.PublishPacket, code: int) -> None:
        if packet.packet_id is not None:
            kind = PUBREC if packet.qos == mqtt5.QoS.EXACTLY_ONCE else PUBACK
            self._answer(kind, packet.packet_id, code)

    def _acknowledge(self, kind: int, packet_id: int) -> None:
        self._answer(kind, packet_id, self._limits.acknowledged_with)

    def _answer(self, kind: int, packet_id: int, code: int) -> None:
        """Written here, as the codec knows no code that MQTT 5 does not."""
        head = bytes([kind, 3 if code else 2]) + packet_id.to_bytes(2, "big")
        self._write(head + (bytes([code]) if code else b""))

    def _end(self, cause: str, *, is_told: bool = False) -> None:
        self._is_over = True
        self._broker.end(self._connection, cause, is_told=is_told)

    def _pubrel(self, session: BrokerSession, packet: mqtt5.PubRelPacket) -> None:
        publication = session.incoming.pop(packet.packet_id, None)
        self._unfinished.discard(packet.packet_id)
        code = mqtt5.PubCompReasonCode.SUCCESS
        if publication is not None:
            self._broker.route(publication)
        elif self._broker._says_not_found:
            code = mqtt5.PubCompReasonCode.PACKET_ID_NOT_FOUND
        if self._limits.acknowledged_with and not code:
            self._acknowledge(PUBCOMP, packet.packet_id)
            return
        self._write(mqtt5.PubCompPacket(packet.packet_id, reason_code=code).write())

    def _puback(self, session: BrokerSession, packet: mqtt5.PubAckPacket) -> None:
        session.outgoing.pop(packet.packet_id, None)
        self._broker._pump(session)

    def _pubrec(self, session: BrokerSession, packet: mqtt5.PubRecPacket) -> None:
        outgoing = session.outgoing.get(packet.packet_id)
        if outgoing is not None:
            outgoing.released = True
        self._write(mqtt5.PubRelPacket(packet.packet_id).write())

    def _pubcomp(self, session: BrokerSession, packet: mqtt5.PubCompPacket) -> None:
        session.outgoing.pop(packet.packet_id, None)
        self._broker._pump(session)

    def _subscribe(self, session: BrokerSession, packet: mqtt5.SubscribePacket) -> None:
        limits, wishes = self._limits, packet.topic_filters
        cause = self._cause_to_end(wishes)
        if cause is not None:
            self._end(cause)
            return
        denied = mqtt5.SubAckReasonCode.NOT_AUTHORIZED
        codes = [
            denied
            if wish.pattern in limits.denied_filters
            else mqtt5.SubAckReasonCode(int(wish.max_qos))
            for wish in wishes
        ]
        suback = mqtt5.SubAckPacket(packet.packet_id, codes).write()
        if not self._broker._retained_first:
            self._write(suback)
        for wish, code in zip(wishes, codes, strict=True):
            if code is denied:
                continue
            before = session.subscriptions.get(wish.pattern)
            is_new = before is None
            as_published = wish.retain_as_published
            if before is not None and self._broker._keeps_first_options:
                as_published = before.retain_as_published
            subscription = Subscription(int(wish.max_qos), as_published, packet.subscription_id)
            session.subscriptions[wish.pattern] = subscription
            handling = wish.retain_handling
            if handling == mqtt5.RetainHandling.SEND_ALWAYS or (
                is_new and handling == mqtt5.RetainHandling.SEND_IF_SUBSCRIPTION_NOT_EXISTS
            ):
                for topic, publication in self._broker.retained.items():
                    if matches(wish.pattern, topic):
                        self._broker.deliver_retained(session, publication, subscription)
        if self._broker._retained_first:
            self._write(suback)

    def _cause_to_end(self, wishes: list[mqtt5.TopicFilter]) -> str | None:
        """Why a SUBSCRIBE ends the connection."""
        limits = self._limits
        for wish in wishes:
            if wish.pattern in limits.ends_on_filters:
                return f"SUBSCRIBE {wish.pattern}"
        if limits.filters_max and len(wishes) > limits.filters_max:
            return "filters in a SUBSCRIBE"
        return None

    def _unsubscribe(self, session: BrokerSession, packet: mqtt5.UnsubscribePacket) -> None:
        codes = []
        for pattern in packet.patterns:
            existed = session.subscriptions.pop(pattern, None) is not None
            codes.append(
                mqtt5.UnsubAckReasonCode.SUCCESS
                if existed
                else mqtt5.UnsubAckReasonCode.NO_SUBSCRIPTION_EXISTED
            )
        self._write(mqtt5.UnsubAckPacket(packet.packet_id, codes).write())

    def _pingreq(self, _session: BrokerSession, _packet: mqtt5.PingReqPacket) -> None:
        self._write(mqtt5.PingRespPacket().write())

    def _disconnect(self, session: BrokerSession, _packet: mqtt5.DisconnectPacket) -> None:
        session.will = None
        session.connection = None
        self._connection.sever()


_RECEIVERS: dict[type, Callable[[_Conversation, BrokerSession, Any], None]] = {
    mqtt5.PublishPacket: _Conversation._publish,
    mqtt5.PubRelPacket: _Conversation._pubrel,
    mqtt5.PubAckPacket: _Conversation._puback,
    mqtt5.PubRecPacket: _Conversation._pubrec,
    mqtt5.PubCompPacket: _Conversation._pubcomp,
    mqtt5.SubscribePacket: _Conversation._subscribe,
    mqtt5.UnsubscribePacket: _Conversation._unsubscribe,
    mqtt5.PingReqPacket: _Conversation._pingreq,
    mqtt5.DisconnectPacket: _Conversation._disconnect,
}


def matches(topic_filter: str, topic: str) -> bool:
    """MQTT 5, 4.7, written again so that a mistake in the gateway's own is not repeated here."""
    filter_levels, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and filter_levels[0] in ("+", "#"):
        return False
    for position, wanted in enumerate(filter_levels):
        if wanted == "#":
            return True
        if position >= len(levels) or wanted not in ("+", levels[position]):
            return False
    return len(filter_levels) == len(levels)


def _packet_end(octets: bytes, start: int) -> int | None:
    """Where the packet that begins here ends; None if it has not all come. Written again, so that a
    mistake in the gateway's own is not repeated here.
    """
    length, shift, position = 0, 0, start + 1
    while position < len(octets):
        length |= (octets[position] & 0x7F) << shift
        if octets[position] < 0x80:
            end = position + 1 + length
            return end if end <= len(octets) else None
        shift, position = shift + 7, position + 1
    return None

"""Our readings on their way to the broker: first tries, repeats, and what it says to them.

Rule 1: readings leave in the order in which they came; QoS 0 keeps its place behind those that
        wait for the window.
Rule 2: a reading gets its sequence when it is taken on, in the journal, on the wire or to wait, so
        that numbers are contiguous, and keeps its delivery tag however often it goes to the
        broker, also in the next life of the gateway.
Rule 3: after a break, with the broker's session gone everything unsettled is published again as
        new, and PUBREL is never sent. With the session present, `trust_session` decides: by the
        specification (DUP for what had no PUBREC, PUBREL for what had), or everything again with
        DUP and the same packet id, because mosquitto says "session present" after a kill though
        it forgot the QoS 2 messages it had answered with PUBREC.
        PUBREL for a reading that is in the journal waits there for the record of PUBREC, or a
        restart would publish again what the broker has released; so it does in each connection,
        because CONNECT has made that record void (session.py, Rule 4). Without `trust_session`
        nobody would read it.
Rule 4: a QoS 1 or 2 reading is refused by a broker that takes QoS 0 only, because nothing would
        ever say that it arrived.

Limits: see inflight.py. What the broker would find too large is refused, not sent.
"""

from __future__ import annotations

from collections.abc import Callable

import mqtt5

from gateway.core.effects import (
    Dropped,
    Effect,
    Finish,
    Forward,
    ProcessPauses,
    Reason,
    RecordReceived,
    Refused,
    ReleaseUpstream,
    Settled,
    Transmit,
)
from gateway.core.mqtt.codec import PublishWriter, plain_pubrels
from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.options import UpstreamRules
from gateway.core.mqtt.reason_codes import spoken
from gateway.core.state_records import PACKET_IDS
from gateway.frames import ReturnCode

REFUSED = 0x80
PACKET_BYTES_MAX = 268_435_460  # of MQTT itself

# What the broker may accept later; all else it will refuse again (MQTT 5, 3.4.2.1).
_PASSING = frozenset({0x80, 0x83, 0x91, 0x97})


def _never(_forward: Forward, _now: float) -> Reason | None:
    return None


class Readings:
    def __init__(self, rules: UpstreamRules, pauses: ProcessPauses) -> None:
        self._pauses = pauses
        self.in_flight = InFlight(rules.waiting_messages_max, rules.waiting_bytes_max)
        self.is_open = False
        # The shell cannot write as fast as we ask: QoS 0 is dropped, others wait.
        self.is_clogged = False
        self.unix_ms_at_zero = 0.0
        # Why a reading that waited is not worth sending any more, by the uplink.
        self.objection: Callable[[Forward, float], Reason | None] = _never
        self.epoch = rules.epoch
        self._is_resumed = False  # the broker has a session of ours
        self._trust_session = rules.trust_session
        self._records = rules.trust_session  # the journal may have some as received
        self._writer = PublishWriter(rules)
        self.packet_bytes_max = PACKET_BYTES_MAX  # of the broker
        self._sequence = 0
        self._packet_id_before = 0  # the last one of the life before
        self._connection = 0
        self._recording: set[int] = set()  # PUBREC came and is on its way into the journal

    def restore(self, received: list[Forward], last_packet_id: int) -> None:
        """Go on where the life before ended: its packet ids may still mean something."""
        self.in_flight.restore(received)
        self._packet_id_before = last_packet_id
        self._records = self._records or bool(received)

    def may_be_on_record(self) -> bool:
        """Whether the journal may have any of them as received by the broker."""
        return self._records and any(
            forward.record >= 0 and forward.upstream_qos == 2
            for forward in self.in_flight.unsettled()
        )

    def may_have_sent(self, epoch: int, sequence: int) -> bool:
        """Whether a reading may have gone to the broker under these numbers."""
        return epoch < self.epoch or (epoch == self.epoch and sequence < self._sequence)

    @property
    def connection(self) -> int:
        """Counts them."""
        return self._connection

    def is_recording(self, forward: Forward) -> bool:
        """Whether the journal is to have it as received before PUBREL."""
        return forward.packet_id in self._recording

    def age_s(self, forward: Forward, now: float) -> float:
        """A reading grows old also while this process stands still."""
        machine_time = self._pauses.machine_time
        return machine_time(now) - machine_time(forward.received_at)

    # From the connection

    def open(self, packet: mqtt5.ConnAckPacket) -> list[Effect]:
        """The broker took us; it names its limits. Returns what goes out again."""
        self.is_open = True
        self._is_resumed = packet.session_present
        self._connection += 1
        self._writer.retain_available = packet.retain_available
        self.packet_bytes_max = packet.max_packet_size or PACKET_BYTES_MAX
        in_flight = self.in_flight
        in_flight.qos_max = int(packet.max_qos)
        in_flight.window = min(packet.receive_max, PACKET_IDS)
        if not packet.session_present or in_flight.exceeds_qos():
            in_flight.start_over()
            in_flight.unanswered = 0
            return []
        if not self._trust_session:
            in_flight.unrelease()
        in_flight.narrow()
        in_flight.unanswered = len(in_flight)
        return self._resend()

    def close(self) -> None:
        """What is unsettled stays for the next connection."""
        self.is_open = False
        self.is_clogged = False
        self._recording.clear()
        self.in_flight.put_ahead()

    def receive_puback(self, packet_id: int, code: int, detail: str | None) -> list[Effect]:
        if code >= REFUSED:
            return self._refused(packet_id, "PUBACK", code, detail)
        return self.receive_pubacks([packet_id])

    def receive_pubacks(self, packet_ids: list[int]) -> list[Effect]:
        """All of success, as all `receive_...s`."""
        forwards = self.in_flight.acknowledge(packet_ids)
        self.in_flight.unanswered -= len(forwards)
        return [Settled(forwards)] if forwards else []

    def receive_pubrec(self, packet_id: int, code: int, detail: str | None) -> list[Effect]:
        if code >= REFUSED:
            return self._refused(packet_id, "PUBREC", code, detail)
        forward = self.in_flight.published.get(packet_id)
        if forward is not None and self._must_record(forward):
            return self._record_received(packet_id, forward)
        answer = mqtt5.PubRelReasonCode.SUCCESS
        if not self.in_flight.release(packet_id):
            answer = mqtt5.PubRelReasonCode.PACKET_ID_NOT_FOUND
        return [Transmit(mqtt5.PubRelPacket(packet_id, reason_code=answer).write())]

    def receive_pubrecs(self, packet_ids: list[int]) -> list[Effect]:
        in_flight = self.in_flight
        if not self._trust_session and all(map(in_flight.release, packet_ids)):
            return [Transmit(plain_pubrels(packet_ids))]
        success = int(mqtt5.PubRecReasonCode.SUCCESS)
        return [
            effect
            for packet_id in packet_ids
            for effect in self.receive_pubrec(packet_id, success, None)
        ]

    def recorded(self, release: ReleaseUpstream) -> list[Effect]:
        """PUBREC is on record: PUBREL may go, if the connection is still the one it came on."""
        if not self.is_open or release.connection != self._connection:
            return []  # it is void, and the broker says PUBREC again
        packet_id, in_flight = release.packet_id, self.in_flight
        self._recording.discard(packet_id)
        forward = in_flight.published.get(packet_id) or in_flight.released.get(packet_id)
        if forward is not release.forward:
            return []
        in_flight.release(packet_id)
        return [Transmit(mqtt5.PubRelPacket(packet_id).write())]

    def receive_pubcomp(self, packet_id: int) -> list[Effect]:
        """Settled whatever the code: "not found" says that the broker has finished with it."""
        return self.receive_pubcomps([packet_id])

    def receive_pubcomps(self, packet_ids: list[int]) -> list[Effect]:
        complete = self.in_flight.complete
        forwards = [forward for each in packet_ids if (forward := complete(each)) is not None]
        self.in_flight.unanswered -= len(forwards)
        return [Settled(forwards)] if forwards else []

    def pump(self, now: float) -> list[Effect]:
        """Let go what waits, as far as the window allows."""
        effects: list[Effect] = []
        in_flight = self.in_flight

        def is_wanted(forward: Forward) -> bool:
            return self.objection(forward, now) is None

        while self.is_open and not self.is_clogged:
            run = in_flight.take_run(self.epoch, is_wanted)
            if run:
                effects += self._transmit_run(run)
            forward = in_flight.next_waiting()
            if forward is None:
                break
            reason = None if forward.record < 0 else self.objection(forward, now)
            if reason is not None:
                effects += [Dropped(reason, forward.client_id, forward.topic), Finish(forward)]
                continue
            effects.append(self._transmit(forward))
            if forward.qos == 0 and forward.record >= 0:
                effects.append(Finish(forward))  # nothing will say that it arrived
        return effects

    # From the engine

    def tag(self, forward: Forward) -> None:
        """The reading is taken on: give it its delivery tag and its packet id."""
        forward.unix_ms = self._unix_ms(forward)
        forward.epoch = self.epoch
        if forward.qos:
            forward.sequence = self._sequence
            forward.packet_id = (self._packet_id_before + self._sequence) % PACKET_IDS + 1
            self._sequence += 1

    def give_back(self, forward: Forward) -> None:
        """The reading was not taken on after all: its sequence is free if it was the last."""
        if forward.qos and forward.sequence == self._sequence - 1:
            self._sequence -= 1

    def publish(self, forward: Forward, *, ahead: bool = False) -> Effect | None:
        """Carry a reading to the broker, now or in its turn (None).

        `ahead`: while it waits, what is parked is younger.
        """
        in_flight, qos = self.in_flight, forward.qos
        if qos == 0:
            if not self.is_open:
                return Dropped(Reason.BROKER_AWAY, forward.client_id)
            if self.is_clogged:
                return Dropped(Reason.BROKER_SLOW, forward.client_id)
        may_write = self.is_open and not self.is_clogged
        if may_write and not in_flight.waiting and in_flight.has_room(qos):
            turns = in_flight.turns
            if not (turns.is_busy and turns.must_wait(forward)) and (
                qos < 2 or in_flight.is_id_free(forward)
            ):
                return self._transmit(forward)
        if in_flight.wait(forward, ahead=ahead or not self.is_open):
            if not forward.epoch:
                self.tag(forward)
            return None
        detail = f"{len(in_flight.waiting)} readings wait for the broker"
        if forward.qos == 0:
            return Dropped(Reason.WAITING_FULL, forward.client_id, detail)
        return Refused(forward, ReturnCode.CONGESTION, Reason.WAITING_FULL, detail)

    # Onto the wire

    def _transmit(self, forward: Forward) -> Effect:
        """Send a reading that is not on the wire of this connection."""
        in_flight, qos, was_sent = self.in_flight, forward.qos, forward.upstream_qos
        if qos > in_flight.qos_max:
            qos = in_flight.qos_max
        forward.upstream_qos = qos
        if not qos and forward.qos:
            detail = f"{forward.topic!r}: the broker takes QoS 0 only, which nothing confirms"
            return Refused(forward, ReturnCode.NOT_SUPPORTED, Reason.BROKER_REFUSED, detail)
        is_new = not forward.epoch
        if is_new:
            self.tag(forward)
        elif not was_sent and forward.epoch == self.epoch:
            # The clock may have been set since it was taken on.
            forward.unix_ms = self._unix_ms(forward)
        packet_id = in_flight.publish(forward) if qos else 0
        # A former life may have sent it; its session at the broker may know the packet id.
        dup = forward.epoch != self.epoch and self._is_resumed and qos > 0
        octets = self._writer.write(forward, packet_id, dup=dup)
        if len(octets) > self.packet_bytes_max:
            if is_new and qos:
                self._sequence = forward.sequence  # it was never taken on
            return self._too_large(forward, packet_id)
        return Transmit(octets)

    def _transmit_run(self, run: list[Forward]) -> list[Effect]:
        """As `_transmit`, of what `take_run` brought, in one piece."""
        writer, limit = self._writer, self.packet_bytes_max
        since = self._pauses.since
        at_zero = self._pauses.left_out_s * 1000 + self.unix_ms_at_zero
        packets: list[bytes] = []
        largest = 0
        for forward in run:
            # The clock may have been set since it was taken on. As `_unix_ms`, whose call for each
            # takes 0.1 us of 2.3; for nearly all the numbers are the same.
            at = forward.received_at
            is_usual = at >= since
            forward.unix_ms = int(at * 1000 + at_zero) if is_usual else self._unix_ms(forward)
            packet = writer.write(forward, forward.packet_id)
            largest = max(largest, len(packet))
            packets.append(packet)
        if largest <= limit:
            return [Transmit(b"".join(packets))]
        return [
            Transmit(packet)
            if len(packet) <= limit
            else self._too_large(forward, forward.packet_id)
            for forward, packet in zip(run, packets, strict=True)
        ]

    def _unix_ms(self, forward: Forward) -> int:
        """When it came, as the wall clock is set now."""
        machine_at = self._pauses.machine_time(forward.received_at)
        return int(machine_at * 1000 + self.unix_ms_at_zero)

    def _must_record(self, forward: Forward) -> bool:
        """One that is not in the journal waits for those that are: PUBRELs keep their order."""
        return self._trust_session and (forward.record >= 0 or bool(self._recording))

    def _record_received(self, packet_id: int, forward: Forward) -> list[Effect]:
        if packet_id in self._recording:
            return []
        self._recording.add(packet_id)
        then = ReleaseUpstream(packet_id, forward, self._connection)
        return [RecordReceived(forward, then)]

    def _resend(self) -> list[Effect]:
        effects: list[Effect] = []
        for packet_id, forward in self.in_flight.in_order():
            if packet_id in self.in_flight.released:
                if self._must_record(forward):
                    effects += self._record_received(packet_id, forward)
                else:
                    effects.append(Transmit(mqtt5.PubRelPacket(packet_id).write()))
                continue
            octets = self._writer.write(forward, packet_id, dup=True)
            if len(octets) > self.packet_bytes_max:
                effects.append(self._too_large(forward, packet_id))
            else:
                effects.append(Transmit(octets))
        return effects

    def _too_large(self, forward: Forward, packet_id: int) -> Effect:
        """The broker would close the connection, and again each time the reading is sent to it."""
        self.in_flight.withdraw(packet_id)
        limit = self.packet_bytes_max
        detail = f"{forward.topic!r}: larger than the {limit} bytes the broker takes"
        if forward.qos == 0:
            return Dropped(Reason.PAYLOAD_TOO_LARGE, forward.client_id, detail)
        return Refused(forward, ReturnCode.NOT_SUPPORTED, Reason.PAYLOAD_TOO_LARGE, detail)

    def _refused(self, packet_id: int, packet: str, code: int, detail: str | None) -> list[Effect]:
        forward = self.in_flight.withdraw(packet_id)
        if forward is None:
            return []
        answer = ReturnCode.CONGESTION if code in _PASSING else ReturnCode.NOT_SUPPORTED
        reason = f"{forward.topic!r}: {spoken(packet, code, detail)}"
        return [Refused(forward, answer, Reason.BROKER_REFUSED, reason)]

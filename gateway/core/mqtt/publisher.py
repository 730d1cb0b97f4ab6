"""Our readings on their way to the broker: first tries, repeats, and what it says to them.

Rule 1: readings leave in the order in which they came; QoS 0 keeps its place behind those that
        wait for the window.
Rule 2: a reading gets its sequence when it is taken on, in the journal, on the wire or to wait, so
        that numbers are contiguous, and keeps its delivery tag however often it goes to the
        broker, also in the next run of the gateway.
Rule 3: after a break, with the broker's session gone everything unacknowledged is published again
        as new, and PUBREL is never sent. With the session present, `trust_session` decides: by the
        specification (DUP for what had no PUBREC, PUBREL for what had), or everything again with
        DUP and the same packet id, because mosquitto says "session present" after a kill though it
        forgot the QoS 2 messages it had answered with PUBREC. PUBREL for a reading that is in the
        journal waits there for the record of PUBREC, or a restart would publish again what the
        broker has released; so it does in each connection, because CONNECT has made that record
        void (session.py, Rule 4). Without `trust_session` nobody would read it.
Rule 4: a QoS 1 or 2 reading is refused by a broker that takes QoS 0 only, because nothing would
        ever say that it arrived.
Rule 5: what may be the cause of the connection's end goes alone, or is not sent (caution.py).
Rule 6: a broker whose quota is used up (0x97) is given time: nothing goes for `PAUSE_S`, twice as
        long each time, and then the window grows from one with what it acknowledges. The reading
        keeps its place. A broker that finds its Receive Maximum exceeded gets half from then on.

Limits: see inflight.py. What the broker would find too large is refused, not sent; readings held
back behind a suspect are HELD_MAX, then the suspect is tried at once.
"""

from __future__ import annotations

from math import inf

import mqtt5

from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Dropped,
    Finish,
    OwnTopicRefused,
    ReceiptRecorded,
    RecordReceived,
    Transmit,
)
from gateway.core.events import Output, ReadingRefused, ReadingsAcknowledged, ReadingSetAside
from gateway.core.mqtt.caution import EVERYTHING, Alone, Caution, reading_key
from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.options import PACKET_BYTES_MAX, MqttOptions
from gateway.core.mqtt.publish_encoder import PublishEncoder
from gateway.core.mqtt.reason_codes import spoken
from gateway.core.mqtt.stale import StaleCheck
from gateway.core.process_pauses import ProcessPauses
from gateway.core.state_records import PACKET_IDS
from gateway.core.topic_options import OptionsByTopic
from gateway.core.values import Reading
from gateway.frames import ReturnCode

REFUSED = 0x80

# What the broker may accept later; all else it will refuse again (MQTT 5, 3.4.2.1).
_PASSING = frozenset({0x80, 0x83, 0x91})
RECEIVE_MAXIMUM_EXCEEDED, MESSAGE_RATE_TOO_HIGH, QUOTA_EXCEEDED = 0x93, 0x96, 0x97
PAUSE_S = 1.0
PAUSE_S_MAX = 30.0
HELD_MAX = 1000
STEP_MS = 1000  # by which the wall clock was set, not slewed
TOO_LARGE = "larger than the {limit} bytes the broker takes (its Maximum Packet Size)"
QOS_0_ONLY = "the broker takes QoS 0 only, which nothing confirms"
ENDS = "the broker ended the connection {count} times when this was sent alone"
# No broker that announces at least so much can find a reading too large: payload and topic have 64
# KiB each at most, and the delivery tag less than a client id and names of 64 KiB.
ROOMY_BYTES = 5 << 16
NUMBERS_BYTES_MAX = 16  # by which the numbers in a delivery tag may become longer
BLOCKED = "the broker has ended the connection for readings of this client on this topic"


class Publisher:
    def __init__(
        self,
        options: MqttOptions,
        topic_options: OptionsByTopic,
        pauses: ProcessPauses,
        caution: Caution,
    ) -> None:
        self.caution = caution
        self._pauses = pauses
        self.in_flight = InFlight(options.waiting_messages_max, options.waiting_bytes_max)
        self.is_open = False
        self.has_progressed = False  # the broker acknowledged a reading on this connection
        # The shell cannot write as fast as we ask: QoS 0 is dropped, others wait.
        self.is_congested = False
        self.gives_way = False  # to a suspected filter: nothing goes until all is answered
        self.paused_until = inf  # for want of a quota; infinity if it is not
        self.is_paused = False
        self._pause_s = PAUSE_S
        self._begins_slowly = False
        self._window_max = PACKET_IDS  # learnt
        self.receive_max = PACKET_IDS  # its Receive Maximum
        self.unix_ms_at_zero = 0.0
        self.epoch = options.epoch
        self.stale = StaleCheck(
            topic_options=topic_options,
            backlog=self.in_flight.backlog,
            pauses=pauses,
            epoch=options.epoch,
        )
        self._is_resumed = False  # the broker has a session of ours
        self._trust_session = options.trust_session
        self._records = options.trust_session  # the journal may have some as received
        self._writer = PublishEncoder(options)
        self.packet_bytes_max = PACKET_BYTES_MAX  # of the broker
        self._sequence = 0
        self._packet_id_before = 0  # the last one of the life before
        self._connection = 0
        self._recording: set[int] = set()  # PUBREC came and is on its way into the journal

    def restore(self, received: list[Reading], last_packet_id: int) -> None:
        """Go on where the life before ended: its packet ids may still mean something."""
        self.in_flight.restore(received)
        self._packet_id_before = last_packet_id
        self._records = self._records or bool(received)

    def may_be_on_record(self) -> bool:
        """Whether the journal may have any of them as received by the broker."""
        return self._records and any(
            reading.record >= 0 and reading.upstream_qos == 2
            for reading in self.in_flight.unacknowledged()
        )

    def may_have_sent(self, epoch: int, sequence: int) -> bool:
        """Whether a reading may have gone to the broker under these numbers."""
        return epoch < self.epoch or (epoch == self.epoch and sequence < self._sequence)

    @property
    def connection(self) -> int:
        """Counts them."""
        return self._connection

    def is_recording(self, reading: Reading) -> bool:
        """Whether the journal is to have it as received before PUBREL."""
        return reading.packet_id in self._recording

    # From the connection

    def open(self, packet: mqtt5.ConnAckPacket, now: float) -> list[Output]:
        """The broker took us; it names its limits. Returns what goes out again."""
        self.is_open = True
        self.has_progressed = False
        self._is_resumed = packet.session_present
        self._connection += 1
        self._writer.retain_available = packet.retain_available
        in_flight = self.in_flight
        in_flight.qos_max = int(packet.max_qos)
        self.receive_max = min(packet.receive_max, PACKET_IDS)
        in_flight.window = self._limit
        in_flight.own.clear()
        if self._begins_slowly:
            self._begins_slowly = False
            self.slow_down(now)
        if not packet.session_present or in_flight.exceeds_qos():
            in_flight.start_over()
            in_flight.unanswered = 0
            return []
        if not self._trust_session:
            in_flight.unrelease()
        in_flight.narrow(0 if self.caution.is_on else in_flight.window)
        in_flight.unanswered = len(in_flight)
        return self._resend()

    def close(self) -> None:
        """What is unacknowledged stays for the next connection."""
        self.is_open = False
        self.is_congested = self.gives_way = False
        self.is_paused, self.paused_until = False, inf
        self._recording.clear()
        self.in_flight.to_release.clear()
        self.in_flight.let_all_go()
        self.in_flight.put_ahead()

    def receive_puback(self, packet_id: int, code: int, detail: str | None) -> list[Output]:
        if code < REFUSED:
            return self.receive_pubacks([packet_id])
        topic = self.in_flight.own.pop(packet_id, None)
        if topic is not None:
            return [OwnTopicRefused(topic, spoken("PUBACK", code, detail))]
        return self._refused(packet_id, "PUBACK", code, detail)

    def receive_pubacks(self, packet_ids: list[int]) -> list[Output]:
        """All of success, as all `receive_...s`."""
        in_flight = self.in_flight
        readings = in_flight.acknowledge(packet_ids)
        in_flight.unanswered -= len(readings)
        if in_flight.own:
            for packet_id in packet_ids:
                in_flight.own.pop(packet_id, None)
        return self._acknowledged(readings)

    def receive_pubrec(self, packet_id: int, code: int, detail: str | None) -> list[Output]:
        if code >= REFUSED:
            return self._refused(packet_id, "PUBREC", code, detail)
        reading = self.in_flight.published.get(packet_id)
        if reading is not None and self._must_record(reading):
            return self._record_received(packet_id, reading)
        answer = mqtt5.PubRelReasonCode.SUCCESS
        if not self.in_flight.release(packet_id):
            answer = mqtt5.PubRelReasonCode.PACKET_ID_NOT_FOUND
        return [Transmit(mqtt5.PubRelPacket(packet_id, reason_code=answer).write())]

    def receive_pubrecs(self, packet_ids: list[int]) -> list[Output]:
        in_flight = self.in_flight
        if not self._trust_session and all(map(in_flight.release, packet_ids)):
            return [Transmit(b"".join([mqtt5.PubRelPacket(each).write() for each in packet_ids]))]
        success = int(mqtt5.PubRecReasonCode.SUCCESS)
        return [
            effect
            for packet_id in packet_ids
            for effect in self.receive_pubrec(packet_id, success, None)
        ]

    def recorded(self, release: ReceiptRecorded) -> list[Output]:
        """PUBREC is on record: PUBREL may go, if the connection is still the one it came on."""
        if not self.is_open or release.connection != self._connection:
            return []  # it is void, and the broker sends PUBREC again
        packet_id, in_flight = release.packet_id, self.in_flight
        self._recording.discard(packet_id)
        reading = in_flight.published.get(packet_id) or in_flight.released.get(packet_id)
        if reading is not release.reading:
            return []
        in_flight.release(packet_id)
        return [Transmit(mqtt5.PubRelPacket(packet_id).write())]

    def receive_pubcomp(self, packet_id: int) -> list[Output]:
        """Finished whatever the code: "not found" says that the broker has finished with it."""
        return self.receive_pubcomps([packet_id])

    def receive_pubcomps(self, packet_ids: list[int]) -> list[Output]:
        complete = self.in_flight.complete
        readings = [reading for each in packet_ids if (reading := complete(each)) is not None]
        self.in_flight.unanswered -= len(readings)
        return self._acknowledged(readings)

    def _acknowledged(self, readings: list[Reading]) -> list[Output]:
        if not readings:
            return []
        self.has_progressed = True
        caution, in_flight = self.caution, self.in_flight
        proven = caution.proven
        for reading in readings:
            if reading.topic not in proven:
                caution.prove(reading.topic)
        caution.accepted()
        if caution.alone is not None and caution.alone.reading in readings:
            self._let_go(caution.alone)
            caution.answered()
        if in_flight.window < self.receive_max:
            in_flight.window = min(in_flight.window + len(readings), self._limit)
            if in_flight.window == self._limit:
                self._pause_s = PAUSE_S
        return [ReadingsAcknowledged(readings)]

    @property
    def _limit(self) -> int:
        return min(self.receive_max, self._window_max)

    def receive_pingresp(self) -> None:
        """What was sent alone before PINGREQ has been read."""
        alone = self.caution.alone
        self.caution.ping_answered()
        if alone is not None and self.caution.alone is None:
            self._let_go(alone)

    def _let_go(self, alone: Alone) -> None:
        """What followed it may go on."""
        if alone.reading is not None:
            self.in_flight.let_go(alone.reading.client_id)

    def pump(self, now: float) -> list[Output]:
        """Let go what waits, as far as the window allows."""
        if self.caution.is_on:
            return self._pump_carefully(now)
        effects: list[Output] = []
        in_flight, stale = self.in_flight, self.stale
        if in_flight.held_count or in_flight.next_alone is not None:
            in_flight.let_all_go()
        while self.is_open and in_flight.to_release:
            effects += self._release_again(in_flight.to_release.popleft())
        while self.is_open and not (self.is_congested or self.is_paused):
            run = in_flight.take_run(self.epoch, stale, now)
            if run:
                effects += self._transmit_run(run)
            reading = in_flight.next_waiting()
            if reading is None:
                break
            effects += self._dropped_as_stale(reading, now) or self._sent(reading)
        return effects

    def _dropped_as_stale(self, reading: Reading, now: float) -> list[Output]:
        """Nothing if it may go."""
        reason = None if reading.record < 0 else self.stale.reason(reading, now)
        if reason is None:
            return []
        return [Dropped(reason, reading.client_id, reading.topic), Finish(reading)]

    def _sent(self, reading: Reading) -> list[Output]:
        sent = self._transmit(reading)
        if reading.qos == 0 and reading.record >= 0:
            return [sent, Finish(reading)]  # nothing will say that it arrived
        return [sent]

    def _pump_carefully(self, now: float) -> list[Output]:
        """As `pump`, one by one (caution.py)."""
        effects: list[Output] = []
        in_flight, caution = self.in_flight, self.caution
        while self.is_open and not (self.is_congested or self.is_paused):
            if caution.alone is not None or self.gives_way:
                break
            if in_flight.to_release or in_flight.next_alone is not None:
                sent = self._next_alone()
                if not sent:
                    break
                effects += sent
                continue
            is_full = in_flight.held_count >= HELD_MAX
            suspect = in_flight.take_held() if caution.is_trial_due or is_full else None
            if suspect is not None:
                in_flight.next_alone = suspect
                continue
            waiting = in_flight.next_waiting()
            if waiting is not None:
                effects += self._next_carefully(waiting, now)
                continue
            if not in_flight and not in_flight.waiting:
                in_flight.next_alone = in_flight.take_held()
            if in_flight.next_alone is None:
                break
        return effects

    def _next_carefully(self, reading: Reading, now: float) -> list[Output]:
        """One whose turn it is goes, goes alone, is held back, or does not go at all."""
        in_flight, caution = self.in_flight, self.caution
        dropped = self._dropped_as_stale(reading, now)
        if dropped:
            return dropped
        key = reading_key(reading)
        if caution.is_blocked(key, len(reading.payload), now):
            return [ReadingSetAside(reading, BLOCKED)]
        if reading.client_id in in_flight.held_back or caution.is_suspect(key, now):
            in_flight.hold_back(reading)
            return []
        if caution.goes_alone(reading.topic, reading.qos):
            in_flight.next_alone = reading
            return []
        return self._sent(reading)

    def _next_alone(self) -> list[Output]:
        """What goes alone next, if all else is answered."""
        in_flight, caution = self.in_flight, self.caution
        if caution.asks or in_flight.published:
            return []
        if caution.has_unread:
            return caution.ask_whether_read()
        if in_flight.to_release:
            packet_id = in_flight.to_release.popleft()
            released = in_flight.released[packet_id]
            caution.sent_alone(Alone(reading_key(released), released))
            return self._release_again(packet_id)
        reading = in_flight.next_alone
        if reading is None or in_flight.released:
            return []
        in_flight.next_alone = None
        return self._transmit_alone(reading)

    def _transmit_alone(self, reading: Reading) -> list[Output]:
        outputs = self._sent(reading)
        if type(outputs[0]) is not Transmit:
            return outputs
        needs_ping = not reading.upstream_qos
        self.caution.sent_alone(Alone(reading_key(reading), reading, needs_ping))
        if needs_ping:
            outputs.append(self.caution.ping())
        return outputs

    def found_guilty(self, alone: Alone, count: int) -> list[Output]:
        """The broker ended the connection for it. At QoS 0 it is in flight no more."""
        reading = alone.reading
        assert reading is not None
        self.in_flight.abandon(reading)
        return [ReadingSetAside(reading, ENDS.format(count=count))]

    def is_blocked(self, reading: Reading, now: float) -> bool:
        """Whether the broker has ended the connection for those like it."""
        return self.caution.is_blocked(reading_key(reading), len(reading.payload), now)

    def blocked(self, reading: Reading) -> ReadingRefused:
        """In the broker's place."""
        return _not_supported(reading, Reason.BROKER_REFUSED, BLOCKED)

    def too_large(self, reading: Reading) -> ReadingRefused | None:
        """What the broker would say to a reading that is to be stored first; None if it may take
        it.
        """
        return self._refused_for_size(reading) if self._is_too_large(reading) else None

    def _refused_for_size(self, reading: Reading) -> ReadingRefused:
        reason = TOO_LARGE.format(limit=self.packet_bytes_max)
        return _not_supported(reading, Reason.PAYLOAD_TOO_LARGE, reason)

    def _is_too_large(self, reading: Reading) -> bool:
        limit = self.packet_bytes_max
        if limit >= ROOMY_BYTES:
            return False
        qos, reading.upstream_qos = reading.upstream_qos, reading.qos
        packet = self._writer.write(reading, 1)
        reading.upstream_qos = qos
        # Its sequence may be longer than the one it has now.
        return len(packet) + NUMBERS_BYTES_MAX > limit

    # For want of a quota

    def slow_down(self, now: float) -> None:
        """The broker asked for it: nothing goes for a while, then one by one."""
        if not self.is_paused:
            self.is_paused, self.paused_until = True, now + self._pause_s
            self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
            self.in_flight.window = 1

    def ended_for_pace(self, code: int) -> None:
        """The broker has ended the connection because its Receive Maximum was exceeded, or because
        it got too much.
        """
        if code == RECEIVE_MAXIMUM_EXCEEDED:
            self._window_max = max(1, self._limit // 2)
        elif code in (MESSAGE_RATE_TOO_HIGH, QUOTA_EXCEEDED):
            self._begins_slowly = True

    def resume(self) -> None:
        self.is_paused, self.paused_until = False, inf
        self.in_flight.end_quota_wait()

    # From the engine

    def congest(self) -> None:
        """The shell cannot write as fast as we ask."""
        self.is_congested = True

    def uncongest(self) -> None:
        self.is_congested = False

    def set_wall_clock(self, unix_ms_at_zero: float) -> None:
        self.unix_ms_at_zero = unix_ms_at_zero

    def tag(self, reading: Reading) -> None:
        """The reading is taken on: give it its delivery tag and its packet id."""
        reading.unix_ms = self._unix_ms(reading)
        reading.epoch = self.epoch
        if reading.qos:
            reading.sequence = self._sequence
            reading.packet_id = (self._packet_id_before + self._sequence) % PACKET_IDS + 1
            self._sequence += 1

    def give_back(self, reading: Reading) -> None:
        """The reading was not taken on after all: its sequence is free if it was the last, and the
        broker has not seen it (one that was set aside keeps it).
        """
        if reading.qos and not reading.upstream_qos and reading.sequence == self._sequence - 1:
            self._sequence -= 1

    def publish(self, reading: Reading, *, ahead: bool = False) -> Output | None:
        """Carry a reading to the broker, now or in its turn (None).

        `ahead`: while it waits, what is queued on disk is younger.
        """
        in_flight, qos = self.in_flight, reading.qos
        if qos == 0:
            if not self.is_open:
                return Dropped(Reason.BROKER_AWAY, reading.client_id)
            if self.is_congested:
                return Dropped(Reason.BROKER_SLOW, reading.client_id)
        may_write = self.is_open and not (self.is_congested or self.is_paused)
        if self.caution.is_on and may_write:
            may_write = self._may_go_at_once(reading)
        if may_write and not in_flight.waiting and in_flight.has_room(qos):
            qos_order = in_flight.qos_order
            if not (qos_order.is_busy and qos_order.must_wait(reading)) and (
                qos < 2 or in_flight.is_id_free(reading)
            ):
                return self._transmit(reading)
        if in_flight.wait(reading, ahead=ahead or not self.is_open):
            if not reading.epoch:
                self.tag(reading)
            return None
        detail = f"{len(in_flight.waiting)} readings wait for the broker"
        if reading.qos == 0:
            return Dropped(Reason.WAITING_FULL, reading.client_id, detail)
        return ReadingRefused(
            reading=reading,
            return_code=ReturnCode.CONGESTION,
            reason=Reason.WAITING_FULL,
            detail=detail,
        )

    def _may_go_at_once(self, reading: Reading) -> bool:
        """Without a look at what else waits, for nothing of it can be a cause."""
        caution, in_flight = self.caution, self.in_flight
        if caution.alone is not None or in_flight.next_alone is not None:
            return False
        if in_flight.to_release or self.gives_way:
            return False
        if in_flight.held_count and reading.client_id in in_flight.held_back:
            return False
        if caution.has_blocked or caution.suspects:
            key, now = reading_key(reading), reading.received_at
            if caution.is_suspect(key, now) or caution.is_blocked(key, len(reading.payload), now):
                return False
        return not caution.goes_alone(reading.topic, reading.qos)

    # Onto the wire

    def _transmit(self, reading: Reading) -> Output:
        """Send a reading that is not on the wire of this connection."""
        in_flight, qos, was_sent = self.in_flight, reading.qos, reading.upstream_qos
        if qos > in_flight.qos_max:
            qos = in_flight.qos_max
        reading.upstream_qos = qos
        if not qos and reading.qos:
            return _not_supported(reading, Reason.BROKER_REFUSED, QOS_0_ONLY)
        if not qos and self.caution.is_on:
            self.caution.sent_unread()
        is_new = not reading.epoch
        if is_new:
            self.tag(reading)
        elif not was_sent:  # the clock may have been set since it was taken on
            reading.unix_ms = self._stamped_again(reading)
        packet_id = in_flight.publish(reading) if qos else 0
        # A previous run may have sent it; its session at the broker may know the packet id.
        is_repeat = reading.epoch != self.epoch or (was_sent > 0 and self.caution.is_on)
        dup = is_repeat and self._is_resumed and qos > 0
        octets = self._writer.write(reading, packet_id, dup=dup)
        if len(octets) > self.packet_bytes_max:
            if is_new and qos:
                self._sequence = reading.sequence  # it was never taken on
            return self._too_large(reading, packet_id)
        return Transmit(octets)

    def _transmit_run(self, run: list[Reading]) -> list[Output]:
        """As `_transmit`, of what `take_run` brought, in one piece."""
        writer, limit = self._writer, self.packet_bytes_max
        since = inf if self._pauses.suspended_in_run_s else self._pauses.since
        at_zero = self._pauses.left_out_s * 1000 + self.unix_ms_at_zero
        packets: list[bytes] = []
        largest = 0
        for reading in run:
            # As `_stamped_again`, whose call for each takes 0.1 us of 2.3; for nearly all the
            # numbers are the same.
            at = reading.received_at
            is_usual = at >= since
            reading.unix_ms = int(at * 1000 + at_zero) if is_usual else self._stamped_again(reading)
            packet = writer.write(reading, reading.packet_id)
            largest = max(largest, len(packet))
            packets.append(packet)
        if largest <= limit:
            return [Transmit(b"".join(packets))]
        return [
            Transmit(packet)
            if len(packet) <= limit
            else self._too_large(reading, reading.packet_id)
            for reading, packet in zip(run, packets, strict=True)
        ]

    def _unix_ms(self, reading: Reading) -> int:
        """When it came, as the wall clock is set now."""
        machine_at = self._pauses.machine_time(reading.received_at)
        return int(machine_at * 1000 + self.unix_ms_at_zero)

    def _stamped_again(self, reading: Reading) -> int:
        """When it came, by its age and the wall clock as it is set now.

        The stamp that it has stays where nothing tells its age, and where both agree: a repeat by
        the next run then says the same. The monotonic clock stops while the machine is suspended;
        so what disagrees by no more than that took proves no step of the wall clock.
        """
        pauses, machine_at = self._pauses, reading.machine_at
        if machine_at < 0:
            return reading.unix_ms
        if machine_at:
            stamp = int(machine_at * 1000 + self.unix_ms_at_zero)
            suspended_s = pauses.suspended_s
        else:
            stamp, suspended_s = self._unix_ms(reading), pauses.suspended_in_run_s
            if not suspended_s:
                return stamp
        least = stamp - suspended_s * 1000 - STEP_MS
        return reading.unix_ms if least < reading.unix_ms < stamp + STEP_MS else stamp

    def came_at(self, unix_ms: int) -> float:
        """The time of the core that `_unix_ms` makes so many of; half of one against rounding."""
        return self._pauses.core_time((unix_ms + 0.5 - self.unix_ms_at_zero) / 1000)

    def unix_ms_now(self, reading: Reading) -> int:
        """For what is done with a reading now; as good as the clock was when it came, at least."""
        return max(reading.unix_ms, int(self.caution.heard_at * 1000 + self.unix_ms_at_zero))

    def _must_record(self, reading: Reading) -> bool:
        """One that is not in the journal waits for those that are: PUBRELs keep their order."""
        return self._trust_session and (reading.record >= 0 or bool(self._recording))

    def _record_received(self, packet_id: int, reading: Reading) -> list[Output]:
        if packet_id in self._recording:
            return []
        self._recording.add(packet_id)
        then = ReceiptRecorded(packet_id, reading, self._connection)
        return [RecordReceived(reading, then)]

    def _resend(self) -> list[Output]:
        effects: list[Output] = []
        for packet_id, reading in self.in_flight.in_order():
            if packet_id in self.in_flight.released:
                if self.caution.degree == EVERYTHING or self.caution.suspects:
                    self.in_flight.to_release.append(packet_id)
                else:
                    effects += self._release_again(packet_id)
                continue
            octets = self._writer.write(reading, packet_id, dup=True)
            if len(octets) > self.packet_bytes_max:
                effects.append(self._too_large(reading, packet_id))
            else:
                effects.append(Transmit(octets))
        return effects

    def _release_again(self, packet_id: int) -> list[Output]:
        reading = self.in_flight.released[packet_id]
        if self._must_record(reading):
            return self._record_received(packet_id, reading)
        return [Transmit(mqtt5.PubRelPacket(packet_id).write())]

    def _too_large(self, reading: Reading, packet_id: int) -> Output:
        """The broker would close the connection, and again each time the reading is sent to it."""
        self.in_flight.withdraw(packet_id)
        refused = self._refused_for_size(reading)
        if reading.qos == 0:
            return Dropped(refused.reason, reading.client_id, refused.detail)
        return refused

    def _refused(self, packet_id: int, packet: str, code: int, detail: str | None) -> list[Output]:
        reading = self.in_flight.withdraw(packet_id)
        if reading is None:
            return []
        alone = self.caution.alone
        is_alone = alone is not None and alone.reading is reading
        if code == QUOTA_EXCEEDED:
            if is_alone:
                self.in_flight.let_go(reading.client_id)
            self.caution.ended_otherwise(reading)
            self.in_flight.over_quota.append(reading)
            self.slow_down(self.caution.heard_at)
            return []
        self.caution.refused(reading)
        answer = ReturnCode.CONGESTION if code in _PASSING else ReturnCode.NOT_SUPPORTED
        reason = f"{reading.topic!r}: {spoken(packet, code, detail)}"
        refused = ReadingRefused(
            reading=reading, return_code=answer, reason=Reason.BROKER_REFUSED, detail=reason
        )
        return [refused, self.caution.ping()] if is_alone else [refused]


def _not_supported(reading: Reading, reason: Reason, why: str) -> ReadingRefused:
    return ReadingRefused(
        reading=reading,
        return_code=ReturnCode.NOT_SUPPORTED,
        reason=reason,
        detail=f"{reading.topic!r}: {why}",
    )

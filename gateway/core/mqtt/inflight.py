"""Readings that the broker has not acknowledged yet: on the wire, and waiting for their turn.

The packet id of a reading is given with its sequence and is the same after a crash. While another
reading has it still, a QoS 1 reading passes it over; a QoS 2 reading waits, because the broker
would take it for another one under another id. A QoS 1 reading is acknowledged by PUBACK, a QoS 2
reading by PUBCOMP.

Those that wait in memory and those that are read back from the journal (backlog.py) take turns, so
that neither starves. But what waited when something was queued on disk goes ahead of all that is
read back: it is older. What would overtake a QoS 2 reading of its own goes aside (qos_order.py).

Limits: on the wire the broker's Receive Maximum and QOS2_IN_FLIGHT_MAX; waiting
`waiting_messages_max` and `waiting_bytes_max`, beyond which a reading is refused with congestion
and its sensor keeps it. One that is in the journal is never refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gateway.core.mqtt.backlog import Backlog
from gateway.core.mqtt.options import OWN_ID_FIRST, OWN_IN_FLIGHT_MAX, QOS2_IN_FLIGHT_MAX
from gateway.core.mqtt.qos_order import QosOrder
from gateway.core.mqtt.stale import StaleCheck
from gateway.core.state_records import PACKET_IDS, ClientId
from gateway.core.values import Reading

OVERHEAD_BYTES = 200  # what a waiting reading costs beside topic and payload, roughly


class InFlight:
    def __init__(self, waiting_messages_max: int, waiting_bytes_max: int) -> None:
        self.published: dict[int, Reading] = {}  # by packet id, PUBLISH sent
        self.released: dict[int, Reading] = {}  # PUBREC came, PUBREL sent
        self.waiting: deque[Reading] = deque()
        self.backlog = Backlog()
        self.qos_order = QosOrder()
        self.window = 0  # the broker's Receive Maximum
        # Messages of the gateway's own at QoS 1: topics by packet id. They count in the window, and
        # are not sent again in the next connection, in which each is made again.
        self.own: dict[int, str] = {}
        self.qos_max = 2  # the broker's Maximum QoS
        # Of those in flight, so many has the broker not answered in this connection: all of them,
        # or their places are lost.
        self.unanswered = 0
        # What waits for others to go first (caution.py), by client, and what goes alone next.
        self.held_back: dict[ClientId, deque[Reading]] = {}
        self.held_count = 0
        self.next_alone: Reading | None = None
        # Of those released, by packet id: the broker has to receive PUBREL once more, one by one.
        self.to_release: deque[int] = deque()
        # Beyond the broker's quota: these go first when it has been given time.
        self.over_quota: list[Reading] = []
        self._ahead = 0  # of those that wait, so many go before the backlog
        self._is_backlogs_turn = False
        self._waiting_bytes = 0
        self._qos2 = 0
        self._waiting_messages_max = waiting_messages_max
        self._waiting_bytes_max = waiting_bytes_max

    def __len__(self) -> int:
        return len(self.published) + len(self.released)

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    # Onto the wire

    def has_room(self, qos: int) -> bool:
        """Whether a reading of this QoS, or the broker's highest below it, may go out now."""
        if qos == 0 or self.qos_max == 0:
            return True
        if len(self.published) + len(self.released) + len(self.own) >= self.window:
            return False
        return qos < 2 or self.qos_max < 2 or self._qos2 < QOS2_IN_FLIGHT_MAX

    def take_own_id(self, topic: str) -> int:
        """A packet id for a message of the gateway's own at QoS 1; 0 where it must go at QoS 0."""
        own = self.own
        if len(own) >= OWN_IN_FLIGHT_MAX or self.qos_max == 0 or not self.has_room(1):
            return 0
        ids = range(OWN_ID_FIRST, OWN_ID_FIRST + OWN_IN_FLIGHT_MAX)
        packet_id = next(each for each in ids if each not in own)
        own[packet_id] = topic
        return packet_id

    def is_id_free(self, reading: Reading) -> bool:
        """Whether the reading may go out under its packet id."""
        if reading.qos < 2 or reading.sequence < 0:
            return True
        return reading.packet_id not in self.published and reading.packet_id not in self.released

    def publish(self, reading: Reading) -> int:
        """Take a packet id for a reading that goes out now."""
        packet_id, published, released = reading.packet_id, self.published, self.released
        while packet_id in published or packet_id in released:
            packet_id = packet_id % PACKET_IDS + 1
        published[packet_id] = reading
        self.unanswered += 1
        if reading.upstream_qos == 2:
            self._begin(reading)
        return packet_id

    def _begin(self, reading: Reading) -> None:
        """A QoS 2 reading is on the wire."""
        self._qos2 += 1
        self.qos_order.begin(reading)

    def release(self, packet_id: int) -> bool:
        """PUBREC came. False for an id that is not in flight."""
        published = self.published
        reading = published.get(packet_id)
        if reading is None or reading.upstream_qos != 2:
            return packet_id in self.released
        del published[packet_id]  # compiled, `pop` is a call by name
        self.released[packet_id] = reading
        return True

    def is_released(self, reading: Reading) -> bool:
        return self.released.get(reading.packet_id) is reading

    def acknowledge(self, packet_ids: Iterable[int]) -> list[Reading]:
        """PUBACK came for each of these; an id that is not in flight at QoS 1 brings nothing."""
        published = self.published
        readings: list[Reading] = []
        for packet_id in packet_ids:
            reading = published.get(packet_id)
            if reading is not None and reading.upstream_qos == 1:
                del published[packet_id]
                readings.append(reading)
        return readings

    def complete(self, packet_id: int) -> Reading | None:
        """PUBCOMP came. None for an id that was not released."""
        released = self.released
        reading = released.get(packet_id)
        if reading is not None:
            del released[packet_id]
            self._leave(reading)
        return reading

    def withdraw(self, packet_id: int) -> Reading | None:
        """The broker refused the reading, or would: it leaves the wire."""
        reading = self.published.pop(packet_id, None)
        if reading is not None:
            self.unanswered -= 1
            self._leave(reading)
        return reading

    def abandon(self, reading: Reading) -> None:
        """It leaves the wire, whatever the broker has of it."""
        for table in (self.published, self.released):
            packet_ids = [packet_id for packet_id, one in table.items() if one is reading]
            for packet_id in packet_ids:
                del table[packet_id]
                self._leave(reading)

    def _leave(self, reading: Reading) -> None:
        if reading.upstream_qos == 2:
            self._qos2 -= 1
            self.qos_order.end(reading)

    # Waiting

    @property
    def has_waiting(self) -> bool:
        return bool(
            self.waiting
            or self.backlog.ready
            or self.qos_order.count
            or self.held_count
            or self.next_alone is not None
            or self.over_quota
            or self.to_release
        )

    def wait(self, reading: Reading, *, ahead: bool) -> bool:
        """Queue behind the others; False for one that is nowhere but in memory when that is full.
        `ahead`: what is queued on disk from now on is younger.
        """
        waiting = self.waiting
        waiting_bytes = self._waiting_bytes + _cost(reading)
        if reading.record < 0 and (
            waiting_bytes > self._waiting_bytes_max
            or len(waiting) + self.qos_order.count >= self._waiting_messages_max
        ):
            return False
        waiting.append(reading)
        self._waiting_bytes = waiting_bytes
        if ahead:
            self._ahead = len(waiting)
        return True

    def put_ahead(self) -> None:
        """All that is queued on disk from now on is younger than all that waits now."""
        self._return_aside()
        self.end_quota_wait()
        self._ahead = len(self.waiting)

    def _return_aside(self) -> None:
        """What is aside waits as any other, before all others. It comes before what is put ahead of
        that, because what is held back may be older on the same topic.
        """
        aside = self.qos_order.all()
        self.qos_order.clear()
        for reading in reversed(aside):
            self.wait_again(reading)

    def take_run(self, epoch: int, stale: StaleCheck, now: float) -> list[Reading]:
        """All at the head of the queue that go out now for the first time, each under its own
        packet id and with nothing else to look at; they are on the wire from here on. Nearly all
        that wait are such: of this life, and still wanted if they are in the journal.
        """
        waiting, published, released = self.waiting, self.published, self.released
        run: list[Reading] = []
        if self.qos_order.aside or self.backlog.ready:
            return run
        room = self.window - len(published) - len(released) - len(self.own)
        completing = self.qos_order.completing
        taken_bytes = 0
        while waiting and room > 0:
            reading = waiting[0]
            qos, packet_id = reading.qos, reading.packet_id
            if not 0 < qos <= self.qos_max:
                break
            if (qos == 1 and completing) or (qos == 2 and not self.has_room(qos)):
                break
            if reading.upstream_qos or reading.epoch != epoch:
                break
            if reading.record >= 0 and stale.reason(reading, now) is not None:
                break
            is_released = released and packet_id in released
            if is_released or published.setdefault(packet_id, reading) is not reading:
                break
            waiting.popleft()
            reading.upstream_qos = qos
            if qos == 2:
                self._begin(reading)
            room -= 1
            taken_bytes += _cost(reading)
            run.append(reading)
        self.unanswered += len(run)
        self._waiting_bytes -= taken_bytes
        self._ahead = max(0, self._ahead - len(run))
        return run

    def next_waiting(self) -> Reading | None:
        """The reading whose turn it is, if it may go out now; none of its client overtakes it."""
        waiting, qos_order = self.waiting, self.qos_order
        if waiting and not (qos_order.aside or self.backlog.ready):  # nearly always: no detour
            qos = waiting[0].qos
            if qos == 2 or (qos == 1 and not qos_order.completing):
                return self._next_of_memory() if self._fits(waiting[0]) else None
        free = qos_order.next_free()
        if free is not None:
            if not self._fits(free):
                return None
            qos_order.take(free)
            return free
        while (reading := self._next_in_turn()) is not None:
            if not qos_order.must_wait(reading):
                return reading
            qos_order.set_aside(reading)
        return None

    def _next_in_turn(self) -> Reading | None:
        waiting, ready = self.waiting, self.backlog.ready
        if self._ahead or not ready:
            return self._next_of_memory() if waiting and self._may_go(waiting[0]) else None
        may_go = self._may_go(ready[0])
        if waiting and not (may_go and self._is_backlogs_turn) and self._may_go(waiting[0]):
            self._is_backlogs_turn = True
            return self._next_of_memory()
        if not may_go:
            return None  # and it stays the turn of whose it is
        self._is_backlogs_turn = False
        return self.backlog.take()

    def _may_go(self, reading: Reading) -> bool:
        if not self._fits(reading):
            return False
        return self.qos_order.has_room or not self.qos_order.must_wait(reading)

    def _fits(self, reading: Reading) -> bool:
        return self.has_room(reading.qos) and self.is_id_free(reading)

    def _next_of_memory(self) -> Reading:
        reading = self.waiting.popleft()
        self._waiting_bytes -= _cost(reading)
        if self._ahead:
            self._ahead -= 1
        return reading

    # Held back

    def hold_back(self, reading: Reading) -> None:
        """It is a suspect, or follows one of its client."""
        self.held_back.setdefault(reading.client_id, deque()).append(reading)
        self.held_count += 1

    def take_held(self) -> Reading | None:
        """The suspect whose turn it is; those behind it stay."""
        for client_id, queue in self.held_back.items():
            reading = queue.popleft()
            self.held_count -= 1
            if not queue:
                del self.held_back[client_id]
            return reading
        return None

    def let_go(self, client_id: ClientId) -> None:
        """What is held back of this client waits as any other, before all others."""
        queue = self.held_back.pop(client_id, None)
        if queue:
            self._return_aside()
        while queue:
            self.wait_again(queue.pop())
            self.held_count -= 1

    def let_all_go(self) -> None:
        """What is held back, and what was to go alone, waits as any other, before all others."""
        for client_id in list(self.held_back):
            self.let_go(client_id)
        if self.next_alone is not None:
            self._return_aside()
            self.wait_again(self.next_alone)
            self.next_alone = None

    def held(self) -> list[Reading]:
        """In order for each client."""
        alone = [] if self.next_alone is None else [self.next_alone]
        held = [each for queue in self.held_back.values() for each in queue]
        return [*self.over_quota, *alone, *held]

    def end_quota_wait(self) -> None:
        """Those that were over the broker's quota wait as any other, before all others."""
        if self.over_quota:
            self._return_aside()
        while self.over_quota:
            self.wait_again(self.over_quota.pop())

    # From liveness

    def holds(self, reading: Reading) -> bool:
        """Whether it is on the wire under its own packet id; for nearly all that is enough."""
        packet_id = reading.packet_id
        return self.published.get(packet_id) is reading or self.is_released(reading)

    def could_go(self) -> Reading | None:
        """One that waits though nothing is in its way: `next_waiting` without a change."""
        free = self.qos_order.first_free()
        if free is not None:
            return free if self._fits(free) else None
        waiting, ready = self.waiting, self.backlog.ready
        heads = [waiting[0]] if waiting else []
        if ready and not self._ahead:
            heads.append(ready[0])
        return next(filter(self._may_go, heads), None)

    # After a break

    def in_order(self) -> list[tuple[int, Reading]]:
        """All that is in flight, in the order in which it was taken."""
        return sorted(
            [*self.released.items(), *self.published.items()], key=lambda item: _age(item[1])
        )

    def unacknowledged(self) -> list[Reading]:
        """All that is in memory for the broker, in the order in which it was taken."""
        in_flight = [each for _, each in self.in_order()]
        return [*in_flight, *self.held(), *self.qos_order.all(), *self.waiting]

    def restore(self, received: list[Reading]) -> None:
        """What a previous run had sent, and the broker had received (QoS 2)."""
        for reading in received:
            reading.upstream_qos = 2
            self.released[reading.packet_id] = reading
            self._begin(reading)

    def start_over(self) -> None:
        """The broker knows none of it: what was in flight goes out as new, before the rest."""
        self.unrelease()
        self._wait_again(list(self.published))

    def unrelease(self) -> None:
        """Forget which were released: all of it is published again (trust = connection)."""
        ordered = dict(self.in_order())
        self.released.clear()
        self.published = ordered

    def exceeds_qos(self) -> bool:
        """Whether the broker took something in flight at a QoS that it no longer takes."""
        return any(reading.upstream_qos > self.qos_max for _, reading in self.in_order())

    def narrow(self, window: int) -> None:
        """It is smaller than what is in flight: the youngest go out as new, in turn."""
        room = max(0, window - len(self.released))
        youngest = sorted(self.published, key=lambda packet_id: _age(self.published[packet_id]))
        self._wait_again(youngest[room:])

    def _wait_again(self, packet_ids: list[int]) -> None:
        """Back to the head of the queue, in the order given, over its limits if need be."""
        for packet_id in reversed(packet_ids):
            reading = self.published.pop(packet_id)
            self._leave(reading)
            self.wait_again(reading)

    def wait_again(self, reading: Reading) -> None:
        """Before all others, over the limits if need be."""
        self.waiting.appendleft(reading)
        self._waiting_bytes += _cost(reading)
        self._ahead += 1


def _age(reading: Reading) -> tuple[int, int]:
    return reading.epoch, reading.sequence


def _cost(reading: Reading) -> int:
    return len(reading.payload) + len(reading.topic) + OVERHEAD_BYTES

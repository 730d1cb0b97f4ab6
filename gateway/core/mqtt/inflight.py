"""Readings that the broker has not settled yet: on the wire, and waiting for their turn.

The packet id of a reading is given with its sequence and is the same after a crash. While another
reading has it still, a QoS 1 reading passes it over; a QoS 2 reading waits, because the broker
would take it for another one under another id. A QoS 1 reading is settled by PUBACK, a QoS 2
reading by PUBCOMP.

Those that wait in memory and those that are read back from the journal (backlog.py) take turns, so
that neither starves. But what waited when something was parked goes ahead of all that is read back:
it is older. What would overtake a QoS 2 reading of its own goes aside (qos_order.py).

Limits: on the wire the broker's Receive Maximum and QOS2_IN_FLIGHT_MAX; waiting
`waiting_messages_max` and `waiting_bytes_max`, beyond which a reading is refused with congestion
and its sensor keeps it. One that is in the journal is never refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from gateway.core.effects import Forward
from gateway.core.mqtt.backlog import Backlog
from gateway.core.mqtt.options import QOS2_IN_FLIGHT_MAX
from gateway.core.mqtt.qos_order import Turns
from gateway.core.state_records import PACKET_IDS

OVERHEAD_BYTES = 200  # what a waiting reading costs beside topic and payload, roughly


class InFlight:
    def __init__(self, waiting_messages_max: int, waiting_bytes_max: int) -> None:
        self.published: dict[int, Forward] = {}  # by packet id, PUBLISH sent
        self.released: dict[int, Forward] = {}  # PUBREC came, PUBREL sent
        self.waiting: deque[Forward] = deque()
        self.backlog = Backlog()
        self.turns = Turns()
        self.window = 0  # the broker's Receive Maximum
        self.qos_max = 2  # the broker's Maximum QoS
        # Of those in flight, so many has the broker not answered in this connection: all of them,
        # or their places are lost.
        self.unanswered = 0
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
        if len(self.published) + len(self.released) >= self.window:
            return False
        return qos < 2 or self.qos_max < 2 or self._qos2 < QOS2_IN_FLIGHT_MAX

    def is_id_free(self, forward: Forward) -> bool:
        """Whether the reading may go out under its packet id."""
        if forward.qos < 2 or forward.sequence < 0:
            return True
        return forward.packet_id not in self.published and forward.packet_id not in self.released

    def publish(self, forward: Forward) -> int:
        """Take a packet id for a reading that goes out now."""
        packet_id, published, released = forward.packet_id, self.published, self.released
        while packet_id in published or packet_id in released:
            packet_id = packet_id % PACKET_IDS + 1
        published[packet_id] = forward
        self.unanswered += 1
        if forward.upstream_qos == 2:
            self._begin(forward)
        return packet_id

    def _begin(self, forward: Forward) -> None:
        """A QoS 2 reading is on the wire."""
        self._qos2 += 1
        self.turns.begin(forward)

    def release(self, packet_id: int) -> bool:
        """PUBREC came. False for an id that is not in flight."""
        published = self.published
        forward = published.get(packet_id)
        if forward is None or forward.upstream_qos != 2:
            return packet_id in self.released
        del published[packet_id]  # compiled, `pop` is a call by name
        self.released[packet_id] = forward
        return True

    def is_released(self, forward: Forward) -> bool:
        return self.released.get(forward.packet_id) is forward

    def acknowledge(self, packet_ids: Iterable[int]) -> list[Forward]:
        """PUBACK came for each of these; an id that is not in flight at QoS 1 brings nothing."""
        published = self.published
        forwards: list[Forward] = []
        for packet_id in packet_ids:
            forward = published.get(packet_id)
            if forward is not None and forward.upstream_qos == 1:
                del published[packet_id]
                forwards.append(forward)
        return forwards

    def complete(self, packet_id: int) -> Forward | None:
        """PUBCOMP came. None for an id that was not released."""
        released = self.released
        forward = released.get(packet_id)
        if forward is not None:
            del released[packet_id]
            self._leave(forward)
        return forward

    def withdraw(self, packet_id: int) -> Forward | None:
        """The broker refused the reading, or would: it leaves the wire."""
        forward = self.published.pop(packet_id, None)
        if forward is not None:
            self.unanswered -= 1
            self._leave(forward)
        return forward

    def _leave(self, forward: Forward) -> None:
        if forward.upstream_qos == 2:
            self._qos2 -= 1
            self.turns.end(forward)

    # Waiting

    @property
    def has_waiting(self) -> bool:
        return bool(self.waiting or self.backlog.ready or self.turns.count)

    def wait(self, forward: Forward, *, ahead: bool) -> bool:
        """Queue behind the others; False for one that is nowhere but in memory when that is full.
        `ahead`: what is parked from now on is younger.
        """
        waiting = self.waiting
        waiting_bytes = self._waiting_bytes + _cost(forward)
        if forward.record < 0 and (
            waiting_bytes > self._waiting_bytes_max
            or len(waiting) + self.turns.count >= self._waiting_messages_max
        ):
            return False
        waiting.append(forward)
        self._waiting_bytes = waiting_bytes
        if ahead:
            self._ahead = len(waiting)
        return True

    def put_ahead(self) -> None:
        """All that is parked from now on is younger than all that waits now."""
        aside = self.turns.all()
        self.turns.clear()
        for forward in reversed(aside):
            self.wait_again(forward)
        self._ahead = len(self.waiting)

    def take_run(self, epoch: int, is_wanted: Callable[[Forward], bool]) -> list[Forward]:
        """All at the head of the queue that go out now for the first time, each under its own
        packet id and with nothing else to look at; they are on the wire from here on. Nearly all
        that wait are such: of this life, and still wanted if they are in the journal.
        """
        waiting, published, released = self.waiting, self.published, self.released
        run: list[Forward] = []
        if self.turns.aside or self.backlog.ready:
            return run
        room = self.window - len(published) - len(released)
        completing = self.turns.completing
        taken_bytes = 0
        while waiting and room > 0:
            forward = waiting[0]
            qos, packet_id = forward.qos, forward.packet_id
            if not 0 < qos <= self.qos_max:
                break
            if (qos == 1 and completing) or (qos == 2 and not self.has_room(qos)):
                break
            if forward.upstream_qos or forward.epoch != epoch:
                break
            if forward.record >= 0 and not is_wanted(forward):
                break
            is_released = released and packet_id in released
            if is_released or published.setdefault(packet_id, forward) is not forward:
                break
            waiting.popleft()
            forward.upstream_qos = qos
            if qos == 2:
                self._begin(forward)
            room -= 1
            taken_bytes += _cost(forward)
            run.append(forward)
        self.unanswered += len(run)
        self._waiting_bytes -= taken_bytes
        self._ahead = max(0, self._ahead - len(run))
        return run

    def next_waiting(self) -> Forward | None:
        """The reading whose turn it is, if it may go out now; none of its client overtakes it."""
        waiting, turns = self.waiting, self.turns
        if waiting and not (turns.aside or self.backlog.ready):  # nearly always: no detour
            qos = waiting[0].qos
            if qos == 2 or (qos == 1 and not turns.completing):
                return self._next_of_memory() if self._fits(waiting[0]) else None
        free = turns.next_free()
        if free is not None:
            if not self._fits(free):
                return None
            turns.take(free)
            return free
        while (forward := self._next_in_turn()) is not None:
            if not turns.must_wait(forward):
                return forward
            turns.set_aside(forward)
        return None

    def _next_in_turn(self) -> Forward | None:
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

    def _may_go(self, forward: Forward) -> bool:
        if not self._fits(forward):
            return False
        return self.turns.has_room or not self.turns.must_wait(forward)

    def _fits(self, forward: Forward) -> bool:
        return self.has_room(forward.qos) and self.is_id_free(forward)

    def _next_of_memory(self) -> Forward:
        forward = self.waiting.popleft()
        self._waiting_bytes -= _cost(forward)
        if self._ahead:
            self._ahead -= 1
        return forward

    # From liveness

    def holds(self, forward: Forward) -> bool:
        """Whether it is on the wire under its own packet id; for nearly all that is enough."""
        packet_id = forward.packet_id
        return self.published.get(packet_id) is forward or self.is_released(forward)

    def could_go(self) -> Forward | None:
        """One that waits though nothing is in its way: `next_waiting` without a change."""
        free = self.turns.first_free()
        if free is not None:
            return free if self._fits(free) else None
        waiting, ready = self.waiting, self.backlog.ready
        heads = [waiting[0]] if waiting else []
        if ready and not self._ahead:
            heads.append(ready[0])
        return next(filter(self._may_go, heads), None)

    # After a break

    def in_order(self) -> list[tuple[int, Forward]]:
        """All that is in flight, in the order in which it was taken."""
        return sorted(
            [*self.released.items(), *self.published.items()], key=lambda item: _age(item[1])
        )

    def unsettled(self) -> list[Forward]:
        """All that is in memory for the broker, in the order in which it was taken."""
        return [*(each for _, each in self.in_order()), *self.turns.all(), *self.waiting]

    def restore(self, received: list[Forward]) -> None:
        """What a former life had sent, and the broker had received (QoS 2)."""
        for forward in received:
            forward.upstream_qos = 2
            self.released[forward.packet_id] = forward
            self._begin(forward)

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
        return any(forward.upstream_qos > self.qos_max for _, forward in self.in_order())

    def narrow(self) -> None:
        """The window is smaller than what is in flight: the youngest go out as new, in turn."""
        room = max(0, self.window - len(self.released))
        youngest = sorted(self.published, key=lambda packet_id: _age(self.published[packet_id]))
        self._wait_again(youngest[room:])

    def _wait_again(self, packet_ids: list[int]) -> None:
        """Back to the head of the queue, in the order given, over its limits if need be."""
        for packet_id in reversed(packet_ids):
            forward = self.published.pop(packet_id)
            self._leave(forward)
            self.wait_again(forward)

    def wait_again(self, forward: Forward) -> None:
        """Before all others, over the limits if need be."""
        self.waiting.appendleft(forward)
        self._waiting_bytes += _cost(forward)
        self._ahead += 1


def _age(forward: Forward) -> tuple[int, int]:
    return forward.epoch, forward.sequence


def _cost(forward: Forward) -> int:
    return len(forward.payload) + len(forward.topic) + OVERHEAD_BYTES

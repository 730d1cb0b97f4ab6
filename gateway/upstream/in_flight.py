"""Readings that the broker has not settled yet: on the wire, and waiting for their turn.

The packet id of a reading follows from its sequence, so that it is the same after a crash; an id
that is still in use is passed over. A QoS 1 reading is settled by PUBACK, a QoS 2 reading by
PUBCOMP.

Limits: on the wire the broker's Receive Maximum and QOS2_IN_FLIGHT_MAX; waiting
`waiting_messages_max` and `waiting_bytes_max`, beyond which a reading is refused with congestion
and its sensor keeps it.
"""

from __future__ import annotations

from collections import deque

from gateway.effects import Forward
from gateway.upstream.rules import PUBLISH_IDS, QOS2_IN_FLIGHT_MAX

OVERHEAD_BYTES = 200  # what a waiting reading costs beside topic and payload, roughly


class InFlight:
    def __init__(self, waiting_messages_max: int, waiting_bytes_max: int) -> None:
        self.published: dict[int, Forward] = {}  # by packet id, PUBLISH sent
        self.released: dict[int, Forward] = {}  # PUBREC came, PUBREL sent
        self.waiting: deque[Forward] = deque()
        self.window = 0  # the broker's Receive Maximum
        self.qos_max = 2  # the broker's Maximum QoS
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

    def publish(self, forward: Forward) -> int:
        """Take a packet id for a reading that goes out now."""
        packet_id = forward.sequence % PUBLISH_IDS + 1
        while packet_id in self.published or packet_id in self.released:
            packet_id = packet_id % PUBLISH_IDS + 1
        self.published[packet_id] = forward
        self._qos2 += forward.upstream_qos == 2
        return packet_id

    def release(self, packet_id: int) -> bool:
        """PUBREC came. False for an id that is not in flight."""
        forward = self.published.get(packet_id)
        if forward is None or forward.upstream_qos != 2:
            return packet_id in self.released
        self.released[packet_id] = self.published.pop(packet_id)
        return True

    def acknowledge(self, packet_id: int) -> Forward | None:
        """PUBACK came. None for an id that is not in flight at QoS 1."""
        forward = self.published.get(packet_id)
        if forward is None or forward.upstream_qos != 1:
            return None
        return self.published.pop(packet_id)

    def complete(self, packet_id: int) -> Forward | None:
        """PUBCOMP came. None for an id that was not released."""
        forward = self.released.pop(packet_id, None)
        if forward is not None:
            self._qos2 -= 1
        return forward

    def withdraw(self, packet_id: int) -> Forward | None:
        """The broker refused the reading, or would: it leaves the wire."""
        forward = self.published.pop(packet_id, None)
        if forward is not None:
            self._qos2 -= forward.upstream_qos == 2
        return forward

    # Waiting

    def wait(self, forward: Forward) -> bool:
        """Queue behind the others; False when there is no room."""
        waiting_bytes = self._waiting_bytes + _cost(forward)
        if waiting_bytes > self._waiting_bytes_max:
            return False
        if len(self.waiting) >= self._waiting_messages_max:
            return False
        self.waiting.append(forward)
        self._waiting_bytes = waiting_bytes
        return True

    def next_waiting(self) -> Forward | None:
        """The reading whose turn it is, if it may go out now. Nothing overtakes it."""
        waiting = self.waiting
        if not waiting or not self.has_room(waiting[0].qos):
            return None
        forward = waiting.popleft()
        self._waiting_bytes -= _cost(forward)
        return forward

    # After a break

    def in_order(self) -> list[tuple[int, Forward]]:
        """All that is in flight, in the order in which it was taken."""
        return sorted(
            [*self.released.items(), *self.published.items()], key=lambda item: item[1].sequence
        )

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
        youngest = sorted(self.published, key=lambda packet_id: self.published[packet_id].sequence)
        self._wait_again(youngest[room:])

    def _wait_again(self, packet_ids: list[int]) -> None:
        """Back to the head of the queue, in the order given, over its limits if need be."""
        for packet_id in reversed(packet_ids):
            forward = self.published.pop(packet_id)
            self._qos2 -= forward.upstream_qos == 2
            self.waiting.appendleft(forward)
            self._waiting_bytes += _cost(forward)


def _cost(forward: Forward) -> int:
    return len(forward.payload) + len(forward.topic) + OVERHEAD_BYTES

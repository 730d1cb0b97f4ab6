"""All that a board sent and received, at its own end of the air: the ledger's side of the device.

It is a `Tap` (hil/faults/tap.py). A reading is *offered* when it was first on the air, and
*acknowledged* when PUBACK with return code 0, or PUBREC, has reached the board. Frames that are no
MQTT-SN are counted on the air and otherwise nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hil.oracle.readings import read

PUBLISH, PUBACK, PUBREC, SUBACK = 0x0C, 0x0D, 0x0F, 0x13
DUP, QOS, QOS_MINUS_1 = 0x80, 0x60, 0x60
BURST_GAP_S = 0.12  # a longer silence is sleep


@dataclass(slots=True)
class Conversation:
    device: str
    offered: dict[int, float] = field(default_factory=dict)  # when, by counter
    acknowledged: dict[int, float] = field(default_factory=dict)
    payloads: dict[int, set[bytes]] = field(default_factory=dict)
    # How often as a new one: under another message id, or under the same without DUP.
    new_publishes: Counter[int] = field(default_factory=Counter)
    commands: list[bytes] = field(default_factory=list)  # payloads of messages that reached it
    has_subscribed: bool = False
    frames_up: int = 0
    frames_down: int = 0
    octets_up: int = 0
    octets_down: int = 0
    on_change: Callable[[], None] = lambda: None
    bursts: list[list[float]] = field(default_factory=list)  # begin and end
    _under_way: dict[bytes, int] = field(default_factory=dict)  # counters by message id

    # From the air

    def on_air(self, octets_up: int, octets_down: int) -> None:
        self.octets_up += octets_up
        self.octets_down += octets_down
        now = time.monotonic()
        if self.bursts and now - self.bursts[-1][1] <= BURST_GAP_S:
            self.bursts[-1][1] = now
        else:
            self.bursts.append([now, now])

    def up(self, frame: bytes) -> None:
        self.frames_up += 1
        kind, body = opened(frame)
        if kind == PUBLISH and body[0] & QOS not in (0, QOS_MINUS_1):
            self._offer(body[0] & DUP, body[3:5], body[5:])
        self.on_change()

    def down(self, frame: bytes) -> None:
        self.frames_down += 1
        kind, body = opened(frame)
        if kind == PUBLISH:
            self.commands.append(body[5:])
        elif kind == SUBACK and body[5] == 0:
            self.has_subscribed = True
        elif (kind == PUBACK and body[4:5] == b"\0") or kind == PUBREC:
            message_id = body[2:4] if kind == PUBACK else body[:2]
            counter = self._under_way.pop(message_id, None)
            if counter is not None:
                self.acknowledged.setdefault(counter, time.monotonic())
        self.on_change()

    def _offer(self, dup: int, message_id: bytes, payload: bytes) -> None:
        before = self._under_way.pop(message_id, None)
        found = read(payload)
        if found is None or found.device != self.device:
            return
        if not dup or before != found.counter:
            self.new_publishes[found.counter] += 1
        self._under_way[message_id] = found.counter
        self.offered.setdefault(found.counter, time.monotonic())
        self.payloads.setdefault(found.counter, set()).add(payload)

    # For the ledger

    @property
    def on_air_s(self) -> float:
        return sum(end - begin for begin, end in self.bursts)


def opened(frame: bytes) -> tuple[int, bytes]:
    """Kind and body; kind -1 of what is too short for its kind."""
    head = 4 if frame[:1] == b"\1" else 2
    if len(frame) < head:
        return -1, b""
    kind, body = frame[head - 1], frame[head:]
    least = {PUBLISH: 5, PUBACK: 5, PUBREC: 2, SUBACK: 6}.get(kind, 0)
    return (kind, body) if len(body) >= least else (-1, b"")

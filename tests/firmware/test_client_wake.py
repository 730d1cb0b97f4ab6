"""A sleeper that wakes is not misled by copies of answers from before its sleep."""

from __future__ import annotations

from collections import deque

from firmware.mqttsn.client import Client

ASLEEP = 2
PINGRESP = b"\x02\x17"
KEPT = b"\x0b\x0c\x02ab\x00\x00kept"  # PUBLISH, QoS 0, on the short topic ab


class LateCopies:
    """A gateway that answers PINGREQ with what it kept; before that copies of PINGRESP came."""

    gateways = 1
    index = 0

    def __init__(self, copies: int) -> None:
        self.coming = deque([PINGRESP] * copies)

    def send(self, frame: bytearray, size: int) -> None:
        assert frame[1] == 0x16
        self.coming += (KEPT, PINGRESP)

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        if not self.coming:
            return 0
        frame = self.coming.popleft()
        buffer[: len(frame)] = frame
        return len(frame)

    def next(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_what_was_kept_comes_although_copies_of_the_last_answer_came_late() -> None:
    for copies in (0, 1, 8):
        client = Client(LateCopies(copies), b"node", 64)
        client.engine.state = ASLEEP
        heard: list[bytes] = []
        client.on_message = lambda topic, payload, is_retained: heard.append(bytes(payload))  # noqa: B023
        client.wake()
        assert heard == [b"kept"], copies

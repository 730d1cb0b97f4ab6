"""Many readings to a gateway: sensors at QoS 1, all in one thread, no waiting.

Each has a topic of its own and sends one reading at a time, a number as text; the next one when the
gateway has acknowledged it, the same again when it has not for a while.
"""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.support.hand_written_sensor import framed, u16

CONNECT, CONNACK, REGISTER, REGACK, PUBLISH, PUBACK = 0x04, 0x05, 0x0A, 0x0B, 0x0C, 0x0D
RETRY_S = 0.5
GIVE_UP_S = 120.0


@dataclass
class _Sensor:
    name: str
    topic: str
    socket: socket.socket
    values: list[float] = field(default_factory=list)  # not acknowledged yet, the next one last
    topic_id: int | None = None
    message_id: int = 0
    asked: bytes = b""
    asked_at: float = 0.0

    def ask(self, kind: int, body: bytes) -> None:
        self.asked, self.asked_at = framed(kind, body), time.monotonic()
        self.socket.send(self.asked)

    def go_on(self) -> bool:
        """The next question; whether there is one."""
        if not self.values:
            return False
        self.message_id = self.message_id % 0xFFFF + 1
        if self.topic_id is None:
            self.ask(REGISTER, u16(0) + u16(self.message_id) + self.topic.encode())
        else:
            payload = f"{self.values[-1]:g}".encode()
            self.ask(PUBLISH, b"\x20" + u16(self.topic_id) + u16(self.message_id) + payload)
        return True

    def heard(self, datagram: bytes) -> bool:
        """Whether it answers what was asked last."""
        kind, body = datagram[1], datagram[2:]
        if kind == CONNACK:
            return self.asked[1] == CONNECT
        if kind == REGACK and body[2:4] == u16(self.message_id):
            self.topic_id = int.from_bytes(body[:2], "big")
            return True
        if kind == PUBACK and body[2:4] == u16(self.message_id):
            assert body[4] == 0, f"refused with {body[4]}"
            self.values.pop()
            return True
        return False

    def repeat(self) -> None:
        kind, body = self.asked[1], self.asked[2:]
        self.ask(kind, bytes((body[0] | 0x80,)) + body[1:] if kind == PUBLISH else body)


class PlainSensors:
    """`root-0` and so on; that of `root/0` is the topic of the first."""

    def __init__(self, port: int, root: str, count: int) -> None:
        self._sensors = []
        for number in range(count):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.connect(("127.0.0.1", port))
            self._sensors.append(_Sensor(f"{root}-{number}", f"{root}/{number}", made))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for sensor in self._sensors:
            sensor.socket.close()

    def send(self, values: list[float]) -> dict[str, list[float]]:
        """Each sensor sends all of them; by topic, when all are acknowledged."""
        deadline = time.monotonic() + GIVE_UP_S
        with selectors.DefaultSelector() as selector:
            for sensor in self._sensors:
                sensor.values = values[::-1]
                selector.register(sensor.socket, selectors.EVENT_READ, sensor)
                sensor.ask(CONNECT, b"\x04\x01" + u16(600) + sensor.name.encode())
            busy = len(self._sensors)
            while busy:
                assert time.monotonic() < deadline, f"{busy} sensors wait for an answer"
                for key, _ in selector.select(RETRY_S):
                    sensor = key.data
                    if sensor.heard(sensor.socket.recv(512)) and not sensor.go_on():
                        selector.unregister(sensor.socket)
                        busy -= 1
                self._repeat_what_is_late()
        return {sensor.topic: list(values) for sensor in self._sensors}

    def _repeat_what_is_late(self) -> None:
        now = time.monotonic()
        for sensor in self._sensors:
            if sensor.values and now - sensor.asked_at > RETRY_S:
                sensor.repeat()

"""Simulated sensors at a gateway: MQTT-SN 1.2 over UDP, QoS 1, in one thread.

Each has a topic of its own and sends one reading at a time; the next one when the gateway has
acknowledged it, the same again when it has not.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

CONNECT, CONNACK, REGISTER, REGACK, PUBLISH, PUBACK = 0x04, 0x05, 0x0A, 0x0B, 0x0C, 0x0D
CLEAN, QOS_1, DUP = 0x04, 0x20, 0x80
ACCEPTED = 0
RETRY_S = 0.5
GIVE_UP_S = 120.0
DATAGRAM_MAX = 512


class NoAnswerError(Exception):
    """The gateway acknowledges nothing."""


@dataclass(slots=True)
class Sensor:
    name: str
    topic: str
    port: int
    waiting: deque[bytes] = field(default_factory=deque)  # payloads, the next one first
    socket: socket.socket = field(
        default_factory=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    )
    topic_id: bytes = b""
    message_id: int = 0
    request: bytes = b""
    requested_at: float = 0.0

    def begin(self) -> None:
        self.socket.connect(("127.0.0.1", self.port))
        self._send_request(
            CONNECT, bytes((CLEAN, 1)) + (600).to_bytes(2, "big") + self.name.encode()
        )

    def go_on(self) -> bool:
        """The next request; whether there is one."""
        if not self.waiting:
            return False
        self.message_id = self.message_id % 0xFFFF + 1
        message_id = self.message_id.to_bytes(2, "big")
        if not self.topic_id:
            self._send_request(REGISTER, b"\0\0" + message_id + self.topic.encode())
        else:
            self._send_request(
                PUBLISH, bytes((QOS_1,)) + self.topic_id + message_id + self.waiting[0]
            )
        return True

    def receive(self, datagram: bytes) -> bool:
        """Whether it answers the last request."""
        kind, body = datagram[1], datagram[2:]
        message_id = self.message_id.to_bytes(2, "big")
        if kind == CONNACK:
            return self.request[1] == CONNECT
        if kind == REGACK and body[2:4] == message_id and not self.topic_id:
            self.topic_id = body[:2]
            return True
        if kind == PUBACK and body[2:4] == message_id and body[4] == ACCEPTED:
            self.waiting.popleft()
            return True
        return False

    def repeat(self) -> None:
        kind, body = self.request[1], self.request[2:]
        self._send_request(kind, bytes((body[0] | DUP,)) + body[1:] if kind == PUBLISH else body)

    def _send_request(self, kind: int, body: bytes) -> None:
        self.request, self.requested_at = bytes((len(body) + 2, kind)) + body, time.monotonic()
        with suppress(ConnectionRefusedError):  # the port is not open yet; it is sent again
            self.socket.send(self.request)


def send_all(sensors: Iterable[Sensor]) -> None:
    """Until everything that waits is acknowledged. Raises NoAnswerError."""
    deadline = time.monotonic() + GIVE_UP_S
    with selectors.DefaultSelector() as selector:
        busy = [sensor for sensor in sensors if sensor.waiting]
        for sensor in busy:
            selector.register(sensor.socket, selectors.EVENT_READ, sensor)
            if sensor.request:
                sensor.go_on()
            else:
                sensor.begin()
        while busy:
            if time.monotonic() > deadline:
                raise NoAnswerError(f"{busy[0].name} has waited for {GIVE_UP_S:.0f} s")
            for key, _ in selector.select(RETRY_S):
                sensor = key.data
                if sensor.receive(_received(sensor.socket)) and not sensor.go_on():
                    selector.unregister(sensor.socket)
                    busy.remove(sensor)
            _repeat_what_is_late(busy)


def _received(from_: socket.socket) -> bytes:
    try:
        return from_.recv(DATAGRAM_MAX)
    except ConnectionRefusedError:
        return b"\x02\x00"


def _repeat_what_is_late(sensors: Iterable[Sensor]) -> None:
    now = time.monotonic()
    for sensor in sensors:
        if now - sensor.requested_at > RETRY_S:
            sensor.repeat()

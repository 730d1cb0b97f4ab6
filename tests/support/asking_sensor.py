"""A sensor that sends one message, and waits for its answer."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from gateway.frames import Connect, Frame, Publish, TopicIdType, decode, encode

ANSWER_S = 3.0


class AskingSensor:
    def __init__(self, port: int, client_id: bytes) -> None:
        self._client_id = client_id
        self._message_id = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def connect(self, *, clean: bool = True) -> Frame | None:
        return self.ask(Connect(self._client_id, 60, clean_session=clean))

    def publish(self, qos: int, within_s: float = ANSWER_S) -> Frame | None:
        """To the topic `ab`."""
        self._message_id += 1
        topic = int.from_bytes(b"ab")
        message_id = self._message_id if qos else 0
        reading = Publish(topic, message_id, b"21.5", qos, topic_id_type=TopicIdType.SHORT)
        return self.ask(reading, within_s if qos else 0.01)

    def ask(self, frame: Frame, within_s: float = ANSWER_S) -> Frame | None:
        """None: no answer."""
        self._socket.settimeout(within_s)
        self._socket.send(encode(frame))
        try:
            return decode(self._socket.recv(1500))
        except TimeoutError:
            return None

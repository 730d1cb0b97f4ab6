"""Many readings to a broker at once, over a socket and the codec: MQTT 5, with delivery tags."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import mqtt5

ANSWER_TIMEOUT_S = 200.0
IN_FLIGHT_MAX = 500


class Publisher:
    """Returns from `publish` when the broker has taken all of it."""

    def __init__(self, port: int, name: str = "publisher") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S)
        self._unread = b""
        self._socket.sendall(mqtt5.ConnectPacket(name, clean_start=True).write())
        self._acknowledged(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def publish(
        self,
        values: Iterable[int],
        *,
        topic: str = "farm/1/t",
        gateway: str | None = "gh",
        qos: int = 1,
        payload: bytes | None = None,
    ) -> None:
        """Each value is its payload, unless there is one, and its sequence."""
        packets: list[bytes] = []
        for value in values:
            tag = [("client", "s1"), ("epoch", "1"), ("seq", str(value))]
            packet = mqtt5.PublishPacket(
                topic,
                str(value).encode() if payload is None else payload,
                qos=mqtt5.QoS(qos),
                packet_id=len(packets) + 1 if qos else None,
                user_properties=[] if gateway is None else [("gw", gateway), *tag],
            )
            packets.append(packet.write())
            if len(packets) == IN_FLIGHT_MAX:
                self._send(packets, qos)
                packets = []
        self._send(packets, qos)

    def _send(self, packets: list[bytes], qos: int) -> None:
        self._socket.sendall(b"".join(packets))
        if qos:
            self._acknowledged(len(packets))

    def _acknowledged(self, packets: int) -> None:
        """So many packets have come, whatever they say: each of ours has one answer."""
        while packets:
            while len(self._unread) < 2 or len(self._unread) < 2 + self._unread[1]:
                received = self._socket.recv(65_536)
                if not received:
                    raise ConnectionError("the broker closed the connection")
                self._unread += received
            self._unread = self._unread[2 + self._unread[1] :]
            packets -= 1

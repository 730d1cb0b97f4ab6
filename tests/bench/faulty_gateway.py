"""A gateway that does wrong on purpose, and counts it: what the load generator must find.

Upwards only, QoS 0 and 1, one MQTT 3.1.1 connection to the broker, in a thread. Of the QoS 1
messages, each `every`-th meets the fault; all are acknowledged.
"""

import selectors
import socket
import threading
import time
from enum import Enum, auto
from types import TracebackType
from typing import Self

CONNACK = 0x05
REGACK = 0x0B
PUBACK = 0x0D
QOS_1 = 0x20
TOPIC_ID = 1
# Inside the window of 35 to 50 ms in which the generator looks for Nagle's algorithm.
DELAY_S = 0.042
IDLE_S = 0.1

Address = tuple[str, int]


class Fault(Enum):
    NONE = auto()
    DROP = auto()
    REPEAT = auto()
    SWAP = auto()
    DELAY = auto()


class FaultyGateway:
    def __init__(self, broker_port: int, fault: Fault, every: int) -> None:
        self.fault = fault
        self.every = every
        self.done_wrong = 0
        self._published = 0
        self._topics: dict[Address, bytes] = {}
        # A message that waits to be overtaken by the next of its client.
        self._held: dict[Address, bytes] = {}
        self._broker = socket.create_connection(("127.0.0.1", broker_port))
        # Nagle's algorithm would be a fault of its own.
        self._broker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="faulty-gateway")

    def __enter__(self) -> Self:
        # CONNECT, MQTT 3.1.1, clean session, no keep-alive, client id "faulty".
        self._broker.sendall(b"\x10\x12\x00\x04MQTT\x04\x02\x00\x00\x00\x06faulty")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._socket.close()
        self._broker.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while not self._ending.is_set():
                if selector.select(IDLE_S):
                    self._receive(*self._socket.recvfrom(2048))
                else:
                    self._release_held()

    def _receive(self, frame: bytes, sender: Address) -> None:
        match frame[1]:
            case 0x04:  # CONNECT
                self._socket.sendto(bytes([3, CONNACK, 0]), sender)
            case 0x0A:  # REGISTER
                self._topics[sender] = frame[6:]
                answer = bytes([7, REGACK]) + TOPIC_ID.to_bytes(2) + frame[4:6] + b"\0"
                self._socket.sendto(answer, sender)
            case 0x0C if frame[2] & QOS_1:  # PUBLISH
                self._published += 1
                wrong = self._published % self.every == 0
                if wrong and self.fault is Fault.DELAY:
                    time.sleep(DELAY_S)
                self._socket.sendto(bytes([7, PUBACK]) + frame[3:7] + b"\0", sender)
                self._pass_on(frame[7:], sender, wrong=wrong)
            case 0x0C:
                self._forward(frame[7:], sender)

    def _pass_on(self, payload: bytes, sender: Address, *, wrong: bool) -> None:
        if sender in self._held:
            self._forward(payload, sender)
            self._forward(self._held.pop(sender), sender)
            self.done_wrong += 1
            return
        if wrong and self.fault is Fault.SWAP:
            self._held[sender] = payload
            return
        if not (wrong and self.fault is Fault.DROP):
            self._forward(payload, sender)
        if wrong and self.fault is Fault.REPEAT:
            self._forward(payload, sender)
        self.done_wrong += wrong and self.fault is not Fault.NONE

    def _release_held(self) -> None:
        for sender, payload in self._held.items():
            self._forward(payload, sender)
        self._held.clear()

    def _forward(self, payload: bytes, sender: Address) -> None:
        topic = self._topics[sender]
        body = len(topic).to_bytes(2) + topic + payload
        # Below 128 bytes the remaining length is one octet, as with the generator's 64.
        self._broker.sendall(bytes([0x30, len(body)]) + body)

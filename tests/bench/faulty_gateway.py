"""A gateway that does wrong on purpose, and counts it: what the load generator must find.

One MQTT 3.1.1 connection to the broker at QoS 0, in a thread; every QoS towards the clients. Of
the messages with QoS 1 and 2 (down: of all), each `every`-th meets the fault; all are acknowledged.
It knows no sessions, and every length is one octet, which the generator's 64 bytes allow.
"""

import selectors
import socket
import threading
import time
from enum import Enum, auto
from types import TracebackType
from typing import Self

QOS = 0x60
QOS_2 = 0x40
QOS_MINUS_1 = 0x60
TOPIC_ID = 1
MESSAGE_IDS = 65_535
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
    HASTE = auto()  # towards sleepers, who should find their messages when they wake up


class FaultyGateway:
    def __init__(self, broker_port: int, fault: Fault, every: int) -> None:
        self.fault = fault
        self.every = every
        self.done_wrong = 0
        self._handled = 0
        self._topics: dict[Address, bytes] = {}
        # Clients and the flags of their subscription, by topic.
        self._subscribers: dict[bytes, list[tuple[Address, int]]] = {}
        # What waits for those who sleep.
        self._waiting: dict[Address, list[str]] = {}
        # A message that waits to be overtaken by the next of its client.
        self._held: dict[Address, bytes] = {}
        self._from_broker = b""
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
            selector.register(self._broker, selectors.EVENT_READ)
            while not self._ending.is_set():
                ready = [key.fileobj for key, _ in selector.select(IDLE_S)]
                if self._socket in ready:
                    self._receive(*self._socket.recvfrom(2048))
                if self._broker in ready:
                    self._receive_from_broker(self._broker.recv(65536))
                if not ready:
                    self._release_held()

    # From a client.

    def _receive(self, frame: bytes, sender: Address) -> None:
        match frame[1]:
            case 0x04:  # CONNECT
                self._send(sender, "05 00")
            case 0x0A:  # REGISTER
                self._topics[sender] = frame[6:]
                self._send(sender, f"0b 0001 {frame[4:6].hex()} 00")
            case 0x12:  # SUBSCRIBE
                self._subscribe(frame, sender)
            case 0x0C:  # PUBLISH
                self._receive_publish(frame, sender)
            case 0x10:  # PUBREL
                self._send(sender, f"0e {frame[2:4].hex()}")
            case 0x18 | 0x16 as kind:  # DISCONNECT of one that will sleep, PINGREQ
                for waiting in self._waiting.get(sender, []):
                    self._send(sender, waiting)
                self._waiting[sender] = []
                self._send(sender, "18" if kind == 0x18 else "17")
            case 0x0F:  # PUBREC
                self._send(sender, f"10 {frame[2:4].hex()}")

    def _receive_publish(self, frame: bytes, sender: Address) -> None:
        if frame[2] & QOS in (0, QOS_MINUS_1):
            self._reading(frame[7:], self._topics.get(sender, frame[3:5]))
            return
        wrong = self._meets_fault()
        if wrong and self.fault is Fault.DELAY:
            time.sleep(DELAY_S)
        if frame[2] & QOS == QOS_2:
            self._send(sender, f"0f {frame[5:7].hex()}")  # PUBREC
        else:
            self._send(sender, f"0d {frame[3:7].hex()} 00")  # PUBACK
        self._pass_on(frame[7:], sender, wrong=wrong)

    def _subscribe(self, frame: bytes, sender: Address) -> None:
        topic = frame[5:]
        if topic not in self._subscribers:
            body = b"\0\1" + len(topic).to_bytes(2) + topic + b"\0"
            self._broker.sendall(bytes([0x82, len(body)]) + body)
        self._subscribers.setdefault(topic, []).append((sender, frame[2] & QOS))
        self._send(sender, f"13 00 0001 {frame[3:5].hex()} 00")

    # From the broker.

    def _receive_from_broker(self, received: bytes) -> None:
        self._from_broker += received
        while len(self._from_broker) >= 2 and len(self._from_broker) >= 2 + self._from_broker[1]:
            end = 2 + self._from_broker[1]
            kind, body = self._from_broker[0] >> 4, self._from_broker[2:end]
            self._from_broker = self._from_broker[end:]
            if kind == 3:  # PUBLISH
                payload_at = 2 + int.from_bytes(body[:2])
                self._deliver(body[2:payload_at], body[payload_at:])

    def _deliver(self, topic: bytes, payload: bytes) -> None:
        for client, qos in self._subscribers.get(topic, []):
            wrong = self._meets_fault()
            message_id = 1 + self._handled % MESSAGE_IDS if qos else 0
            frame = f"0c {qos:02x} {TOPIC_ID:04x} {message_id:04x} {payload.hex()}"
            copies = {Fault.DROP: 0, Fault.REPEAT: 2}.get(self.fault, 1) if wrong else 1
            for _ in range(copies):
                if client in self._waiting and not (wrong and self.fault is Fault.HASTE):
                    self._waiting[client].append(frame)
                else:
                    self._send(client, frame)
            self.done_wrong += wrong and self.fault is not Fault.NONE

    # Both ways.

    def _meets_fault(self) -> bool:
        self._handled += 1
        return self._handled % self.every == 0

    def _send(self, client: Address, fields: str) -> None:
        frame = bytes.fromhex(fields)
        self._socket.sendto(bytes([1 + len(frame)]) + frame, client)

    def _pass_on(self, payload: bytes, sender: Address, *, wrong: bool) -> None:
        if sender in self._held:
            self._reading(payload, self._topics[sender])
            self._reading(self._held.pop(sender), self._topics[sender])
            self.done_wrong += 1
            return
        if wrong and self.fault is Fault.SWAP:
            self._held[sender] = payload
            return
        if not (wrong and self.fault is Fault.DROP):
            self._reading(payload, self._topics[sender])
        if wrong and self.fault is Fault.REPEAT:
            self._reading(payload, self._topics[sender])
        self.done_wrong += wrong and self.fault is not Fault.NONE

    def _release_held(self) -> None:
        for sender, payload in self._held.items():
            self._reading(payload, self._topics[sender])
        self._held.clear()

    def _reading(self, payload: bytes, topic: bytes) -> None:
        body = len(topic).to_bytes(2) + topic + payload
        self._broker.sendall(bytes([0x30, len(body)]) + body)

"""A gateway of one file: the core of Tidegate between a UDP socket and a connection to a broker.

    python small_gateway.py 127.0.0.1:1884 127.0.0.1:1883

The first address is for sensors (MQTT-SN over UDP), the second one that of an MQTT 5 broker. A
reading of QoS 1 or 2 is acknowledged when the broker has acknowledged it. Nothing is kept on a
disk: a restart forgets sessions, and without the broker readings wait in memory, unacknowledged.
To connect and to write to the broker blocks: sensors wait meanwhile.
"""

import contextlib
import ipaddress
import selectors
import socket
import sys
import time
from collections.abc import Iterable

from gateway.core.effects import Dropped, DropUpstream, Effect, Send, Transmit
from gateway.core.engine import Engine
from gateway.core.mqtt.options import MqttOptions
from gateway.core.options import EngineOptions
from gateway.frames import encode

LINK = 0  # the number of the only link to sensors
DATAGRAM_BYTES_MAX = 65_535
RECONNECT_S = 2.0


class Gateway:
    """One thread, one selector. Each input is a call of the engine with the time; what it returns
    is performed in that order. Then the engine says when it has to be called next.
    """

    def __init__(self, listen: tuple[str, int], broker: tuple[str, int]) -> None:
        # The epoch must be higher in each run: with name and sequence it names a reading.
        upstream = MqttOptions("small", epoch=int(time.time()), client_id="tidegate-small")
        self.engine = Engine(EngineOptions(upstream))
        self.engine.set_wall_clock((time.time() - time.monotonic()) * 1000)
        self.sensors = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sensors.bind(listen)
        self.sensors.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.sensors, selectors.EVENT_READ)
        self.broker_address = broker
        self.broker: socket.socket | None = None
        self.connect_at = 0.0

    def run(self) -> None:
        while True:
            now = time.monotonic()
            if self.broker is None and now >= self.connect_at:
                self.connect(now)
            next_at = self.engine.wake_at()
            if self.broker is None:
                next_at = min(next_at, self.connect_at)
            for key, _ in self.selector.select(min(max(0.0, next_at - now), 60.0)):
                if key.fileobj is self.sensors:
                    self.receive_datagrams()
                elif key.fileobj is self.broker:
                    self.receive_bytes()
            now = time.monotonic()
            if now >= self.engine.wake_at():
                self.perform(self.engine.handle_time(now))

    # Inputs

    def receive_datagrams(self) -> None:
        """The address of a sensor is bytes, which come back in `Send`: here IPv4 and port."""
        datagram, (host, port) = self.sensors.recvfrom(DATAGRAM_BYTES_MAX)
        address = ipaddress.IPv4Address(host).packed + port.to_bytes(2, "big")
        self.perform(self.engine.receive(LINK, [(address, datagram)], time.monotonic()))

    def receive_bytes(self) -> None:
        assert self.broker is not None
        try:
            received = self.broker.recv(65_536)
        except OSError:
            received = b""
        if received:
            self.perform(self.engine.receive_upstream(received, time.monotonic()))
        else:
            self.close(by_broker=True)

    def connect(self, now: float) -> None:
        try:
            self.broker = socket.create_connection(self.broker_address, timeout=RECONNECT_S)
        except OSError as error:
            print(f"no broker: {error}", file=sys.stderr)
            self.connect_at = now + RECONNECT_S
            self.perform(self.engine.closed(now, by_broker=False))
            return
        self.selector.register(self.broker, selectors.EVENT_READ)
        self.perform(self.engine.opened(time.monotonic()))

    def close(self, *, by_broker: bool) -> None:
        if self.broker is None:
            return
        self.selector.unregister(self.broker)
        self.broker.close()
        self.broker = None
        now = time.monotonic()
        self.connect_at = now + RECONNECT_S
        self.perform(self.engine.closed(now, by_broker=by_broker))

    # Effects

    def perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(peer, frame):
                    host = str(ipaddress.IPv4Address(peer.address[:4]))
                    port = int.from_bytes(peer.address[4:], "big")
                    self.sensors.sendto(encode(frame), (host, port))
                case Transmit(packet):
                    self.transmit(packet)
                case DropUpstream(reason):
                    print(f"connection to the broker dropped: {reason}", file=sys.stderr)
                    self.close(by_broker=False)
                case Dropped(reason, client_id, detail):
                    print(f"dropped, {reason.value}: {client_id} {detail}", file=sys.stderr)
                case _:
                    print(effect, file=sys.stderr)  # news for a log

    def transmit(self, packet: bytes) -> None:
        if self.broker is None:
            return
        try:
            self.broker.sendall(packet)
        except OSError:
            self.close(by_broker=True)


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: small_gateway.py LISTEN_HOST:PORT BROKER_HOST:PORT")
    with contextlib.suppress(KeyboardInterrupt):
        Gateway(address_of(sys.argv[1]), address_of(sys.argv[2])).run()

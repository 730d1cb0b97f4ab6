"""What model brokers are believed to do, a real one does: the engine talks to mosquitto.

The engine is driven by hand, its packets go through a socket. A second connection, with the same
codec, publishes and sees what the gateway sends.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import mqtt5
import pytest

from gateway.core.effects import Effect, Transmit
from gateway.core.mqtt.session import Phase
from gateway.frames import Subscribe, Unsubscribe, encode
from hil.rig.mosquitto import Mosquitto
from tests.support.engine_bench import Bench, short

PATIENCE_S = 60.0


class Line:
    """A connection to the broker that waits for what is expected, not for time to pass."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.unread = b""

    def receive(self) -> bytes:
        data = self.socket.recv(65_536)
        assert data, "mosquitto closed the connection"
        return data


class Application(Line):
    """Another client of the broker."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.packet_id = 0
        self.ask(mqtt5.ConnectPacket("application", clean_start=True), mqtt5.ConnAckPacket)

    def ask(self, packet: Any, answer: type) -> Any:
        self.socket.sendall(packet.write())
        return self.next(answer)

    def next(self, kind: type) -> Any:
        """The next packet of a kind; others are passed over."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                packet, size = mqtt5.read(memoryview(self.unread))
            except IndexError:
                self.unread += self.receive()
                continue
            self.unread = self.unread[size:]
            if isinstance(packet, kind):
                return packet
        raise AssertionError(f"no {kind.__name__}")

    def publish(self, topic: str, payload: bytes, qos: int = 1, *, retain: bool = False) -> None:
        """Publish, and wait until the broker has it."""
        self.packet_id += 1
        packet = mqtt5.PublishPacket(
            topic, payload, qos=mqtt5.QoS(qos), packet_id=self.packet_id, retain=retain
        )
        if qos == 1:
            self.ask(packet, mqtt5.PubAckPacket)
        else:
            self.ask(packet, mqtt5.PubRecPacket)
            self.ask(mqtt5.PubRelPacket(self.packet_id), mqtt5.PubCompPacket)


class RealBench(Bench):
    """The bench with a real broker in the place of the one that answers by itself."""

    def __init__(self, port: int) -> None:
        super().__init__(connected=False)
        self.line = Line(port)
        self.take(self.engine.opened(self.at))
        self.until(lambda: self.engine.upstream.phase is Phase.UP)

    def take(self, effects: list[Effect]) -> None:
        super().take([each for each in effects if not isinstance(each, Transmit)])
        for each in effects:
            if isinstance(each, Transmit):
                self.line.socket.sendall(each.packet)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.heard
            self.from_broker(self.line.receive())

    def subscribe_and_wait(self, address: bytes, name: bytes, qos: int, message_id: int) -> None:
        """What was heard with SUBACK stays to be heard."""
        datagram = encode(Subscribe(message_id, name, qos))
        self.take(self.engine.receive(0, [(address, datagram)], self.at))
        self.until(lambda: name.decode() in filters_of(self, address.decode()))

    def until_heard(self, address: bytes) -> list[tuple[bytes, int, bool]]:
        """What a sensor hears, once it has heard something."""
        heard: list[tuple[bytes, int, bool]] = []

        def has_heard() -> bool:
            heard.extend(self.hear_all(address))
            return bool(heard)

        self.until(has_heard)
        return heard

    def payloads_of(self, address: bytes) -> list[bytes]:
        """The messages of one sensor, which accepts and acknowledges everything."""
        return [payload for payload, _, _ in self.hear_all(address)]


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture
def bench(broker: Mosquitto) -> Iterator[RealBench]:
    running = RealBench(broker.port)
    yield running
    running.line.socket.close()


@pytest.fixture
def application(broker: Mosquitto) -> Iterator[Application]:
    running = Application(broker.port)
    yield running
    running.socket.close()


def test_overlapping_filters_bring_each_message_once(
    bench: RealBench, application: Application
) -> None:
    for address, name, qos in ((b"s1", b"a/+", 1), (b"s2", b"+/b", 0), (b"s3", b"a/b/#", 1)):
        bench.join(address)
        bench.subscribe_and_wait(address, name, qos, 1)
    bench.subscribe_and_wait(b"s1", b"+/b", 0, 2)
    sent = [b"same", b"same", b"other", b"same"]
    for payload in sent:
        application.publish("a/b", payload, 1)
        application.publish("a/b", payload, 2)
    application.publish("a/b", b"last")
    heard: dict[bytes, list[bytes]] = {b"s1": [], b"s2": [], b"s3": []}

    def everything_has_come() -> bool:
        for address, payloads in heard.items():
            payloads += bench.payloads_of(address)
        return all(b"last" in payloads for payloads in heard.values())

    bench.until(everything_has_come)
    twice = [payload for payload in sent for _ in range(2)]
    assert heard == {address: [*twice, b"last"] for address in heard}


def test_a_subscriber_misses_nothing_and_hears_nothing_twice_while_others_come_and_go(
    bench: RealBench, application: Application
) -> None:
    bench.join(b"s1")
    bench.subscribe_and_wait(b"s1", b"a/b", 1, 1)
    bench.join(b"s2")
    heard: list[bytes] = []
    for number in range(60):
        # Sent while the gateway's SUBSCRIBE and UNSUBSCRIBE are under way, answers unread.
        wide = (b"a/#", b"#", b"+/b")[number % 3]
        bench.say(b"s2", Subscribe(1, wide, number % 2))
        application.publish("a/b", b"%d" % (2 * number))
        bench.until(lambda wide=wide: wide.decode() in filters_of(bench, "s2"))  # type: ignore[misc]
        bench.say(b"s2", Unsubscribe(2, wide))
        application.publish("a/b", b"%d" % (2 * number + 1))

    def has_heard_the_last() -> bool:
        heard.extend(bench.payloads_of(b"s1"))
        return b"119" in heard

    bench.until(has_heard_the_last)
    assert heard == [b"%d" % number for number in range(120)]


def filters_of(bench: RealBench, client: str) -> dict[str, int]:
    (session,) = [each for each in bench.engine.sessions.values() if each.client_id == client]
    return session._subscribing.filters


def test_what_is_retained_comes_to_newcomers_only_and_with_the_flag(
    bench: RealBench, application: Application
) -> None:
    application.publish("state/a", b"old", retain=True)
    bench.join(b"s1")
    bench.subscribe_and_wait(b"s1", b"state/a", 1, 1)
    assert bench.until_heard(b"s1") == [(b"old", 1, True)]
    bench.join(b"s2")
    bench.subscribe_and_wait(b"s2", b"state/#", 1, 1)
    assert bench.until_heard(b"s2") == [(b"old", 1, True)]
    application.publish("state/a", b"new", retain=True)
    assert bench.until_heard(b"s1") == [(b"new", 1, False)]
    assert bench.until_heard(b"s2") == [(b"new", 1, False)]
    bench.join(b"s3")
    bench.subscribe_and_wait(b"s3", b"state/+", 0, 1)
    assert bench.until_heard(b"s3") == [(b"new", 0, True)]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_reading_is_settled_and_carries_its_tag(
    bench: RealBench, application: Application, qos: int
) -> None:
    topics = [mqtt5.TopicFilter("tp", max_qos=mqtt5.QoS(qos))]
    application.ask(mqtt5.SubscribePacket(1, topics), mqtt5.SubAckPacket)
    bench.join(b"s1")
    bench.take(bench.engine.receive(0, [(b"s1", encode(short(b"hi", qos, 7)))], 1.0))
    bench.until(lambda: bool(bench.hear(b"s1")))
    packet = application.next(mqtt5.PublishPacket)
    assert (packet.topic, packet.payload, int(packet.qos)) == ("tp", b"hi", qos)
    tag = dict(packet.user_properties)
    assert (tag["gw"], tag["client"], tag["epoch"], tag["seq"]) == ("gh", "s1", "3", "0")

"""The model broker answers as a real mosquitto does, packet by packet.

Each story is played to both. A step is what one client sends, or a break of its connection; after
each step come the packets that it brought, up to the answer to a PINGREQ, which brokers give in
turn.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from random import Random
from typing import Any

import mqtt5
import pytest

from hil.rig.mosquitto import Mosquitto
from tests.simulation.agenda import Agenda
from tests.simulation.model_broker import ModelBroker, _packet_end
from tests.simulation.stream import Connection

PING = mqtt5.PingReqPacket()
ANSWER_TIMEOUT_S = 10.0
BREAK = None
Step = Any  # a packet, or BREAK
Heard = list[tuple[Any, ...]]


def connect() -> mqtt5.ConnectPacket:
    return mqtt5.ConnectPacket("gw", session_expiry_interval=600)


def publish(topic: str, payload: bytes, qos: int, packet_id: int | None = None, **more: Any) -> Any:
    return mqtt5.PublishPacket(topic, payload, qos=mqtt5.QoS(qos), packet_id=packet_id, **more)


def subscribe(packet_id: int, pattern: str, identifier: int, qos: int = 2, **more: Any) -> Any:
    options = {"retain_as_published": False, "retain_handling": mqtt5.RetainHandling.SEND_ALWAYS}
    wish = mqtt5.TopicFilter(pattern, max_qos=mqtt5.QoS(qos), **(options | more))
    return mqtt5.SubscribePacket(packet_id, [wish], subscription_id=identifier)


STORIES: dict[str, list[Step]] = {
    "readings at every QoS": [
        connect(), subscribe(9, "a", 2),
        publish("a", b"0", 0), publish("a", b"1", 1, 1), publish("a", b"2", 2, 2),
        mqtt5.PubRelPacket(2), mqtt5.PubRelPacket(3),
    ],
    "a QoS 2 reading, broken before PUBREL": [
        connect(), subscribe(9, "a", 2, qos=0), publish("a", b"x", 2, 1), BREAK, connect(),
        publish("a", b"x", 2, 1, duplicate=True), mqtt5.PubRelPacket(1),
        publish("a", b"x", 2, 1, duplicate=True), mqtt5.PubRelPacket(1),
    ],
    "two contents under one packet id": [
        connect(), subscribe(9, "a", 2, qos=0), publish("a", b"old", 2, 1), BREAK, connect(),
        publish("a", b"new", 2, 1), mqtt5.PubRelPacket(1),
    ],
    "messages down, broken before they are acknowledged": [
        connect(), subscribe(9, "a", 2), publish("a", b"1", 1, 1), publish("a", b"2", 2, 2),
        mqtt5.PubRelPacket(2), BREAK, connect(), mqtt5.PubAckPacket(1), mqtt5.PubRecPacket(2),
        BREAK, connect(), mqtt5.PubCompPacket(2), BREAK, connect(),
    ],
    "overlapping subscriptions": [
        connect(), subscribe(8, "a/+", 2, qos=1), subscribe(9, "+/b", 4, qos=1),
        publish("a/b", b"x", 0), mqtt5.UnsubscribePacket(10, ["a/+", "never"]),
        publish("a/b", b"y", 0),
    ],
    "retained messages": [
        connect(), publish("r", b"v", 1, 1, retain=True), subscribe(8, "r", 3),
        mqtt5.PubAckPacket(1),
        subscribe(9, "r", 2, retain_as_published=True,
                  retain_handling=mqtt5.RetainHandling.SEND_NEVER),
        publish("r", b"w", 0, retain=True), publish("r", b"", 0, retain=True),
        subscribe(10, "r", 3),
    ],
}  # fmt: skip


def described(packet: Any) -> tuple[Any, ...]:
    """What a gateway looks at."""
    match packet:
        case mqtt5.PublishPacket():
            qos, identifiers = int(packet.qos), tuple(packet.subscription_ids)
            flags = (packet.retain, packet.duplicate)
            return ("PUBLISH", packet.topic, packet.payload, qos, flags, identifiers)
        case mqtt5.ConnAckPacket():
            return ("CONNACK", packet.session_present, packet.receive_max)
        case mqtt5.SubAckPacket() | mqtt5.UnsubAckPacket():
            return (type(packet).__name__, packet.packet_id, list(map(int, packet.reason_codes)))
        case mqtt5.PubRelPacket():
            return ("PUBREL",)
        case _:
            return (type(packet).__name__, packet.packet_id, int(packet.reason_code))


def split(octets: bytes) -> Iterator[Any]:
    start = 0
    while (end := _packet_end(octets, start)) is not None:
        yield mqtt5.read(memoryview(octets)[start:end])[0]
        start = end


def played_to_mosquitto(story: list[Step], port: int) -> list[Heard]:
    told: list[Heard] = []
    stream: socket.socket | None = None
    for step in story:
        if stream is None:
            stream = socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S)
        if step is BREAK:
            stream.close()
            stream = None
            continue
        stream.sendall(step.write() + PING.write())
        octets = b""
        while not octets.endswith(mqtt5.PingRespPacket().write()):
            octets += stream.recv(65_536)
        told.append([described(one) for one in split(octets[:-2])])
    assert stream is not None
    stream.close()
    return told


def played_to_the_model(story: list[Step]) -> list[Heard]:
    broker = ModelBroker(receive_max=20)
    agenda = Agenda()
    told: list[Heard] = []
    connection: Connection | None = None
    for step in story:
        octets: list[bytes] = []
        if connection is None:
            connection = Connection(agenda, Random(1), 0.0)
            broker.accept(connection)
        if step is BREAK:
            connection.sever()
            connection = None
        else:
            connection.to_gateway.deliver = octets.append
            connection.to_broker.write(step.write())
        while agenda.next_at() is not None:
            agenda.happen()
        if step is not BREAK:
            told.append([described(one) for one in split(b"".join(octets))])
    return told


@pytest.fixture(scope="module")
def mosquitto() -> Iterator[Mosquitto]:
    with Mosquitto() as broker:
        yield broker


@pytest.mark.parametrize("story", STORIES)
def test_the_model_answers_as_mosquitto_does(story: str, mosquitto: Mosquitto) -> None:
    mosquitto.restart()  # without persistence it forgets what the story before left
    expected = played_to_mosquitto(STORIES[story], mosquitto.port)
    answered = played_to_the_model(STORIES[story])
    for step, (model, real) in enumerate(zip(answered, expected, strict=True)):
        assert sorted(model, key=repr) == sorted(real, key=repr), f"after step {step}"

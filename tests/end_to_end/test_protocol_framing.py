"""MQTT-SN 1.2, 5.2: where a message begins and ends, and what the gateway does when it does not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from hil.rig.scripted_client import framed, u16
from tests.end_to_end.on_air import (
    ACCEPTED,
    CLEAN,
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REGACK,
    REGISTER,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILLMSGRESP,
    WILLMSGUPD,
    WILLTOPICRESP,
    WILLTOPICUPD,
    connected,
    fresh,
    long_form,
    node,
    serving,
    story,
)
from tests.support.application import application, heard
from tests.support.samples import named

Form = Callable[[int, bytes], bytes]


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with Mosquitto() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    broker: Mosquitto, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    with serving(folder, broker) as running:
        yield running


def with_trailing_octets(kind: int, body: bytes) -> bytes:
    return framed(kind, body) + b"\x00\xff\x16"


def long_with_trailing_octets(kind: int, body: bytes) -> bytes:
    # Two octets too many would be Paho's mistake, in which the datagram is right.
    return long_form(kind, body) + b"\x00\xff\x16"


FORMS = [framed, long_form, with_trailing_octets, long_with_trailing_octets]


@pytest.mark.parametrize("form", FORMS)
@story
async def test_every_request_is_understood_in_both_length_forms(
    gateway: GatewayProcess, form: Form
) -> None:
    async with node(gateway.port) as n:
        await n.send(form(CONNECT, bytes((CLEAN, 1)) + u16(60) + n.client_id.encode()))
        await n.hears(CONNACK, ACCEPTED)
        name = fresh("t").encode()
        for request, body, answer, content in (
            (REGISTER, u16(0) + u16(1) + name, REGACK, u16(1) + u16(1) + ACCEPTED),
            (PUBLISH, b"\x20" + u16(1) + u16(2) + b"21.5", PUBACK, u16(1) + u16(2) + ACCEPTED),
            (PUBLISH, b"\x40" + u16(1) + u16(3) + b"21.5", PUBREC, u16(3)),
            (PUBREL, u16(3), PUBCOMP, u16(3)),
            (
                SUBSCRIBE,
                b"\x20" + u16(4) + b"not/" + name,
                SUBACK,
                b"\x20" + u16(2) + u16(4) + ACCEPTED,
            ),
            (UNSUBSCRIBE, b"\x00" + u16(5) + b"not/" + name, UNSUBACK, u16(5)),
            (PINGREQ, b"", PINGRESP, b""),
            (WILLTOPICUPD, b"\x20will", WILLTOPICRESP, ACCEPTED),
            (WILLMSGUPD, b"gone", WILLMSGRESP, ACCEPTED),
            (WILLTOPICUPD, b"", WILLTOPICRESP, ACCEPTED),
            (DISCONNECT, u16(60), DISCONNECT, b""),
            (PINGREQ, n.client_id.encode(), PINGRESP, b""),
            (DISCONNECT, b"", DISCONNECT, b""),
        ):
            await n.send(form(request, body))
            await n.hears(answer, content)


@story
async def test_trailing_octets_are_no_part_of_a_payload(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic = fresh("t")
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        await n.send(framed(PUBLISH, b"\x20" + u16(number) + u16(2) + b"21.5") + b"garbage")
        await n.hears(PUBACK, u16(number) + u16(2) + ACCEPTED)
        assert (await heard(app)).payload == b"21.5"


@story
async def test_the_length_that_paho_gets_wrong_brings_the_whole_payload(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    topic, payload = fresh("t"), bytes(range(248))
    async with application(broker, topic) as app, connected(gateway.port) as n:
        number = await n.register(topic)
        await n.send(bytes.fromhex("0100ff0c20") + u16(number) + u16(9) + payload)
        await n.hears(PUBACK, u16(number) + u16(9) + ACCEPTED)
        assert (await heard(app)).payload == payload


# Hex as on the air; each would be a message, were it not for one thing.
MALFORMED = [
    "00", "01", "02", "16", "0016", "0116", "0316", "ff16", "010016", "010000", "01000016",
    "01000116", "01000216", "01000316", "01000516", "01ffff16", "0203", "0211", "0219", "021e",
    "02fd", "02ff", "0204", "05040401", "020a", "020c", "060c20000100",
    "020d", "060d00010002", "080d0001000200ff", "030e00", "050e000100", "030f01", "031001", "0212",
    "051220", "0318ff", "02fe", "03fe00", "05fe0001020416",
]  # fmt: skip


@pytest.mark.parametrize("octets", MALFORMED)
@story
async def test_a_malformed_message_is_dropped_and_its_sender_served_on(
    gateway: GatewayProcess, octets: str
) -> None:
    async with connected(gateway.port) as n:
        await n.send(bytes.fromhex(octets))
        await n.hears_nothing()


# What asks for something, and is answered by its message id.
LACKING = [
    ("060a00000001", "070b0000000102"),
    ("05122000013c", "0813200000000103"),
    ("0514200001", "04150001"),
    ("08120100011234ff", "0813000000000102"),
    ("06120100011a", "0813000000000102"),
    ("0612020001ff", "0813000000000103"),
    ("051800ff00", "0218"),
]


@pytest.mark.parametrize(("octets", "answer"), LACKING)
@story
async def test_a_request_without_what_it_asks_for_is_answered(
    gateway: GatewayProcess, octets: str, answer: str
) -> None:
    async with connected(gateway.port) as n:
        await n.send(bytes.fromhex(octets))
        on_air = bytes.fromhex(answer)
        await n.hears(on_air[1], on_air[2:])


@story
async def test_an_empty_datagram_is_dropped(gateway: GatewayProcess) -> None:
    # By a socket of its own: aioudp does not send nothing.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(b"", ("127.0.0.1", gateway.port))
    async with connected(gateway.port) as n:
        await n.hears_nothing()


@pytest.mark.parametrize("kind", [0x00, 0x02, 0x05, 0x06, 0x08, 0x0B, 0x0D, 0x0E, 0x13, 0x15,
                                  0x17, 0x1B, 0x1D])  # fmt: skip
@story
async def test_what_only_gateways_say_and_answers_to_nothing_are_ignored(
    gateway: GatewayProcess, kind: int
) -> None:
    async with connected(gateway.port) as n:
        for octets in (0, 1, 2, 3, 5, 6):
            with named(octets=octets):
                await n.asks_in_vain(kind, bytes(octets))


@story
async def test_what_the_gateway_says_is_never_longer_than_its_length_octets_tell(
    broker: Mosquitto, gateway: GatewayProcess
) -> None:
    """From 256 bytes on only the 3-byte form can be."""
    topic = fresh("t")
    async with application(broker) as app, connected(gateway.port) as n:
        number = await n.subscribe(topic.encode(), qos=0)
        for octets, head in ((247, "fe0c"), (248, "ff0c"), (249, "0101020c"), (250, "0101030c")):
            await app.publish(topic, b"x" * octets)
            datagram = await n._connection.recv()
            assert datagram == bytes.fromhex(head + "00") + u16(number) + u16(0) + b"x" * octets

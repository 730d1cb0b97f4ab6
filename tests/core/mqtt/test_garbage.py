"""Whatever the broker sends, cut wherever: packets are read as they are, the rest ends the
connection, and nothing raises.
"""

from __future__ import annotations

import mqtt5
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, DropUpstream, Transmit
from gateway.core.events import Output
from gateway.core.mqtt.session import MqttSession, Phase
from tests.core.mqtt.broker_side import (
    connected,
    new_reading,
    news,
    options,
    puback,
    pubcomp,
    publication,
    pubrec,
    suback,
    unsuback,
)

# What the codec leaves behind when its native code panics; the outcome is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CONNACK = mqtt5.ConnAckPacket().write()

# One of each that a broker may send, the common ones in both forms.
STREAM = [
    CONNACK,
    puback(1),
    puback(2, 0x87, "no"),
    pubrec(3),
    pubcomp(3),
    publication("a/b", b"x" * 200, 1, 7, by=[3 << 16 | 2]),
    publication("a/b", b"", 2, 8),
    mqtt5.PubRelPacket(8).write(),
    suback(65_001, 0, 1, 0x87),
    unsuback(65_002),
    mqtt5.PingRespPacket().write(),
    b"\x40\x03\x00\x04\x00",
    mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode.SERVER_SHUTTING_DOWN).write(),
]


def session_with_readings() -> MqttSession:
    session = MqttSession(options(packet_bytes_max=1000))
    session.opened(0.0)
    for number, qos in enumerate((1, 1, 2, 1, 1)):
        session.publisher.publish(
            new_reading(qos=qos, client=f"s{number}")
        )  # none waits for another
    session.subscriptions.want("a", 1, retained=True)
    session.subscriptions.want("b", 1, retained=True)
    session.subscriptions.want("c", 1, retained=True)
    return session


def described(effects: list[Output]) -> list[str]:
    return [repr(effect) for effect in effects]


def received(pieces: list[bytes]) -> list[str]:
    session = session_with_readings()
    effects: list[Output] = []
    for piece in pieces:
        effects += session.receive(piece, 1.0)
    assert session.phase is Phase.CLOSED, "the stream ends with DISCONNECT"
    return described(effects)


def test_a_stream_may_be_cut_at_every_octet() -> None:
    stream = b"".join(STREAM)
    packet_by_packet = received(STREAM)
    assert received([bytes([octet]) for octet in stream]) == packet_by_packet
    for cut in range(len(STREAM[0]), len(stream)):
        pieces = [STREAM[0], stream[len(STREAM[0]) : cut], stream[cut:]]
        assert received(pieces) == packet_by_packet


@given(st.lists(st.integers(1, 50), max_size=30))
def test_a_stream_may_come_in_any_pieces(sizes: list[int]) -> None:
    stream, pieces = b"".join(STREAM[1:]), [CONNACK]
    for size in sizes:
        pieces.append(stream[:size])
        stream = stream[size:]
    assert received([*pieces, stream]) == received(STREAM)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ("00 00", ""),
        (mqtt5.AuthPacket().write().hex(), "AUTH while up"),
        ("10 00", ""),
        ("c0 00", "PINGREQ while up"),
        ("30 ff ff ff ff", "a packet length of more than four bytes"),
        ("90 ff ff 3f", "a packet of 1048579 bytes, more than we take"),
        ("36 ff ff 3f 00 01 61 00 01", "a PUBLISH whose topic goes beyond its end"),
        ("30 04 0005 61 00", "a PUBLISH whose topic goes beyond its end"),
        ("36 00", ""),
        ("40 00", ""),
        ("62 01 00", ""),
        ("90 02 0001", ""),
        (CONNACK.hex(), "CONNACK while up"),
    ],
)
def test_what_a_broker_may_not_send_ends_the_connection(octets: str, reason: str) -> None:
    session = MqttSession(options(packet_bytes_max=1000))
    connected(session)
    (drop,) = session.receive(bytes.fromhex(octets), 1.0)
    assert isinstance(drop, DropUpstream)
    assert drop.reason.startswith("the broker sent what it may not send: ")
    assert drop.reason.endswith(reason)


@pytest.mark.parametrize(
    "said",
    [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"HTTP/1.1 400 Bad Request\r\n" + b"Server: nginx\r\n" * 9],
)
def test_what_is_no_broker_is_not_waited_for(said: bytes) -> None:
    session = MqttSession(options())
    session.opened(0.0)
    (drop,) = session.receive(said, 0.1)
    assert isinstance(drop, DropUpstream)
    assert drop.reason == (
        f"the broker sent what it may not send: {said[:16]!r} in place of CONNACK; "
        "is it an MQTT 5 broker?"
    )


@pytest.mark.parametrize("packet", [each for each in STREAM if each != CONNACK])
def test_nothing_may_come_before_connack(packet: bytes) -> None:
    session = MqttSession(options())
    connected(session)
    session.publisher.publish(new_reading())
    session.closed(0.0, by_broker=False)
    session.opened(1.0)
    (drop,) = session.receive(packet + CONNACK, 1.0)
    assert isinstance(drop, DropUpstream)
    assert drop.reason.endswith("while connecting")
    assert len(session.publisher.in_flight) == 1


def test_after_the_end_nothing_more_is_read_or_written() -> None:
    session = session_with_readings()
    session.receive(CONNACK, 1.0)
    session.receive(b"\x00\x00", 1.0)
    assert session.receive(puback(1) + puback(2), 1.0) == []
    assert session.publisher.publish(new_reading()) is None
    assert session.subscriptions.advance() == []
    assert len(session.publisher.in_flight) == 5


def test_what_came_before_the_garbage_counts() -> None:
    session = session_with_readings()
    session.receive(CONNACK, 1.0)
    effects = session.receive(puback(1) + publication("a") + b"\x00\x00", 1.0)
    assert [type(effect).__name__ for effect in effects] == [
        "ReadingsAcknowledged",
        "Publication",
        "DropUpstream",
    ]


packets_bent = st.builds(
    lambda packet, at, octet: packet[: at % len(packet)] + bytes([octet])
    + packet[at % len(packet) + 1 :],
    st.sampled_from(STREAM), st.integers(0, 300), st.integers(0, 255),
)  # fmt: skip


@given(
    st.lists(st.one_of(st.binary(max_size=20), st.sampled_from(STREAM), packets_bent), max_size=8),
    st.booleans(),
)
@example([b"\x30\x02\x00\x05"], True)
def test_no_octets_raise(pieces: list[bytes], is_up: bool) -> None:
    session = session_with_readings()
    if is_up:
        session.receive(CONNACK, 0.5)
    for piece in pieces:
        effects = session.receive(piece, 1.0)
        drops = news(DropUpstream, effects)
        assert len(drops) <= 1
        if drops:
            assert effects[-1] is drops[0]
            assert session.phase is Phase.CLOSED
        for sent in news(Transmit, effects):
            mqtt5.read(memoryview(sent.packet))


@pytest.mark.soak
@given(st.binary(max_size=400))
def test_no_random_octets_raise(octets: bytes) -> None:
    session = session_with_readings()
    session.receive(CONNACK + octets, 1.0)


@pytest.mark.parametrize(
    ("octets", "answer"),
    [("30 04 0001 ff 00", b""), ("32 06 0001 ff 0007 00", b"@\2\0\7"),
     ("34 07 0002 ffff 0007 00", b"P\2\0\7")],
)  # fmt: skip
def test_a_message_whose_topic_is_not_text_is_read_over(octets: str, answer: bytes) -> None:
    session = MqttSession(options())
    connected(session)
    effects = session.receive(bytes.fromhex(octets) + puback(1), 1.0)
    (dropped,) = news(Dropped, effects)
    assert (dropped.reason, dropped.client_id) == (Reason.BAD_TOPIC, None)
    assert b"".join(each.packet for each in news(Transmit, effects)) == answer
    assert news(DropUpstream, effects) == []

"""Where packets end, and what is read of them, held against the codec package."""

from __future__ import annotations

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.packets.codec import (
    BadPacketError,
    packet_end,
    plain_publication,
    publication_of,
    read_packet,
    unreadable_publish,
)
from gateway.packets.repair import varint
from tests.core.mqtt.broker_side import publication

names = st.text(st.characters(codec="utf-8", exclude_characters="\0#+"), min_size=1, max_size=40)
payloads = st.one_of(st.binary(max_size=40), st.integers(0, 5000).map(lambda size: b"x" * size))


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"),
        (2_097_151, "ffff7f"), (2_097_152, "80808001"), (268_435_455, "ffffff7f"),
    ],
)  # fmt: skip
def test_a_variable_byte_integer_is_as_in_the_specifications_table(value: int, octets: str) -> None:
    assert varint(value).hex() == octets


@given(st.binary(max_size=300), st.binary(max_size=5), st.binary(max_size=5))
def test_a_packet_ends_where_its_length_says(body: bytes, before: bytes, after: bytes) -> None:
    octets = b"\x30" + varint(len(body)) + body
    stream = before + octets + after
    end = len(before) + len(octets)
    assert packet_end(stream, len(before), 1000) == end
    for cut in range(len(before), end):
        assert packet_end(stream[:cut], len(before), 1000) is None


def test_a_length_of_five_octets_is_none() -> None:
    assert packet_end(b"\x30\x80\x80\x80", 0, 1000) is None
    with pytest.raises(BadPacketError, match="more than four bytes"):
        packet_end(b"\x30\x80\x80\x80\x80", 0, 1000)


def test_the_size_of_a_packet_larger_than_we_take_is_known_before_it_has_come() -> None:
    assert packet_end(b"\x30" + varint(97), 0, 100) is None, "97 bytes behind 2, more to come"
    assert packet_end(b"\x30" + varint(98), 0, 100) is None, "100 in all"
    assert packet_end(b"\x30" + varint(99), 0, 100) == -101


IDENTIFIERS = st.lists(st.one_of(st.integers(1, 300), st.integers(1, 268_435_455)), max_size=4)


@given(
    names, payloads, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(1, 65_535),
    IDENTIFIERS, st.one_of(st.none(), st.integers(0, 2**32 - 1)),
)  # fmt: skip
def test_what_a_broker_publishes_is_read_as_by_the_codec_package(
    topic: str, payload: bytes, qos: int, retain: bool, dup: bool, packet_id: int,
    identifiers: list[int], expiry_s: int | None,
) -> None:  # fmt: skip
    packet = mqtt5.PublishPacket(
        topic,
        payload,
        qos=mqtt5.QoS(qos),
        retain=retain,
        duplicate=dup,
        packet_id=packet_id if qos else None,
        subscription_ids=identifiers,
        message_expiry_interval=expiry_s,
    )
    octets = b"before" + packet.write() + b"behind"
    read = plain_publication(octets, 6, len(octets) - 6)
    assert read is not None
    read.identifiers = list(read.identifiers)
    assert read == publication_of(packet)


EXPIRY = b"\x02\x00\x00\x0e\x10"
FIVE, LARGE = b"\x0b\x05", b"\x0b\xac\x02"  # identifiers of subscriptions: 5 and 300


@pytest.mark.parametrize(
    ("properties", "identifiers"),
    [
        (EXPIRY, []),
        (EXPIRY + FIVE + LARGE, [5, 300]),
        (FIVE + EXPIRY + LARGE, [5, 300]),
        (LARGE + FIVE + EXPIRY, [300, 5]),
    ],
)
def test_the_time_of_a_message_is_read_wherever_it_stands(
    properties: bytes, identifiers: list[int]
) -> None:
    body = b"\x00\x01a" + bytes([len(properties)]) + properties + b"on"
    octets = bytes([0x30, len(body)]) + body
    read = plain_publication(octets, 0, len(octets))
    assert read is not None
    assert (read.expiry_s, list(read.identifiers), read.payload) == (3600, identifiers, b"on")


@pytest.mark.parametrize(
    "properties",
    [
        EXPIRY + EXPIRY, EXPIRY[:4], FIVE + EXPIRY[:4], b"\x0b\x80", EXPIRY + b"\x01\x01",
        b"\x01\x01" + EXPIRY, b"\x0b\x00" + EXPIRY, b"\x0b\x80\x80" + EXPIRY,
    ],
)  # fmt: skip
def test_what_stands_beside_it_is_left_to_the_codec_package(properties: bytes) -> None:
    body = b"\x00\x01a" + bytes([len(properties)]) + properties + b"on"
    octets = bytes([0x30, len(body)]) + body
    assert plain_publication(octets, 0, len(octets)) is None


@given(st.data())
def test_a_broken_publication_is_read_as_by_the_codec_package_or_left_to_it(
    data: st.DataObject,
) -> None:
    """Any bytes behind a first one that says PUBLISH, and a length that is right."""
    whole = mqtt5.PublishPacket(
        "a/b", b"on", qos=mqtt5.QoS(1), packet_id=7, subscription_ids=[5, 300],
        message_expiry_interval=data.draw(st.sampled_from([None, 3600])),
    )  # fmt: skip
    body = bytearray(whole.write()[2:])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.sampled_from([0, 1, 2, 0x0B, 0x7F, 0x80, 0xFF]))
    body = body[: data.draw(st.integers(0, len(body)))]
    octets = bytes((data.draw(st.integers(0x30, 0x3F)), len(body))) + bytes(body)
    try:
        read = plain_publication(octets, 0, len(octets))
    except BadPacketError:
        topic = octets[4 : 4 + int.from_bytes(octets[2:4], "big")]
        with pytest.raises(UnicodeDecodeError):
            topic.decode()
        return
    if read is not None:
        read.identifiers = list(read.identifiers)
        packet, _, _ = read_packet(memoryview(octets))
        assert isinstance(packet, mqtt5.PublishPacket)
        assert read == publication_of(packet)


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("3000", "no topic"),
        ("3003000161", "no properties"),
        ("300400016101", "properties that end behind it"),
        ("3003000000", "an empty topic, which wants an alias"),
        ("36060001610007" + "00", "QoS 3"),
        ("3005000161010b", "an identifier without a value"),
        ("300600016102" + "0b00", "identifier 0"),
        ("300700016103" + "0b8100", "an identifier that is longer than it need be"),
        ("300a00016106" + "0b8080808001", "an identifier of five bytes"),
        ("300600016102" + "0101", "another property"),
        ("308501000161" + "8001" + "0b01" * 64, "more properties than one byte can say"),
    ],
)
def test_what_is_not_plain_is_left_to_the_codec_package(octets: str, why: str) -> None:
    packet = bytes.fromhex(octets)
    assert plain_publication(packet, 0, len(packet)) is None, why


def test_a_topic_that_is_not_utf_8_is_not_plain_and_named_as_far_as_it_can_be() -> None:
    packet = bytes.fromhex("3206000261ff0007")
    assert plain_publication(packet, 0, 8) is None
    skipped = unreadable_publish(packet, 0, 8)
    assert skipped is not None
    assert (skipped.topic, skipped.qos, skipped.packet_id) == ("a\ufffd", 1, 7)
    readable = publication("a\ufffd", b"", 1, 7)
    assert unreadable_publish(readable, 0, len(readable)) is None


def test_a_mistake_of_ours_is_not_blamed_on_the_broker() -> None:
    with pytest.raises(TypeError):
        read_packet("no bytes")  # type: ignore[arg-type]


def test_text_that_is_not_utf_8_is_refused_by_the_codec_too() -> None:
    with pytest.raises(BadPacketError, match="text that is not UTF-8"):
        read_packet(memoryview(bytes.fromhex("30 04 0001 ff 00")))


def test_a_packet_fills_its_length() -> None:
    with pytest.raises(BadPacketError, match="a packet of 2 bytes that says it has 3"):
        read_packet(memoryview(b"\xd0\x00\x00"))

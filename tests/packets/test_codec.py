"""Where packets end, and what is read of them, held against the codec package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.packets.codec import (
    BadPacketError,
    packet_end,
    read_packet,
    unreadable_publish,
)
from gateway.packets.repair import varint
from tests.core.mqtt.broker_side import publication


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"),
        (2_097_151, "ffff7f"), (2_097_152, "80808001"), (268_435_455, "ffffff7f"),
    ],
)  # fmt: skip
def test_a_variable_byte_integer_is_as_in_the_specifications_table(
    value: int, written: str
) -> None:
    assert varint(value).hex() == written


@given(st.binary(max_size=300), st.binary(max_size=5), st.binary(max_size=5))
def test_a_packet_ends_where_its_length_says(body: bytes, before: bytes, after: bytes) -> None:
    packet = b"\x30" + varint(len(body)) + body
    stream = before + packet + after
    end = len(before) + len(packet)
    assert packet_end(stream, len(before), 1000) == end
    for cut in range(len(before), end):
        assert packet_end(stream[:cut], len(before), 1000) is None


def test_a_length_of_five_bytes_is_none() -> None:
    assert packet_end(b"\x30\x80\x80\x80", 0, 1000) is None
    with pytest.raises(BadPacketError, match="more than four bytes"):
        packet_end(b"\x30\x80\x80\x80\x80", 0, 1000)


def test_the_size_of_a_packet_larger_than_we_take_is_known_before_it_has_come() -> None:
    assert packet_end(b"\x30" + varint(97), 0, 100) is None, "97 bytes behind 2, more to come"
    assert packet_end(b"\x30" + varint(98), 0, 100) is None, "100 in all"
    assert packet_end(b"\x30" + varint(99), 0, 100) == -101


def test_a_topic_that_is_not_utf_8_is_named_as_far_as_it_can_be() -> None:
    packet = bytes.fromhex("3206000261ff0007")
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

"""What MQTT 5 does not allow in a packet is left out or changed, and nothing else: the vectors of
gateway and collector, which are held to them as sessions too.
"""

from __future__ import annotations

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.packets.codec import BadPacketError, read_packet
from gateway.packets.repair import (
    NOTES_MAX,
    may_have_bad_text,
    with_allowed_properties,
    with_known_codes,
)
from tests.support.golden_properties import MALFORMED, ROWS, Row

# What the codec leaves behind when its native code panics; the outcome is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

rows = pytest.mark.parametrize("row", ROWS, ids=[row.id for row in ROWS])
malformed = pytest.mark.parametrize("packet", MALFORMED.values(), ids=MALFORMED)


@rows
def test_what_may_not_be_there_is_left_out_and_nothing_else(row: Row) -> None:
    changed, notes = with_allowed_properties(row.packet)
    assert changed.hex(" ") == row.allowed.hex(" ")
    assert ", ".join(notes) == row.ignored
    assert with_allowed_properties(changed) == (changed, [])


@rows
@pytest.mark.parametrize("check_text", [False, True])
def test_the_packet_is_read_as_if_it_were_not_there(row: Row, *, check_text: bool) -> None:
    packet, codes, ignored = read_packet(memoryview(row.packet), check_text=check_text)
    assert repr(packet) == repr(mqtt5.read(memoryview(row.allowed))[0])
    assert codes == [] or row.ignored
    assert set(ignored) == set(filter(None, row.ignored.split(", ")))


@malformed
def test_a_length_that_does_not_fit_is_left(packet: str) -> None:
    data = bytes.fromhex(packet)
    assert with_allowed_properties(data) == (data, [])


def test_lengths_in_more_bytes_than_they_need_are_read() -> None:
    plain = bytes.fromhex("30 06 0001 61 00 7879")
    for odd in ("30 86 00 0001 61 00 7879", "30 07 0001 61 80 00 7879"):
        changed, notes = with_allowed_properties(bytes.fromhex(odd))
        assert changed == plain
        assert notes == ["a length in more bytes than it needs"]


def test_a_packet_with_lengths_of_several_bytes_is_read() -> None:
    packet = mqtt5.PublishPacket("t", b"x" * 300, user_properties=[("a", "b" * 200)]).write()
    at = packet.index(b"\x26")
    changed, notes = with_allowed_properties(packet)
    assert (changed, notes) == (packet, [])
    bad = packet[: at + 7] + b"\xff" + packet[at + 8 :]
    changed, notes = with_allowed_properties(bad)
    assert changed == mqtt5.PublishPacket("t", b"x" * 300).write()
    assert notes == ["0x26 is not UTF-8"]


def test_what_is_logged_of_one_packet_is_bounded() -> None:
    flags = bytes(byte for name in (0x17, 0x19, 0x25, 0x28, 0x29, 0x2A) for byte in (name, 1))
    wide = b"".join(bytes((name, 0, 1)) for name in (0x13, 0x21, 0x22, 0x23))
    body = b"\x00\x01\x00" + bytes((len(flags + wide),)) + flags + wide
    _, notes = with_allowed_properties(bytes((0x40, len(body))) + body)
    assert len(notes) == NOTES_MAX


@given(st.binary(max_size=60))
def test_any_bytes_are_left_or_become_a_packet_of_their_kind(data: bytes) -> None:
    may_have_bad_text(data or b"\x00")
    for packet in (data or b"\x00", b"\x30" + bytes((len(data),)) + data):
        changed, _ = with_allowed_properties(packet)
        assert changed[0] == packet[0]
        assert with_allowed_properties(changed) == (changed, [])


def test_text_of_a_topic_is_not_repaired() -> None:
    with pytest.raises(BadPacketError, match="not UTF-8"):
        read_packet(memoryview(bytes.fromhex("30 04 0001 ff 00")))


def test_what_cannot_be_read_has_no_bad_text() -> None:
    assert may_have_bad_text(b"\x30\xff\xff\xff\xff\xff") is False


def test_a_packet_with_a_long_payload_keeps_it() -> None:
    payload = b"x" * 300
    # Maximum Packet Size (0x27) has no place in a PUBLISH.
    body = b"\x00\x01t\x05\x27\x00\x00\x01\x00" + payload
    packet = b"\x30" + bytes((len(body) & 0x7F | 0x80, len(body) >> 7)) + body
    changed, notes = with_allowed_properties(packet)
    read, _ = mqtt5.read(memoryview(changed))
    assert isinstance(read, mqtt5.PublishPacket)
    assert (read.topic, read.payload, len(notes)) == ("t", payload, 1)


@pytest.mark.parametrize(
    ("packet", "known", "codes"),
    [
        (b"\x40\x03\x00\x01\x01", b"\x40\x03\x00\x01\x00", [1]),
        (b"\x40\x02\x00\x01", b"\x40\x02\x00\x01", []),
        (b"\x62\x03\x00\x01\xf0", b"\x62\x03\x00\x01\x92", [0xF0]),
        (b"\xb0\x04\x00\x01\x00\x33", b"\xb0\x04\x00\x01\x00\x00", [0x33]),
        (b"\x90\x05\x00\x01\x00\x01\x33", b"\x90\x05\x00\x01\x00\x01\x02", [1, 0x33]),
        (b"\xe0\x00", b"\xe0\x00", []),
        (b"\x30\x03\x00\x01a", b"\x30\x03\x00\x01a", []),
        (b"\x90\x85\x01\x00\x01\x81\x01" + b"x" * 129 + b"\x05", None, [5]),
        (b"\x90\x03\x00\x01\x80", b"\x90\x03\x00\x01\x80", []),
    ],
)
def test_only_the_codes_are_changed(packet: bytes, known: bytes | None, codes: list[int]) -> None:
    changed, found = with_known_codes(packet)
    assert found == codes
    assert changed == (packet[:-1] + b"\x02" if known is None else known)


@pytest.mark.parametrize(
    "shape",
    ["2003000000", "400400070000", "500400070000", "620400070000", "700400070000",
     "900400070000", "b00400070000", "e0020000"],
)  # fmt: skip
def test_a_code_is_changed_if_the_codec_does_not_take_it(shape: str) -> None:
    """Of each packet that has one, by all 256 codes at its place."""
    packet = bytearray.fromhex(shape)
    place = {0x20: 3, 0xE0: 2, 0x90: 5, 0xB0: 5}.get(packet[0], 4)
    for code in range(256):
        packet[place] = code
        changed, _ = with_known_codes(bytes(packet))
        mqtt5.read(memoryview(changed))
        try:
            mqtt5.read(memoryview(packet))
        except ValueError:
            assert changed != packet, hex(code)
        else:
            assert changed == packet, hex(code)

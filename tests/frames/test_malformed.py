"""What is no MQTT-SN message, and what an operator reads about it."""

from __future__ import annotations

import pytest

from gateway.frames import MalformedFrame, decode, has_trailing_octets
from tests.frames.golden import FRAME_TYPES, ROWS, octets_of
from tests.support.samples import named

RESERVED = sorted(set(range(256)) - {frame_type.KIND for frame_type in FRAME_TYPES})

NO_MESSAGE = [
    # octets on the air | what is wrong with them
    ("", "a message has at least 2 bytes, the datagram has 0"),
    ("00", "a message has at least 2 bytes, the datagram has 1"),
    ("01", "a message has at least 2 bytes, the datagram has 1"),
    ("02", "a message has at least 2 bytes, the datagram has 1"),
    ("00 16", "length byte is 0, a message has at least 2 bytes"),
    ("00 fe 00 0216", "length byte is 0, a message has at least 2 bytes"),
    ("01 00", "datagram of 2 bytes ends inside its 3-byte length or type"),
    ("01 0004", "datagram of 3 bytes ends inside its 3-byte length or type"),
    ("01 0000 16", "3-byte length is 0, such a message has at least 4 bytes"),
    ("01 0002 16", "3-byte length is 2, such a message has at least 4 bytes"),
    ("01 0003 16", "3-byte length is 3, such a message has at least 4 bytes"),
    ("03 16", "PINGREQ declares 3 bytes, the datagram has 2"),
    ("47 0c 20 0005", "PUBLISH declares 71 bytes, the datagram has 5"),
    ("01 ffff 0c", "PUBLISH declares 65535 bytes, the datagram has 4"),
    ("03 11", "message type 0x11 declares 3 bytes, the datagram has 2"),
]
BAD_LENGTH = [
    ("02 00", "ADVERTISE ends before its gateway id: 2 of 5 bytes"),
    ("03 00 01", "ADVERTISE ends before its duration: 3 of 5 bytes"),
    ("04 00 01 03", "ADVERTISE ends inside its duration: 4 of 5 bytes"),
    ("06 00 01 0384 00", "ADVERTISE has 6 bytes instead of 5"),
    ("02 01", "SEARCHGW ends before its radius: 2 of 3 bytes"),
    ("04 01 01 00", "SEARCHGW has 4 bytes instead of 3"),
    ("02 02", "GWINFO ends before its gateway id: 2 of 3 bytes"),
    ("02 04", "CONNECT ends before its flags: 2 of 6 bytes"),
    ("03 04 04", "CONNECT ends before its protocol id: 3 of 6 bytes"),
    ("04 04 04 01", "CONNECT ends before its duration: 4 of 6 bytes"),
    ("05 04 04 01 00", "CONNECT ends inside its duration: 5 of 6 bytes"),
    ("02 05", "CONNACK ends before its return code: 2 of 3 bytes"),
    ("04 05 00 00", "CONNACK has 4 bytes instead of 3"),
    ("03 06 00", "WILLTOPICREQ has 3 bytes instead of 2"),
    ("03 08 00", "WILLMSGREQ has 3 bytes instead of 2"),
    ("02 0a", "REGISTER ends before its topic id: 2 of 6 bytes"),
    ("03 0a 00", "REGISTER ends inside its topic id: 3 of 6 bytes"),
    ("04 0a 0000", "REGISTER ends before its message id: 4 of 6 bytes"),
    ("05 0a 0000 00", "REGISTER ends inside its message id: 5 of 6 bytes"),
    ("06 0b 0005 0001", "REGACK ends before its return code: 6 of 7 bytes"),
    ("08 0b 0005 0001 00 00", "REGACK has 8 bytes instead of 7"),
    ("02 0c", "PUBLISH ends before its flags: 2 of 7 bytes"),
    ("03 0c 20", "PUBLISH ends before its topic id: 3 of 7 bytes"),
    ("04 0c 20 00", "PUBLISH ends inside its topic id: 4 of 7 bytes"),
    ("05 0c 20 0005", "PUBLISH ends before its message id: 5 of 7 bytes"),
    ("06 0c 20 0005 00", "PUBLISH ends inside its message id: 6 of 7 bytes"),
    ("01 0008 0c 20 0005 00", "PUBLISH ends inside its message id: 8 of 9 bytes"),
    ("02 0d", "PUBACK ends before its topic id: 2 of 7 bytes"),
    ("06 0d 0005 0007", "PUBACK ends before its return code: 6 of 7 bytes"),
    ("08 0d 0005 0007 00 00", "PUBACK has 8 bytes instead of 7"),
    ("01 000a 0d 0005 0007 00 00", "PUBACK has 10 bytes instead of 9"),
    ("03 0e 00", "PUBCOMP ends inside its message id: 3 of 4 bytes"),
    ("05 0e 0008 00", "PUBCOMP has 5 bytes instead of 4"),
    ("02 0f", "PUBREC ends before its message id: 2 of 4 bytes"),
    ("05 0f 0008 00", "PUBREC has 5 bytes instead of 4"),
    ("02 10", "PUBREL ends before its message id: 2 of 4 bytes"),
    ("05 10 0008 00", "PUBREL has 5 bytes instead of 4"),
    ("02 12", "SUBSCRIBE ends before its flags: 2 of 5 bytes"),
    ("03 12 20", "SUBSCRIBE ends before its message id: 3 of 5 bytes"),
    ("04 12 20 00", "SUBSCRIBE ends inside its message id: 4 of 5 bytes"),
    ("07 13 20 0005 0003", "SUBACK ends before its return code: 7 of 8 bytes"),
    ("09 13 20 0005 0003 00 00", "SUBACK has 9 bytes instead of 8"),
    ("02 14", "UNSUBSCRIBE ends before its flags: 2 of 5 bytes"),
    ("02 15", "UNSUBACK ends before its message id: 2 of 4 bytes"),
    ("05 15 0009 00", "UNSUBACK has 5 bytes instead of 4"),
    ("03 17 00", "PINGRESP has 3 bytes instead of 2"),
    ("03 18 00", "DISCONNECT ends inside its duration: 3 of 4 bytes"),
    ("02 1b", "WILLTOPICRESP ends before its return code: 2 of 3 bytes"),
    ("05 1b 00 00 00", "WILLTOPICRESP has 5 bytes instead of 3"),
    ("02 1d", "WILLMSGRESP ends before its return code: 2 of 3 bytes"),
    ("05 1d 00 00 00", "WILLMSGRESP has 5 bytes instead of 3"),
]


@pytest.mark.parametrize(("on_air", "what_is_wrong"), NO_MESSAGE + BAD_LENGTH)
def test_a_malformed_frame_says_what_is_wrong_in_numbers(on_air: str, what_is_wrong: str) -> None:
    with pytest.raises(MalformedFrame) as refusal:
        decode(octets_of(on_air))
    assert str(refusal.value) == what_is_wrong
    assert not has_trailing_octets(octets_of(on_air))


@pytest.mark.parametrize("on_air", ["02 {:02x}", "01 0004 {:02x}", "07 {:02x} 0005 0007 00"])
def test_a_reserved_message_type_is_refused_by_its_number(on_air: str) -> None:
    for kind in RESERVED:
        with (
            named(kind=kind),
            pytest.raises(MalformedFrame, match=f"^message type 0x{kind:02X} is reserved$"),
        ):
            decode(octets_of(on_air.format(kind)))


def test_every_other_type_is_read_as_the_message_it_is() -> None:
    kind_read = {row.octets[3 if row.octets[0] == 1 else 1]: type(row.frame) for row in ROWS}
    assert kind_read == {frame_type.KIND: frame_type for frame_type in FRAME_TYPES}
    assert len(kind_read) + len(RESERVED) == 256

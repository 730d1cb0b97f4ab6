import zlib
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.state_records import ClientId
from gateway.core.values import Reading, contents_of
from gateway.storage.journal.checksums import extend_crc32
from gateway.storage.journal.records import (
    FRAME_BYTES,
    READING_BYTES_MIN,
    Found,
    Gap,
    Kind,
    decode_contents,
    decode_exchange,
    decode_keys,
    decode_marks,
    decode_marks_1,
    decode_number,
    decode_reading,
    decode_received,
    decode_run,
    encode_reading,
    encode_record,
    exchange_body,
    is_queued,
    marks_body,
    number_body,
    qos_of,
    reading_body,
    reading_flags,
    received_body,
    record_at,
    records,
    run_body,
    with_durable_before,
)
from tests.storage.journal.support import new_reading
from tests.support.samples import for_each

SALT = 0x5EED5EED

ROW = Reading(
    client_id=ClientId("s1"),
    topic="t/a",
    payload=b"21.5",
    qos=2,
    retain=True,
    topic_id=0x0102,
    message_id=0x0304,
    received_at=66.051,
    sequence=0x0A0B,
    unix_ms=0x0C0D0E,
    epoch=0x0F,
    packet_id=0x1011,
)
ROW_OCTETS = bytes.fromhex(
    "00002C 01"  # length of the body, kind
    "000005 0E"  # number; qos 2, retain, parked
    "000000000A0C 0102"  # sequence + 1, topic id
    "0000000C0D0E 1011"  # unix_ms, packet id
    "000000010203 0304"  # received_at in ms, message id
    "0000000F 02 0003"  # epoch, lengths of client id and topic
    "7331 742F61 32312E35"
)


def encoded(reading: Reading, number: int = 0, *, queued: bool = False) -> bytes:
    flags = reading_flags(reading, queued=queued)
    return encode_reading(
        number, flags, reading_body(reading, reading.received_at), SALT, extend_crc32
    )


def found_in(octets: bytes) -> list[Found | Gap]:
    return list(records(octets, 0, SALT, extend_crc32))


def test_a_reading_is_laid_out_as_its_module_says() -> None:
    octets = encoded(ROW, 5, queued=True)
    assert octets[4:] == ROW_OCTETS
    assert octets[:4] == extend_crc32(SALT, ROW_OCTETS).to_bytes(4, "big")


def test_a_reading_of_100_octets_takes_173_on_disk() -> None:
    reading = new_reading(0, topic="sensors/001/climates")
    assert (len(reading.client_id), len(reading.topic), len(reading.payload)) == (10, 20, 100)
    assert len(encoded(reading)) == 173
    assert len(encoded(reading)) == len(reading_body(reading, reading.received_at)) + FRAME_BYTES
    assert READING_BYTES_MIN + 130 == 173


names = st.text(max_size=255).filter(lambda name: len(name.encode()) <= 255)
readings = st.builds(
    Reading,
    client_id=names.map(ClientId),
    topic=st.text(max_size=300),
    payload=st.binary(max_size=300),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    topic_id=st.integers(0, 0xFFFF),
    message_id=st.integers(0, 0xFFFF),
    received_at=st.integers(0, 2**40).map(lambda ms: ms / 1000),
    sequence=st.integers(-1, 2**48 - 2),
    unix_ms=st.integers(0, 2**48 - 1),
    epoch=st.integers(0, 2**32 - 1),
    packet_id=st.integers(0, 0xFFFF),
    record=st.just(-1),
)


@given(readings, st.integers(0, 2**24 - 1), st.booleans())
def test_a_reading_comes_back_as_it_was(reading: Reading, number: int, queued: bool) -> None:
    octets = b"before" + encoded(reading, number, queued=queued) + b"behind"
    (found,) = [item for item in found_in(octets) if isinstance(item, Found)]
    again = decode_reading(octets, found.offset, found.end)
    assert again.record == number
    for field in fields(Reading):
        if field.name not in ("record", "received_at"):
            assert getattr(again, field.name) == getattr(reading, field.name)
    assert again.received_at == pytest.approx(reading.received_at, abs=0.001)
    keys = decode_keys(octets, found.offset)
    assert keys[0] == number
    assert (qos_of(keys[1]), is_queued(keys[1])) == (reading.qos, queued)
    assert keys[2] == reading.message_id
    assert keys[3] / 1000 == again.received_at
    assert keys[4:] == (reading.unix_ms, reading.packet_id, reading.client_id.encode())
    contents = decode_contents(octets, found.offset, found.end)
    assert contents == contents_of(reading.topic, reading.payload, reading.qos)


def test_marks_come_back_as_they_were() -> None:
    assert decode_number(number_body(2**40)) == 2**40
    assert decode_run(run_body(2**40, 17)) == (2**40, 17)
    body = exchange_body(2**40, 0xCAFEBABE, 77, ClientId("sénsor"))
    assert decode_exchange(body) == (2**40, 0xCAFEBABE, 77, "sénsor")
    assert decode_received(received_body(2**40, 2**33)) == (2**40, 2**33)
    marks = (3, 2**40, 2**33, b"\x0b" * 900)
    assert decode_marks(marks_body(*marks)) == marks


def test_marks_of_format_1_are_of_session_0() -> None:
    body = bytes.fromhex("0000000000000003 0000010000000000") + zlib.compress(b"\x10\x00\x20")
    assert decode_marks_1(body) == (3, 2**40, 0, b"\x10\x00\x20")


@pytest.mark.parametrize(
    ("kind", "body", "octets"),
    [
        (Kind.RECEIVED, received_body(0x0102, 0x03), "0A 0000000000000102 0000000000000003"),
        (Kind.SESSION, number_body(0x04), "0B 0000000000000004"),
    ],
)
def test_marks_of_the_broker_s_session_are_laid_out_as_their_kinds_say(
    kind: Kind, body: bytes, octets: str
) -> None:
    size = len(body).to_bytes(3, "big")
    assert encode_record(kind, body, SALT, extend_crc32)[4:] == size + bytes.fromhex(octets)


FIRST, SECOND = encoded(ROW, 0), encode_record(Kind.RELEASED, number_body(1), SALT, extend_crc32)


@for_each("size", range(len(FIRST)))
def test_a_record_cut_short_is_none(size: int) -> None:
    assert record_at(FIRST[:size], 0, SALT, extend_crc32) is None


@for_each("place", range(len(FIRST)))
def test_a_bad_octet_costs_its_record_and_no_other(place: int) -> None:
    octets = bytearray(FIRST + SECOND)
    octets[place] ^= 0xFF
    gap, found = found_in(bytes(octets))
    assert gap == Gap(0, len(FIRST))
    assert isinstance(found, Found)
    assert found.kind == Kind.RELEASED


def test_what_an_earlier_use_of_the_file_left_is_not_found() -> None:
    stale = encode_reading(3, 1, reading_body(ROW, ROW.received_at), SALT ^ 1, extend_crc32)
    (found,) = found_in(FIRST + stale * 3 + bytes(500))
    assert found == Found(0, len(FIRST), Kind.PUBLISH, is_durable_before=False)


def test_a_record_says_that_all_before_it_is_durable() -> None:
    first, second = found_in(FIRST + with_durable_before(SECOND, SALT, extend_crc32))
    assert isinstance(first, Found)
    assert isinstance(second, Found)
    assert (first.is_durable_before, second.is_durable_before) == (False, True)
    assert second.kind == Kind.RELEASED


def test_zeros_are_no_records() -> None:
    assert found_in(bytes(4096)) == []
    assert found_in(b"") == []

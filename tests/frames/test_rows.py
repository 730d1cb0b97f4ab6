"""Each message of the golden file: both ways, both length forms, cut anywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.frames import (
    Forwarded,
    Frame,
    MalformedFrame,
    decode,
    encode,
    has_trailing_octets,
)
from tests.frames.golden import FRAME_TYPES, ROWS, Row, octets_of
from tests.support.samples import for_each


def rows(some: list[Row]) -> Callable[[Callable[[Row], None]], Callable[[], None]]:
    return for_each("row", some, shown=lambda row: row.name)


EVERY_ROW = rows(ROWS)
UNWRAPPED_ROWS = [row for row in ROWS if not isinstance(row.frame, Forwarded)]


def with_long_length(octets: bytes) -> bytes:
    """The same message in the 3-byte length form."""
    if octets[0] == 0x01:
        return octets
    return b"\x01" + (len(octets) + 2).to_bytes(2, "big") + octets[1:]


def declared_by(octets: bytes) -> int:
    return int.from_bytes(octets[1:3], "big") if octets[0] == 0x01 else octets[0]


def assert_is_malformed(datagram: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode(datagram)
    assert not has_trailing_octets(datagram)


@EVERY_ROW
def test_octets_become_the_frame(row: Row) -> None:
    assert decode(row.octets) == row.frame
    assert not has_trailing_octets(row.octets)


@rows([row for row in ROWS if row.is_sent])
def test_the_frame_becomes_the_octets(row: Row) -> None:
    assert encode(row.frame) == row.octets


@rows([row for row in ROWS if not row.is_sent])
def test_what_is_received_only_is_sent_as_the_spec_says(row: Row) -> None:
    sent = encode(row.frame)
    assert sent != row.octets
    assert decode(sent) == row.frame


@rows(UNWRAPPED_ROWS)
def test_a_message_of_any_size_may_come_with_a_three_octet_length(row: Row) -> None:
    assert decode(with_long_length(row.octets)) == row.frame


@EVERY_ROW
def test_a_message_that_is_cut_anywhere_is_malformed(row: Row) -> None:
    # What a forwarder carries has its own length, and is found cut when it is decoded itself.
    whole = row.octets[0] + 1 if isinstance(row.frame, Forwarded) else declared_by(row.octets)
    for octets in range(whole):
        assert_is_malformed(row.octets[:octets])


@rows(UNWRAPPED_ROWS)
def test_a_message_with_a_three_octet_length_that_is_cut_anywhere_is_malformed(row: Row) -> None:
    long = with_long_length(row.octets)
    for octets in range(declared_by(long)):
        assert_is_malformed(long[:octets])


def test_frames_are_equal_by_type_and_fields() -> None:
    puback = decode(octets_of("07 0d 0005 0007 00"))
    assert puback == decode(octets_of("01 0009 0d 0005 0007 00"))
    assert puback != decode(octets_of("07 0d 0005 0007 02"))
    assert puback != decode(octets_of("07 0b 0005 0007 00"))
    assert len({decode(row.octets) for row in ROWS}) == len({repr(row.frame) for row in ROWS})


@pytest.mark.parametrize("frame_type", FRAME_TYPES)
def test_the_golden_file_has_every_message(frame_type: type[Frame]) -> None:
    assert any(type(row.frame) is frame_type for row in ROWS)

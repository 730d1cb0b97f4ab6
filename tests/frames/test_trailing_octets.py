"""A declared length shorter than the datagram: what is read, and what is reported."""

from __future__ import annotations

import pytest

from gateway.frames import Forwarded, Pingreq, Puback, Publish, decode, has_trailing_octets
from tests.frames.golden import ROWS, Row, octets_of
from tests.support.samples import named

SHORT_FORM = [row for row in ROWS if row.octets[0] != 1 and not isinstance(row.frame, Forwarded)]
LONG_FORM = [row for row in ROWS if row.octets[0] == 1 and row.is_sent]


@pytest.mark.parametrize("trailing", ["00", "0000", "0216", "ff*300"])
def test_octets_after_the_declared_length_are_left_alone_and_reported(trailing: str) -> None:
    assert_are_left_alone(SHORT_FORM, trailing)


@pytest.mark.parametrize("trailing", ["00", "000000", "ff*300"])
def test_so_they_are_after_a_three_octet_length_unless_they_are_two(trailing: str) -> None:
    assert_are_left_alone(LONG_FORM, trailing)


def assert_are_left_alone(rows: list[Row], trailing: str) -> None:
    for row in rows:
        with named(row=row.name):
            datagram = row.octets + octets_of(trailing)
            assert decode(datagram) == row.frame
            assert has_trailing_octets(datagram)


def test_a_three_octet_length_that_is_two_short_forgot_itself() -> None:
    datagram = octets_of("01 0007 0c 20 0005 0009")
    assert decode(datagram) == Publish(5, 9, b"", qos=1)
    assert not has_trailing_octets(datagram)
    assert decode(octets_of("01 0004 16 6431")) == Pingreq(b"d1")


def test_no_message_is_longer_than_65535_octets_however_its_length_is_read() -> None:
    longest = octets_of("01 fffd 0c 20 0005 0009 78*65526")
    assert len(longest) == 65_535
    assert decode(longest) == Publish(5, 9, b"x" * 65_526, qos=1)
    assert not has_trailing_octets(longest)
    too_long = octets_of("01 ffff 0c 20 0005 0009 78*65528")
    assert len(too_long) == 65_537
    assert decode(too_long) == Publish(5, 9, b"x" * 65_526, qos=1)
    assert has_trailing_octets(too_long)


def test_two_messages_in_one_datagram_are_one_message_and_trailing_octets() -> None:
    datagram = octets_of("07 0d 0005 0007 00  07 0d 0005 0008 00")
    assert decode(datagram) == Puback(5, 7, 0)
    assert has_trailing_octets(datagram)


def test_a_forwarder_leaves_trailing_octets_to_the_inner_message() -> None:
    datagram = octets_of("05 fe 00 0102 02 16 ff")
    forwarded = decode(datagram)
    assert forwarded == Forwarded(b"\x01\x02", octets_of("02 16 ff"))
    assert not has_trailing_octets(datagram)
    assert has_trailing_octets(octets_of("02 16 ff"))

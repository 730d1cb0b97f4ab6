"""Which bytes are one message by their own length."""

from __future__ import annotations

import pytest

from gateway.transports.framing.messages import beginnings, declared_length, is_message, is_whole
from tests.frames.golden import ROWS as FRAMES
from tests.support.samples import for_each

ALL = for_each("octets", [row.octets for row in FRAMES], shown=lambda octets: octets[:9].hex(" "))


@ALL
def test_every_frame_of_the_golden_file_is_one_message(octets: bytes) -> None:
    assert is_whole(octets)
    assert is_message(octets)


def forgets_its_length(octets: bytes) -> bool:
    """As Paho's C library does; see gateway/frames/codec.py."""
    return octets[0] == 1 and int.from_bytes(octets[1:3], "big") + 2 == len(octets)


@for_each(
    "octets",
    [row.octets for row in FRAMES if not forgets_its_length(row.octets)],
    shown=lambda octets: octets[:9].hex(" "),
)
def test_its_length_is_known_early_and_never_wrong(octets: bytes) -> None:
    known = [declared_length(octets[:size]) for size in range(1, len(octets) + 1)]
    assert set(known) <= {None, len(octets)}
    assert known == sorted(known, key=lambda length: length is not None)
    assert known[-1] == len(octets)
    assert declared_length(b"\xff" + octets + b"\xff", 1) == len(octets)
    assert 1 in beginnings(b"\xff" + octets)


@ALL
def test_one_octet_more_or_less_is_none(octets: bytes) -> None:
    assert not is_message(octets[:-1])
    # Two more in front of which the length is right are Paho's; one more is nobody's.
    assert not is_whole(octets + b"\x00") or octets[0] == 1


@pytest.mark.parametrize(
    ("hex_octets", "expected"),
    [
        ("00", 0),
        ("00 16", 0),
        ("02", None),
        ("02 40", 0),  # a type that does not exist
        ("01", None),
        ("01 00 05", None),
        ("01 00 05 16", 5),
        ("01 00 03 16", 0),  # shorter than its own head
        ("01 00 05 40", 0),
        ("01 00 05 fe", 0),  # a forwarder's length is always one octet
        ("03 fe", None),
        ("03 fe 00", None),
        ("03 fe 00 02", None),
        ("03 fe 00 02 16", 5),
        ("03 fe 00 01 00 05 16", 8),
        ("03 fe 00 01 fe 05 16", 3 + 0xFE05),
        ("03 fe 00 00", 0),
        ("02 fe 00 02 16", 0),  # no room for its own control octet
        ("03 fe 00 03 fe 00 02 16", 0),  # one inside another
    ],
)
def test_the_length_of_what_begins(hex_octets: str, expected: int | None) -> None:
    assert declared_length(bytes.fromhex(hex_octets)) == expected


@pytest.mark.parametrize(
    "hex_octets",
    [
        "03 16",
        "01 16",
        "01 00 16",
        "01 00 09 16 00",
        "03 fe 00",
        "03 fe 00 02",
        "02 fe 00 02 16",
        "00 fe 02 16",
        "03 fe 00 03 16",
        "03 fe 00 03 fe 00 02 16",
        "03 fe 00" * 10_000,
    ],
    ids=lambda words: words[:24],
)
def test_what_is_none(hex_octets: str) -> None:
    assert not is_whole(bytes.fromhex(hex_octets))


@pytest.mark.parametrize("octets", [b"", b"\x02", b"\x01", b"\xfe"])
def test_what_is_too_short_is_none(octets: bytes) -> None:
    assert not is_message(octets)

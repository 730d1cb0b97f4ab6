import re
import zlib

import pytest

from gateway.storage.journal.options import JournalError
from gateway.storage.journal.segment import HEADER_BYTES, Header, decode_header, header_of_name
from tests.support.samples import for_each

HEADER = Header(
    algorithm=2,
    salt=0xA1B2C3D4,
    first=0x0102030405,
    bound=0x0102030400,
    done_below=7,
    serial=9,
    boot_id=bytes(range(16)),
)
OCTETS = bytes.fromhex(
    "54494445 4A524E4C"  # magic
    "0002 02 00 A1B2C3D4"  # version, algorithm, zero, salt
    "0000000102030405 0000000102030400"  # first, bound
    "0000000000000007 0000000000000009"  # done below, serial
    "00010203 04050607 08090A0B 0C0D0E0F"  # boot id
)


def sealed(octets: bytes) -> bytes:
    return octets + zlib.crc32(octets).to_bytes(4, "big")


def test_a_header_is_laid_out_as_its_module_says() -> None:
    assert HEADER.encode() == sealed(OCTETS)
    assert len(HEADER.encode()) == HEADER_BYTES
    assert decode_header(sealed(OCTETS)) == HEADER


@for_each("size", range(HEADER_BYTES))
def test_a_header_cut_short_is_damaged(size: int) -> None:
    assert decode_header(HEADER.encode()[:size]) is None


@for_each("place", range(HEADER_BYTES))
def test_a_flipped_bit_in_a_header_is_noticed(place: int) -> None:
    octets = bytearray(HEADER.encode())
    octets[place] ^= 0x10
    assert decode_header(bytes(octets)) is None


def test_another_magic_is_no_header() -> None:
    assert decode_header(sealed(b"X" + OCTETS[1:])) is None


@pytest.mark.parametrize(("place", "value"), [(9, 3), (8, 1), (10, 3)])
def test_a_header_of_a_newer_release_stops_the_start(place: int, value: int) -> None:
    octets = bytearray(OCTETS)
    octets[place] = value
    with pytest.raises(JournalError, match="newer release"):
        decode_header(sealed(bytes(octets)))


def test_a_header_of_format_1_is_read() -> None:
    octets = bytearray(OCTETS)
    octets[9] = 1
    assert decode_header(sealed(bytes(octets))) == HEADER


def test_a_name_says_enough_to_read_the_records() -> None:
    assert re.fullmatch(r"00000000004328719365-0000000009-a1b2c3d4\.segment", HEADER.name)
    guessed = header_of_name(HEADER.name, 2)
    assert guessed is not None
    assert (guessed.first, guessed.serial, guessed.salt) == (HEADER.first, 9, HEADER.salt)
    assert header_of_name("something-else.segment", 2) is None

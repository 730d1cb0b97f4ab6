from hypothesis import given
from hypothesis import strategies as st

from gateway.storage.journal.checksums import (
    CHECKSUMS,
    Algorithm,
    extend_crc32,
    extend_crc32c,
)

CHECK = b"123456789"  # the input of the catalogue of checksums


def test_both_checksums_are_those_of_the_catalogue() -> None:
    assert extend_crc32(0, CHECK) == 0xCBF43926
    assert extend_crc32c(0, CHECK) == 0xE3069283
    assert CHECKSUMS[Algorithm.CRC32C](0, CHECK) == 0xE3069283


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), st.integers(0, 200))
def test_a_checksum_can_be_continued_and_the_table_agrees(
    octets: bytes, salt: int, cut: int
) -> None:
    for extend in (extend_crc32, extend_crc32c, CHECKSUMS[Algorithm.CRC32C]):
        assert extend(extend(salt, octets[:cut]), octets[cut:]) == extend(salt, octets)
    assert extend_crc32c(salt, octets) == CHECKSUMS[Algorithm.CRC32C](salt, octets)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_what_one_salt_makes_valid_no_other_does(octets: bytes, salt: int, other: int) -> None:
    for extend in (extend_crc32, CHECKSUMS[Algorithm.CRC32C]):
        assert (extend(salt, octets) == extend(other, octets)) == (salt == other)

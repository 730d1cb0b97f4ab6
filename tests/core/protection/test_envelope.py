"""The layout of the envelope, and the vectors of the draft's schemes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.protection.envelope import head, is_envelope, parse
from gateway.core.protection.schemes import AesCcm, HmacSha256, hkdf_sha256, load_package
from gateway.frames import MalformedFrame

KEY = bytes(range(32))
SENDER = bytes.fromhex("0102030405060708")
RANDOM = bytes.fromhex("0a0b0c0d")
PACKET = bytes.fromhex("07030000056869")
HMAC = bytes.fromhex(
    "3bff120001020304050607080a0b0c0d0000000107030000056869"
    "94c42add0086122db28f2603f352fda03c2d4ba3c1d39eb7bf5390c524689d02"
)
HMAC_64 = bytes.fromhex("1fff400001020304050607080a0b0c0d07030000056869438e7318166ab410")
CCM_64 = bytes.fromhex("23ff124001020304050607080a0b0c0d00000001e0a82007031b5c112b4815df68d399")


@pytest.mark.parametrize(("vector", "tag_bytes", "counter"), [(HMAC, 32, 1), (HMAC_64, 8, None)])
def test_hmac_of_the_specification(vector: bytes, tag_bytes: int, counter: int | None) -> None:
    found = parse(vector)
    assert (found.scheme, found.sender_id, found.random) == (0, SENDER, RANDOM)
    assert (found.counter, found.tag_bytes, found.material) == (counter, tag_bytes, b"")
    scheme = HmacSha256(KEY, tag_bytes)
    assert scheme.open(found.head, found.sealed) == PACKET
    assert found.head + scheme.seal(found.head, PACKET) == vector
    written = b"" if counter is None else counter.to_bytes(4, "big")
    assert head(0, tag_bytes, SENDER, RANDOM, b"", written, len(PACKET)) == found.head


def test_aes_ccm_of_the_specification() -> None:
    load_package()
    found = parse(CCM_64)
    scheme = AesCcm(KEY[:16], 8)
    assert scheme.open(found.head, found.sealed) == PACKET
    assert found.head + scheme.seal(found.head, PACKET) == CCM_64
    assert scheme.open(found.head + b"x", found.sealed) is None


@pytest.mark.parametrize(
    ("vector", "scheme"),
    [
        ("2bff120201020304050607080a0b0c0d0000000107030000056869"
         "dac2f5f12b734292e9fb4cf377e6e5e5", 2),
        ("2bff124601020304050607080a0b0c0d00000001"
         "35bf26e3c276c9453cbde238f5b61461a4eebeb33110a6", 0x46),
        ("2bff124901020304050607080a0b0c0d00000001"
         "fb7a98f47953cf62a3668a3d3404114a87c483fddb993c", 0x49),
    ],
)  # fmt: skip
def test_layouts_of_schemes_that_are_not_used_are_read_as_well(vector: str, scheme: int) -> None:
    found = parse(bytes.fromhex(vector))
    assert (found.scheme, found.tag_bytes, found.counter) == (scheme, 16, 1)
    assert len(found.sealed) == len(PACKET) + 16


@given(
    st.sampled_from([(0, 8), (0, 12), (0, 30), (0, 32), (2, 16), (0x40, 8), (0x43, 16)]),
    st.binary(min_size=8, max_size=8),
    st.sampled_from([b"", b"ab", b"abcd", b"abcdefghijkl"]),
    st.sampled_from([b"", b"\x00\x07", b"\x00\x00\x00\x07"]),
    st.binary(min_size=1, max_size=300),
)
def test_what_is_written_is_read(
    scheme: tuple[int, int], sender: bytes, material: bytes, counter: bytes, packet: bytes
) -> None:
    before = head(*scheme, sender, RANDOM, material, counter, len(packet))
    datagram = before + packet + bytes(scheme[1])
    assert is_envelope(datagram)
    found = parse(datagram)
    assert found.head == before
    assert (found.sender_id, found.material) == (sender, material)
    assert found.counter == (7 if counter else None)
    assert found.sealed == packet + bytes(scheme[1])
    for size in range(len(datagram)):
        if is_envelope(datagram[:size]):
            with pytest.raises(MalformedFrame):
                parse(datagram[:size])


@given(st.binary(max_size=80))
def test_any_bytes_are_an_envelope_or_malformed(content: bytes) -> None:
    for start in (b"", bytes((len(content) + 2 & 0xFF, 0xFF)), b"\x01\x00\x40\xff"):
        datagram = start + content
        if is_envelope(datagram):
            with contextlib.suppress(MalformedFrame):
                parse(datagram)


@pytest.mark.parametrize(
    ("position", "value", "problem"),
    [
        (2, 0x13, "the reserved length of a counter"),
        (2, 0x22, "whose tag has the length 2"),
        (2, 0x02, "whose tag has the length 0"),
        (3, 0x05, "the unknown scheme 0x05"),
        (0, 0x3A, "declares 58 bytes"),
    ],
)
def test_what_the_layout_does_not_have_is_malformed(
    position: int, value: int, problem: str
) -> None:
    datagram = bytearray(HMAC)
    datagram[position] = value
    with pytest.raises(MalformedFrame, match=problem):
        parse(bytes(datagram))


def test_what_is_long_has_a_long_head() -> None:
    long = head(0, 32, SENDER, RANDOM, b"", b"", 300)
    assert long == b"\x01\x01\x5e\xff\x10\x00" + SENDER + RANDOM
    assert len(long) + 300 + 32 == 0x015E


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ValueError, match="has at most 65535 bytes"):
        head(0, 32, SENDER, RANDOM, b"", b"", 65_535)
    with pytest.raises(ValueError, match="has no 9 bytes"):
        head(0, 9, SENDER, RANDOM, b"", b"", 7)
    with pytest.raises(MalformedFrame):
        head(0x40, 10, SENDER, RANDOM, b"", b"", 7)


@pytest.mark.parametrize(
    ("secret", "salt", "info", "size", "expected"),
    [
        ("0b" * 22, "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9", 42,
         "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"),
        ("0b" * 22, "", "", 42,
         "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"),
    ],
)  # fmt: skip
def test_keys_are_derived_as_rfc_5869_has_it(
    secret: str, salt: str, info: str, size: int, expected: str
) -> None:
    derived = hkdf_sha256(bytes.fromhex(secret), bytes.fromhex(info), size, bytes.fromhex(salt))
    assert derived.hex() == expected

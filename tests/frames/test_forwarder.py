"""Encapsulation: a node id before a message, and a length byte that leaves the message out."""

from __future__ import annotations

import pytest

from gateway.frames import Forwarded, MalformedFrame, Pingreq, decode, encode
from tests.frames.golden import octets_of

REFUSED = [
    ("02 fe 00 0102 0216", "forwarder encapsulation declares 2 bytes, its smallest has 3"),
    ("02 fe", "forwarder encapsulation declares 2 bytes, its smallest has 3"),
    ("03 fe", "forwarder encapsulation of 3 bytes has nothing inside: the datagram has 2"),
    ("03 fe 00", "forwarder encapsulation of 3 bytes has nothing inside: the datagram has 3"),
    ("05 fe 00 01", "forwarder encapsulation of 5 bytes has nothing inside: the datagram has 4"),
    ("05 fe 00 0102", "forwarder encapsulation of 5 bytes has nothing inside: the datagram has 5"),
    ("05 fe 00 0102 05 fe 00 0304 0216", "forwarder encapsulation inside another one"),
    ("05 fe 00 0102 02 fe", "forwarder encapsulation inside another one"),
    ("05 fe 00 0102 01 0006 fe 00 00", "forwarder encapsulation inside another one"),
    ("01 0009 fe 00 0102 0216", "forwarder encapsulation in the 3-byte length form"),
    ("01 0007 fe 00 0102 0216", "forwarder encapsulation in the 3-byte length form"),
]


@pytest.mark.parametrize(("on_air", "what_is_wrong"), REFUSED)
def test_an_encapsulation_around_nothing_or_another_one_is_malformed(
    on_air: str, what_is_wrong: str
) -> None:
    with pytest.raises(MalformedFrame) as refusal:
        decode(octets_of(on_air))
    assert str(refusal.value) == what_is_wrong


@pytest.mark.parametrize("inner", ["00", "01", "01 00", "01 0004", "02 11", "ff", "03 16", "00 00"])
def test_the_inner_message_is_not_judged_before_it_is_unwrapped(inner: str) -> None:
    forwarded = decode(octets_of("05 fe 00 0102" + inner))
    assert forwarded == Forwarded(b"\x01\x02", octets_of(inner))
    with pytest.raises(MalformedFrame):
        decode(octets_of(inner))


@pytest.mark.parametrize("node_octets", [0, 1, 2, 8, 251, 252])
def test_a_node_id_has_up_to_252_octets(node_octets: int) -> None:
    frame = Forwarded(b"n" * node_octets, encode(Pingreq(b"dev1")), radius=2)
    on_air = encode(frame)
    assert on_air[0] == 3 + node_octets
    assert decode(on_air) == frame


def test_the_inner_message_may_be_longer_than_the_length_octet_could_say() -> None:
    inner = octets_of("01 0135 0c 20 0005 0009 78*300")
    frame = Forwarded(b"\x01\x02", inner)
    assert encode(frame) == octets_of("05 fe 00 0102") + inner
    assert decode(encode(frame)) == frame


@pytest.mark.parametrize(
    ("frame", "what_is_wrong"),
    [
        (Forwarded(b"n" * 253, b"\x02\x16"), "node id has at most 252 bytes"),
        (Forwarded(b"n", b"\x02\x16", radius=4), "radius is 0 to 3"),
        (Forwarded(b"n", b"\x02\x16", radius=-1), "radius is 0 to 3"),
        (Forwarded(b"n", b""), "one whole message"),
        (Forwarded(b"n", octets_of("05 fe 00 0304 0216")), "no encapsulation"),
    ],
)
def test_what_no_forwarder_could_carry_is_our_bug(frame: Forwarded, what_is_wrong: str) -> None:
    with pytest.raises(ValueError, match=what_is_wrong):
        encode(frame)

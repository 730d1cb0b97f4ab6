"""Every flags byte in every message that has one (5.3.4)."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.frames import (
    Connect,
    Frame,
    Publish,
    Suback,
    Subscribe,
    TopicIdType,
    Unsubscribe,
    WillTopic,
    WillTopicUpd,
    decode,
    encode,
)
from tests.frames.golden import octets_of
from tests.support.samples import named

# The octet as the spec draws it: DUP | QoS | retain | will | clean session | topic id type.
TWO_BITS = ("00", "01", "10", "11")
EVERY_FLAGS = [*product("01", TWO_BITS, "01", "01", "01", TWO_BITS)]
QOS = {"00": 0, "01": 1, "10": 2, "11": -1}
TYPES = {
    "00": TopicIdType.NORMAL,
    "01": TopicIdType.PREDEFINED,
    "10": TopicIdType.SHORT,
    "11": TopicIdType.RESERVED,
}


def assert_on_air(on_air: str, flags: str, frame: Frame, used: str) -> None:
    """`used` has a 1 for each bit of the flags that the message knows; the others are not sent."""
    octet = int(flags, 2)
    assert decode(octets_of(on_air.format(octet))) == frame
    assert encode(frame) == octets_of(on_air.format(octet & int(used, 2)))


def test_each_message_takes_its_own_flags_and_ignores_the_others() -> None:
    assert len(EVERY_FLAGS) == 256
    for flags in EVERY_FLAGS:
        with named(flags="_".join(flags)):
            assert_own_flags_are_taken(*flags)


def assert_own_flags_are_taken(
    dup: str, qos: str, retain: str, will: str, clean: str, kind: str
) -> None:
    flags = dup + qos + retain + will + clean + kind
    is_dup, is_retained = dup == "1", retain == "1"
    rows: list[tuple[str, Frame, str]] = [
        (
            "08 04 {:02x} 01 003c 6431",
            Connect(b"d1", 60, will=will == "1", clean_session=clean == "1"),
            "00001100",
        ),
        ("05 07 {:02x} 7470", WillTopic(b"tp", QOS[qos], is_retained), "01110000"),
        (
            "09 0c {:02x} 7470 0007 6869",
            Publish(0x7470, 7, b"hi", QOS[qos], is_retained, is_dup, TYPES[kind]),
            "11110011",
        ),
        ("07 12 {:02x} 0003 7470", Subscribe(3, b"tp", QOS[qos], is_dup, TYPES[kind]), "11100011"),
        ("08 13 {:02x} 0005 0003 00", Suback(5, 3, 0, QOS[qos]), "01100000"),
        ("07 14 {:02x} 0003 7470", Unsubscribe(3, b"tp", TYPES[kind]), "00000011"),
        ("05 1a {:02x} 7470", WillTopicUpd(b"tp", QOS[qos], is_retained), "01110000"),
    ]
    for on_air, frame, used in rows:
        assert_on_air(on_air, flags, frame, used)


@pytest.mark.parametrize(("kind", "frame"), [("07", WillTopic()), ("1a", WillTopicUpd())])
def test_a_will_without_topic_has_no_flags(kind: str, frame: Frame) -> None:
    for flags in range(256):
        assert decode(octets_of(f"03 {kind} {flags:02x}")) == frame, f"flags {flags:02x}"


def test_a_flag_that_is_set_is_true_and_not_just_not_zero() -> None:
    frame = decode(octets_of("09 0c b1 7470 0007 6869"))
    assert isinstance(frame, Publish)
    assert frame.dup is True
    assert frame.retain is True
    assert frame.topic_id_type is TopicIdType.PREDEFINED

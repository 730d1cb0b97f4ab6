"""What is sent: the shortest length form, and nothing that does not fit (that would be our bug)."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Puback,
    Publish,
    Pubrec,
    Register,
    Suback,
    Subscribe,
    TopicIdType,
    WillMsg,
    WillTopic,
    decode,
    encode,
)

DOES_NOT_FIT: list[tuple[Frame, str]] = [
    (Publish(65_536, 1, b""), "does not fit its layout .*topic_id=65536"),
    (Publish(1, -1, b""), "message_id=-1"),
    (Publish(1, 1, b"", qos=3), "qos=3"),
    (Publish(1, 1, b"x" * 300, qos=-2), r"\(-2, False, False, "),
    (Puback(1, 65_536, 0), "message_id=65536"),
    (Puback(1, 1, 256), "return_code=256"),
    (Pubrec(-1), "message_id=-1"),
    (Connack(256), "return_code=256"),
    (Connect(b"dev1", 65_536), "duration_s=65536"),
    (Connect(b"dev1", 60, protocol_id=256), "protocol_id=256"),
    (Disconnect(-1), "duration_s=-1"),
    (Suback(1, 1, 0, qos=3), "qos=3"),
    (WillTopic(b"t", qos=3), "qos=3"),
    (Subscribe(1, b"abc", topic_id_type=TopicIdType.SHORT), "short topic of 3 bytes"),
]


@pytest.mark.parametrize(("frame", "what_is_wrong"), DOES_NOT_FIT)
def test_a_field_that_does_not_fit_is_our_bug(frame: Frame, what_is_wrong: str) -> None:
    with pytest.raises(ValueError, match=what_is_wrong):
        encode(frame)


@pytest.mark.parametrize(
    ("payload_octets", "head"),
    [
        (248, b"\xff\x0c"),
        (249, b"\x01\x01\x02\x0c"),
        (65_526, b"\x01\xff\xff\x0c"),
    ],
)
def test_a_publish_has_the_shortest_length_form_that_holds_it(
    payload_octets: int, head: bytes
) -> None:
    frame = Publish(5, 9, b"x" * payload_octets, qos=1)
    on_air = encode(frame)
    assert on_air.startswith(head)
    assert decode(on_air) == frame


@pytest.mark.parametrize(
    ("payload_octets", "head"),
    [
        (253, b"\xff\x09"),
        (254, b"\x01\x01\x02\x09"),
        (65_531, b"\x01\xff\xff\x09"),
    ],
)
def test_so_has_every_other_message(payload_octets: int, head: bytes) -> None:
    frame = WillMsg(b"x" * payload_octets)
    on_air = encode(frame)
    assert on_air.startswith(head)
    assert decode(on_air) == frame


@pytest.mark.parametrize(
    "frame",
    [
        Publish(5, 9, b"x" * 65_527),
        Register(5, 9, b"x" * 65_528),
        WillMsg(b"x" * 65_532),
        Pingreq(b"x" * 65_532),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_a_message_over_65535_octets_is_our_bug(frame: Frame) -> None:
    with pytest.raises(ValueError, match="a message of 65536 bytes is over the 65535"):
        encode(frame)


def test_the_text_about_our_bug_does_not_carry_a_whole_payload() -> None:
    with pytest.raises(ValueError, match="does not fit its layout") as bug:
        encode(Publish(65_536, 1, b"x" * 10_000))
    assert len(str(bug.value)) < 400


def test_what_deletes_the_will_is_sent_without_flags() -> None:
    assert encode(WillTopic(b"", qos=2, retain=True)) == b"\x02\x07"


def test_frames_off_the_hot_path_cannot_be_changed() -> None:
    frame = Connack(0)
    with pytest.raises(FrozenInstanceError):
        frame.return_code = 1  # type: ignore[misc]

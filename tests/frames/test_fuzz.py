"""Bytes and frames that nobody thought of."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.frames import (
    Advertise,
    Connack,
    Connect,
    Disconnect,
    Forwarded,
    Frame,
    GwInfo,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    SearchGw,
    Suback,
    Subscribe,
    TopicIdType,
    Unsuback,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillMsgResp,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicResp,
    WillTopicUpd,
    decode,
    encode,
    has_trailing_octets,
)
from tests.frames.fuzzing import frame_in, mutated_vector, noise
from tests.support.samples import examples

OCTET = st.integers(0, 0xFF)
PAIR = st.integers(0, 0xFFFF)
QOS = st.integers(-1, 2)
FLAG = st.booleans()
SOME = st.binary(max_size=300)
NAME = st.binary(min_size=1, max_size=300)
TYPE = st.sampled_from(TopicIdType)
NAMED = st.tuples(NAME, st.sampled_from([TopicIdType.NORMAL, TopicIdType.RESERVED])) | st.tuples(
    st.binary(min_size=2, max_size=2), TYPE
)
INNER = st.sampled_from([b"\x02\x16", b"\x01\x00\x04\x16", b"\x00", b"\x07\x0d\x00"])

FRAMES: dict[type[Frame], st.SearchStrategy[Frame]] = {
    Advertise: st.builds(Advertise, OCTET, PAIR),
    SearchGw: st.builds(SearchGw, OCTET),
    GwInfo: st.builds(GwInfo, OCTET, SOME),
    Connect: st.builds(Connect, SOME, PAIR, FLAG, FLAG, OCTET),
    Connack: st.builds(Connack, OCTET),
    WillTopicReq: st.builds(WillTopicReq),
    WillTopic: st.builds(WillTopic, NAME, QOS, FLAG) | st.just(WillTopic()),
    WillMsgReq: st.builds(WillMsgReq),
    WillMsg: st.builds(WillMsg, SOME),
    Register: st.builds(Register, PAIR, PAIR, NAME),
    Regack: st.builds(Regack, PAIR, PAIR, OCTET),
    Publish: st.builds(Publish, PAIR, PAIR, SOME, QOS, FLAG, FLAG, TYPE),
    Puback: st.builds(Puback, PAIR, PAIR, OCTET),
    Pubcomp: st.builds(Pubcomp, PAIR),
    Pubrec: st.builds(Pubrec, PAIR),
    Pubrel: st.builds(Pubrel, PAIR),
    Subscribe: st.builds(
        lambda message_id, named, qos, dup: Subscribe(message_id, named[0], qos, dup, named[1]),
        PAIR,
        NAMED,
        QOS,
        FLAG,
    ),
    Suback: st.builds(Suback, PAIR, PAIR, OCTET, QOS),
    Unsubscribe: st.builds(
        lambda message_id, named: Unsubscribe(message_id, named[0], named[1]), PAIR, NAMED
    ),
    Unsuback: st.builds(Unsuback, PAIR),
    Pingreq: st.builds(Pingreq, SOME),
    Pingresp: st.builds(Pingresp),
    Disconnect: st.builds(Disconnect, st.none() | PAIR),
    WillTopicUpd: st.builds(WillTopicUpd, NAME, QOS, FLAG) | st.just(WillTopicUpd()),
    WillTopicResp: st.builds(WillTopicResp, OCTET),
    WillMsgUpd: st.builds(WillMsgUpd, SOME),
    WillMsgResp: st.builds(WillMsgResp, OCTET),
    Forwarded: st.builds(Forwarded, st.binary(max_size=252), INNER, st.integers(0, 3)),
}


def test_frames_of_every_type_are_made() -> None:
    assert set(FRAMES) == set(get_args(Frame))


@pytest.mark.parametrize("frame_type", FRAMES, ids=lambda frame_type: frame_type.__name__)
@given(draw=st.data())
def test_any_frame_is_the_same_after_the_air(frame_type: type[Frame], draw: st.DataObject) -> None:
    frame = draw.draw(FRAMES[frame_type])
    on_air = encode(frame)
    assert decode(on_air) == frame
    assert not has_trailing_octets(on_air)


@pytest.mark.guarantee("6")
@given(st.binary(max_size=400))
@example(b"")
@examples(times=5)
def test_any_octets_are_a_frame_or_malformed(datagram: bytes) -> None:
    frame_in(datagram)


@given(st.binary(min_size=1, max_size=253), OCTET, FLAG)
@examples(times=5)
def test_so_are_any_octets_after_a_good_length(body: bytes, kind: int, is_long: bool) -> None:
    size = len(body) + (4 if is_long else 2)
    length = b"\x01" + size.to_bytes(2, "big") if is_long else bytes((size,))
    frame_in(length + bytes((kind,)) + body)


@pytest.mark.parametrize("seed", range(20))
def test_so_are_noise_and_messages_with_a_few_wrong_octets(seed: int) -> None:
    dice = Random(seed)
    for _ in range(500):
        frame_in(noise(dice))
        frame_in(mutated_vector(dice))

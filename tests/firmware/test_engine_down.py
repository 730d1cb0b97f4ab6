"""What a node does with what a gateway says of its own, one rule each."""

from __future__ import annotations

import pytest

from gateway.frames import (
    Connack,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    TopicIdType,
    encode,
)
from tests.firmware.engine_bench import Bench


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_is_delivered_and_acknowledged(qos: int) -> None:
    bench = Bench()
    bench.hears(Register(5, 1, b"cmd/x"))
    answers = {0: None, 1: Puback(5, 9, 0), 2: Pubrec(9)}
    octets = encode(Publish(5, 9 if qos else 0, b"on", qos, retain=True))
    assert bench.hears_octets(octets) == (answers[qos], b"on")
    assert (bench.engine.topic, bool(bench.engine.retained)) == (b"cmd/x", True)


@pytest.mark.parametrize(
    ("kind", "number", "topic"),
    [(TopicIdType.PREDEFINED, 3, 3), (TopicIdType.SHORT, 0x6162, b"ab")],
)
def test_predefined_and_short_topics_are_told_as_such(
    kind: TopicIdType, number: int, topic: bytes | int
) -> None:
    bench = Bench()
    octets = encode(Publish(number, 0, b"on", 0, topic_id_type=kind))
    assert bench.hears_octets(octets) == (None, b"on")
    assert bench.engine.topic == topic


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_number_that_nobody_told_is_refused_at_every_qos(qos: int) -> None:
    bench = Bench()
    octets = encode(Publish(5, 9 if qos else 0, b"on", qos))
    assert bench.hears_octets(octets) == (Puback(5, 9 if qos else 0, 2), None)


def test_register_of_the_gateway_is_learned_and_a_number_has_one_name() -> None:
    bench = Bench()
    assert bench.hears(Register(5, 1, b"cmd/x")) == Regack(5, 1, 0)
    assert bench.hears(Register(5, 2, b"cmd/y")) == Regack(5, 2, 0)
    assert bench.engine.topics == {b"cmd/y": 5}


def test_of_17_names_one_is_forgotten() -> None:
    bench = Bench()
    for number in range(1, 18):
        bench.hears(Register(number, number, b"n/%d" % number))
    assert len(bench.engine.topics) == 16
    assert bench.engine.topics[b"n/17"] == 17


def test_a_qos_2_message_is_delivered_once() -> None:
    bench = Bench()
    first = encode(Publish(1, 9, b"on", 2, topic_id_type=TopicIdType.PREDEFINED))
    again = encode(Publish(1, 9, b"on", 2, dup=True, topic_id_type=TopicIdType.PREDEFINED))
    following = encode(Publish(1, 10, b"off", 2, topic_id_type=TopicIdType.PREDEFINED))
    assert bench.hears_octets(first) == (Pubrec(9), b"on")
    assert bench.hears_octets(again) == (Pubrec(9), None)
    assert bench.hears(Pubrel(9)) == Pubcomp(9)
    assert bench.hears_octets(first) == (Pubrec(9), None)
    assert bench.hears_octets(following) == (Pubrec(10), b"off")
    assert bench.hears_octets(first) == (Pubrec(9), None)


def test_over_the_wrap_of_its_ids_a_gateways_messages_are_new() -> None:
    bench = Bench()
    for message_id in (65_534, 65_535, 1, 2):
        frame = Publish(1, message_id, b"on", 2, topic_id_type=TopicIdType.PREDEFINED)
        assert bench.hears_octets(encode(frame))[1] == b"on"


def test_in_a_new_connection_only_dup_tells_a_copy() -> None:
    bench = Bench()
    first = encode(Publish(1, 9, b"on", 2, topic_id_type=TopicIdType.PREDEFINED))
    again = encode(Publish(1, 9, b"on", 2, dup=True, topic_id_type=TopicIdType.PREDEFINED))
    bench.hears_octets(first)
    bench.hears(Disconnect())
    bench.engine.connect()
    bench.hears(Connack(0))
    assert bench.hears_octets(again) == (Pubrec(9), None)
    assert bench.hears_octets(first) == (Pubrec(9), b"on")


def test_who_is_away_is_told_nothing_and_answers_nothing() -> None:
    bench = Bench(connected=False)
    for frame in Publish(1, 0, b"on", 0, topic_id_type=TopicIdType.PREDEFINED), Pingreq():
        assert bench.hears_octets(encode(frame)) == (None, None)


def test_a_gateway_that_asks_is_answered() -> None:
    assert Bench().hears(Pingreq()) == Pingresp()


def test_a_second_frame_before_the_first_is_answered_is_the_programs_mistake() -> None:
    bench = Bench()
    heard = bytearray(16)
    octets = encode(Publish(1, 0, b"on", 0, topic_id_type=TopicIdType.PREDEFINED))
    heard[: len(octets)] = octets
    assert bench.engine.receive(heard, len(octets))
    with pytest.raises(RuntimeError):
        bench.engine.receive(heard, len(octets))
    with pytest.raises(RuntimeError):
        bench.engine.publish(1, b"x", 0, 0)

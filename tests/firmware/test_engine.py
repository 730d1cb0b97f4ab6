"""A node's side of the protocol, one rule each; the gateway's codec reads and writes the bytes."""

from __future__ import annotations

import pytest

from firmware.mqttsn.engine import Engine
from firmware.mqttsn.will import Will
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Suback,
    Subscribe,
    TopicIdType,
    Unsuback,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
    encode,
)
from tests.firmware.engine_bench import RETRY_MS, Bench

AWAY, ACTIVE, ASLEEP = 0, 1, 2
SILENCE, LOST = -1, -2


def open_publish(bench: Bench, qos: int = 1) -> Frame | None:
    """The PUBLISH of a reading on a name that is registered now."""
    bench.engine.reading_id = 0
    if not bench.engine.publish(b"a/b", b"21.5", qos, 0):
        register = bench.said(0)
        assert isinstance(register, Register)
        bench.hears(Regack(7, register.message_id, 0))
        assert bench.engine.publish(b"a/b", b"21.5", qos, 0)
    return bench.said(0)


# Connecting


def test_connect_says_who_how_long_and_how() -> None:
    bench = Bench(connected=False)
    bench.engine.flags = 4
    bench.engine.keep_alive_s = 300
    bench.engine.connect()
    assert bench.said(0) == Connect(b"node", 300, clean_session=True)
    bench.hears(Connack(0))
    assert (bench.engine.state, bench.engine.code, bench.engine.size) == (ACTIVE, 0, 0)


@pytest.mark.parametrize("code", [1, 2, 3])
def test_who_is_refused_is_away_and_knows_why(code: int) -> None:
    bench = Bench(connected=False)
    bench.engine.connect()
    bench.hears(Connack(code))
    assert (bench.engine.state, bench.engine.code, bench.engine.size) == (AWAY, code, 0)


def test_the_will_is_told_when_it_is_asked_for() -> None:
    bench = Bench(connected=False)
    bench.engine.will, bench.engine.flags = Will(b"node/state", b"lost", 1, 1), 8
    bench.engine.connect()
    assert bench.said(0) == Connect(b"node", 60, will=True)
    bench.hears(WillTopicReq())
    assert bench.said(0) == WillTopic(b"node/state", qos=1, retain=True)
    bench.hears(WillMsgReq())
    assert bench.said(0) == WillMsg(b"lost")
    bench.hears(Connack(0))
    assert bench.engine.state == ACTIVE


def test_a_sleeper_connects_without_will_and_clean_session_which_would_begin_anew() -> None:
    bench = Bench()
    bench.engine.will, bench.engine.flags = Will(b"node/state", b"lost"), 12
    bench.engine.state = ASLEEP
    bench.engine.connect()
    assert bench.said(0) == Connect(b"node", 60)


def test_numbers_are_forgotten_in_a_new_connection_and_kept_at_the_end_of_a_sleep() -> None:
    for state, kept in (AWAY, {}), (ASLEEP, {b"a/b": 7}):
        bench = Bench()
        open_publish(bench)
        bench.engine.state = state
        bench.engine.connect()
        bench.hears(Connack(0))
        assert bench.engine.topics == kept


# Up


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_reading_has_the_number_of_its_name(qos: int) -> None:
    bench = Bench()
    published = open_publish(bench, qos)
    assert published == Publish(7, 2 if qos else 0, b"21.5", qos)


@pytest.mark.parametrize("qos", [-1, 0, 1, 2])
@pytest.mark.parametrize(
    ("topic", "number", "kind"),
    [(9, 9, TopicIdType.PREDEFINED), (b"tp", 0x7470, TopicIdType.SHORT)],
)
def test_predefined_and_short_topics_need_no_register(
    qos: int, topic: bytes | int, number: int, kind: TopicIdType
) -> None:
    bench = Bench()
    assert bench.engine.publish(topic, b"x", qos, 1)
    wanted = Publish(number, 1 if qos > 0 else 0, b"x", qos, retain=True, topic_id_type=kind)
    assert bench.said(0) == wanted


def test_qos_minus_1_with_a_name_is_the_programs_mistake() -> None:
    with pytest.raises(ValueError, match="a/b"):
        Bench().engine.publish(b"a/b", b"x", -1, 0)


@pytest.mark.parametrize(("octets", "length"), [(248, 255), (249, 258), (300, 309)])
def test_a_long_reading_has_the_long_form_of_length(octets: int, length: int) -> None:
    bench = Bench(400)
    bench.engine.publish(1, b"x" * octets, 1, 0)
    assert bench.engine.size == length
    assert bench.said(0) == Publish(1, 1, b"x" * octets, 1, topic_id_type=TopicIdType.PREDEFINED)


def test_a_reading_beyond_the_buffer_is_refused_and_uses_up_no_message_id() -> None:
    bench = Bench(64)
    with pytest.raises(ValueError, match="65"):
        bench.engine.publish(1, b"x" * 58, 1, 0)
    assert len(bench.engine.frame) == 64
    bench.engine.publish(1, b"x" * 57, 1, 0)
    assert bench.engine.message_id == 1


def test_message_ids_begin_anywhere_and_go_from_65535_to_1() -> None:
    assert Engine(b"node", bytearray(8), lambda _: 4711).message_id == 4711
    bench = Bench()
    bench.engine.message_id = 65_534
    seen = []
    for _ in range(3):
        bench.engine.subscribe(1, 0)
        seen.append(bench.engine.message_id)
    assert seen == [65_535, 1, 2]


def test_qos_1_ends_with_puback_of_its_message_id_and_no_other() -> None:
    bench = Bench()
    open_publish(bench)
    bench.hears(Puback(7, 99, 0))
    assert bench.engine.size > 0
    bench.hears(Puback(7, 2, 0))
    assert (bench.engine.size, bench.engine.code) == (0, 0)


def test_qos_2_ends_with_pubcomp() -> None:
    bench = Bench()
    open_publish(bench, 2)
    bench.hears(Pubrec(2))
    assert bench.said(0) == Pubrel(2)
    bench.hears(Pubrec(2))
    assert bench.engine.size > 0
    bench.hears(Pubcomp(2))
    assert (bench.engine.size, bench.engine.code) == (0, 0)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("code", [1, 3])
def test_a_refused_reading_says_why(qos: int, code: int) -> None:
    bench = Bench()
    open_publish(bench, qos)
    bench.hears(Puback(7, 2, code))
    assert (bench.engine.size, bench.engine.code) == (0, code)


def test_puback_without_an_error_does_not_end_qos_2() -> None:
    bench = Bench()
    open_publish(bench, 2)
    bench.hears(Puback(7, 2, 0))
    assert bench.engine.size > 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_number_that_the_gateway_does_not_know_is_forgotten(qos: int) -> None:
    bench = Bench()
    open_publish(bench, qos)
    bench.hears(Puback(7, 2 if qos else 0, 2))
    assert bench.engine.topics == {}
    assert bench.engine.publish(b"a/b", b"21.5", qos, 0) is False


@pytest.mark.parametrize("qos", [1, 2])
def test_a_reading_tried_again_has_its_message_id_and_dup(qos: int) -> None:
    bench = Bench()
    open_publish(bench, qos)
    bench.hears(Disconnect())
    bench.engine.connect()
    bench.hears(Connack(0))
    bench.engine.publish(b"a/b", b"21.5", qos, 0)
    register = bench.said(0)
    assert isinstance(register, Register)
    bench.hears(Regack(8, register.message_id, 0))
    assert bench.engine.publish(b"a/b", b"21.5", qos, 0)
    assert bench.said(0) == Publish(8, 2, b"21.5", qos, dup=True)


def test_a_reading_whose_pubrec_came_goes_on_with_pubrel() -> None:
    bench = Bench()
    open_publish(bench, 2)
    bench.hears(Pubrec(2))
    bench.hears(Disconnect())
    bench.engine.connect()
    bench.hears(Connack(0))
    assert bench.engine.publish(1, b"21.5", 2, 0)
    assert bench.said(0) == Pubrel(2)


# Time


def test_a_request_is_repeated_with_dup_and_given_up() -> None:
    bench = Bench()
    first = open_publish(bench)
    assert isinstance(first, Publish)
    for _ in range(bench.engine.retries):
        assert bench.said(RETRY_MS - 1) is None
        assert bench.said(1) == Publish(7, 2, b"21.5", 1, dup=True)
    assert bench.said(RETRY_MS) is None
    assert (bench.engine.state, bench.engine.code, bench.engine.size) == (AWAY, SILENCE, 0)


def test_subscribe_has_dup_in_a_repeat_and_others_have_no_place_for_it() -> None:
    bench = Bench()
    bench.engine.subscribe(b"cmd/+", 1)
    bench.said(0)
    assert bench.said(RETRY_MS) == Subscribe(1, b"cmd/+", 1, dup=True)
    bench.engine.open(0x18, 0x18, 2, 60, b"")
    assert bench.said(0) == bench.said(RETRY_MS) == Disconnect(60)


def test_the_dice_put_repeats_up_to_half_a_pause_later() -> None:
    bench = Bench()
    bench.dice = 255
    open_publish(bench)
    assert bench.engine.wait_ms == RETRY_MS + RETRY_MS * 255 // 512


def test_who_says_nothing_for_three_quarters_of_its_keep_alive_pings() -> None:
    bench = Bench()
    assert bench.said(44_999) is None
    assert bench.said(1) == Pingreq()
    bench.hears(Pingresp())
    assert bench.said(44_999) is None
    open_publish(bench, 0)
    assert bench.said(44_999) is None


@pytest.mark.parametrize("state", [AWAY, ASLEEP])
def test_who_sleeps_or_is_away_does_not_ping(state: int) -> None:
    bench = Bench()
    bench.engine.state = state
    assert bench.said(10_000_000) is None


def test_without_keep_alive_nobody_pings() -> None:
    bench = Bench(connected=False)
    bench.engine.keep_alive_s = 0
    bench.engine.connect()
    bench.hears(Connack(0))
    assert bench.said(10_000_000) is None


# Subscribing


def test_a_name_that_is_subscribed_has_its_number_and_a_wildcard_has_none() -> None:
    bench = Bench()
    bench.engine.subscribe(b"cmd/x", 1)
    assert bench.said(0) == Subscribe(1, b"cmd/x", 1)
    bench.hears(Suback(4, 1, 0, 1))
    bench.engine.subscribe(b"cmd/#", 2)
    assert bench.said(0) == Subscribe(2, b"cmd/#", 2)
    bench.hears(Suback(0, 2, 0, 2))
    assert bench.engine.topics == {b"cmd/x": 4}


@pytest.mark.parametrize(
    ("topic", "octets", "kind"),
    [(0x1234, b"\x12\x34", TopicIdType.PREDEFINED), (b"tp", b"tp", TopicIdType.SHORT)],
)
def test_predefined_and_short_topics_are_subscribed_as_such(
    topic: bytes | int, octets: bytes, kind: TopicIdType
) -> None:
    bench = Bench()
    bench.engine.subscribe(topic, 1)
    number = int.from_bytes(octets, "big")
    said = bench.said(0)
    assert isinstance(said, Subscribe)
    assert (said.topic_id_type, encode(said)[-2:]) == (kind, octets)
    bench.hears(Suback(number, 1, 0, 1))
    assert (bench.engine.code, bench.engine.topics) == (0, {})


def test_unsubscribe_ends_with_unsuback() -> None:
    bench = Bench()
    bench.engine.subscribe(b"cmd/x", -1)
    assert bench.said(0) == Unsubscribe(1, b"cmd/x")
    bench.hears(Unsuback(1))
    assert bench.engine.size == 0


# Sleep and farewell


def test_who_declares_sleep_is_asleep_and_who_leaves_is_away() -> None:
    for duration_s, state in (60, ASLEEP), (0, AWAY):
        bench = Bench()
        bench.engine.open(0x18, 0x18, 2 if duration_s else 0, duration_s, b"")
        assert bench.said(0) == Disconnect(duration_s or None)
        bench.hears(Disconnect())
        assert (bench.engine.state, bench.engine.code) == (state, 0)


def test_a_reading_from_a_sleeper_leaves_it_asleep() -> None:
    bench = Bench()
    open_publish(bench)
    bench.hears(Puback(7, 2, 0))
    bench.engine.state = ASLEEP
    open_publish(bench)
    bench.hears(Puback(7, 3, 0))
    assert (bench.engine.state, bench.engine.code) == (ASLEEP, 0)


def test_pingresp_is_waited_for_anew_after_each_message() -> None:
    bench = Bench()
    bench.engine.state = ASLEEP
    bench.engine.open(0x16, 0x17, 0, 0, b"node")
    assert bench.said(0) == Pingreq(b"node")
    for message_id in range(1, 9):
        assert bench.said(RETRY_MS - 1) is None
        frame = Publish(1, message_id, b"on", 1, topic_id_type=TopicIdType.PREDEFINED)
        bench.hears(frame)
    bench.hears(Pingresp())
    assert (bench.engine.state, bench.engine.code, bench.engine.size) == (ASLEEP, 0, 0)


def test_who_is_forgotten_is_away_and_its_request_ended() -> None:
    bench = Bench()
    open_publish(bench)
    bench.hears(Disconnect())
    assert (bench.engine.state, bench.engine.code, bench.engine.size) == (AWAY, LOST, 0)

"""The collector's side of MQTT 5, without a socket: who says what when."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import replace

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.collect.session import (
    CollectorSession,
    Drop,
    Effect,
    FormerEnded,
    NotSent,
    Phase,
    Received,
    SessionOptions,
    Subscribed,
    Transmit,
    Unreadable,
    Unsubscribed,
)
from spark_ingest.payload.record import Delivery

RULES = SessionOptions(
    client_id="ingest-c1",
    filters=("farm/#", "barn/+"),
    group="ingest",
    receive_max=100,
    packet_bytes_max=1000,
    keep_alive_s=30,
    session_expiry_s=3600,
    filters_per_subscribe_max=8,
    username="u",
    password=b"p",
)
SUBACK = mqtt5.SubAckPacket(1, [mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE] * 2).write()


def publish(
    packet_id: int | None, payload: bytes = b"1", *, dup: bool = False, qos: int = 1
) -> bytes:
    return mqtt5.PublishPacket(
        "farm/1",
        payload,
        qos=mqtt5.QoS(qos),
        packet_id=packet_id,
        duplicate=dup,
        user_properties=[("gw", "gh")],
    ).write()


def connack(**given: object) -> bytes:
    return mqtt5.ConnAckPacket(**given).write()  # type: ignore[arg-type]


def up(
    session: CollectorSession | None = None, *, session_present: bool = True
) -> CollectorSession:
    session = session or CollectorSession(RULES)
    session.opened(0.0)
    session.receive(connack(session_present=session_present), 0.0, 0)
    assert session.receive(SUBACK, 0.0, 0) == [Subscribed(session_present)]
    return session


def said(effects: Sequence[Effect]) -> list[object]:
    octets = memoryview(b"".join(each.chunk for each in effects if isinstance(each, Transmit)))
    packets: list[object] = []
    while octets:
        packet, size = mqtt5.read(octets)
        packets.append(packet)
        octets = octets[size:]
    return packets


def arrived(effects: Sequence[Effect]) -> list[Delivery]:
    return [each.delivery for each in effects if isinstance(each, Received)]


def acknowledged(effects: Sequence[Effect]) -> list[int]:
    return [each.packet_id for each in said(effects)]  # type: ignore[attr-defined]


def dropped(effects: Sequence[Effect]) -> Drop:
    *_, last = effects
    assert isinstance(last, Drop)
    return last


def test_it_keeps_its_session_and_says_how_much_it_takes() -> None:
    (packet,) = said(CollectorSession(RULES).opened(0.0))
    assert isinstance(packet, mqtt5.ConnectPacket)
    assert (packet.client_id, packet.username, packet.password) == ("ingest-c1", "u", b"p")
    assert (packet.clean_start, packet.session_expiry_interval) == (False, 3600)
    assert (packet.receive_max, packet.max_packet_size, packet.keep_alive) == (100, 1000, 30)


@pytest.mark.parametrize("session_present", [True, False])
def test_it_subscribes_as_one_of_a_group_at_qos_1(session_present: bool) -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    (packet,) = said(session.receive(connack(session_present=session_present), 0.0, 0))
    assert isinstance(packet, mqtt5.SubscribePacket)
    wanted = [(each.pattern, int(each.max_qos)) for each in packet.topic_filters]
    assert wanted == [("$share/ingest/farm/#", 1), ("$share/ingest/barn/+", 1)]


def test_a_message_is_acknowledged_when_it_is_durable_and_not_before() -> None:
    session = up()
    effects = session.receive(publish(7) + publish(9), 1.0, 123)
    first, second = arrived(effects)
    assert said(effects) == []
    assert (first.topic, first.payload, first.properties) == ("farm/1", b"1", [("gw", "gh")])
    assert (first.qos, first.received_us, session.unacknowledged) == (1, 123, 2)
    assert acknowledged(session.acknowledge([first, second])) == [7, 9]
    assert session.unacknowledged == 0


def test_qos_0_needs_no_acknowledgement() -> None:
    session = up()
    (delivery,) = arrived(session.receive(publish(None, qos=0), 1.0, 0))
    assert session.acknowledge([delivery]) == []


def test_an_acknowledgement_is_not_sent_on_another_connection() -> None:
    """The broker may have given the packet id to another message."""
    session = up()
    (delivery,) = arrived(session.receive(publish(7), 1.0, 0))
    session.closed()
    assert session.acknowledge([delivery]) == []
    up(session)
    (other,) = arrived(session.receive(publish(7, b"2"), 2.0, 0))
    assert session.acknowledge([delivery]) == []
    assert acknowledged(session.acknowledge([other])) == [7]


def test_what_comes_again_and_is_still_here_is_not_taken_twice() -> None:
    session = up()
    (delivery,) = arrived(session.receive(publish(7), 1.0, 0))
    session.closed()
    up(session)
    assert session.receive(publish(7, dup=True), 2.0, 0) == []
    assert acknowledged(session.acknowledge([delivery])) == [7]
    assert session.resent == 1


def test_what_comes_again_and_is_durable_by_now_is_acknowledged_at_once() -> None:
    session = up()
    (delivery,) = arrived(session.receive(publish(7), 1.0, 0))
    session.closed()
    session.acknowledge([delivery])
    up(session)
    assert acknowledged(session.receive(publish(7, dup=True), 2.0, 0)) == [7]
    assert session.unacknowledged == 0


@pytest.mark.parametrize(("payload", "dup"), [(b"2", True), (b"1", False)])
def test_a_packet_id_alone_does_not_make_it_the_same_message(payload: bytes, dup: bool) -> None:
    session = up()
    session.receive(publish(7), 1.0, 0)
    session.closed()
    up(session)
    assert len(arrived(session.receive(publish(7, payload, dup=dup), 2.0, 0))) == 1


def test_dup_alone_does_not_make_it_an_old_message() -> None:
    """A broker sets it for what another collector never acknowledged."""
    assert len(arrived(up().receive(publish(7, dup=True), 1.0, 0))) == 1


def test_a_broker_that_knows_no_session_means_other_messages_by_the_same_ids() -> None:
    session = up()
    session.receive(publish(7), 1.0, 0)
    session.closed()
    up(session, session_present=False)
    assert len(arrived(session.receive(publish(7, dup=True), 2.0, 0))) == 1


def test_messages_of_an_old_session_may_come_before_suback() -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    session.receive(connack(session_present=True), 0.0, 0)
    effects = session.receive(publish(7) + SUBACK, 0.0, 0)
    assert [type(each) for each in effects] == [Received, Subscribed]


def test_packets_cut_anywhere_are_put_together() -> None:
    stream = b"".join(publish(number) for number in range(1, 50))
    dice = random.Random(1)
    session, found, position = up(), [], 0
    while position < len(stream):
        size = dice.randrange(1, 40)
        found += arrived(session.receive(stream[position : position + size], 1.0, 0))
        position += size
    assert [each.packet_id for each in found] == list(range(1, 50))


def test_it_pings_and_gives_up_a_silent_broker() -> None:
    session = up()
    assert session.wake_at() == 15.0
    assert session.handle_time(14.9) == []
    (ping,) = said(session.handle_time(15.0))
    assert isinstance(ping, mqtt5.PingReqPacket)
    session.receive(mqtt5.PingRespPacket().write(), 15.5, 0)
    assert len(said(session.handle_time(30.0))) == 1
    assert dropped(session.handle_time(45.0)).reason == "the broker has been silent for 30 s"
    assert session.phase is Phase.CLOSED


def test_while_nobody_reads_silence_is_not_the_brokers() -> None:
    session = up()
    session.pause()
    for now in (15.0, 30.0, 45.0):
        assert len(said(session.handle_time(now))) == 1
    session.resume(50.0)
    assert len(said(session.handle_time(60.0))) == 1
    assert isinstance(dropped(session.handle_time(75.0)), Drop)


def test_the_brokers_keep_alive_replaces_ours_and_none_means_no_ping() -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    session.receive(connack(server_keep_alive=10) + SUBACK, 0.0, 0)
    assert session.wake_at() == 5.0
    session.closed()
    session.opened(0.0)
    session.receive(connack(server_keep_alive=0) + SUBACK, 0.0, 0)
    assert session.wake_at() == float("inf")


@pytest.mark.parametrize(("answers", "due"), [(b"", "CONNACK"), (connack(), "SUBACK")])
def test_a_broker_that_does_not_answer_is_left(answers: bytes, due: str) -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    session.receive(answers, 0.0, 0)
    assert session.handle_time(9.9) == []
    assert f"no {due} within 10 s" in dropped(session.handle_time(10.0)).reason


@pytest.mark.parametrize(
    ("octets", "is_final", "words"),
    [
        (
            connack(reason_code=mqtt5.ConnAckReasonCode.NOT_AUTHORIZED, reason_str="who?"),
            False,
            "the broker said CONNACK 0x87 not authorized (who?)",
        ),
        (connack(shared_subscription_available=False), False, "no shared subscriptions"),
        (
            connack() + mqtt5.SubAckPacket(1, [mqtt5.SubAckReasonCode.NOT_AUTHORIZED]).write(),
            True,
            "no subscription to $share/ingest/farm/#: the broker said SUBACK 0x87",
        ),
        (
            connack()
            + mqtt5.DisconnectPacket(
                reason_code=mqtt5.DisconnectReasonCode.SESSION_TAKEN_OVER
            ).write(),
            True,
            "another client is called ingest-c1",
        ),
        (
            connack()
            + mqtt5.DisconnectPacket(
                reason_code=mqtt5.DisconnectReasonCode.SERVER_SHUTTING_DOWN
            ).write(),
            False,
            "DISCONNECT 0x8b server shutting down",
        ),
        (bytes.fromhex("20 02 00 01"), False, "answered CONNECT as MQTT 3.1.1 does, code 1"),
        (bytes.fromhex("20 03 00 01 00"), False, "answered CONNECT as MQTT 3.1.1 does, code 1"),
        (bytes.fromhex("20 03 00 a5 00"), False, "CONNACK 0xa5 of no meaning in MQTT 5"),
        (
            connack() + bytes.fromhex("90 05 0001 00 01 b0"),
            True,
            "no subscription to $share/ingest/barn/+: the broker said SUBACK 0xb0",
        ),
        (connack() + bytes.fromhex("e0 01 b0"), False, "DISCONNECT 0xb0 of no meaning in MQTT 5"),
        (b"HTTP/1.1 400", False, "in place of CONNACK; is it an MQTT 5 broker?"),
        (publish(7), False, "PUBLISH while connecting"),
        (SUBACK, False, "SUBACK while connecting"),
        (connack() + connack(), False, "CONNACK while subscribing"),
        (connack() + publish(7, qos=2), False, "QoS 2"),
        (connack()[:1] + b"\xe8\x08" + b"x" * 1000, False, "larger than we take while connecting"),
        (connack() + b"\x90\xe8\x08", False, "a packet of 1131 bytes, more than we take"),
        (connack() + b"\x34\xe8\x08\x00\x01t\x00\x07", False, "QoS 2"),
        (connack() + b"\x32\xe8\x08\xff\xff", False, "a PUBLISH whose topic goes beyond its end"),
        (b"\x20\xff\xff\xff\xff\x01", False, "more than four bytes"),
        (b"\x00\x00", False, "the broker sent what it may not send"),
        (b"\x20\x05\x00\x00\x03\x00\x00", False, "the broker sent what it may not send"),
    ],
)
def test_a_broker_that_refuses_or_talks_nonsense_is_left(
    octets: bytes, is_final: bool, words: str
) -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    drop = dropped(session.receive(octets, 0.0, 0))
    assert words in drop.reason
    assert drop.is_final is is_final
    assert session.phase is Phase.CLOSED


REFUSED = Transmit(bytes.fromhex("40 03 0007 90"))


# The codec's native code panics at the first one, which Python reports too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("qos", "answers"), [(0, []), (1, [REFUSED])])
def test_a_topic_that_is_no_utf_8_is_refused_and_the_connection_lives(
    qos: int, answers: list[Effect]
) -> None:
    session = up()
    session.receive(publish(7, b"before"), 1.0, 0)
    packet = publish(7 if qos else None, qos=qos).replace(b"farm/1", b"farm/\xff")
    expected = [Unreadable("farm/\ufffd"), *answers]
    assert session.receive(packet, 1.0, 0) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert session.receive(packet, 1.0, 0) == expected
    assert len(arrived(session.receive(publish(8), 1.0, 0))) == 1
    assert session.unacknowledged == (1 if qos else 2), "the id is that of another message now"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("qos", [1, 2])
def test_it_ends_the_connection_where_nothing_may_come_yet_and_at_qos_2(qos: int) -> None:
    packet = publish(7, qos=qos).replace(b"farm/1", b"farm/\xff")
    session = CollectorSession(RULES)
    session.opened(0.0)
    if qos == 2:
        session.receive(connack() + SUBACK, 0.0, 0)
    assert "not UTF-8" in dropped(session.receive(packet, 0.0, 0)).reason


def test_it_leaves_the_group_and_ends_its_session_when_told() -> None:
    session = up()
    (packet,) = said(session.unsubscribe())
    assert isinstance(packet, mqtt5.UnsubscribePacket)
    assert packet.patterns == ["$share/ingest/farm/#", "$share/ingest/barn/+"]
    unsuback = mqtt5.UnsubAckPacket(
        packet.packet_id, [mqtt5.UnsubAckReasonCode.SUCCESS] * 2
    ).write()
    assert session.receive(unsuback, 0.0, 0) == [Unsubscribed()]
    (goodbye,) = said(session.stop(forget=True))
    assert isinstance(goodbye, mqtt5.DisconnectPacket)
    assert goodbye.session_expiry_interval == 0


def test_a_plain_goodbye_leaves_the_session() -> None:
    (goodbye,) = said(up().stop())
    assert isinstance(goodbye, mqtt5.DisconnectPacket)
    assert goodbye.session_expiry_interval is None
    assert CollectorSession(RULES).stop() == []


def test_who_is_not_up_cannot_be_deafened() -> None:
    session = CollectorSession(RULES)
    session.pause()
    session.resume(1.0)
    assert session.phase is Phase.CLOSED
    assert session.wake_at() == float("inf")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@given(st.lists(st.binary(max_size=40) | st.just(publish(3)) | st.just(SUBACK), max_size=10))
def test_no_octets_raise(chunks: list[bytes]) -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    session.receive(connack(), 0.0, 0)
    for chunk in chunks:
        if session.phase is not Phase.CLOSED:
            session.receive(chunk, 1.0, 0)


def test_what_it_publishes_is_retained_where_the_broker_does_that() -> None:
    session = CollectorSession(RULES)
    assert session.publish("t", b"early") == []
    for available in (True, False):
        session.opened(0.0)
        session.receive(connack(retain_available=available), 0.0, 0)
        assert session.publish("t", b"not subscribed yet") == []
        session.receive(SUBACK, 0.0, 0)
        (packet,) = said(session.publish("t", b"p"))
        assert isinstance(packet, mqtt5.PublishPacket)
        assert (packet.topic, packet.payload, int(packet.qos)) == ("t", b"p", 0)
        assert packet.retain is available


MANY = tuple(f"farm/{number}/+" for number in range(20))


def asked(effects: Sequence[Effect]) -> list[list[str]]:
    """The filters of each SUBSCRIBE or UNSUBSCRIBE."""
    packets = said(effects)
    if packets and isinstance(packets[0], mqtt5.UnsubscribePacket):
        return [each.patterns for each in packets]  # type: ignore[attr-defined]
    return [[one.pattern for one in each.topic_filters] for each in packets]  # type: ignore[attr-defined]


def suback(packet_id: int, count: int) -> bytes:
    granted = mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE
    return mqtt5.SubAckPacket(packet_id, [granted] * count).write()


def test_many_filters_go_in_several_packets_and_it_is_up_when_all_are_granted() -> None:
    session = CollectorSession(replace(RULES, filters=MANY))
    session.opened(0.0)
    packets = asked(session.receive(connack(), 0.0, 0))
    assert list(map(len, packets)) == [8, 8, 4]
    assert [one for each in packets for one in each] == [f"$share/ingest/{each}" for each in MANY]
    assert session.receive(suback(3, 4) + suback(1, 8), 0.0, 0) == []
    assert session.receive(suback(1, 8), 0.0, 0) == [], "once is enough"
    assert session.receive(suback(2, 8), 0.0, 0) == [Subscribed(False)]
    left = session.unsubscribe()
    assert list(map(len, asked(left))) == [8, 8, 4]
    ids = [each.packet_id for each in said(left)]  # type: ignore[attr-defined]
    done = [mqtt5.UnsubAckPacket(each, [mqtt5.UnsubAckReasonCode.SUCCESS]).write() for each in ids]
    assert session.receive(done[0] + done[1], 0.0, 0) == []
    assert session.receive(done[2], 0.0, 0) == [Unsubscribed()]


def test_a_code_below_0x80_that_is_not_known_grants_a_subscription_and_ends_one() -> None:
    session = CollectorSession(FORMER)
    session.opened(0.0)
    session.receive(connack(session_present=True), 0.0, 0)
    subscribed, *_ = session.receive(bytes.fromhex("90 05 0001 00 01 05"), 0.0, 0)
    assert subscribed == Subscribed(True)
    ended = session.receive(bytes.fromhex("b0 05 07d1 00 00 05"), 0.0, 0)
    assert ended == [FormerEnded(FORMER.former, (), "")]


def test_a_refusal_in_any_of_them_names_its_filter() -> None:
    session = CollectorSession(replace(RULES, filters=MANY))
    session.opened(0.0)
    session.receive(connack(), 0.0, 0)
    codes = [mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE, mqtt5.SubAckReasonCode(0x87)]
    drop = dropped(session.receive(mqtt5.SubAckPacket(2, codes).write(), 0.0, 0))
    assert "no subscription to $share/ingest/farm/9/+" in drop.reason


@pytest.mark.parametrize("takes", [40, 64, 100, 1000])
def test_no_packet_with_filters_is_larger_than_the_broker_takes(takes: int) -> None:
    session = CollectorSession(replace(RULES, filters=MANY))
    session.opened(0.0)
    effects = session.receive(connack(max_packet_size=takes), 0.0, 0)
    sizes = [len(each.chunk) for each in effects if isinstance(each, Transmit)]
    assert max(sizes) <= takes
    assert sum(map(len, asked(effects))) == len(MANY)
    for packet_id, filters in enumerate(asked(effects), 1):
        effects = session.receive(suback(packet_id, len(filters)), 0.0, 0)
    assert session.is_up
    left = session.unsubscribe()
    assert max(len(each.chunk) for each in left if isinstance(each, Transmit)) <= takes
    assert sum(map(len, asked(left))) == len(MANY)


def test_a_filter_that_the_broker_can_never_take_is_named() -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    drop = dropped(session.receive(connack(max_packet_size=20), 0.0, 0))
    assert drop.is_final
    assert (
        "packets of 20 bytes at most, too few to subscribe to $share/ingest/farm/#" in drop.reason
    )


def test_a_receipt_that_the_broker_does_not_take_is_not_sent() -> None:
    session = CollectorSession(RULES)
    session.opened(0.0)
    session.receive(connack(max_packet_size=100) + SUBACK, 0.0, 0)
    assert isinstance(session.publish("t", b"x" * 90)[0], Transmit)
    assert session.publish("t", b"x" * 100) == [NotSent("t", 106, 100)]
    session.closed()
    up(session)
    assert isinstance(session.publish("t", b"x" * 100)[0], Transmit)


FORMER = replace(RULES, former=("$share/ingest/a/#", "$share/old/b"))


def unsuback(packet_id: int, *codes: mqtt5.UnsubAckReasonCode) -> bytes:
    return mqtt5.UnsubAckPacket(packet_id, list(codes)).write()


def test_what_former_runs_subscribed_to_is_ended_behind_suback() -> None:
    session = CollectorSession(FORMER)
    session.opened(0.0)
    (subscribe,) = said(session.receive(connack(session_present=True), 0.0, 0))
    assert isinstance(subscribe, mqtt5.SubscribePacket)
    effects = session.receive(SUBACK, 0.0, 0)
    assert effects[0] == Subscribed(True)
    (packet,) = said(effects)
    assert isinstance(packet, mqtt5.UnsubscribePacket)
    assert packet.patterns == ["$share/ingest/a/#", "$share/old/b"]
    ok, none = mqtt5.UnsubAckReasonCode.SUCCESS, mqtt5.UnsubAckReasonCode.NO_SUBSCRIPTION_EXISTED
    answer = unsuback(packet.packet_id, ok, none)
    assert session.receive(answer, 0.0, 0) == [FormerEnded(FORMER.former, (), "")]
    session.closed()
    session.opened(0.0)
    session.receive(connack(session_present=True), 0.0, 0)
    assert session.receive(SUBACK, 0.0, 0) == [Subscribed(True)], "once"


def test_one_whose_end_is_refused_is_asked_for_again_with_the_next_connection() -> None:
    session = CollectorSession(FORMER)
    for _ in range(2):
        session.opened(0.0)
        session.receive(connack(session_present=True), 0.0, 0)
        (packet,) = said(session.receive(SUBACK, 0.0, 0))
        assert isinstance(packet, mqtt5.UnsubscribePacket)
        session.closed()
    session.opened(0.0)
    session.receive(connack(session_present=True), 0.0, 0)
    (packet,) = said(session.receive(SUBACK, 0.0, 0))
    assert isinstance(packet, mqtt5.UnsubscribePacket)
    codes = mqtt5.UnsubAckReasonCode
    answer = unsuback(packet.packet_id, codes.SUCCESS, codes.NOT_AUTHORIZED)
    (ended,) = session.receive(answer, 0.0, 0)
    assert isinstance(ended, FormerEnded)
    assert (ended.filters, ended.refused) == (FORMER.former[:1], FORMER.former[1:])
    assert "not authorized" in ended.reason
    session.closed()
    session.opened(0.0)
    session.receive(connack(session_present=True), 0.0, 0)
    (packet,) = said(session.receive(SUBACK, 0.0, 0))
    assert isinstance(packet, mqtt5.UnsubscribePacket)
    assert packet.patterns == ["$share/old/b"]


def test_another_session_has_nothing_of_former_runs() -> None:
    session = CollectorSession(FORMER)
    up(session, session_present=False)
    session.closed()
    up(session)

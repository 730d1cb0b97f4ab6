"""Messages from the broker: once each, ours only, acknowledged when the engine says so."""

from __future__ import annotations

from collections.abc import Callable

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.effects import (
    DeliveryComplete,
    DropUpstream,
    Save,
    UpstreamReleaseSaved,
    WhenSaved,
)
from gateway.core.events import Output
from gateway.core.mqtt.overlap_dedup import CONTENTS_MAX, OverlapDedup
from gateway.core.mqtt.session import MqttSession
from gateway.core.state_records import PacketDeleted, PacketRecord, PacketsDeleted
from gateway.core.values import Message, Publication, contents_of
from tests.core.mqtt.broker_side import (
    connected,
    news,
    only,
    options,
    packets,
    publication,
    suback,
    unsuback,
)

EPOCH = 3 << 16
FIRST, SECOND, THIRD = EPOCH | 2, EPOCH | 4, EPOCH | 6
PUBREL = mqtt5.PubRelPacket(7).write()


def session_up(prefix: str = "") -> MqttSession:
    session = MqttSession(options(topic_prefix=prefix))
    connected(session)
    return session


def overlapping() -> MqttSession:
    """Two filters that may match the same message, though none covers the other."""
    session = session_up()
    for topic_filter in ("a/+", "+/b"):
        session.subscriptions.want(topic_filter, 1, retained=False)
    session.subscriptions.advance()
    session.receive(suback(65_001, 2) + suback(65_002, 2), 1.0)
    return session


def payloads(effects: list[Output]) -> list[bytes]:
    return [arrived.message.payload for arrived in news(Publication, effects)]


def test_a_message_arrives_as_it_was_published() -> None:
    octets = publication("a/b", b"on", 1, 7, by=[FIRST], retain=True)
    (arrived,) = session_up().receive(octets, 1.0)
    assert arrived == Publication(Message("a/b", b"on", 1, retain=True), 7, is_replay=False)


@pytest.mark.parametrize(
    ("by", "retain", "is_replay"),
    [
        ([EPOCH | 3], True, True),
        ([EPOCH | 3], False, False),
        ([EPOCH | 2], True, False),
        ([EPOCH | 3, EPOCH | 4], True, True),
        ([EPOCH | 2, EPOCH | 4], True, False),
        ([], True, True),
        ([], False, False),
    ],
)
def test_retained_before_is_told_from_published_just_now(
    by: list[int], retain: bool, is_replay: bool
) -> None:
    (arrived,) = session_up().receive(publication("a", by=by, retain=retain), 1.0)
    assert isinstance(arrived, Publication)
    assert arrived.is_replay is is_replay


def arrivals(effects: list[Output]) -> list[Publication]:
    return news(Publication, effects)


def completed(session: MqttSession, effects: list[Output]) -> mqtt5.PubCompPacket:
    """The PUBCOMP that follows once these are durable."""
    (word,) = [one for each in news(WhenSaved, effects) for one in each.then]
    assert isinstance(word, UpstreamReleaseSaved)
    (pubcomp,) = only(mqtt5.PubCompPacket, session.complete(word))
    return pubcomp


def test_it_is_acknowledged_when_the_engine_says_so_and_once() -> None:
    session = session_up()
    first, second, third = arrivals(
        session.receive(
            publication("a", qos=0) + publication("a", qos=1, packet_id=7)
            + publication("a", qos=2, packet_id=8), 1.0
        )
    )  # fmt: skip
    assert session.acknowledge(first) == []
    (puback,) = only(mqtt5.PubAckPacket, session.acknowledge(second))
    assert puback.packet_id == 7
    (pubrec,) = only(mqtt5.PubRecPacket, session.acknowledge(third))
    assert pubrec.packet_id == 8
    assert session.acknowledge(second) == [], "the id may be another message's by now"


@pytest.mark.parametrize("qos", [1, 2])
def test_it_is_acknowledged_on_its_own_connection_or_when_it_comes_again(qos: int) -> None:
    session = session_up()
    octets = publication("a", b"on", qos, 7, dup=True)
    (arrived,) = arrivals(session.receive(octets, 1.0))
    session.closed(0.0, by_broker=False)
    assert session.acknowledge(arrived) == []
    connected(session, session_present=True)
    assert session.acknowledge(arrived) == [], "the broker has not said it on this one"
    (receipt,) = packets(session.receive(octets, 2.0))
    assert isinstance(receipt, mqtt5.PubAckPacket if qos == 1 else mqtt5.PubRecPacket)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_comes_again_while_it_is_in_our_hands_is_passed_on_once(qos: int) -> None:
    session = session_up()
    octets = publication("a", b"on", qos, 7, dup=True)
    (arrived,) = arrivals(session.receive(octets, 1.0))
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    assert session.receive(octets, 2.0) == []
    assert len(packets(session.acknowledge(arrived))) == 1, "on the connection it came on last"
    assert session.acknowledge(arrived) == []


def test_a_qos_1_message_that_is_no_repeat_is_another_one_under_the_same_id() -> None:
    session = session_up()
    (first,) = arrivals(session.receive(publication("a", b"on", 1, 7), 1.0))
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    (second,) = arrivals(session.receive(publication("a", b"on", 1, 7), 2.0))
    (third,) = arrivals(session.receive(publication("a", b"off", 1, 7, dup=True), 2.0))
    assert session.acknowledge(first) == session.acknowledge(second) == []
    assert len(packets(session.acknowledge(third))) == 1


@pytest.mark.guarantee("4d")
def test_a_qos_2_message_arrives_once_for_its_packet_id() -> None:
    session = session_up()
    octets = publication("a", b"on", 2, 7)
    (arrived,) = arrivals(session.receive(octets, 1.0))
    assert session.receive(octets, 1.0) == []
    assert session.keep(arrived)[0] == Save(PacketRecord(7, contents_of("a", b"on", 2)))
    assert len(session.acknowledge(arrived)) == 1
    (pubrec,) = only(mqtt5.PubRecPacket, session.receive(octets, 1.0))
    assert pubrec.packet_id == 7
    effects = session.receive(PUBREL, 1.0)
    assert effects[0] == Save(PacketDeleted(7))
    pubcomp = completed(session, effects)
    assert (pubcomp.packet_id, int(pubcomp.reason_code)) == (7, 0)
    assert payloads(session.receive(octets, 1.0)) == [b"on"], "a new message under an old id"


def test_pubrel_of_an_unknown_id_is_told_so_once_everything_before_is_durable() -> None:
    session = session_up()
    pubcomp = completed(session, session.receive(PUBREL, 1.0))
    assert (pubcomp.packet_id, int(pubcomp.reason_code)) == (7, 0x92)


def test_pubcomp_is_not_said_on_another_connection() -> None:
    session = session_up()
    (waiting,) = news(WhenSaved, session.receive(PUBREL, 1.0))
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    (word,) = waiting.then
    assert isinstance(word, UpstreamReleaseSaved)
    assert session.complete(word) == []


@pytest.mark.parametrize("session_present", [True, False])
def test_a_repeat_after_a_break_is_one_only_for_a_broker_that_knows_the_session(
    session_present: bool,
) -> None:
    session = session_up()
    (arrived,) = arrivals(session.receive(publication("a", b"on", 2, 7), 1.0))
    session.keep(arrived)
    session.closed(0.0, by_broker=False)
    effects = connected(session, session_present=session_present)
    assert (Save(PacketsDeleted()) in effects) is not session_present
    effects = session.receive(publication("a", b"on", 2, 7, dup=session_present), 2.0)
    assert payloads(effects) == ([] if session_present else [b"on"])


def test_what_a_former_life_had_in_its_hands_is_passed_on_no_second_time() -> None:
    session = MqttSession(options())
    session.restore([PacketRecord(7, contents_of("a", b"on", 2))], [])
    connected(session, session_present=True)
    (pubrec,) = packets(session.receive(publication("a", b"on", 2, 7, dup=True), 1.0))
    assert isinstance(pubrec, mqtt5.PubRecPacket)
    effects = session.receive(PUBREL, 1.0)
    assert effects[0] == Save(PacketDeleted(7))


def test_other_contents_under_a_known_packet_id_are_another_message() -> None:
    session = session_up()
    session.receive(publication("a", b"on", 2, 7), 1.0)
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    (arrived,) = arrivals(session.receive(publication("a", b"off", 2, 7), 2.0))
    assert session.keep(arrived)[0] == Save(PacketRecord(7, contents_of("a", b"off", 2)))


def test_what_comes_for_a_subscription_of_an_earlier_life_is_as_good_as_any() -> None:
    assert payloads(session_up().receive(publication("a", b"on", 1, 7, by=[FIRST]), 1.0)) == [b"on"]


@pytest.mark.parametrize(
    ("topic", "arrives_as"),
    [("site/a", "a"), ("site/", None), ("site", None), ("a", None), ("site/site/", "site/")],
)
def test_the_prefix_is_the_brokers_side_only(topic: str, arrives_as: str | None) -> None:
    arrived = news(Publication, session_up("site/").receive(publication(topic), 1.0))
    assert [each.message.topic for each in arrived] == ([arrives_as] if arrives_as else [])


def test_a_topic_alias_in_place_of_a_topic_was_never_allowed() -> None:
    packet = mqtt5.PublishPacket("", b"on", topic_alias=1)
    assert drop_reason(session_up().receive(packet.write(), 1.0)).endswith(
        "a topic alias, of which we allow none"
    )


def test_a_message_without_a_topic_is_no_packet() -> None:
    drop_reason(session_up().receive(bytes.fromhex("30 05 0000 00 6f6e"), 1.0))


def drop_reason(effects: list[Output]) -> str:
    (drop,) = effects
    assert isinstance(drop, DropUpstream)
    return drop.reason


# Copies


def test_copies_for_overlapping_filters_arrive_once_and_equal_messages_each_time() -> None:
    session = overlapping()
    copies = publication("a/b", by=[FIRST]) + publication("a/b", by=[SECOND])
    for _ in range(3):
        assert payloads(session.receive(copies, 2.0)) == [b"on"]
    alone = publication("a/c", by=[FIRST])
    assert payloads(session.receive(alone * 3, 2.0)) == [b"on"] * 3


def test_each_copy_is_acknowledged() -> None:
    session = overlapping()
    session.receive(publication("a/b", b"on", 1, 7, by=[FIRST]), 2.0)
    (puback,) = only(
        mqtt5.PubAckPacket, session.receive(publication("a/b", b"on", 1, 8, by=[SECOND]), 2.0)
    )
    assert puback.packet_id == 8


def test_a_qos_2_copy_is_acknowledged_when_its_packet_id_is_durable() -> None:
    """Else it would be the only one to come again after a restart, and be taken for new."""
    session = overlapping()
    session.receive(publication("a/b", b"on", 2, 7, by=[FIRST]), 2.0)
    saved, waiting = session.receive(publication("a/b", b"on", 2, 8, by=[SECOND]), 2.0)
    assert saved == Save(PacketRecord(8, contents_of("a/b", b"on", 2), SECOND))
    assert isinstance(waiting, WhenSaved)
    (word,) = waiting.then
    assert isinstance(word, DeliveryComplete)
    (pubrec,) = only(mqtt5.PubRecPacket, session.acknowledge(word.publication))
    assert pubrec.packet_id == 8


def test_a_copy_of_what_comes_again_is_one_too() -> None:
    session = overlapping()
    octets = publication("a/b", b"on", 2, 7, by=[FIRST])
    session.receive(octets, 2.0)
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    copy = publication("a/b", b"on", 2, 8, by=[SECOND])
    assert payloads(session.receive(octets + copy, 3.0)) == []


def after_a_break(session: MqttSession) -> MqttSession:
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    return session


def after_a_power_cut(session: MqttSession) -> MqttSession:
    """All that was received and not released is saved."""
    packets = [*session._receiver._unreleased.values()]
    session = MqttSession(options())
    session.restore(packets, ["a/+", "+/b"])
    connected(session, session_present=True)
    return session


@pytest.mark.guarantee("4d")
@pytest.mark.parametrize("after", [after_a_break, after_a_power_cut])
def test_a_qos_2_copy_that_comes_when_the_first_one_is_released_is_one_too(
    after: Callable[[MqttSession], MqttSession],
) -> None:
    session = overlapping()
    session.receive(publication("a/b", b"on", 2, 7, by=[FIRST]), 2.0)
    session = after(session)
    session.receive(PUBREL, 3.0)
    copy = publication("a/b", b"on", 2, 8, dup=True, by=[SECOND])
    equal = publication("a/b", b"on", 2, 9, dup=True, by=[FIRST])
    its_copy = publication("a/b", b"on", 2, 10, dup=True, by=[SECOND])
    assert payloads(session.receive(copy, 3.0)) == []
    assert payloads(session.receive(equal + its_copy, 3.0)) == [b"on"]


@pytest.mark.parametrize("after", [after_a_break, after_a_power_cut])
def test_what_was_not_sent_before_is_no_copy_of_what_came_before(
    after: Callable[[MqttSession], MqttSession],
) -> None:
    session = overlapping()
    session.receive(publication("a/b", b"on", 2, 7, by=[FIRST]), 2.0)
    session = after(session)
    equal = publication("a/b", b"on", 2, 8, by=[SECOND])
    assert payloads(session.receive(equal, 3.0)) == [b"on"]


def test_what_was_retained_before_has_no_copies() -> None:
    session = overlapping()
    retained = publication("a/b", b"on", 2, 7, retain=True, by=[FIRST | 1])
    (arrived,) = arrivals(session.receive(retained, 2.0))
    assert session.keep(arrived)[0] == Save(PacketRecord(7, contents_of("a/b", b"on", 2)))


def test_what_did_not_say_for_which_subscription_it_came_has_no_copies() -> None:
    session = MqttSession(options())
    session.restore([PacketRecord(7, contents_of("a/b", b"on", 2))], ["a/+", "+/b"])
    connected(session, session_present=True)
    equal = publication("a/b", b"on", 2, 8, dup=True, by=[SECOND])
    assert payloads(session.receive(equal, 3.0)) == [b"on"]


def test_copies_end_with_the_brokers_session() -> None:
    session = overlapping()
    session.receive(publication("a/b", b"on", 2, 7, by=[FIRST]), 2.0)
    session.closed(0.0, by_broker=False)
    connected(session, session_present=False)
    again = publication("a/b", b"on", 2, 8, dup=True, by=[SECOND])
    assert payloads(session.receive(again, 3.0)) == [b"on"]


def test_a_copy_that_comes_with_all_identifiers_is_the_only_one() -> None:
    octets = publication("a/b", by=[FIRST, SECOND])
    assert payloads(overlapping().receive(octets * 2, 2.0)) == [b"on", b"on"]


def test_without_an_overlap_nothing_is_taken_for_a_copy() -> None:
    session = session_up()
    session.subscriptions.want("a/+", 1, retained=False)
    octets = publication("a/b", by=[FIRST]) + publication("a/b", by=[SECOND])
    assert payloads(session.receive(octets, 2.0)) == [b"on", b"on"]


@pytest.mark.parametrize("session_present", [False, True])
def test_a_former_life_may_have_subscribed_to_what_a_crash_kept_from_being_saved(
    session_present: bool,
) -> None:
    session = MqttSession(options())
    session.restore([], [])
    connected(session, session_present=session_present)
    octets = publication("a/b", by=[FIRST]) + publication("a/b", by=[SECOND])
    assert len(payloads(session.receive(octets, 2.0))) == (1 if session_present else 2)


def test_without_identifiers_nothing_is_taken_for_a_copy() -> None:
    assert payloads(overlapping().receive(publication("a/b") * 2, 2.0)) == [b"on", b"on"]


@pytest.mark.parametrize("word", [suback(65_009, 0), unsuback(65_009)])
def test_a_message_before_a_change_and_an_equal_one_after_it_are_two(word: bytes) -> None:
    before, after = publication("a/b", by=[FIRST]), publication("a/b", by=[SECOND])
    assert payloads(overlapping().receive(before + word + after, 2.0)) == [b"on", b"on"]


def test_a_message_before_a_break_and_an_equal_one_after_it_are_two() -> None:
    session = overlapping()
    session.receive(publication("a/b", by=[FIRST]), 2.0)
    session.closed(0.0, by_broker=False)
    connected(session, session_present=True)
    assert payloads(session.receive(publication("a/b", by=[SECOND]), 3.0)) == [b"on"]


@given(st.lists(st.integers(1, 4), max_size=CONTENTS_MAX), st.data())
def test_copies_in_any_order_are_passed_on_once(copies: list[int], data: st.DataObject) -> None:
    outstanding = [
        (number, identifier)
        for number, count in enumerate(copies)
        for identifier in range(2, 2 + 2 * count, 2)
    ]
    overlap_dedup = OverlapDedup()
    passed = [
        number
        for number, identifier in data.draw(st.permutations(outstanding))
        if not overlap_dedup.is_one(("t", b"%d" % number), [identifier])
    ]
    assert sorted(passed) == list(range(len(copies)))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_equal_messages_with_their_copies_behind_them_are_each_passed_on(
    published: list[tuple[int, int]],
) -> None:
    """A topic has as many subscriptions each time; contents come again and again."""
    overlap_dedup = OverlapDedup()
    for topic, contents in published:
        message = (f"t{topic}", b"%d" % contents)
        passed = [
            not overlap_dedup.is_one(message, [2 + 2 * number]) for number in range(topic + 1)
        ]
        assert passed == [True] + [False] * topic


def test_the_memory_of_copies_is_bounded() -> None:
    overlap_dedup = OverlapDedup()
    for number in range(CONTENTS_MAX + 1):
        assert not overlap_dedup.is_one(("t", b"%d" % number), [FIRST])
    assert len(overlap_dedup._brought_by) == CONTENTS_MAX
    assert overlap_dedup.is_one(("t", b"1"), [SECOND])
    assert not overlap_dedup.is_one(("t", b"0"), [SECOND]), "forgotten, so it may come twice"


def test_the_two_identifiers_of_a_filter_are_one_subscription() -> None:
    overlap_dedup = OverlapDedup()
    assert not overlap_dedup.is_one(("t", b"on"), [FIRST | 1])
    assert not overlap_dedup.is_one(("t", b"on"), [FIRST]), (
        "a message between the two, and one after"
    )


@pytest.mark.parametrize(("after_s", "is_replay"), [(29.0, True), (31.0, False)])
def test_a_retained_message_for_several_filters_is_a_replay_while_one_may_come(
    after_s: float, is_replay: bool
) -> None:
    """Artemis names them as they are by then: all with the second identifier of their pair."""
    session = session_up()
    session.receive(mqtt5.PingRespPacket().write(), 1.0)
    session.subscriptions.want("a/#", 1, retained=True)
    session.subscriptions.advance()
    octets = publication("a/b", by=[EPOCH | 2, EPOCH | 4], retain=True)
    (arrived,) = arrivals(session.receive(octets, 1.0 + after_s))
    assert arrived.is_replay is is_replay
    one = publication("a/b", by=[EPOCH | 2], retain=True)
    (arrived,) = arrivals(session.receive(one, 1.0 + after_s))
    assert not arrived.is_replay, "with one identifier it is that of the subscription that goes on"

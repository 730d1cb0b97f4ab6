"""Subscriptions and messages on their way down: what is durable before who hears what."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.downlink.pending_subscriptions import DISK_PATIENCE_S
from gateway.core.downlink.write_behind import SOON_S
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.state_records import (
    ClientId,
    MessageDeleted,
    MessageRecord,
    PacketRecord,
    RetainedDeleted,
    RetainedRecord,
    State,
    SubscriptionRecord,
    TopicRecord,
)
from gateway.core.values import Message
from gateway.frames import (
    Disconnect,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Register,
    ReturnCode,
    Suback,
    Unsubscribe,
)
from tests.support.engine_bench import published
from tests.support.state_bench import StateBench

S1 = ClientId("s1")


def bench_with_s1(*, clean: bool = False, subscribed: bool = False, qos: int = 1) -> StateBench:
    """A client that is there, and a disk that is held from now on."""
    bench = StateBench()
    bench.join(b"s1", clean=clean)
    if subscribed:
        bench.subscribe(b"s1", b"cmd", qos)
    bench.seen()
    bench.holds_disk = True
    return bench


def held() -> StateBench:
    bench = StateBench()
    bench.holds_disk = True
    return bench


# Subscriptions


def test_a_client_hears_from_the_moment_that_its_subscription_is_durable() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 1)
    bench.publishes("cmd", b"too early", by="cmd")
    assert bench.hear(b"s1") == []
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Suback(1, 1, 0, 1)]
    bench.publishes("cmd", by="cmd")
    assert published(bench.hear(b"s1")) == [(b"on", 0, False)]


def test_a_subscription_that_the_disk_does_not_take_is_refused_in_the_end() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 1)
    bench.at = 1.0
    bench.subscribe(b"s1", b"more", 1, message_id=2)
    bench.wake(DISK_PATIENCE_S - 0.1)
    assert bench.hear(b"s1") == []
    bench.wake(DISK_PATIENCE_S)
    assert bench.hear(b"s1") == [Suback(0, 1, ReturnCode.CONGESTION, 1)]
    bench.wake(DISK_PATIENCE_S + 1.0)
    assert bench.hear(b"s1") == [Suback(0, 2, ReturnCode.CONGESTION, 1)]
    assert [each.reason for each in bench.told(Dropped)] == [Reason.STATE_NOT_SAVED] * 2
    bench.let_disk_go()
    assert bench.hear(b"s1") == []
    assert not bench.engine.sessions[S1].filters
    assert bench.subscribed == set()
    assert SubscriptionRecord not in map(type, bench.rows.durable.values())
    assert bench.subscribe(b"s1", b"cmd", 1) == [Suback(1, 1, 0, 1)]
    bench.publishes("cmd", by="cmd")
    assert published(bench.hear(b"s1")) == [(b"on", 0, False)]
    bench.wake(bench.at + DISK_PATIENCE_S)
    assert bench.engine.sessions[S1].filters == {"cmd": 1}


def test_one_that_was_there_before_stays_as_it_was() -> None:
    bench = bench_with_s1(subscribed=True, qos=1)
    bench.subscribe(b"s1", b"cmd", 2)
    bench.wake(bench.at + DISK_PATIENCE_S)
    assert bench.hear(b"s1") == [Suback(0, 1, ReturnCode.CONGESTION, 2)]
    bench.let_disk_go()
    (row,) = [each for each in bench.rows.durable.values() if isinstance(each, SubscriptionRecord)]
    assert (row.topic_filter, row.qos) == ("cmd", 1)
    assert bench.engine.sessions[S1].filters == {"cmd": 1}


def test_suback_waits_until_what_is_retained_is_durable_too() -> None:
    bench = StateBench()
    bench.join(b"s0", clean=False)
    bench.subscribe(b"s0", b"cmd", 1)
    bench.publishes("cmd", qos=1, retain=True, by="cmd")
    bench.join(b"s1", clean=False)
    bench.holds_disk = True
    bench.subscribe(b"s1", b"cmd", 1)
    for change in (TopicRecord, SubscriptionRecord):
        assert isinstance(bench.rows.pending.pop(0), change)
    waiting, bench.rows.waiting = bench.rows.waiting, []
    bench.take(bench.engine.durable(waiting, bench.at))
    assert bench.rows.pending == [
        MessageRecord(ClientId("s0"), 0, "cmd", b"on", 1),  # came before, and takes its time
        MessageRecord(S1, 0, "cmd", b"on", 1, retain=True),
    ]
    assert bench.hear(b"s1") == []
    bench.let_disk_go()
    suback, *rest = bench.hear(b"s1")
    assert isinstance(suback, Suback)
    assert published(rest) == [(b"on", 1, True)]


def test_a_subscription_of_a_session_that_ended_meanwhile_comes_to_nothing() -> None:
    bench = bench_with_s1(clean=True)
    bench.subscribe(b"s1", b"cmd", 1)
    bench.say(b"s1", Disconnect())
    bench.let_disk_go()
    assert bench.hear(b"s1") == []
    assert len(bench.engine.downlink.subscriptions) == 0
    assert not bench.rows.state().clients


def test_a_filter_that_is_refused_while_it_is_being_saved_is_refused_to_its_client() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 1)
    bench.refuses = {"cmd"}
    bench.lose_broker()
    bench.connect_broker(session_present=True)
    assert bench.hear(b"s1") == [Suback(0, 1, 3, 1)]
    bench.let_disk_go()
    assert bench.hear(b"s1") == []
    assert bench.rows.state().clients[0].subscriptions == []


def test_the_number_in_a_register_is_durable_before_the_client_hears_it() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"#", 1)
    bench.holds_disk = True
    bench.publishes("cmd", by="#")
    assert bench.hear(b"s1") == []
    assert bench.saved() == [TopicRecord(S1, 1, "cmd")]
    bench.wake(25.0)
    assert bench.hear(b"s1") == [], "our disk is no reason to repeat anything"
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Register(1, 1, b"cmd")]


# What the broker hears


def receipts(bench: StateBench) -> list[object]:
    return [
        packet
        for packet in bench.seen()
        if isinstance(packet, mqtt5.PubAckPacket | mqtt5.PubRecPacket | mqtt5.PubCompPacket)
    ]


def test_a_quick_client_acknowledges_for_us_and_the_disk_has_nothing_to_write() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", qos=1, by="cmd")
    assert receipts(bench) == []
    (frame,) = bench.hear(b"s1")
    assert isinstance(frame, Publish)
    bench.say(b"s1", Puback(frame.topic_id, frame.message_id, 0))
    assert len(receipts(bench)) == 1
    bench.wake(bench.at + SOON_S)
    assert bench.saved() == []
    assert receipts(bench) == [], "once"


def test_for_a_client_that_takes_its_time_the_disk_answers() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", qos=1, by="cmd")
    bench.wake(bench.at + SOON_S / 2)
    assert bench.saved() == []
    bench.wake(bench.at + SOON_S / 2)
    assert bench.saved() == [MessageRecord(S1, 0, "cmd", b"on", 1)]
    assert receipts(bench) == []
    bench.let_disk_go()
    assert len(receipts(bench)) == 1
    bench.holds_disk = True
    assert bench.hear_all(b"s1") == [(b"on", 1, False)]
    assert bench.saved() == [MessageDeleted(S1, 0)]
    assert receipts(bench) == []


def test_of_many_clients_only_those_that_take_their_time_are_written_down() -> None:
    bench = StateBench()
    for name in (b"s1", b"s2", b"s3"):
        bench.join(name, clean=False)
        bench.subscribe(name, b"cmd", int(name != b"s3"))
    bench.holds_disk = True
    bench.publishes("cmd", qos=1, by="cmd")
    bench.say(b"s2", Puback(1, 1, 0))
    bench.wake(bench.at + SOON_S)
    assert bench.saved() == [MessageRecord(S1, 0, "cmd", b"on", 1)]


def test_what_came_before_is_saved_with_what_cannot_wait() -> None:
    """The broker would send it again behind the other, if we were gone."""
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", b"1", qos=1, by="cmd")
    bench.say(b"s1", Disconnect(600))
    bench.saved()
    bench.publishes("cmd", b"2", qos=1, by="cmd")
    saved = [row.payload for row in bench.saved() if isinstance(row, MessageRecord)]
    assert saved == [b"1", b"2"]


def test_what_the_operator_says_and_what_is_retained_overtakes_nothing_either() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", b"1", qos=1, by="cmd")
    session = bench.engine.sessions[S1]
    bench.ask(bench.engine.downlink.send_to(session, Message("cmd", b"2", 1), bench.at))
    saved = [row.payload for row in bench.saved() if isinstance(row, MessageRecord)]
    assert saved == [b"1", b"2"]


def test_when_nobody_will_be_heard_any_more_it_is_saved_at_once() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", qos=1, by="cmd")
    bench.take(bench.engine.sensors_closed(bench.at))
    assert bench.saved() == [MessageRecord(S1, 0, "cmd", b"on", 1)]
    bench.let_disk_go()
    assert len(receipts(bench)) == 1


def test_a_session_that_ends_leaves_nothing_to_be_saved() -> None:
    bench = bench_with_s1(clean=True, subscribed=True)
    bench.publishes("cmd", qos=1, by="cmd")
    bench.say(b"s1", Disconnect())
    bench.saved()
    bench.wake(bench.at + SOON_S)
    assert bench.saved() == []


def test_the_broker_waits_for_the_slowest_of_all() -> None:
    bench = StateBench()
    for name in (b"s1", b"s2"):
        bench.join(name, clean=False)
        bench.subscribe(name, b"cmd", 1)
    bench.say(b"s2", Disconnect(600))
    bench.seen()
    bench.holds_disk = True
    bench.publishes("cmd", qos=1, by="cmd")
    bench.say(b"s1", Puback(1, 1, 0))
    assert receipts(bench) == []
    bench.let_disk_go()
    assert len(receipts(bench)) == 1


def test_what_no_client_is_to_have_surely_is_acknowledged_at_once() -> None:
    bench = StateBench()
    bench.join(b"s1")
    bench.subscribe(b"s1", b"cmd", 0)
    bench.seen()
    bench.holds_disk = True
    bench.publishes("cmd", qos=1, by="cmd")
    bench.publishes("unheard", qos=1, by="cmd")
    assert len(receipts(bench)) == 2
    assert bench.saved() == []


def test_a_copy_that_is_dropped_at_once_keeps_the_broker_from_nothing() -> None:
    bench = bench_with_s1(subscribed=True)
    session = bench.engine.sessions[S1]
    session._topics.refuse("cmd")
    bench.publishes("cmd", qos=1, by="cmd")
    assert len(receipts(bench)) == 1
    assert bench.saved() == []


def test_a_session_that_ends_lets_the_broker_go_on() -> None:
    bench = bench_with_s1(clean=True, subscribed=True)
    for number in range(2):
        packet = mqtt5.PublishPacket("cmd", b"on", qos=mqtt5.QoS(1), packet_id=7 + number)
        bench.from_broker(packet.write())
    assert receipts(bench) == []
    bench.say(b"s1", Disconnect())
    assert len(receipts(bench)) == 2


def test_a_break_of_the_connection_costs_no_copy() -> None:
    bench = bench_with_s1(subscribed=True)
    packet = mqtt5.PublishPacket("cmd", b"on", qos=mqtt5.QoS(1), packet_id=7, duplicate=True)
    bench.from_broker(packet.write())
    bench.lose_broker()
    bench.connect_broker(session_present=True)
    bench.from_broker(packet.write())
    bench.wake(bench.at + SOON_S)
    assert receipts(bench) == []
    bench.let_disk_go()
    assert len(receipts(bench)) == 1
    assert bench.engine.sessions[S1].outbound.waiting == 1


# QoS 2


def test_qos_2_goes_out_when_it_is_durable_and_so_does_pubrel() -> None:
    bench = bench_with_s1(subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    assert bench.hear(b"s1") == []
    assert receipts(bench) == []
    message, packet = bench.rows.pending
    assert isinstance(message, MessageRecord)
    assert isinstance(packet, PacketRecord)
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Publish(1, 1, b"on", 2)]
    assert len(receipts(bench)) == 1
    bench.holds_disk = True
    assert bench.say(b"s1", Pubrec(1)) == []
    assert bench.say(b"s1", Pubrec(1)) == []
    bench.wake(40.0)
    assert bench.hear(b"s1") == [], "our disk is no reason to repeat anything"
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Pubrel(1)]
    assert bench.say(b"s1", Pubrec(1)) == [Pubrel(1)]
    bench.holds_disk = True
    bench.say(b"s1", Pubcomp(1))
    assert bench.saved() == [MessageDeleted(S1, 0)]


@pytest.mark.guarantee("4b")
@pytest.mark.parametrize("topic", ["cmd", "unheard"])
def test_qos_2_that_no_client_is_to_have_surely_comes_once_whatever_the_power_does(
    topic: str,
) -> None:
    bench = bench_with_s1(subscribed=True, qos=0)
    bench.publishes(topic, qos=2, by="cmd")
    (packet,) = bench.rows.pending
    assert isinstance(packet, PacketRecord)
    assert receipts(bench) == []
    bench.let_disk_go()
    assert len(receipts(bench)) == 1
    bench.restart()
    bench.subscribe(b"s1", b"#", 2)
    bench.hear(b"s1")
    bench.publishes(topic, qos=2, by="#")
    assert len(receipts(bench)) == 1
    assert bench.hear(b"s1") == []


def test_a_slow_disk_does_not_make_a_client_lost() -> None:
    bench = bench_with_s1(subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    for at in range(50, 1000, 50):
        bench.say(b"s1", Pingreq())
        bench.wake(float(at))
    assert bench.engine.sessions[S1].state is State.ACTIVE
    bench.let_disk_go()
    assert bench.hear(b"s1")[-1] == Publish(1, 1, b"on", 2)


def test_a_client_that_sleeps_by_then_gets_it_when_it_wakes() -> None:
    bench = bench_with_s1(subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    bench.say(b"s1", Disconnect(600))
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Disconnect()]
    assert bench.say(b"s1", Pingreq(b"s1")) == [Publish(1, 1, b"on", 2)]
    bench.holds_disk = True
    assert bench.say(b"s1", Pubrec(1)) == []
    bench.say(b"s1", Disconnect(600), Pingreq(b"s1"))
    bench.let_disk_go()
    assert Pubrel(1) in bench.hear(b"s1")


def test_what_becomes_durable_for_one_that_left_is_sent_to_nobody() -> None:
    bench = bench_with_s1(subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    bench.say(b"s1", Disconnect())
    bench.let_disk_go()
    assert bench.hear(b"s1") == []
    bench = bench_with_s1(clean=True, subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    bench.say(b"s1", Disconnect())
    bench.let_disk_go()
    assert bench.hear(b"s1") == []


def test_the_brokers_pubrel_is_durable_before_pubcomp() -> None:
    bench = bench_with_s1(subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    bench.let_disk_go()
    bench.seen()
    bench.holds_disk = True
    bench.from_broker(mqtt5.PubRelPacket(7).write())
    assert receipts(bench) == []
    bench.let_disk_go()
    (pubcomp,) = receipts(bench)
    assert isinstance(pubcomp, mqtt5.PubCompPacket)
    assert bench.rows.state().packets == []


def test_a_full_outbox_drops_the_row_of_what_it_drops() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.say(b"s1", Disconnect(600))
    bench.let_disk_go()
    for number in range(1002):
        bench.publishes("cmd", b"%d" % number, qos=1, by="cmd")
    (client,) = bench.rows.state().clients
    assert [row.payload for row in client.messages[:2]] == [b"2", b"3"]
    assert len(client.messages) == 1000


def test_positions_are_reserved_before_they_are_used_up() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.let_disk_go()
    for _ in range(1025):
        bench.publishes("cmd", qos=1, by="cmd")
        bench.hear_all(b"s1")
    assert bench.rows.state().clients[0].session.next_position == 2048


# Retained


@pytest.mark.parametrize(("qos", "is_exact"), [(0, True), (1, False), (2, True)])
def test_what_is_retained_is_saved_with_whether_its_qos_may_have_been_higher(
    qos: int, is_exact: bool
) -> None:
    bench = bench_with_s1(subscribed=True, qos=max(qos, 1))
    bench.publishes("cmd", qos=qos, retain=True, by="cmd")
    (row,) = (each for each in bench.saved() if isinstance(each, RetainedRecord))
    assert row == RetainedRecord("cmd", b"on", qos, is_exact)


def test_what_is_retained_is_saved_as_it_changes() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", retain=True, by="cmd")
    assert bench.saved() == [RetainedRecord("cmd", b"on", 0)]
    bench.say(b"s1", Unsubscribe(2, b"cmd"))
    assert RetainedDeleted("cmd") in bench.saved()

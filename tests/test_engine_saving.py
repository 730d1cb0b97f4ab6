"""What waits for the disk, what does not, and where an answer goes that had to wait."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.effects import State
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
    Unsuback,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillMsgResp,
    WillMsgUpd,
    WillTopic,
    WillTopicResp,
    WillTopicUpd,
)
from gateway.saved import (
    ClientId,
    MessageGone,
    RetainedGone,
    SavedMessage,
    SavedPacket,
    SavedRetained,
    SavedSession,
    SavedSubscription,
    SavedTopic,
    SessionGone,
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


# Answers


def test_connack_of_a_session_that_stays_waits_and_of_one_that_does_not_is_not_held_up() -> None:
    bench = held()
    assert bench.say(b"s1", Connect(b"s1", 60)) == []
    assert bench.say(b"s2", Connect(b"s2", 60, clean_session=True)) == [Connack(0)]
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Connack(0)]
    assert {row.session.client_id for row in bench.rows.state().clients} == {"s1", "s2"}


def test_connack_of_a_clean_session_with_a_will_waits() -> None:
    bench = held()
    bench.say(b"s1", Connect(b"s1", 60, will=True, clean_session=True))
    assert bench.say(b"s1", WillTopic(b"lw")) == [WillMsgReq()]
    assert bench.say(b"s1", WillMsg(b"bye")) == []
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Connack(0)]


def test_connack_of_a_clean_session_waits_for_the_end_of_the_one_it_replaces() -> None:
    bench = bench_with_s1()
    assert bench.say(b"s1", Connect(b"s1", 60, clean_session=True)) == []
    gone, row = bench.saved()
    assert gone == SessionGone(S1)
    assert isinstance(row, SavedSession)
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Connack(0)]


def test_a_copy_of_connect_gets_no_answer_before_the_first_one_may() -> None:
    bench = held()
    for _ in range(2):
        assert bench.say(b"s1", Connect(b"s1", 60)) == []
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Connack(0)], "to the connection that is there"


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        (Register(0, 1, b"field"), Regack(1, 1, 0)),
        (Disconnect(600), Disconnect()),
        (WillTopicUpd(b"lw"), WillTopicResp(0)),
        (Subscribe(1, b"cmd", 1), Suback(1, 1, 0, 1)),
    ],
    ids=repr,
)
def test_a_promise_waits_and_so_does_its_repetition(frame: Frame, answer: Frame) -> None:
    bench = bench_with_s1()
    assert bench.say(b"s1", frame) == []
    assert bench.say(b"s1", frame) == []
    assert bench.say(b"s1", Pingreq()) == [Pingresp()], "which promises nothing"
    bench.let_disk_go()
    assert set(bench.hear(b"s1")) == {answer}
    if not isinstance(frame, Subscribe):
        assert bench.say(b"s1", frame) == [answer], "at once: it is durable"


def test_unsuback_and_changes_of_the_will_wait() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", WillTopicUpd(b"lw"))
    bench.subscribe(b"s1", b"cmd", 1)
    bench.holds_disk = True
    assert bench.say(b"s1", WillMsgUpd(b"bye"), Unsubscribe(2, b"cmd")) == []
    bench.let_disk_go()
    assert bench.hear(b"s1") == [WillMsgResp(0), Unsuback(2)]


def test_goodbyes_do_not_wait() -> None:
    bench = bench_with_s1()
    assert bench.say(b"s1", Disconnect()) == [Disconnect()]
    (row,) = bench.saved()
    assert isinstance(row, SavedSession)
    assert row.state is State.DISCONNECTED
    bench = bench_with_s1(clean=True)
    assert bench.say(b"s1", Disconnect()) == [Disconnect()]
    assert bench.saved() == [SessionGone(S1)]


def test_a_client_that_is_lost_is_saved_as_that() -> None:
    bench = bench_with_s1()
    bench.wake(90.0)
    (row,) = bench.saved()
    assert isinstance(row, SavedSession)
    assert row.state is State.LOST


# Sleep


def test_a_sleeper_that_fetches_its_messages_by_pingreq_costs_no_write() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    written = bench.written
    for _ in range(10):
        assert bench.say(b"s1", Pingreq(b"s1")) == [Pingresp()]
        assert bench.say(b"s1", Disconnect(600)) == [Disconnect()]
    assert bench.written == written


def test_one_that_is_known_to_sleep_hears_at_once_that_it_may_for_longer() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    bench.holds_disk = True
    assert bench.say(b"s1", Disconnect(900)) == [Disconnect()]
    (row,) = bench.saved()
    assert isinstance(row, SavedSession)
    assert row.sleep_s == 900


def test_a_wake_signal_is_saved_and_connack_waits_for_it() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    bench.holds_disk = True
    assert bench.say(b"new", Connect(b"s1", 60)) == []
    (row,) = bench.saved()
    assert isinstance(row, SavedSession)
    assert (row.state, row.address) == (State.ACTIVE, b"new")


def test_where_a_client_was_is_forgotten_when_it_shakes_hands_elsewhere() -> None:
    bench = bench_with_s1()
    assert len(bench.say(b"new", Connect(b"s1", 60, will=True))) == 1
    (row,) = bench.saved()
    assert isinstance(row, SavedSession)
    assert (row.state, row.address) == (State.DISCONNECTED, b"new")


# Where a withheld answer goes


def test_no_withheld_answer_reaches_another_client_at_the_address() -> None:
    bench = bench_with_s1()
    bench.say(b"s1", Register(0, 1, b"field"))
    assert bench.say(b"s1", Connect(b"s2", 60, clean_session=True)) == [Connack(0)]
    bench.let_disk_go()
    assert bench.hear(b"s1") == []


def test_no_withheld_answer_reaches_the_next_connection_or_session() -> None:
    for clean in (False, True):
        bench = bench_with_s1()
        bench.say(b"s1", Register(0, 1, b"field"))
        bench.say(b"s1", Connect(b"s1", 60, clean_session=clean))
        bench.let_disk_go()
        assert bench.hear(b"s1") == [Connack(0)]
        assert bench.engine.sessions[S1].withheld == 0


def test_no_withheld_answer_reaches_one_that_left() -> None:
    bench = bench_with_s1()
    bench.say(b"s1", Register(0, 1, b"field"))
    bench.say(b"s1", Disconnect())
    bench.let_disk_go()
    assert bench.hear(b"s1") == []


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


def test_suback_waits_until_what_is_retained_is_durable_too() -> None:
    bench = StateBench()
    bench.join(b"s0", clean=False)
    bench.subscribe(b"s0", b"cmd", 1)
    bench.publishes("cmd", qos=1, retain=True, by="cmd")
    bench.join(b"s1", clean=False)
    bench.holds_disk = True
    bench.subscribe(b"s1", b"cmd", 1)
    for change in (SavedTopic, SavedSubscription):
        assert isinstance(bench.rows.pending.pop(0), change)
    waiting, bench.rows.waiting = bench.rows.waiting, []
    bench.take(bench.engine.durable(waiting, bench.at))
    assert bench.rows.pending == [SavedMessage(S1, 0, "cmd", b"on", 1, retain=True)]
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
    assert bench.saved() == [SavedTopic(S1, 1, "cmd")]
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
    assert bench.saved() == [SavedMessage(S1, 0, "cmd", b"on", 1), MessageGone(S1, 0)]
    bench.let_disk_go()
    assert receipts(bench) == [], "once"


def test_for_a_client_that_takes_its_time_the_disk_answers() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", qos=1, by="cmd")
    bench.let_disk_go()
    assert len(receipts(bench)) == 1
    assert bench.hear_all(b"s1") == [(b"on", 1, False)]
    assert receipts(bench) == []


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
    for qos in (1, 2):
        bench.publishes("cmd", qos=qos, by="cmd")
        bench.publishes("unheard", qos=qos, by="cmd")
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
    assert receipts(bench) == []
    bench.let_disk_go()
    assert len(receipts(bench)) == 1
    assert bench.engine.sessions[S1].delivering.waiting == 1


# QoS 2


def test_qos_2_goes_out_when_it_is_durable_and_so_does_pubrel() -> None:
    bench = bench_with_s1(subscribed=True, qos=2)
    bench.publishes("cmd", qos=2, by="cmd")
    assert bench.hear(b"s1") == []
    assert receipts(bench) == []
    message, packet = bench.rows.pending
    assert isinstance(message, SavedMessage)
    assert isinstance(packet, SavedPacket)
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
    assert bench.saved() == [MessageGone(S1, 0)]


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


def test_what_is_retained_is_saved_as_it_changes() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.publishes("cmd", retain=True, by="cmd")
    assert bench.saved() == [SavedRetained("cmd", b"on", 0)]
    bench.say(b"s1", Unsubscribe(2, b"cmd"))
    assert RetainedGone("cmd") in bench.saved()

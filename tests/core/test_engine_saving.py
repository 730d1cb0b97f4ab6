"""What waits for the disk, what does not, and where an answer goes that had to wait."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.effects import ConnectSaved
from gateway.core.state_records import (
    ClientId,
    SessionDeleted,
    SessionRecord,
    State,
    TopicRecord,
)
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
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
from tests.support.engine_bench import Bench
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
    bench = bench_with_s1()
    assert bench.say(b"new", Connect(b"s1", 60)) == []
    assert bench.say(b"s2", Connect(b"s2", 60, clean_session=True)) == [Connack(0)]
    bench.let_disk_go()
    assert bench.hear(b"new") == [Connack(0)]
    bench.say(b"s2", Pingreq())
    assert {row.session.client_id for row in bench.rows.state().clients} == {"s1", "s2"}


def test_a_new_client_costs_no_write_before_it_says_more_and_then_comes_before_all_else() -> None:
    bench = held()
    assert bench.say(b"s1", Connect(b"s1", 60)) == [Connack(0)]
    assert bench.saved() == []
    assert bench.say(b"s1", Register(0, 1, b"field")) == [], "this is a promise"
    session, topic = bench.saved()
    assert isinstance(session, SessionRecord)
    assert (session.client_id, session.state) == ("s1", State.ACTIVE)
    assert isinstance(topic, TopicRecord)
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Regack(1, 1, 0)]


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
    assert gone == SessionDeleted(S1)
    assert isinstance(row, SessionRecord)
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Connack(0)]


def test_a_copy_of_connect_gets_no_answer_before_the_first_one_may() -> None:
    bench = bench_with_s1()
    for _ in range(2):
        assert bench.say(b"s1", Connect(b"s1", 70)) == []
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
    assert isinstance(row, SessionRecord)
    assert row.state is State.DISCONNECTED
    bench = bench_with_s1(clean=True)
    assert bench.say(b"s1", Disconnect()) == [Disconnect()]
    assert bench.saved() == [SessionDeleted(S1)]


def test_a_client_that_is_lost_is_saved_as_that() -> None:
    bench = bench_with_s1()
    bench.wake(90.0)
    (row,) = bench.saved()
    assert isinstance(row, SessionRecord)
    assert row.state is State.LOST


def test_what_waits_for_a_client_waits_for_its_connack() -> None:
    bench = bench_with_s1(subscribed=True)
    bench.say(b"s1", Disconnect())
    bench.publishes("cmd", qos=1, by="cmd")
    assert bench.say(b"s1", Connect(b"s1", 60)) == []
    bench.wake(40.0)
    assert bench.hear(b"s1") == [], "not even repeated"
    bench.publishes("cmd", b"off", by="cmd")
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Connack(0), Register(1, 1, b"cmd")]


def test_a_client_whose_connack_waits_too_long_has_left_and_no_will_is_published() -> None:
    bench = StateBench()
    bench.say(b"s1", Connect(b"s1", 60, will=True))
    bench.say(b"s1", WillTopic(b"lw", 1), WillMsg(b"bye"))
    bench.holds_disk = True
    bench.seen()
    assert bench.say(b"s1", Connect(b"s1", 60)) == []
    bench.wake(50.0)
    assert bench.engine.sessions[S1].state is State.DISCONNECTED
    assert "lw" not in [packet.topic for packet in bench.seen_of(mqtt5.PublishPacket)]
    bench.let_disk_go()
    assert bench.hear(b"s1") == []


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


def test_one_that_is_known_to_sleep_hears_at_once_that_it_may_as_long_or_less() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    bench.holds_disk = True
    assert bench.say(b"s1", Disconnect(600)) == [Disconnect()]
    assert bench.saved() == []
    assert bench.say(b"s1", Disconnect(300)) == [Disconnect()]
    (row,) = bench.saved()
    assert isinstance(row, SessionRecord)
    assert row.sleep_s == 300


def test_that_one_may_sleep_for_longer_is_said_when_it_is_durable() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    bench.holds_disk = True
    assert bench.say(b"s1", Disconnect(900)) == []
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Disconnect()]


def test_a_wake_signal_is_saved_and_connack_waits_for_it() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    bench.holds_disk = True
    assert bench.say(b"s1", Connect(b"s1", 60)) == []
    (row,) = bench.saved()
    assert isinstance(row, SessionRecord)
    assert (row.state, row.address) == (State.ACTIVE, b"s1")


def test_one_that_goes_back_to_sleep_before_it_heard_connack_sleeps() -> None:
    bench = StateBench()
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect(600))
    bench.holds_disk = True
    bench.say(b"s1", Connect(b"s1", 60), Disconnect(900))
    bench.let_disk_go()
    assert bench.hear(b"s1") == [Disconnect()]
    assert bench.engine.sessions[S1].state is State.ASLEEP


def test_a_handshake_elsewhere_changes_nothing_of_what_is_saved() -> None:
    bench = bench_with_s1()
    assert len(bench.say(b"new", Connect(b"s1", 60, will=True))) == 1
    assert bench.saved() == []


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
        assert not bench.engine.sessions[S1].held


def test_no_withheld_answer_reaches_one_that_left() -> None:
    bench = bench_with_s1()
    bench.say(b"s1", Register(0, 1, b"field"))
    bench.say(b"s1", Disconnect())
    bench.let_disk_go()
    assert bench.hear(b"s1") == []


def test_nobody_is_let_in_whose_session_is_over_by_then() -> None:
    bench = Bench()
    assert bench.engine.durable([ConnectSaved(ClientId("gone"), Peer(0, b"there"))], 0.0) == []

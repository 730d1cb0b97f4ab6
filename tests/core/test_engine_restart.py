"""A new life of the gateway goes on where the power ended the one before it."""

from __future__ import annotations

from dataclasses import replace

import mqtt5
import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.downlink.downlink import REPLAY_WINDOW_S
from gateway.core.downlink.write_behind import SOON_S
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, StateChanged
from gateway.core.session.client_queue import POSITIONS_BLOCK
from gateway.core.session.options import PredefinedTopics, SessionOptions
from gateway.core.session.topic_registry import UNSAVED_IDS
from gateway.core.state_records import (
    ClientId,
    ClientRecord,
    FilterRecord,
    MessageRecord,
    SessionDeleted,
    SessionRecord,
    State,
    StateRecords,
    SubscriptionRecord,
    TopicRecord,
)
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
    TopicIdType,
    WillMsg,
    WillTopic,
)
from tests.support.engine_bench import granted_id, published
from tests.support.state_bench import SAVING, StateBench

S1 = ClientId("s1")


def bench_with_s1(*, clean: bool = False, keep_alive_s: int = 60) -> StateBench:
    bench = StateBench()
    bench.join(b"s1", clean=clean, keep_alive_s=keep_alive_s)
    return bench


def saved(
    *rows: TopicRecord | SubscriptionRecord | MessageRecord, state: State = State.ACTIVE,
    link: int = 0, clean: bool = False, name: str = "s1",
) -> ClientRecord:  # fmt: skip
    session = SessionRecord(ClientId(name), clean, link, b"s1", state, 60, 600)
    return ClientRecord(
        session,
        [row for row in rows if isinstance(row, TopicRecord)],
        [row for row in rows if isinstance(row, SubscriptionRecord)],
        [row for row in rows if isinstance(row, MessageRecord)],
    )


def restored(*clients: ClientRecord, connected: bool = True) -> StateBench:
    bench = StateBench(connected=False)
    bench.take(bench.engine.restore(StateRecords([*clients], [], [], []), bench.at))
    if connected:
        bench.connect_broker(session_present=True)
    return bench


# Clients


@pytest.mark.parametrize("clean", [False, True])
def test_a_client_that_was_connected_is_served_without_connect(clean: bool) -> None:
    bench = bench_with_s1(clean=clean)
    topic_id = bench.register(b"s1", b"field")
    bench.restart()
    assert bench.say(b"s1", Pingreq()) == [Pingresp()]
    assert bench.say(b"s1", Publish(topic_id, 7, b"21.5", 1)) == [Puback(topic_id, 7, 0)]
    assert bench.register(b"s1", b"field") == topic_id


def test_one_restored_as_active_that_asks_as_a_sleeper_does_is_asleep() -> None:
    """A full disk did not take its first DISCONNECT, and the power was cut."""
    bench = bench_with_s1()
    bench.restart()
    bench.say(b"s1", Pingreq(b"s1"))
    changes = [(each.before, each.after) for each in bench.told(StateChanged)][-2:]
    assert changes == [(State.ACTIVE, State.AWAKE), (State.AWAKE, State.ASLEEP)]
    bench.restart()
    bench.say(b"s1", Connect(b"s1", 60, clean_session=False))
    assert bench.say(b"s1", Pingreq(b"s1")) == [Pingresp()]
    assert bench.told(StateChanged)[-1].after is State.ACTIVE


def test_new_topic_ids_begin_where_no_former_life_has_been() -> None:
    bench = bench_with_s1()
    assert [bench.register(b"s1", name) for name in (b"a", b"b")] == [1, 2]
    bench.holds_disk = True
    bench.say(b"s1", Register(0, 9, b"lost with the power"))
    bench.restart(replace(SAVING, first_topic_id=513))
    assert [bench.register(b"s1", name) for name in (b"c", b"b", b"d")] == [513, 2, 514]
    bench.restart(replace(SAVING, first_topic_id=1))
    following = 515 + UNSAVED_IDS
    assert [bench.register(b"s1", name) for name in (b"e", b"a", b"d")] == [following, 1, 514]
    unknown = Puback(3, 1, 2)
    assert bench.say(b"s1", Publish(3, 1, b"x", 1)) == [unknown]


def test_topic_ids_that_would_run_out_begin_again_with_what_is_free() -> None:
    topics = [TopicRecord(S1, topic_id, f"t{topic_id}") for topic_id in (1, 2, 4, 0xFFFE)]
    bench = restored(saved(*topics))
    assert [bench.register(b"s1", name) for name in (b"a", b"b", b"c")] == [3, 5, 6]
    for topic_id in (1, 2, 4, 0xFFFE):
        assert bench.register(b"s1", b"t%d" % topic_id) == topic_id
    assert bench.say(b"s1", Publish(7, 1, b"x", 1)) == [Puback(7, 1, 2)]


def test_every_client_has_its_full_time_again() -> None:
    bench = bench_with_s1()
    bench.join(b"s2", clean=False)
    bench.say(b"s2", Disconnect(600))
    bench.at = 80.0
    bench.restart()
    bench.news.clear()
    bench.wake(80.0 + 89.0)
    assert bench.told(StateChanged) == []
    bench.wake(80.0 + 90.0)
    bench.wake(80.0 + 660.0)
    lost = bench.told(StateChanged)
    assert [(each.client_id, each.after) for each in lost] == [
        ("s1", State.LOST),
        ("s2", State.LOST),
    ]


def test_a_will_is_kept_over_a_restart() -> None:
    bench = StateBench()
    bench.say(b"s1", Connect(b"s1", 10, will=True))
    bench.say(b"s1", WillTopic(b"lw", 1, True), WillMsg(b"bye"))
    bench.restart()
    bench.seen()
    bench.wake(15.0)
    (will,) = bench.seen_of(mqtt5.PublishPacket)
    assert (will.topic, will.payload, will.retain) == ("lw", b"bye", True)


@pytest.mark.parametrize("state", [State.DISCONNECTED, State.LOST])
def test_a_client_that_was_away_is_away(state: State) -> None:
    bench = restored(saved(state=state))
    session = bench.engine.sessions[S1]
    assert session.state is state
    assert bench.say(b"s1", Pingreq()) == [Disconnect()]
    assert bench.say(b"s1", Connect(b"s1", 60)) == [Connack(0)]


def test_one_that_was_away_makes_room_after_its_time_counted_from_now() -> None:
    options = replace(SAVING, admission=AdmissionOptions(clients_max=1, absent_s_min=3600))
    bench = StateBench(options)
    bench.take(bench.engine.restore(StateRecords([saved(state=State.LOST)], [], [], []), 0.0))
    assert bench.say(b"s2", Connect(b"s2", 60)) == [Connack(1)]
    bench.at = 3600.0
    assert bench.say(b"s2", Connect(b"s2", 60)) == [Connack(0)]


def test_a_client_whose_link_is_gone_is_disconnected_and_a_clean_session_ended() -> None:
    bench = restored(saved(link=-1), saved(link=-1, clean=True, name="s2"))
    assert bench.engine.sessions.keys() == {"s1"}
    assert bench.engine.sessions[S1].state is State.DISCONNECTED
    assert bench.say(b"s1", Connect(b"s1", 60)) == [Connack(0)]
    holding = StateBench(connected=False)
    holding.holds_disk = True
    clients = [saved(link=-1, clean=True, name="s2")]
    holding.take(holding.engine.restore(StateRecords(clients, [], [], []), 0.0))
    assert holding.saved() == [SessionDeleted(ClientId("s2"))]


def test_of_two_clients_at_one_address_one_is_there() -> None:
    bench = restored(saved(), saved(name="s2"))
    states = [session.state for session in bench.engine.sessions.values()]
    assert states == [State.ACTIVE, State.DISCONNECTED]


# Subscriptions


def test_subscriptions_are_alive_and_nobody_is_a_newcomer() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 1)
    bench.publishes("cmd", retain=True, by="cmd")
    bench.hear_all(b"s1")
    bench.restart()
    bench.publishes("cmd", b"on", retain=True, by="cmd", is_replay=True)
    assert bench.hear(b"s1") == []
    bench.publishes("cmd", b"off", qos=1, by="cmd")
    assert bench.hear_all(b"s1") == [(b"off", 1, False)]


def test_one_that_waits_for_a_retained_message_at_its_own_qos_gets_it_all_the_same() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 0)
    bench.publishes("cmd", retain=True, by="cmd", is_replay=True)
    bench.join(b"s2", clean=False)
    bench.hear_all(b"s1")
    bench.lose_broker_for_long()
    bench.subscribe(b"s2", b"cmd", 1)
    assert bench.hear_all(b"s2") == []
    bench.restart()
    bench.publishes("cmd", qos=1, retain=True, by="cmd", is_replay=True)
    assert bench.hear_all(b"s2") == [(b"on", 1, False)], "it may have had it with the flag"
    assert bench.hear_all(b"s1") == []


def test_a_topic_is_named_as_the_client_named_it() -> None:
    predefined = PredefinedTopics.of({"boot": 7})
    bench = StateBench(replace(SAVING, predefined=predefined))
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Subscribe(1, b"\x00\x07", 0, topic_id_type=TopicIdType.PREDEFINED))
    bench.restart()
    bench.publishes("boot", by="boot")
    assert bench.hear(b"s1") == [Publish(7, 0, b"on", topic_id_type=TopicIdType.PREDEFINED)]
    bench.restart(replace(SAVING, predefined=PredefinedTopics.of({"other": 7})))
    bench.publishes("boot", by="boot")
    assert bench.hear(b"s1") == [Register(1, POSITIONS_BLOCK * 2 + 1, b"boot")]


def test_what_came_while_we_were_away_is_passed_on_and_its_copies_are_not() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"a/+", 1, message_id=1)
    bench.subscribe(b"s1", b"+/b", 1, message_id=2)
    bench.restart()
    bench.publishes("a/b", b"1", by="a/+")
    bench.publishes("a/b", b"1", by="+/b")
    assert bench.hear_all(b"s1") == [(b"1", 0, False)]


def test_filters_that_nobody_wants_any_more_are_given_up() -> None:
    bench = bench_with_s1(clean=True)
    bench.subscribe(b"s1", b"cmd", 1)
    bench.rows.durable = {
        key: row for key, row in bench.rows.durable.items() if isinstance(row, FilterRecord)
    }
    bench.restart()
    (packet,) = bench.seen_of(mqtt5.UnsubscribePacket)
    assert packet.patterns == ["cmd"]
    assert bench.rows.state().filters == []


def test_narrower_filters_under_a_wide_one_need_none_of_their_own_after_a_restart() -> None:
    bench = bench_with_s1()
    for number, topic_filter in enumerate((b"a/b", b"a/#", b"$s", b"c"), 1):
        bench.subscribe(b"s1", topic_filter, number % 3, message_id=number)
    covering = dict(bench.engine.downlink.subscriptions.covering)
    bench.restart()
    assert bench.engine.downlink.subscriptions.covering == covering
    assert len(bench.engine.downlink.subscriptions) == 4


def test_what_is_retained_is_served_at_once_and_confirmed_later() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"state/+")
    for topic in ("state/kept", "state/gone"):
        bench.publishes(topic, retain=True, by="state/+")
    bench.restart(connected=False)
    bench.lose_broker_for_long()
    bench.join(b"s2")
    suback, publish = bench.subscribe(b"s2", b"state/kept")
    assert isinstance(suback, Suback)
    assert published([publish]) == [(b"on", 0, True)]
    bench.connect_broker(session_present=True)
    bench.publishes("state/kept", retain=True, by="state/+", is_replay=True)
    bench.wake(bench.at + REPLAY_WINDOW_S)
    assert [row.topic for row in bench.rows.state().retained] == ["state/kept"]


# Messages


def test_an_active_client_is_sent_again_what_it_had_not_acknowledged() -> None:
    bench = bench_with_s1()
    topic_id = granted_id(bench.subscribe(b"s1", b"cmd", 1))
    for payload in (b"1", b"2"):
        bench.publishes("cmd", payload, qos=1, by="cmd")
    bench.wake(bench.at + SOON_S)
    bench.restart()
    bench.wake(bench.at)
    assert bench.hear(b"s1") == [Publish(topic_id, 1, b"1", 1, dup=True)]
    assert bench.say(b"s1", Puback(topic_id, 1, 0)) == [Publish(topic_id, 2, b"2", 1, dup=True)]
    bench.say(b"s1", Puback(topic_id, 2, 0))
    bench.publishes("cmd", b"3", qos=1, by="cmd")
    (frame,) = bench.hear(b"s1")
    assert isinstance(frame, Publish)
    assert (frame.message_id, frame.dup) == (2 * POSITIONS_BLOCK + 1, False), "never used"


def test_what_was_never_sent_is_registered_first_without_dup() -> None:
    message = MessageRecord(S1, 0, "cmd", b"on", 1)
    bench = restored(saved(message))
    bench.wake(bench.at)
    assert bench.hear(b"s1") == [Register(1, 1, b"cmd")]


def test_a_number_that_its_client_forgot_over_our_restart_is_registered_again() -> None:
    topic, message = TopicRecord(S1, 7, "cmd"), MessageRecord(S1, 0, "cmd", b"on", 1)
    bench = restored(saved(topic, message, state=State.ASLEEP))
    bench.say(b"s1", Puback(7, 1, ReturnCode.INVALID_TOPIC_ID))
    assert bench.say(b"s1", Pingreq(b"s1")) == [Register(7, 1, b"cmd")]


def test_without_room_for_its_topic_a_restored_message_is_dropped_and_counted() -> None:
    options = replace(SAVING, session=SessionOptions(topics_max=1))
    bench = StateBench(options, connected=False)
    client = saved(
        TopicRecord(S1, 1, "field"),
        MessageRecord(S1, 0, "cmd", b"on", 1),
        MessageRecord(S1, 1, "cmd", b"off", 1),
    )
    bench.take(bench.engine.restore(StateRecords([client], [], [], []), 0.0))
    bench.wake(0.0)
    assert [each.reason for each in bench.told(Dropped)] == [Reason.TOPICS_FULL] * 2
    assert bench.engine.sessions[S1].outbound.waiting == 0


def test_clients_that_have_something_waiting_are_served_one_after_the_other() -> None:
    clients = [
        saved(MessageRecord(ClientId(name), 0, "cmd", b"on", 1), name=name)
        for name in ("s1", "s2", "s3")
    ]
    clients = [
        replace(each, session=replace(each.session, address=each.session.client_id.encode()))
        for each in clients
    ]
    bench = restored(*clients)
    due = sorted(each.wake_at() for each in bench.engine.sessions.values())
    assert due == [0.0, 0.001, 0.002]


def test_a_half_finished_qos_2_goes_on_with_pubrel() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 2)
    bench.publishes("cmd", qos=2, by="cmd")
    assert Pubrel(1) in bench.say(b"s1", Pubrec(1))
    bench.restart()
    bench.wake(bench.at)
    assert bench.hear(b"s1") == [Pubrel(1)]


def test_a_sleeper_finds_its_messages_in_order_when_it_wakes() -> None:
    bench = bench_with_s1()
    bench.subscribe(b"s1", b"cmd", 2)
    bench.say(b"s1", Disconnect(600))
    for number in range(3):
        packet = mqtt5.PublishPacket(
            "cmd", b"%d" % number, qos=mqtt5.QoS(number % 2 + 1), packet_id=number + 1
        )
        bench.from_broker(packet.write())
    bench.restart()
    assert bench.engine.sessions[S1].state is State.ASLEEP
    bench.wake(500.0)
    assert bench.hear(b"s1") == []
    bench.heard += [(b"s1", frame) for frame in bench.say(b"s1", Pingreq(b"s1"))]
    assert bench.engine.sessions[S1].state is State.AWAKE


def test_an_acknowledgement_of_what_a_former_life_sent_counts_in_its_turn() -> None:
    """The client has done with the first, but that was lost with the power."""
    rows = [MessageRecord(S1, place, "cmd", b"%d" % place, 2) for place in range(2)]
    rows[0].is_released = True
    bench = restored(saved(TopicRecord(S1, 1, "cmd"), *rows))
    bench.wake(bench.at)
    assert bench.hear(b"s1") == [Pubrel(1)]
    assert bench.say(b"s1", Pubrec(2)) == [], "not its turn yet"
    assert bench.say(b"s1", Pubrec(9)) == [Pubrel(9)]


def test_it_wants_to_be_woken_for_the_clients_that_came_back() -> None:
    assert restored(saved(), connected=False).engine.wake_at() == 90.0


def test_a_topic_that_was_registered_again_after_a_new_connect_keeps_its_number() -> None:
    bench = bench_with_s1()
    topic_id = bench.register(b"s1", b"cmd")
    bench.subscribe(b"s1", b"cmd", 1)
    bench.restart()
    bench.say(b"s1", Connect(b"s1", 60))
    bench.publishes("cmd", qos=1, by="cmd")
    (register,) = bench.hear(b"s1")
    assert isinstance(register, Register)
    assert register.topic_id == topic_id
    (publish,) = bench.say(b"s1", Regack(topic_id, register.message_id, 0))
    assert isinstance(publish, Publish)

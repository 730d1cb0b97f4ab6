"""A CONNECT with CleanSession in a known client's name, from an address that is not the client's.

Who sends it may be the client, with a new address, or somebody who sees none of our answers.
"""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.clients.contests import GUESS_AGAIN_S
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, RecordRelease
from gateway.core.state_records import ClientId, Exchanges, State
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
    WillTopic,
    WillTopicReq,
)
from tests.support.engine_bench import published, short
from tests.support.state_bench import StateBench, sleeper

S1 = ClientId("s1")
HOME, AWAY, THIRD = b"home", b"away", b"third"
CLEAN = Connect(b"s1", 60, clean_session=True)


def asleep(*, clean: bool = False, messages: int = 1) -> StateBench:
    """s1 sleeps at home; so many messages on "cmd" wait for it."""
    return sleeper(HOME, clean=clean, messages=messages)


def fetched(bench: StateBench) -> list[bytes]:
    """What the sleeper gets at home."""
    frames = bench.say(HOME, Pingreq(b"s1"))
    payloads: list[bytes] = []
    while frames != [Pingresp()]:
        (frame,) = frames
        if isinstance(frame, Register):
            frames = bench.say(HOME, Regack(frame.topic_id, frame.message_id, 0))
            continue
        assert isinstance(frame, Publish)
        payloads.append(frame.payload)
        frames = bench.say(HOME, Puback(frame.topic_id, frame.message_id, 0))
    return payloads


def dropped(bench: StateBench) -> list[Reason]:
    return [each.reason for each in bench.told(Dropped)]


def state_of(bench: StateBench) -> State:
    return bench.engine.sessions[S1].state


def later(bench: StateBench, seconds: float) -> None:
    """Time passes, in which the broker is away: it says nothing here that nobody asks for."""
    bench.lose_broker()
    bench.wake(bench.at + seconds)
    bench.connect_broker(session_present=True)


def proven(bench: StateBench, at: bytes = AWAY) -> None:
    """Who is there hears a message and acknowledges it."""
    bench.subscribe(at, b"mine", qos=1)
    bench.publishes("mine", b"yours", qos=1, by="mine")
    (message,) = bench.hear(at)
    assert isinstance(message, Publish)
    bench.say(at, Puback(message.topic_id, message.message_id, 0))


BLIND: list[list[Frame]] = [
    [],
    [Disconnect()],
    [Pingreq()],
    [Pingreq(), Disconnect(60_000)],
    [Subscribe(1, b"cmd", 0), Unsubscribe(2, b"cmd"), Disconnect()],
    [short(b"1", 1, 7), short(b"2", 2, 8), Pubrel(8)],
    [Regack(1, 1, 0), Puback(1, 1, 0), Pubrec(1), Pubcomp(1)],
    [CLEAN, Connect(b"s1", 1, clean_session=True)],
]


@pytest.mark.guarantee("6c")
@pytest.mark.parametrize("then", BLIND, ids=repr)
@pytest.mark.parametrize("clean", [False, True])
def test_a_blind_connect_costs_a_sleeper_nothing(then: list[Frame], clean: bool) -> None:
    bench = asleep(clean=clean)
    bench.say(AWAY, CLEAN, *then)
    bench.publishes("cmd", b"late", qos=1, by="cmd")
    assert fetched(bench) == [b"0", b"late"]
    bench.publishes("cmd", b"later", qos=1, by="cmd")
    assert fetched(bench) == [b"later"], "and it is subscribed still"


@pytest.mark.parametrize("then", BLIND, ids=repr)
def test_nor_does_a_power_cut_after_it(then: list[Frame]) -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN, *then)
    bench.publishes("cmd", b"late", qos=1, by="cmd")
    bench.restart()
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]
    assert fetched(bench) == [b"0", b"late"]


def test_one_that_is_active_is_served_on_and_its_next_frame_ends_what_came_in_its_name() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME)
    bench.subscribe(HOME, b"cmd", qos=1)
    assert bench.say(AWAY, CLEAN) == [Connack(0)]
    for qos in (0, 1):
        bench.publishes("cmd", b"%d" % qos, qos=qos, by="cmd")
    zero, one = bench.hear(HOME)
    assert published([zero, one]) == [(b"0", 0, False), (b"1", 1, False)]
    assert isinstance(one, Publish)
    bench.news.clear()
    assert bench.say(HOME, Puback(one.topic_id, one.message_id, 0), short(b"x", 1, 3)) == [
        Puback(int.from_bytes(b"tp", "big"), 3, 0)
    ]
    assert Reason.UNPROVEN in dropped(bench)
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]


def test_readings_that_were_under_way_are_acknowledged_to_whom_they_are_of() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME)
    bench.holds = True
    assert bench.say(HOME, short(b"home", 1, 7)) == []
    assert bench.say(AWAY, CLEAN, short(b"away", 1, 7)) == [Connack(0)]
    bench.release()
    acknowledged = Puback(int.from_bytes(b"tp", "big"), 7, 0)
    assert (bench.hear(HOME), bench.hear(AWAY)) == ([acknowledged], [acknowledged])


def test_a_reading_that_is_refused_is_refused_to_whom_it_is_of() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME)
    bench.holds = True
    reading = short(b"home", 1, 7)
    bench.say(HOME, reading)
    bench.say(AWAY, CLEAN)
    session = bench.engine.sessions[S1]
    former = bench.engine.client_table.formers[S1]
    (waiting,) = former.inbound.unacknowledged
    bench.take([*session.refused(waiting, 1)])  # type: ignore[list-item]
    assert bench.hear(HOME) == [Puback(reading.topic_id, 7, 1)]
    assert session.refused(waiting, 1) == []


def test_a_quick_client_is_served_as_quickly_as_any() -> None:
    """It connects, publishes to a short name and leaves, and proves nothing."""
    bench = asleep()
    puback = Puback(int.from_bytes(b"tp", "big"), 7, 0)
    assert bench.say(AWAY, CLEAN) == [Connack(0)]
    assert bench.say(AWAY, short(b"21.5", 1, 7)) == [puback]
    assert bench.say(AWAY, Disconnect()) == [Disconnect()]
    assert state_of(bench) is State.ASLEEP


def test_one_that_subscribes_gets_its_messages_and_by_the_first_one_the_session() -> None:
    bench = asleep()
    assert bench.say(AWAY, CLEAN) == [Connack(0)]
    assert isinstance(bench.subscribe(AWAY, b"mine", qos=1)[0], Suback)
    bench.publishes("mine", b"on", qos=1, by="mine")
    (message,) = bench.hear(AWAY)
    assert isinstance(message, Publish)
    assert bench.engine.client_table.formers
    assert bench.say(AWAY, Puback(message.topic_id, message.message_id, 0)) == []
    assert bench.engine.client_table.formers == {}
    assert bench.say(HOME, Pingreq(b"s1")) == [Disconnect()]
    assert bench.engine.sessions[S1].filters == {"mine": 1}
    assert Reason.SESSION_ENDED in dropped(bench)
    bench.restart()
    assert bench.say(AWAY, Pingreq()) == [Pingresp()], "it is saved from then on"
    bench.publishes("mine", b"off", qos=1, by="mine")
    assert bench.hear_all(AWAY) == [(b"off", 1, False)]


def test_what_waits_for_it_then_is_saved_with_it() -> None:
    bench = asleep(messages=0)
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"a/#", qos=2)
    bench.subscribe(AWAY, b"tp", qos=1, message_id=2)
    bench.publishes("a/b", b"1", qos=2, by="a/#")
    bench.publishes("a/b", b"2", qos=0, by="a/#")
    bench.publishes("tp", b"3", qos=1, by="tp")
    (register,) = bench.hear(AWAY)
    assert isinstance(register, Register)
    (message,) = bench.say(AWAY, Regack(register.topic_id, register.message_id, 0))
    assert isinstance(message, Publish)
    bench.restart()
    bench.wake(bench.at + 1)
    (again, *_) = bench.hear(AWAY)
    assert isinstance(again, Publish)
    assert (again.message_id, again.payload, again.dup) == (message.message_id, b"1", True)


def test_what_it_has_received_is_saved_as_received() -> None:
    bench = asleep(messages=0)
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"mine", qos=2)
    bench.publishes("mine", b"1", qos=2, by="mine")
    (message,) = bench.hear(AWAY)
    assert isinstance(message, Publish)
    assert bench.say(AWAY, Pubrec(message.message_id)) == [Pubrel(message.message_id)]
    bench.restart()
    bench.wake(bench.at + 1)
    assert bench.hear(AWAY) == [Pubrel(message.message_id)]


def test_nothing_counts_for_it_while_it_waits_for_suback() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"mine", qos=1)
    bench.publishes("mine", b"on", qos=1, by="mine")
    (message,) = bench.hear(AWAY)
    assert isinstance(message, Publish)
    bench.holds = True
    bench.say(AWAY, Subscribe(9, b"more", 1), Puback(message.topic_id, message.message_id, 0))
    assert bench.engine.client_table.formers
    bench.release()
    assert bench.say(AWAY, Pingreq()) == [Pingresp()]
    assert not bench.engine.client_table.formers
    bench.restart()
    assert bench.engine.sessions[S1].filters == {"mine": 1, "more": 1}


def test_after_a_wrong_guess_no_answer_counts_for_a_minute() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN, Pingreq(), Puback(1, 999, 0))
    proven(bench)
    assert bench.engine.client_table.formers
    assert bench.engine.sessions[S1].outbound.waiting == 1, "nor does it end the message"
    message = bench.engine.sessions[S1].outbound.outstanding
    assert message is not None
    puback = Puback(1, message.message_id, 0)
    for _ in range(5):
        later(bench, GUESS_AGAIN_S / 6)
        bench.say(AWAY, puback)
        assert bench.engine.client_table.formers
    later(bench, GUESS_AGAIN_S / 6)
    bench.say(AWAY, puback)
    assert not bench.engine.client_table.formers


def test_the_clients_whose_ids_were_guessed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.core.clients.contests.GUESSED_MAX", 1)
    bench = asleep()
    bench.join(b"s2", at=b"home2")
    bench.say(AWAY, CLEAN, Puback(1, 999, 0))
    bench.say(THIRD, Connect(b"s2", 60, clean_session=True), Puback(1, 999, 0))
    proven(bench)
    assert set(bench.engine.client_table.formers) == {"s2"}


def test_a_clean_session_that_is_silent_beyond_its_time_gives_way() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME, keep_alive_s=60)
    bench.subscribe(HOME, b"cmd", qos=1)
    bench.say(AWAY, Connect(b"s1", 600, clean_session=True))
    bench.subscribe(AWAY, b"mine", qos=1)
    bench.wake(91)
    assert bench.engine.client_table.formers == {}
    assert bench.engine.sessions[S1].filters == {"mine": 1}
    assert len(bench.engine.downlink.subscriptions) == 1
    bench.restart()
    assert bench.say(AWAY, Pingreq()) == [Pingresp()]


def test_one_that_stays_is_lost_and_stays() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME, keep_alive_s=60, clean=False)
    bench.subscribe(HOME, b"cmd", qos=1)
    bench.say(AWAY, Connect(b"s1", 600, clean_session=True), Pingreq())
    later(bench, 91)
    assert bench.say(HOME, Pingreq()) == [Disconnect()], "nothing speaks for it from there"
    bench.publishes("cmd", b"on", qos=1, by="cmd")
    assert bench.say(HOME, Connect(b"s1", 60, clean_session=False)) == [
        Connack(0),
        Register(1, 1, b"cmd"),
    ]
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]


def test_one_that_was_away_already_stays_until_who_connects_has_shown_that_it_is_there() -> None:
    bench = asleep()
    bench.say(HOME, Disconnect())
    bench.say(AWAY, CLEAN, Disconnect())
    assert bench.engine.sessions[S1].outbound.waiting == 1
    bench.say(AWAY, CLEAN)
    proven(bench)
    assert bench.engine.sessions[S1].filters == {"mine": 1}


def wills(bench: StateBench) -> list[bytes]:
    """What was published as a will since the last look."""
    packets = bench.seen_of(mqtt5.PublishPacket)
    return [packet.payload for packet in packets if packet.topic == "lw"]


def with_will(
    bench: StateBench, at: bytes, message: bytes, keep_alive_s: int = 60, *, clean: bool = True
) -> None:
    connect = Connect(b"s1", keep_alive_s, will=True, clean_session=clean)
    assert bench.say(at, connect) == [WillTopicReq()]
    assert bench.say(at, WillTopic(b"lw", qos=1)) == [WillMsgReq()]
    assert bench.say(at, WillMsg(message)) == [Connack(0)]


@pytest.mark.parametrize(("message", "is_published"), [(b"gone", False), (b"other", True)])
def test_a_will_that_the_newcomer_has_given_as_well_is_not_published_for_silence(
    message: bytes, is_published: bool
) -> None:
    bench = StateBench()
    with_will(bench, HOME, b"gone")
    with_will(bench, AWAY, message, keep_alive_s=600)
    bench.seen()
    later(bench, 91)
    assert wills(bench) == [b"gone"] * is_published
    assert bench.engine.sessions[S1].is_newcomer is False


def test_a_handshake_goes_on_though_its_connect_came_twice() -> None:
    bench = asleep()
    connect = Connect(b"s1", 60, will=True, clean_session=True)
    assert bench.say(AWAY, connect, WillTopic(b"lw"), connect) == [
        WillTopicReq(),
        WillMsgReq(),
        WillTopicReq(),
    ]
    assert bench.say(AWAY, WillMsg(b"bye")) == [Connack(0)]
    assert fetched(bench) == [b"0"]


def test_a_client_that_returns_with_clean_0_gets_what_is_there() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    assert bench.say(THIRD, Connect(b"s1", 60, clean_session=False))[0] == Connack(0)
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]
    assert bench.engine.sessions[S1].outbound.waiting == 1


def test_the_newcomer_may_connect_again_and_change_its_keep_alive() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN, Pingreq())
    assert bench.say(AWAY, Connect(b"s1", 30, clean_session=False)) == [Connack(0)]
    bench.wake(bench.at + 46)
    assert state_of(bench) is State.ASLEEP
    assert fetched(bench) == [b"0"]


def test_another_client_at_its_address_sends_it_away_and_nothing_more() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.join(b"s2", at=HOME)
    assert state_of(bench) is State.ACTIVE
    assert bench.say(HOME, Pingreq()) == [Pingresp()]
    assert bench.say(AWAY, Disconnect()) == [Disconnect()]
    assert state_of(bench) is State.DISCONNECTED
    assert bench.engine.sessions[S1].outbound.waiting == 1


def test_a_clean_one_whose_address_another_client_has_is_over() -> None:
    bench = asleep(clean=True)
    bench.say(AWAY, CLEAN)
    bench.join(b"s2", at=HOME)
    assert bench.engine.client_table.formers == {}


def test_another_client_at_the_newcomers_address_sends_that_away() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.join(b"s2", at=AWAY)
    assert fetched(bench) == [b"0"]
    assert bench.say(AWAY, Pingreq()) == [Pingresp()]


def test_the_operator_ends_both() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.ask(bench.engine.operator.forget(S1, bench.at))
    assert bench.engine.client_table.formers == {}
    assert S1 not in bench.engine.sessions
    assert len(bench.engine.downlink.subscriptions) == 0
    bench.restart()
    assert bench.say(HOME, Pingreq(b"s1")) == [Disconnect()]


def test_a_wish_that_waited_is_asked_again_by_the_client() -> None:
    bench = asleep(messages=0)
    bench.join(b"s1", at=HOME, clean=False)
    bench.holds = True
    bench.subscribe(HOME, b"more", qos=1, message_id=9)
    bench.say(AWAY, CLEAN)
    bench.release()
    assert bench.hear(HOME) == []
    assert isinstance(bench.subscribe(HOME, b"more", qos=1, message_id=9)[0], Suback)


def test_a_filter_that_the_broker_refuses_is_lost_to_both() -> None:
    bench = asleep(messages=0)
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"cmd", qos=1)
    bench.lose_broker()
    bench.refuses = {"cmd"}
    bench.connect_broker()
    assert bench.engine.sessions[S1].filters == {}
    assert bench.engine.client_table.formers[S1].filters == {}


def test_a_retained_message_that_changed_meanwhile_comes_to_both() -> None:
    bench = asleep(messages=0)
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"cmd", qos=1)
    bench.publishes("cmd", b"on", qos=1, retain=True, by="cmd", is_replay=True)
    assert [each[0] for each in bench.hear_all(AWAY)] == [b"on"]
    # By the acknowledgement the newcomer has shown that it is there.
    assert bench.engine.client_table.formers == {}


def test_unsuback_of_the_newcomer_leaves_the_subscription_of_the_former_session() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"cmd", qos=0)
    assert bench.say(AWAY, Unsubscribe(3, b"cmd")) == [Unsuback(3)]
    assert "cmd" in bench.subscribed
    bench.publishes("cmd", b"1", qos=1, by="cmd")
    assert fetched(bench) == [b"0", b"1"]


def test_what_the_newcomer_subscribed_to_ends_with_it() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"mine", qos=1)
    bench.subscribe(AWAY, b"cmd", qos=1, message_id=2)
    assert fetched(bench) == [b"0"]
    assert bench.subscribed == {"cmd"}
    assert bench.engine.sessions[S1].filters == {"cmd": 1}


def test_one_that_is_awake_sleeps_on_when_it_does_not_acknowledge() -> None:
    bench = asleep(messages=2)
    assert published(bench.say(HOME, Pingreq(b"s1"))) == [(b"0", 1, False)]
    bench.say(AWAY, Connect(b"s1", 600, clean_session=True))
    later(bench, 51)
    assert bench.engine.client_table.formers[S1].state is State.ASLEEP
    assert fetched(bench) == [b"0", b"1"]


def test_pubcomp_that_waited_for_the_journal_goes_to_whom_it_is_for() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME)
    bench.engine.sessions[S1].restore_exchanges(Exchanges([(5, 1)], []), bench.at)
    bench.say(HOME, Pubrel(5))
    (record,) = bench.told(RecordRelease)
    assert record.then is not None
    bench.say(AWAY, CLEAN)
    bench.take(bench.engine.durable([record.then], bench.at))
    assert (bench.hear(HOME), bench.hear(AWAY)) == ([Pubcomp(5)], [])


def test_qos_2_of_both_goes_its_way() -> None:
    """What waits for the disk or the journal belongs to one of the two."""
    bench = StateBench()
    bench.join(b"s1", at=HOME)
    bench.subscribe(HOME, b"cmd", qos=2)
    bench.holds_disk = True
    bench.publishes("cmd", b"1", qos=2, by="cmd")
    assert bench.hear(HOME) == []
    bench.say(AWAY, CLEAN)
    bench.let_disk_go()
    assert published(bench.hear(HOME)) == [(b"1", 2, False)]


def test_a_copy_of_its_connect_does_not_give_its_topic_ids_to_other_names() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    first = bench.register(AWAY, b"one")
    bench.say(AWAY, CLEAN)
    assert bench.register(AWAY, b"two") == first + 1
    assert fetched(bench) == [b"0"]
    assert bench.register(HOME, b"three") == first + 2


def test_what_waits_for_the_newcomer_ends_with_it() -> None:
    bench = asleep()
    bench.say(AWAY, CLEAN)
    bench.subscribe(AWAY, b"mine", qos=1)
    for payload in (b"1", b"2"):
        bench.publishes("mine", payload, qos=1, by="mine")
    bench.news.clear()
    assert fetched(bench) == [b"0"]
    ended = [
        each
        for each in bench.news
        if isinstance(each, Dropped) and each.reason is Reason.SESSION_ENDED
    ]
    assert [each.count for each in ended] == [2]

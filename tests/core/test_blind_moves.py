"""Frames in a known client's name that say it is elsewhere, from one who sees none of our answers.

CONNECT with CleanSession 0 and PINGREQ with a client id move a client. Until something came from
there that only one who hears us can know, nothing is done that could not be taken back.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.addresses import address_behind
from gateway.core.clients.contests import GUESS_AGAIN_S
from gateway.core.effects import StateChanged
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
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
    WillTopicReq,
    WillTopicResp,
    WillTopicUpd,
    encode,
)
from tests.core.test_blind_connect import (
    AWAY,
    CLEAN,
    HOME,
    S1,
    THIRD,
    asleep,
    fetched,
    later,
    wills,
    with_will,
)
from tests.support.engine_bench import published, short
from tests.support.state_bench import SAVING, StateBench

HERE_AGAIN = Connect(b"s1", 1, clean_session=False)
WILL = Connect(b"s1", 1, will=True, clean_session=False)

BLIND: list[list[Frame]] = [
    [HERE_AGAIN],
    [HERE_AGAIN, Disconnect()],
    [HERE_AGAIN, Pingreq(), Disconnect(1)],
    [HERE_AGAIN, Pingreq(), Unsubscribe(2, b"cmd"), Subscribe(3, b"cmd", 0)],
    [HERE_AGAIN, short(b"1", 1, 7), short(b"2", 2, 8), Pubrel(8), Disconnect()],
    [HERE_AGAIN, CLEAN, Disconnect()],
    [HERE_AGAIN, Pingreq(), CLEAN],
    [WILL],
    [WILL, WillTopic(b"lw"), WillMsg(b"bye"), Disconnect()],
    [WILL, WillTopic(b"bad/#")],
    [Pingreq(b"s1")],
    [Pingreq(b"s1"), Pingreq(), Disconnect()],
    [Pingreq(b"s1"), Disconnect(1)],
    [Pingreq(b"s1"), Pingreq(), Unsubscribe(2, b"cmd"), WillTopicUpd(), WillMsgUpd(b"x")],
    [Pingreq(b"s1"), CLEAN, Disconnect()],
    [Pingreq(b"s1"), *(Puback(1, number, 0) for number in (100, 2, 1))],
    [Pingreq(b"s1"), *(Regack(1, number, 0) for number in (100, 2, 1))],
]


@pytest.mark.guarantee("6c")
@pytest.mark.parametrize("frames", BLIND, ids=repr)
@pytest.mark.parametrize("clean", [False, True])
def test_what_is_said_in_its_name_costs_a_sleeper_nothing(frames: list[Frame], clean: bool) -> None:
    bench = asleep(clean=clean)
    for frame in frames:
        bench.say(AWAY, frame)
    later(bench, 200)
    assert fetched(bench) == [b"0"]
    bench.publishes("cmd", b"later", qos=1, by="cmd")
    assert fetched(bench) == [b"later"], "and it is subscribed still"
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]


@pytest.mark.parametrize("frames", BLIND, ids=repr)
def test_nor_does_a_power_cut_after_it(frames: list[Frame]) -> None:
    bench = asleep()
    for frame in frames:
        bench.say(AWAY, frame)
    bench.restart()
    assert fetched(bench) == [b"0"]


@pytest.mark.parametrize("frames", BLIND[:10], ids=repr)
def test_one_that_is_active_goes_on_where_it_was(frames: list[Frame]) -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME, clean=True)
    bench.subscribe(HOME, b"cmd", qos=1)
    for frame in frames:
        bench.say(AWAY, frame)
    bench.publishes("cmd", b"1", qos=1, by="cmd")
    bench.take(bench.engine.receive(0, [(HOME, encode(Pingreq()))], bench.at))
    bench.publishes("cmd", b"2", qos=1, by="cmd")
    assert bench.hear_all(HOME)[-1] == (b"2", 1, False)
    assert bench.engine.sessions[S1].outbound.waiting == 0
    assert bench.engine.sessions[S1].filters == {"cmd": 1}
    assert bench.engine.sessions[S1].peer == Peer(0, HOME)


def test_the_will_of_one_that_is_not_there_is_that_which_it_gave() -> None:
    bench = StateBench()
    assert bench.say(HOME, Connect(b"s1", 60, will=True)) == [WillTopicReq()]
    assert bench.say(HOME, WillTopic(b"lw", 1)) == [WillMsgReq()]
    assert bench.say(HOME, WillMsg(b"mine")) == [Connack(0)]
    bench.say(AWAY, WILL)
    bench.say(AWAY, WillTopic(b"lw", 1))
    assert bench.say(AWAY, WillMsg(b"yours"))[0] == Connack(0)
    bench.wake(bench.at + 2)
    will = bench.engine.sessions[S1].will
    assert will is not None
    assert will.payload == b"mine"


def moved(bench: StateBench) -> None:
    assert bench.say(AWAY, Connect(b"s1", 600, clean_session=False))[0] == Connack(0)


def test_one_that_acknowledges_what_it_was_sent_is_there() -> None:
    bench = asleep()
    (_, message) = bench.say(AWAY, Connect(b"s1", 600, clean_session=False))
    assert isinstance(message, Publish)
    assert bench.say(AWAY, Puback(message.topic_id, message.message_id, 0)) == []
    assert bench.say(AWAY, Unsubscribe(2, b"cmd")) == [Unsuback(2)]
    assert bench.say(HOME, Pingreq(b"s1")) == [Disconnect()]
    bench.restart()
    assert bench.say(AWAY, Pingreq()) == [Pingresp()]


def test_one_that_takes_something_away_does_so_for_itself_until_it_is_proven() -> None:
    bench = asleep()
    moved(bench)
    assert bench.say(AWAY, Unsubscribe(2, b"cmd")) == [Unsuback(2)]
    bench.publishes("cmd", b"1", qos=1, by="cmd")
    assert bench.hear(AWAY) == []
    message = bench.engine.sessions[S1].outbound.outstanding
    assert message is not None
    assert bench.say(AWAY, Puback(1, message.message_id, 0)) == [], "that was under way"
    assert bench.engine.sessions[S1].filters == {}
    assert not bench.engine.client_table.formers
    bench.restart()
    assert bench.engine.sessions[S1].filters == {}


def test_a_will_given_where_it_is_said_to_be_counts_there() -> None:
    bench = asleep(messages=0)
    moved(bench)
    assert bench.say(AWAY, WillTopicUpd(b"lw", 1)) == [WillTopicResp(0)]
    assert bench.say(AWAY, WillMsgUpd(b"x")) == [WillMsgResp(0)]
    bench.seen()
    later(bench, 901)
    assert wills(bench) == [b"x"]


def test_a_subscription_more_or_the_same_again_takes_nothing_away() -> None:
    bench = asleep(messages=0)
    moved(bench)
    assert isinstance(bench.subscribe(AWAY, b"cmd", qos=1)[0], Suback)
    assert isinstance(bench.subscribe(AWAY, b"more", qos=1, message_id=2)[0], Suback)


def qos_0_bench() -> StateBench:
    bench = StateBench(replace(SAVING, session=SessionOptions(queues_qos_0_for_sleepers=True)))
    bench.join(b"s1", at=HOME, clean=False)
    bench.subscribe(HOME, b"cmd", qos=0)
    bench.say(HOME, Disconnect(600))
    bench.publishes("cmd", b"0", by="cmd")
    return bench


def fetched_at(bench: StateBench, address: bytes) -> list[bytes]:
    """What a sleeper there gets, which proves nothing by it."""
    frames = bench.say(address, Pingreq())
    frames += bench.say(address, Pingreq(b"s1"))
    payloads: list[bytes] = []
    while frames:
        frame = frames.pop(0)
        if isinstance(frame, Register):
            frames += bench.say(address, Regack(frame.topic_id, frame.message_id, 0))
        elif isinstance(frame, Publish):
            payloads.append(frame.payload)
    return payloads


def test_what_waits_at_qos_0_goes_to_one_new_address_and_to_the_former_one() -> None:
    bench = qos_0_bench()
    bench.say(AWAY, Pingreq(b"s1"))
    bench.say(AWAY, Pingreq())
    bench.say(THIRD, Pingreq(b"s1"))
    assert bench.hear(THIRD) == []
    bench.publishes("cmd", b"1", by="cmd")
    assert bench.say(THIRD, Pingreq()) == [Pingresp()]
    assert fetched_at(bench, HOME) == [b"0", b"1"]


def test_one_that_moves_on_is_where_it_was_at_first() -> None:
    bench = asleep(messages=0)
    bench.say(AWAY, Pingreq(b"s1"))
    bench.say(THIRD, Pingreq(b"s1"))
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]
    assert bench.say(HOME, Pingreq()) == [Pingresp()]
    assert bench.engine.sessions[S1].peer == Peer(0, HOME)


def test_one_that_is_awake_or_in_a_handshake_goes_back_as_it_was() -> None:
    bench = asleep(messages=2)
    bench.say(HOME, Pingreq(b"s1"))
    moved(bench)
    bench.say(HOME, Pingreq())
    assert bench.engine.sessions[S1].state is State.AWAKE
    bench.join(b"s1", at=HOME, clean=False)
    bench.say(HOME, Connect(b"s1", 60, will=True))
    assert bench.engine.sessions[S1].state is State.CONNECTING
    bench.say(AWAY, WILL)
    bench.say(HOME, Pingreq())
    assert bench.engine.sessions[S1].state is State.ACTIVE


def test_one_whose_former_address_another_client_has_is_where_it_says() -> None:
    bench = asleep(messages=0)
    moved(bench)
    bench.join(b"s2", at=HOME)
    assert bench.say(HOME, Pingreq()) == [Pingresp()]
    bench.say(AWAY, Disconnect())
    assert bench.engine.sessions[S1].state is State.DISCONNECTED
    assert not bench.engine.client_table.formers


def test_a_client_that_was_away_is_where_it_says_but_loses_nothing_before_a_proof() -> None:
    bench = asleep()
    bench.say(HOME, Disconnect())
    moved(bench)
    bench.say(AWAY, Pingreq(), Unsubscribe(2, b"cmd"), Disconnect())
    assert bench.engine.sessions[S1].filters == {"cmd": 1}
    bench.say(AWAY, CLEAN, Disconnect())
    assert bench.engine.sessions[S1].state is State.DISCONNECTED
    assert bench.engine.sessions[S1].outbound.waiting == 1
    moved(bench)
    bench.restart()
    assert bench.say(AWAY, Pingreq()) == [Disconnect()]
    assert bench.engine.sessions[S1].outbound.waiting == 1


def test_the_operator_ends_one_that_is_in_doubt() -> None:
    bench = asleep()
    moved(bench)
    bench.ask(bench.engine.operator.forget(ClientId("s1"), bench.at))
    assert bench.say(HOME, Pingreq(b"s1")) == [Disconnect()]


def test_a_node_behind_another_forwarder_is_at_another_address() -> None:
    home, away = address_behind(b"f1", b"\1"), address_behind(b"f2", b"\1")
    bench = StateBench()
    bench.join(b"s1", at=home)
    bench.subscribe(home, b"cmd", qos=1)
    bench.say(home, Disconnect(600))
    bench.publishes("cmd", b"0", qos=1, by="cmd")
    for frame in (CLEAN, HERE_AGAIN, Disconnect(), Pingreq(b"s1"), Disconnect()):
        bench.say(away, frame)
    assert published(bench.say(home, Pingreq(b"s1"))) == [(b"0", 1, False)]


def test_one_that_moves_and_leaves_in_order_with_the_same_will_has_left() -> None:
    bench = StateBench()
    with_will(bench, HOME, b"mine", 60, clean=False)
    with_will(bench, AWAY, b"mine", 60, clean=False)
    assert bench.say(AWAY, Disconnect()) == [Disconnect()]
    bench.seen()
    later(bench, 100)
    assert bench.engine.sessions[S1].state is State.LOST
    assert wills(bench) == []


def test_who_leaves_in_its_name_does_not_keep_its_will_back() -> None:
    """It was silent meanwhile, and who came in its name had its will, but had not given it."""
    bench = StateBench()
    with_will(bench, HOME, b"mine", 60, clean=False)
    bench.say(HOME, Disconnect(60))
    bench.say(AWAY, Connect(b"s1", 600, clean_session=False), Pingreq())
    later(bench, 100)
    bench.seen()
    bench.news.clear()
    bench.say(AWAY, Disconnect())
    assert wills(bench) == [b"mine"]
    assert [change.after for change in bench.told(StateChanged)] == [State.LOST]
    assert bench.engine.sessions[S1].state is State.LOST


def test_nor_does_who_moves_on_in_its_name() -> None:
    bench = StateBench()
    with_will(bench, HOME, b"mine", 60, clean=False)
    bench.say(AWAY, Connect(b"s1", 600, clean_session=False), Pingreq())
    later(bench, 100)
    bench.say(THIRD, Connect(b"s1", 600, clean_session=False), Pingreq())
    bench.seen()
    bench.say(THIRD, Disconnect())
    assert wills(bench) == [b"mine"]


def test_a_clean_session_that_is_silent_gives_way_with_its_will() -> None:
    bench = StateBench()
    with_will(bench, HOME, b"mine", 60, clean=True)
    bench.say(HOME, Disconnect(60))
    assert bench.say(AWAY, Pingreq(b"s1")) == [Pingresp()]
    assert bench.say(AWAY, Connect(b"s1", 600, clean_session=False)) == [Connack(0)]
    bench.seen()
    later(bench, 100)
    assert not bench.engine.client_table.formers
    assert wills(bench) == []
    later(bench, 900)
    assert wills(bench) == [b"mine"]


def test_what_it_subscribes_to_elsewhere_it_hears_where_it_was_as_well() -> None:
    bench = asleep(messages=0)
    moved(bench)
    bench.join(b"s2", at=b"other")
    bench.subscribe(b"other", b"more", qos=1)
    bench.publishes("more", b"kept", qos=1, retain=True, by="more")
    assert isinstance(bench.subscribe(AWAY, b"more", qos=1, message_id=9)[0], Suback)
    assert bench.engine.client_table.formers[S1].filters == {"cmd": 1, "more": 1}
    bench.restart()
    assert bench.engine.sessions[S1].filters == {"cmd": 1, "more": 1}
    assert fetched(bench) == [b"kept"]


def test_one_that_has_nothing_and_is_away_is_where_it_says() -> None:
    bench = StateBench()
    bench.join(b"s1", at=HOME, clean=False)
    bench.say(HOME, Disconnect())
    assert bench.say(AWAY, Connect(b"s1", 60)) == [Connack(0)]
    assert not bench.engine.client_table.formers
    assert bench.say(AWAY, Disconnect()) == [Disconnect()]
    assert bench.engine.sessions[S1].state is State.DISCONNECTED


def test_an_answer_of_a_moment_ago_is_no_guess() -> None:
    bench = asleep(messages=2)
    (first,) = bench.say(HOME, Pingreq(b"s1"))
    assert isinstance(first, Publish)
    bench.say(HOME, Puback(1, first.message_id, 0))
    moved(bench)
    bench.say(AWAY, Puback(1, first.message_id, 0))
    assert bench.engine.client_table.formers
    bench.say(AWAY, Puback(1, first.message_id + 1, 0))
    assert not bench.engine.client_table.formers


def test_while_answers_do_not_count_a_message_is_repeated_and_not_given_up() -> None:
    bench = asleep()
    (_, message) = bench.say(AWAY, Connect(b"s1", 600, clean_session=False))
    assert isinstance(message, Publish)
    right = Puback(1, message.message_id, 0)
    bench.say(AWAY, Puback(1, 999, 0))
    for _ in range(5):
        later(bench, GUESS_AGAIN_S / 6)
        bench.say(AWAY, right)
        assert bench.engine.sessions[S1].outbound.waiting == 1
    later(bench, GUESS_AGAIN_S / 6)
    bench.say(AWAY, right)
    assert bench.engine.sessions[S1].outbound.waiting == 0
    assert not bench.engine.client_table.formers


def test_a_will_that_is_held_back_outlasts_a_restart() -> None:
    bench = StateBench()
    with_will(bench, HOME, b"mine", 60, clean=False)
    bench.say(AWAY, Connect(b"s1", 600, clean_session=False), Pingreq())
    later(bench, 100)
    bench.restart()
    assert wills(bench) == []
    later(bench, 100)
    assert wills(bench) == [b"mine"]
    bench.restart()
    later(bench, 100)
    assert wills(bench) == []


def test_a_will_that_was_held_back_and_published_is_not_published_after_a_restart() -> None:
    bench = StateBench()
    with_will(bench, HOME, b"mine", 60, clean=False)
    bench.say(AWAY, Connect(b"s1", 600, clean_session=False), Pingreq())
    later(bench, 100)
    bench.say(AWAY, Disconnect())
    assert wills(bench) == [b"mine"]
    bench.restart()
    later(bench, 100)
    assert wills(bench) == []


def test_one_that_swaps_its_numbers_answers_all_the_same() -> None:
    bench = asleep()
    (_, message) = bench.say(AWAY, Connect(b"s1", 600, clean_session=False))
    assert isinstance(message, Publish)
    swapped = int.from_bytes(message.message_id.to_bytes(2, "little"), "big")
    assert swapped != message.message_id
    bench.say(AWAY, Puback(0x0100, swapped, 0))
    assert not bench.engine.client_table.formers
    assert bench.engine.sessions[S1].outbound.waiting == 0

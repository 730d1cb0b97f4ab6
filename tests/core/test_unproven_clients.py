"""Callers, who have said CONNECT and nothing else, and addresses in doubt."""

from __future__ import annotations

import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.half_open import SWEEP_S
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, StateChanged
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Subscribe,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench, published, short

S1 = ClientId("s1")
LONG_TOPIC = "a/topic/that/is/longer/than/what/CONNECT/pays/for"


def bench_with(session: SessionOptions | None = None, **admission: int) -> Bench:
    options = AdmissionOptions(**admission)  # type: ignore[arg-type]
    return Bench(EngineOptions(UPSTREAM, session=session or SessionOptions(), admission=options))


def half_open(bench: Bench) -> int:
    return len(bench.engine.half_open)


def dropped(bench: Bench, reason: Reason) -> list[Dropped]:
    return [each for each in bench.told(Dropped) if each.reason is reason]


def session_of(bench: Bench) -> Session:
    return bench.engine.sessions[S1]


# Callers


@pytest.mark.parametrize("clean", [True, False])
def test_connect_alone_makes_nobody_a_client_and_the_next_frame_does(clean: bool) -> None:
    bench = Bench()
    assert bench.say(b"x", Connect(b"s1", 60, clean_session=clean)) == [Connack(0)]
    assert (len(bench.engine.sessions), half_open(bench)) == (0, 1)
    assert bench.told(StateChanged) == []
    bench.at = 40.0
    assert bench.say(b"x", Register(0, 1, b"field")) == [Regack(1, 1, 0)]
    assert (set(bench.engine.sessions), half_open(bench)) == ({"s1"}, 0)
    assert [each.after for each in bench.told(StateChanged)] == [State.CONNECTING, State.ACTIVE]
    assert session_of(bench).clean is clean
    bench.wake(40.0 + 89.0)
    assert session_of(bench).state is State.ACTIVE, "heard at its last frame"
    bench.wake(40.0 + 90.0)
    assert [each.after for each in bench.told(StateChanged)] == [State.LOST]


def test_a_caller_that_says_goodbye_is_answered_and_gone() -> None:
    bench = Bench()
    bench.say(b"x", Connect(b"s1", 60, clean_session=True))
    assert bench.say(b"x", Disconnect()) == [Disconnect()]
    assert (len(bench.engine.sessions), half_open(bench)) == (0, 0)


def test_a_will_handshake_makes_a_client_with_its_first_answer() -> None:
    bench = Bench()
    assert bench.say(b"x", Connect(b"s1", 60, will=True)) == [WillTopicReq()]
    assert bench.say(b"x", Connect(b"s1", 60, will=True)) == [WillTopicReq()]
    assert (len(bench.engine.sessions), half_open(bench)) == (0, 1)
    assert bench.say(b"x", WillTopic(b"lw")) == [WillMsgReq()]
    assert bench.say(b"x", WillMsg(b"bye")) == [Connack(0)]
    assert session_of(bench).will is not None
    assert session_of(bench).state is State.ACTIVE


def test_one_that_does_not_finish_its_will_handshake_is_forgotten() -> None:
    bench = Bench()
    bench.say(b"x", Connect(b"s1", 60, will=True))
    bench.say(b"y", Connect(b"s2", 60, will=True))
    bench.say(b"y", WillTopic(b"lw"))
    bench.wake(49.0)
    assert set(bench.engine.sessions) == {"s2"}
    bench.wake(50.0)
    assert bench.engine.sessions[ClientId("s2")].state is State.DISCONNECTED
    assert bench.say(b"x", WillTopic(b"lw")) == [Disconnect()]


def test_a_caller_is_known_by_its_last_connect_only() -> None:
    bench = Bench()
    bench.say(b"x", Connect(b"s1", 60))
    bench.say(b"y", Connect(b"s1", 60))
    assert half_open(bench) == 1
    assert bench.say(b"x", Pingreq()) == [Disconnect()]
    bench.say(b"y", Connect(b"s2", 60))
    assert half_open(bench) == 1
    assert bench.say(b"y", Pingreq()) == [Pingresp()]
    assert set(bench.engine.sessions) == {"s2"}


def test_a_known_client_at_the_address_of_a_caller_takes_its_place() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.say(b"x", Connect(b"s2", 60))
    bench.say(b"x", Connect(b"s1", 60))
    bench.say(b"x", Pingreq())
    assert half_open(bench) == 0
    assert set(bench.engine.sessions) == {"s1"}


def test_callers_are_forgotten_when_they_were_silent_for_longer_than_they_declared() -> None:
    bench = Bench()
    bench.say(b"x", Connect(b"s1", 30))
    bench.say(b"y", Connect(b"s2", 0))
    bench.say(b"z", Connect(b"s3", 3600))
    bench.wake(SWEEP_S - 1)
    assert half_open(bench) == 3
    assert bench.say(b"x", Pingreq()) == [Disconnect()], "45 s are over, swept or not"
    bench.say(b"x", Connect(b"s1", 30))
    bench.say(b"w", Connect(b"s4", 30))
    bench.wake(2 * SWEEP_S)
    (news,) = dropped(bench, Reason.UNHEARD)
    assert (news.client_id, news.peer, news.count) == ("s4", Peer(0, b"w"), 2)
    assert "said nothing after its CONNECT was answered" in news.detail
    bench.wake(3600 * 1.2)
    assert half_open(bench) == 1, "without a keep-alive it may be silent for ever"
    assert bench.say(b"y", Pingreq()) == [Pingresp()]
    bench.wake(bench.at + SWEEP_S)
    assert bench.engine._acceptor.half_open.due_at > bench.at + SWEEP_S


def test_when_there_are_too_many_callers_the_first_one_gives_way() -> None:
    bench = bench_with(callers_max=2, handshakes_max=1)
    for name in (b"s1", b"s2", b"s3"):
        assert bench.say(name, Connect(name, 60)) == [Connack(0)]
    (news,) = dropped(bench, Reason.UNHEARD)
    assert news.client_id == "s1"
    for name in (b"w1", b"w2"):
        assert bench.say(name, Connect(name, 60, will=True)) == [WillTopicReq()]
    assert [each.client_id for each in dropped(bench, Reason.UNHEARD)] == ["w1"]
    assert half_open(bench) == 3
    assert bench.say(b"s1", Pingreq()) == [Disconnect()]
    assert bench.say(b"s2", Pingreq()) == [Pingresp()]


@pytest.mark.guarantee("6a")
def test_callers_neither_take_places_nor_end_the_sessions_of_the_absent() -> None:
    bench = bench_with(clients_max=2, absent_s_min=3600)
    bench.join(b"s1", clean=False)
    bench.join(b"s2", clean=False)
    bench.say(b"s1", Disconnect())
    bench.wake(4000.0)
    bench.join(b"s2", clean=False)
    for number in range(100):
        assert bench.say(b"x%d" % number, Connect(b"c%d" % number, 60)) == [Connack(0)]
    assert set(bench.engine.sessions) == {"s1", "s2"}
    assert bench.say(b"x7", Pingreq()) == [Pingresp()], "one that says more does"
    assert set(bench.engine.sessions) == {"s2", "c7"}
    bench.told(Dropped)
    assert bench.say(b"x8", Pingreq()) == [Disconnect()], "s2 is here"
    assert [each.reason for each in bench.told(Dropped)] == [Reason.CLIENTS_FULL]
    assert bench.say(b"x8", Connect(b"c8", 60)) == [Connack(1)]


def test_qos_minus_1_of_a_caller_is_its_own_and_shows_nothing() -> None:
    bench = Bench(EngineOptions(UPSTREAM, qos_minus_one=QosMinusOneOptions(allow=True)))
    bench.say(b"x", Connect(b"s1", 60))
    bench.seen()
    bench.say(b"x", short(b"21", -1, 0))
    (packet,) = bench.seen()
    assert ("client", "s1") in packet.user_properties
    assert half_open(bench) == 1


# An address in doubt


def moved(topic: str = "cmd", qos: int = 1, count: int = 1) -> Bench:
    """A client with messages that wait for it says CONNECT from another address."""
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"#", qos)
    bench.say(b"s1", Disconnect())
    for number in range(count):
        bench.publishes(topic, b"%d" % number, qos=qos, by="#")
    return bench


def connects(bench: Bench) -> list[Frame]:
    connack, *rest = bench.say(b"new", Connect(b"s1", 60))
    assert connack == Connack(0)
    return rest


def test_a_client_that_only_listens_gets_its_messages_at_a_new_address_by_register() -> None:
    bench = moved(count=3)
    (register,) = connects(bench)
    assert isinstance(register, Register)
    assert bench.say(b"s1", Pingreq()) == [Disconnect()]
    assert not session_of(bench).is_address_validated
    bench.take(bench.engine.receive(0, [(b"new", encode(Regack(1, register.message_id, 0)))], 0.0))
    assert session_of(bench).is_address_validated
    assert [each[0] for each in bench.hear_all(b"new")] == [b"0", b"1", b"2"]


def test_what_connect_does_not_pay_for_waits_for_an_answer_to_pingreq() -> None:
    bench = moved(LONG_TOPIC)
    assert connects(bench) == [Pingreq()]
    bench.wake(9.9)
    assert bench.hear(b"new") == []
    bench.wake(10.0)
    assert bench.hear(b"new") == [Pingreq()]
    (register,) = bench.say(b"new", Pingresp())
    assert isinstance(register, Register)
    assert dropped(bench, Reason.OUT_OF_TURN) == []
    (message,) = bench.say(b"new", Regack(1, register.message_id, 0))
    assert isinstance(message, Publish)
    assert not message.dup


def test_one_that_does_not_answer_pingreq_is_not_lost_and_gets_it_with_its_next_frame() -> None:
    bench = moved(LONG_TOPIC)
    connects(bench)
    for at in (20.0, 40.0, 60.0, 80.0):
        bench.wake(at)
    assert bench.hear(b"new") == [Pingreq()] * 3, "as often as a message is repeated"
    bench.publishes("cmd", b"more", qos=1, by="#")
    bench.wake(89.0)
    assert bench.hear(b"new") == []
    assert session_of(bench).state is State.ACTIVE
    pingresp, register = bench.say(b"new", Pingreq())
    assert pingresp == Pingresp()
    assert isinstance(register, Register)


def test_register_that_is_not_answered_is_repeated_as_far_as_the_credit_goes() -> None:
    bench = moved("cmd")
    (register,) = connects(bench)
    assert isinstance(register, Register)
    bench.wake(80.0)
    frames = bench.hear(b"new")
    assert frames == [register, Pingreq()]
    assert session_of(bench).state is State.ACTIVE
    assert Register(1, register.message_id, b"cmd") in bench.say(b"new", Pingreq())


def test_connect_again_pays_again() -> None:
    bench = moved(LONG_TOPIC)
    assert connects(bench) == [Pingreq()]
    bench.at = 1.0
    assert connects(bench) == [Pingreq()]
    bench.at = 2.0
    assert [type(each) for each in connects(bench)] == [Register]


def test_where_somebody_answered_before_nobody_is_asked_again() -> None:
    bench = moved(LONG_TOPIC)
    _, register = bench.say(b"s1", Connect(b"s1", 60))
    assert isinstance(register, Register)


def test_doubt_lasts_over_a_session_that_begins_anew() -> None:
    bench = moved()
    connects(bench)
    bench.say(b"new", Connect(b"s1", 60, clean_session=True))
    assert not session_of(bench).is_address_validated
    assert bench.say(b"new", Subscribe(1, b"cmd", 0)) != []
    assert session_of(bench).is_address_validated


def test_another_client_at_the_address_in_doubt_sends_the_first_one_away() -> None:
    bench = moved()
    connects(bench)
    bench.say(b"new", Connect(b"s2", 60))
    assert session_of(bench).state is State.DISCONNECTED
    assert bench.say(b"new", Pingreq()) == [Pingresp()]
    assert set(bench.engine.sessions) == {"s1", "s2"}


def test_one_in_doubt_that_says_goodbye_has_no_address() -> None:
    bench = moved()
    connects(bench)
    assert bench.say(b"new", Disconnect()) == [Disconnect()]
    assert bench.say(b"new", Pingreq()) == [Disconnect()]
    assert bench.engine.client_table._doubted == {}


def test_a_will_handshake_at_a_new_address_is_an_answer() -> None:
    bench = moved(LONG_TOPIC)
    assert bench.say(b"new", Connect(b"s1", 60, will=True)) == [WillTopicReq()]
    assert bench.say(b"new", WillTopic(b"lw")) == [WillMsgReq()]
    connack, register = bench.say(b"new", WillMsg(b"bye"))
    assert (connack, type(register)) == (Connack(0), Register)


def test_qos_0_waits_for_the_answer_as_well() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"cmd", 0)
    bench.say(b"s1", Disconnect(duration_s=600))
    assert bench.say(b"new", Connect(b"s1", 60)) == [Connack(0)]
    bench.publishes("cmd", b"x" * 100, by="cmd")
    (register,) = bench.hear(b"new")
    assert isinstance(register, Register)
    bench.publishes("cmd", b"y", by="cmd")
    answer = Regack(register.topic_id, register.message_id, 0)
    assert published(bench.say(b"new", answer)) == [(b"x" * 100, 0, False), (b"y", 0, False)]
    assert dropped(bench, Reason.EGRESS_FULL) == []


def test_pubrel_to_an_address_in_doubt_is_counted_too() -> None:
    bench = Bench()
    bench.join(b"s", clean=False)
    bench.subscribe(b"s", b"cmd", 2)
    bench.publishes("cmd", qos=2, by="cmd")
    (message,) = bench.hear(b"s")
    assert isinstance(message, Publish)
    pubrel = Pubrel(message.message_id)
    assert bench.say(b"s", Pubrec(message.message_id)) == [pubrel]
    bench.say(b"s", Disconnect())
    assert bench.say(b"new", Connect(b"s", 60)) == [Connack(0), pubrel]
    bench.wake(80.0)
    assert bench.hear(b"new") == [*[pubrel] * 3, Pingreq()], "18 bytes for 7"

"""What an operator asks for on the page, as the core has it."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.access.rules import AccessRule, AccessRules
from gateway.core.clients.admission import WAITING_MAX, AdmissionOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, ReadingTaken, Save
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import (
    ClientId,
    PermitDeleted,
    PermitRecord,
    SessionDeleted,
    StateRecords,
    WaitingDeleted,
    WaitingRecord,
)
from gateway.core.values import Message
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
    WillMsg,
    WillTopic,
)
from tests.support.engine_bench import UPSTREAM, Bench, published, short
from tests.support.journal_bench import JournalBench
from tests.support.uplink_stories import bench_of, puback, sent

WELL, TANK, OTHER = ClientId("well"), ClientId("tank"), ClientId("other")


def told_to_save(bench: Bench, kind: type) -> list[object]:
    return [each.change for each in bench.told(Save) if isinstance(each.change, kind)]


# The drain


def with_one_parked() -> JournalBench:
    """A reading of s1 came while the broker was away, and is on disk; the drain is paused."""
    bench = bench_of()
    bench.lose_broker()
    assert bench.say(b"s1", short(b"21.5", 1, 7)) == []
    bench.flush()
    assert bench.hear(b"s1") == [puback(7)], "the disk has it"
    bench.ask(bench.engine.operator.pause_drain(is_paused=True))
    bench.connect_broker()
    bench.flush()
    return bench


def test_what_is_parked_stays_so_while_the_drain_is_paused() -> None:
    bench = with_one_parked()
    assert bench.engine.operator.is_drain_paused
    assert sent(bench) == []
    bench.ask(bench.engine.operator.pause_drain(is_paused=False))
    bench.flush()
    assert sent(bench) == [b"21.5"]
    assert not bench.engine.operator.is_drain_paused


def test_others_go_straight_to_the_broker_meanwhile_and_nobody_overtakes_himself() -> None:
    bench = with_one_parked()
    assert bench.say(b"s2", short(b"3", 1, 1)) == [puback(1)]
    assert sent(bench) == [b"3"]
    bench.say(b"s1", short(b"22.5", 1, 8))
    bench.flush()
    assert sent(bench) == [], "behind its own"
    bench.ask(bench.engine.operator.pause_drain(is_paused=False))
    bench.flush()
    assert sent(bench) == [b"21.5", b"22.5"]


# Forgetting


def test_a_forgotten_client_is_a_stranger_and_hears_so() -> None:
    bench = Bench(EngineOptions(UPSTREAM, saves=True))
    bench.join(b"well")
    bench.told(Save)
    bench.ask(bench.engine.operator.forget(WELL, bench.at))
    assert bench.hear(b"well") == [Disconnect()]
    assert told_to_save(bench, SessionDeleted) == [SessionDeleted(WELL)]
    (news,) = bench.told(Dropped)
    assert (news.reason, news.client_id, news.count) == (Reason.SESSION_ENDED, WELL, 0)
    assert bench.say(b"well", Pingreq()) == [Disconnect()]
    assert bench.join(b"well") == b"well", "it may come again"


def test_nothing_is_said_to_one_that_is_not_there() -> None:
    bench = Bench()
    bench.join(b"well", clean=False)
    bench.say(b"well", Disconnect())
    bench.ask(bench.engine.operator.forget(WELL, bench.at))
    assert bench.hear(b"well") == []
    assert WELL not in bench.engine.sessions


def test_a_client_that_has_said_connect_alone_is_forgotten_too() -> None:
    bench = Bench()
    assert bench.say(b"well", Connect(b"well", 60)) == [Connack(0)]
    bench.ask(bench.engine.operator.forget(WELL, bench.at))
    assert bench.hear(b"well") == [Disconnect()]
    assert len(bench.engine.half_open) == 0


def test_the_will_of_a_forgotten_client_is_not_published() -> None:
    bench = Bench()
    bench.say(b"well", Connect(b"well", 60, will=True))
    bench.say(b"well", WillTopic(b"last/words", 1))
    bench.say(b"well", WillMsg(b"bye"))
    bench.seen()
    bench.ask(bench.engine.operator.forget(WELL, bench.at))
    bench.wake(bench.at + 300)
    assert bench.seen_of(mqtt5.PublishPacket) == []


def test_who_is_not_known_is_not_forgotten() -> None:
    bench = Bench()
    assert bench.engine.operator.forget(WELL, bench.at) == []


# A message


def send(bench: Bench, message: Message) -> None:
    bench.ask(bench.engine.operator.publish(WELL, message, bench.at))


def test_a_message_reaches_a_client_that_listens_whatever_it_is_subscribed_to() -> None:
    bench = Bench()
    bench.join(b"well")
    send(bench, Message("cmd/pump", b"on", 1))
    (register,) = bench.hear(b"well")
    assert isinstance(register, Register)
    answer = bench.say(b"well", Regack(register.topic_id, register.message_id, 0))
    assert published(answer) == [(b"on", 1, False)]
    assert bench.engine.downlink.delivered == [0, 1, 0]


def test_a_message_waits_for_a_client_that_sleeps() -> None:
    bench = Bench()
    bench.join(b"well", clean=False)
    bench.say(b"well", Disconnect(duration_s=600))
    send(bench, Message("ab", b"on", 1))
    assert bench.hear(b"well") == []
    bench.say(b"well", Pingreq(b"well"))
    bench.hear(b"well")
    bench.wake(bench.at + 20)
    assert bench.engine.sessions[WELL].outbound.waiting == 1


def test_a_message_of_qos_0_does_not_wait() -> None:
    bench = Bench()
    bench.join(b"well", clean=False)
    bench.say(b"well", Disconnect(duration_s=600))
    send(bench, Message("ab", b"on"))
    assert [each.reason for each in bench.told(Dropped)] == [Reason.ASLEEP]


def test_a_message_that_is_too_large_is_dropped() -> None:
    bench = Bench(EngineOptions(UPSTREAM, session=SessionOptions(payload_bytes_max=3)))
    bench.join(b"well")
    send(bench, Message("ab", b"1234", 1))
    assert [each.reason for each in bench.told(Dropped)] == [Reason.PAYLOAD_TOO_LARGE]
    assert bench.hear(b"well") == []


def test_a_message_for_nobody_is_nothing() -> None:
    bench = Bench()
    assert bench.engine.operator.publish(WELL, Message("ab", b"on", 1), bench.at) == []


# Who may come in

CONGESTION = [Connack(ReturnCode.CONGESTION)]


def listed_only(clients_max: int = 100, *, saves: bool = True) -> Bench:
    admission = AdmissionOptions(clients_max, is_listed_only=True, listed=frozenset({"tank"}))
    return Bench(EngineOptions(UPSTREAM, admission=admission, saves=saves))


def test_who_is_not_listed_hears_congestion_and_has_no_session() -> None:
    bench = listed_only()
    assert bench.say(b"well", Connect(b"well", 60)) == CONGESTION
    (news,) = bench.told(Dropped)
    assert news.reason is Reason.NOT_PERMITTED
    assert "'well'" in news.detail
    assert len(bench.engine.half_open) == 0
    bench.join(b"tank")
    assert told_to_save(bench, PermitRecord) == [], "a list is a list"


def test_who_is_added_to_the_list_comes_in_and_who_is_taken_off_keeps_its_session() -> None:
    bench = listed_only()
    bench.join(b"tank")
    bench.engine.operator.list_only(frozenset({"well"}))
    bench.join(b"well")
    assert {WELL, ClientId("tank")} <= set(bench.engine.sessions)


def test_who_comes_while_the_door_is_open_stays_permitted() -> None:
    bench = listed_only()
    bench.engine.operator.permit(60.0)
    assert bench.engine.operator.permitted_until == 60.0
    bench.join(b"well")
    assert told_to_save(bench, PermitRecord) == [PermitRecord(WELL)]
    assert bench.engine.operator.permitted == 1
    bench.at = 61.0
    assert bench.say(b"other", Connect(b"other", 60)) == CONGESTION
    bench.say(b"well", Disconnect())
    assert WELL not in bench.engine.sessions, "its session was a clean one"
    bench.join(b"well")
    assert told_to_save(bench, PermitRecord) == []


def test_connect_alone_permits_nobody_for_good() -> None:
    bench = listed_only()
    bench.engine.operator.permit(60.0)
    assert bench.say(b"x", Connect(b"well", 60)) == [Connack(0)]
    assert bench.engine.operator.permitted == 0
    bench.at = 61.0
    assert bench.say(b"x", Pingreq()) == [Pingresp()], "it was let in when it called"
    assert bench.engine.operator.permitted == 1


def test_who_was_let_in_is_so_after_a_restart() -> None:
    bench = listed_only()
    bench.take(bench.engine.restore(StateRecords([], [], [], [], permits=[WELL]), 0.0))
    bench.join(b"well")


def test_who_is_forgotten_must_be_let_in_again() -> None:
    bench = listed_only()
    bench.engine.operator.permit(60.0)
    bench.join(b"well")
    bench.at = 61.0
    bench.told(Save)
    bench.ask(bench.engine.operator.forget(WELL, bench.at))
    assert told_to_save(bench, PermitDeleted) == [PermitDeleted(WELL)]
    assert bench.hear(b"well") == [Disconnect()]
    assert bench.say(b"well", Connect(b"well", 60)) == CONGESTION


def test_no_more_are_let_in_than_there_are_places() -> None:
    bench = listed_only(clients_max=1, saves=False)
    bench.engine.operator.permit(60.0)
    bench.join(b"well")
    bench.say(b"well", Disconnect())
    assert bench.say(b"other", Connect(b"other", 60)) == CONGESTION
    (news,) = [each for each in bench.told(Dropped) if each.reason is Reason.NOT_PERMITTED]
    assert "1 were let in already" in news.detail


def test_a_client_that_is_known_is_no_new_one() -> None:
    bench = listed_only(saves=False)
    bench.engine.operator.permit(60.0)
    bench.join(b"well", clean=False)
    bench.at = 61.0
    bench.engine._acceptor.admission.permitted.clear()  # as if it had been known before the list
    assert bench.say(b"elsewhere", Connect(b"well", 60, clean_session=False)) == [Connack(0)]


@pytest.mark.parametrize("minutes", [0.0, 5.0])
def test_where_all_may_come_in_nobody_is_asked(minutes: float) -> None:
    bench = Bench(EngineOptions(UPSTREAM, saves=True))
    bench.engine.operator.permit(minutes)
    bench.join(b"well")
    assert told_to_save(bench, PermitRecord) == []


# Joining


def code(answers: list[Frame]) -> int:
    (answer,) = answers
    assert isinstance(answer, Puback | Suback | Regack)
    return answer.return_code


def with_one_waiting() -> Bench:
    """Joining was open for 60 s; the well came, and waits."""
    bench = listed_only()
    bench.engine.operator.open_joining(60.0)
    assert bench.engine.operator.joining_until == 60.0
    bench.join(b"well")
    assert bench.engine.operator.waiting == [WELL]
    return bench


def test_who_joins_may_do_nothing_until_it_is_approved() -> None:
    bench = with_one_waiting()
    assert told_to_save(bench, WaitingRecord) == [WaitingRecord(WELL)]
    (news,) = [each for each in bench.told(Dropped) if each.reason is Reason.NOT_APPROVED]
    assert news.client_id == WELL
    refused = ReturnCode.NOT_SUPPORTED
    assert code(bench.say(b"well", short(b"21.5", 1, 7))) == refused
    assert code(bench.say(b"well", Subscribe(8, b"a/#"))) == refused
    assert code(bench.say(b"well", Register(0, 9, b"a/b"))) == refused
    assert bench.say(b"well", Pingreq()) == [Pingresp()]
    bench.join(b"tank")
    assert code(bench.say(b"tank", short(b"21.5", 1, 7))) == ReturnCode.ACCEPTED
    bench.ask(bench.engine.operator.approve(WELL))
    rows = [each.change for each in bench.told(Save)]
    saved = [each for each in rows if isinstance(each, WaitingDeleted | PermitRecord)]
    assert saved == [WaitingDeleted(WELL), PermitRecord(WELL)]
    assert code(bench.say(b"well", short(b"21.5", 1, 8))) == ReturnCode.ACCEPTED
    assert (bench.engine.operator.waiting, bench.engine.operator.permitted) == ([], 1)


def test_one_that_joins_leaves_no_will() -> None:
    bench = listed_only()
    bench.engine.operator.open_joining(60.0)
    bench.say(b"x", Connect(b"well", 60, will=True))
    bench.say(b"x", WillTopic(b"a/b", 0, retain=False))
    answers = bench.say(b"x", WillMsg(b"gone"))
    assert Connack(ReturnCode.ACCEPTED) not in answers
    assert bench.engine.operator.waiting == [WELL]


def test_who_waits_may_come_again_when_joining_is_over_and_others_may_not() -> None:
    bench = with_one_waiting()
    bench.say(b"well", Disconnect())
    bench.at = 61.0
    bench.join(b"well")
    assert told_to_save(bench, WaitingRecord) == [WaitingRecord(WELL)], "once"
    assert bench.say(b"x", Connect(b"other", 60)) == CONGESTION


def test_who_waits_does_so_after_a_restart_unless_it_is_listed_now() -> None:
    bench = listed_only()
    saved = StateRecords([], [], [], [], permits=[OTHER], waiting=[WELL, TANK, OTHER])
    bench.take(bench.engine.restore(saved, 0.0))
    assert bench.engine.operator.waiting == [WELL]
    bench.join(b"well")
    assert code(bench.say(b"well", short(b"1", 1, 7))) == ReturnCode.NOT_SUPPORTED
    bench.ask(bench.engine.operator.list_only(frozenset({"well"})))
    assert told_to_save(bench, WaitingDeleted) == [WaitingDeleted(WELL)]
    assert code(bench.say(b"well", short(b"1", 1, 8))) == ReturnCode.ACCEPTED


def test_where_all_may_come_in_none_waits() -> None:
    bench = Bench(EngineOptions(UPSTREAM, saves=True))
    bench.take(bench.engine.restore(StateRecords([], [], [], [], waiting=[WELL]), 0.0))
    assert bench.engine.operator.waiting == []


def test_a_rejected_one_is_gone() -> None:
    bench = with_one_waiting()
    bench.at = 61.0
    bench.ask(bench.engine.operator.forget(WELL, bench.at))
    assert told_to_save(bench, WaitingDeleted) == [WaitingDeleted(WELL)]
    assert bench.hear(b"well") == [Disconnect()]
    assert bench.say(b"well", Connect(b"well", 60)) == CONGESTION
    assert bench.engine.operator.waiting == []


def test_there_is_a_most_that_wait() -> None:
    bench = listed_only(1000)
    bench.engine.operator.open_joining(60.0)
    for number in range(WAITING_MAX):
        bench.join(b"n%d" % number)
    bench.told(Dropped)
    assert bench.say(b"x", Connect(b"well", 60)) == CONGESTION
    (news,) = [each for each in bench.told(Dropped) if each.reason is Reason.NOT_PERMITTED]
    assert "256 wait for approval already" in news.detail
    bench.engine.operator.permit(60.0)
    bench.join(b"well")
    assert bench.engine.operator.permitted == 1


def test_one_that_waits_is_let_in_by_a_permit_for_all() -> None:
    bench = with_one_waiting()
    bench.say(b"well", Disconnect())
    bench.engine.operator.permit(60.0)
    bench.join(b"well")
    assert (bench.engine.operator.waiting, bench.engine.operator.permitted) == ([], 1)


def test_other_rules_leave_the_quarantine() -> None:
    bench = with_one_waiting()
    everything = AccessRules([AccessRule(("#",), is_allowed=True)], is_allowed=False)
    bench.ask(bench.engine.operator.use_access(everything))
    assert code(bench.say(b"well", short(b"1", 1, 7))) == ReturnCode.NOT_SUPPORTED
    bench.ask(bench.engine.operator.approve(WELL))
    bench.ask(bench.engine.operator.use_access(None))
    assert code(bench.say(b"well", short(b"1", 1, 8))) == ReturnCode.ACCEPTED


# Watching


def test_readings_are_reported_while_that_is_wanted_and_go_their_way() -> None:
    bench = Bench()
    bench.join(b"well")
    bench.engine.report_readings(is_on=True)
    assert isinstance(bench.say(b"well", short(b"21.5", 1, 7))[0], Puback)
    bench.say(b"well", short(b"22.5", 0, 0))
    bench.engine.report_readings(is_on=False)
    assert isinstance(bench.say(b"well", short(b"23.5", 1, 8))[0], Puback)
    reported = [each.reading for each in bench.told(ReadingTaken)]
    assert [(each.client_id, each.payload) for each in reported] == [
        (WELL, b"21.5"),
        (WELL, b"22.5"),
    ]

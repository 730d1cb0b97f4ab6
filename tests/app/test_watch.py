"""What stands still is found by its name, with its cause; what waits as it should is not.

The faults are put in by hand, into the gateway's own journal, state store, core and timers.
"""

from __future__ import annotations

import logging
from typing import Any

import mqtt5
import pytest

from gateway.admin.part_numbers import Cause
from gateway.app.watch import BOUNDS_S, LOOK_S_MAX
from gateway.core.downlink.pending_subscriptions import DISK_PATIENCE_S
from gateway.core.mqtt.inflight import InFlight
from gateway.core.session.will import Will
from gateway.core.topic_options import Acknowledge
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Puback,
    Pubrec,
    Pubrel,
    Register,
    ReturnCode,
    Suback,
)
from gateway.storage.journal.commit_group import BacklogRequest, Failed
from tests.simulation.model_broker import Publication
from tests.simulation.virtual_loop import VirtualLoop
from tests.support.engine_bench import short
from tests.support.watched_gateway import (
    TP,
    WINDOW,
    WatchedGateway,
    is_reading,
    queued,
    subscribe,
)

pytestmark = pytest.mark.plain


def bound_of(name: str) -> float:
    return next(bound for each, bound in BOUNDS_S.items() if each.value == name)


def put_in(part: object, **faults: Any) -> None:
    """In place of what the part does."""
    for name, fault in faults.items():
        setattr(part, name, fault)


def assert_found_in_time(gateway: WatchedGateway, name: str, cause: Cause) -> None:
    """Not within its bound, and two looks after it."""
    gateway.run(bound_of(name) - 1.0)
    assert name not in gateway.history
    gateway.run(3.0)
    assert gateway.found.get(name) is cause, gateway.watch.found
    assert gateway.history[name] == {cause}


# The disk


def hang(loop: VirtualLoop) -> None:
    """The thread does not come back from its next job, until it is released."""
    put_in(loop, _job_s=lambda: 1e9)


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_reading_that_waits_for_the_disk_is_found(is_lost: bool) -> None:
    gateway = WatchedGateway(Acknowledge.JOURNAL)
    gateway.join(b"s1")
    hang(gateway.host._loop)
    if is_lost:  # the worker has done its job, and nobody is called back
        put_in(gateway.host._loop, busy_s=lambda: 0.0)
    assert gateway.say(b"s1", short(b"hi", 1, 7)) == []
    cause = Cause.INSIDE if is_lost else Cause.DISK
    assert_found_in_time(gateway, "reading_waits_for_disk", cause)
    assert gateway.found["journal_stalled"] is cause
    assert (gateway.watch.fault() is not None) is is_lost
    assert "reading_waits_for_disk: 1 readings wait for the journal" in (
        gateway.watch.check() or ""
    )


@pytest.mark.guarantee("9")
def test_a_reading_whose_outcome_is_lost_is_ours_though_others_go_on() -> None:
    gateway = WatchedGateway(Acknowledge.JOURNAL)
    gateway.join(b"s1", b"s2")
    stored = gateway.host._committer._callbacks.stored
    lost: list[Any] = []

    def lose_first(readings: list[Any]) -> None:
        if not lost:
            lost.extend(readings)
            return
        stored(readings)

    put_in(gateway.host._committer._callbacks, stored=lose_first)
    assert gateway.say(b"s1", short(b"hi", 1, 7)) == []
    for number in range(20):
        assert gateway.say(b"s2", short(b"on", 1, 100 + number)) == [Puback(TP, 100 + number, 0)]
        gateway.run(1.0)
    assert gateway.found["reading_waits_for_disk"] is Cause.INSIDE
    assert "journal_stalled" not in gateway.history


@pytest.mark.guarantee("9")
def test_a_state_disk_that_hangs_is_found_and_an_answer_does_not_wait_for_it() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.run(1.0)
    hang(gateway.host._state_loop)
    assert gateway.say(b"s1", Register(0, 1, b"a/b")) == []
    assert_found_in_time(gateway, "state_stalled", Cause.DISK)
    assert "answer_overdue" not in gateway.found  # REGACK went out from memory after 5 s
    assert gateway.watch.fault() is None


def test_a_subscription_that_a_hanging_disk_does_not_take_is_refused_and_told_before() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.run(1.0)
    hang(gateway.host._state_loop)
    assert gateway.say(b"s1", subscribe(2)) == []
    assert_found_in_time(gateway, "answer_overdue", Cause.DISK)
    gateway.heard.clear()
    gateway.run(DISK_PATIENCE_S - bound_of("answer_overdue"))
    ((_, suback),) = gateway.heard
    assert isinstance(suback, Suback)
    assert (suback.message_id, suback.return_code) == (2, ReturnCode.CONGESTION)
    gateway.run(2.0)
    assert "answer_overdue" not in gateway.found


@pytest.mark.guarantee("9")
def test_a_lost_wake_up_of_the_state_store_is_ours() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.run(1.0)
    put_in(gateway.host._state, _set_alarm=lambda: None)
    assert gateway.say(b"s1", Register(0, 1, b"a/b")) == []
    assert_found_in_time(gateway, "state_stalled", Cause.INSIDE)
    assert gateway.found["answer_overdue"] is Cause.INSIDE
    assert gateway.watch.fault() is not None


@pytest.mark.guarantee("9")
@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (Register(0, 1, b"a/b"), "answer_overdue"),  # REGACK
        (subscribe(2), "answer_overdue"),  # SUBACK
        (Connect(b"s1", 60, clean_session=False), "answer_overdue"),  # CONNACK
        (Disconnect(600), "answer_overdue"),
    ],
)
def test_an_answer_that_is_never_released_is_ours(asked: Frame, name: str) -> None:
    """The state store has done its work and forgets whom to tell."""
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.run(1.0)
    put_in(gateway.host._state, _hand_over=lambda _effects: None)
    assert gateway.say(b"s1", asked) == []
    assert_found_in_time(gateway, name, Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_message_that_is_never_released_is_ours() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.say(b"s1", subscribe(1, qos=2))
    gateway.run(1.0)
    put_in(gateway.host._state, _hand_over=lambda _effects: None)
    gateway.broker.route(Publication("tp", b"on", 2))
    assert gateway.say(b"s1") == []
    assert_found_in_time(gateway, "delivery_stalled", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_pubcomp_that_the_journal_holds_is_owed() -> None:
    gateway = WatchedGateway(Acknowledge.JOURNAL)
    gateway.join(b"s1")
    assert gateway.say(b"s1", short(b"hi", 2, 7)) == [Pubrec(7)]
    put_in(gateway.host._committer, _tell_durable=lambda: None)
    assert gateway.say(b"s1", Pubrel(7)) == []
    assert_found_in_time(gateway, "answer_overdue", Cause.INSIDE)


# The broker


@pytest.mark.guarantee("9")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_broker_that_acknowledges_nothing_is_found(qos: int) -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.unanswered = is_reading
    answered = [Puback(TP, 7, 0)] if qos == 1 else [Pubrec(7)]
    assert gateway.say(b"s1", short(b"hi", qos, 7)) == answered, "the journal has it"
    assert_found_in_time(gateway, "uplink_stalled", Cause.BROKER)
    assert gateway.watch.fault() is None, "a restart of the gateway does not help"
    gateway.lose_broker()
    gateway.run(10.0)
    assert gateway.found == {}, "from now on the broker is away, which is another alarm"


def test_a_broker_that_does_not_answer_pubrel_is_found() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.unanswered = lambda packet: isinstance(packet, mqtt5.PubRelPacket)
    assert gateway.say(b"s1", short(b"hi", 2, 7)) == [Pubrec(7)]
    assert_found_in_time(gateway, "uplink_stalled", Cause.BROKER)


def test_a_pubrec_that_is_never_on_record_waits_for_the_journal() -> None:
    gateway = WatchedGateway(trust_session=True)
    gateway.join(b"s1")
    gateway.run(1.0)
    perform = gateway.host._committer.perform

    def without_records(work: Any) -> None:
        perform([one for one in work if type(one).__name__ != "RecordReceived"])

    put_in(gateway.host._committer, perform=without_records)
    assert gateway.say(b"s1", short(b"hi", 2, 7)) == [Pubrec(7)]
    assert_found_in_time(gateway, "uplink_stalled", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_place_in_the_window_that_is_never_freed_is_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker owes nothing; the gateway believes that it does."""

    def acknowledge(in_flight: InFlight, packet_ids: list[int]) -> list[Any]:
        return [in_flight.published[each] for each in packet_ids]

    gateway = WatchedGateway()
    gateway.join(b"s1")
    monkeypatch.setattr(InFlight, "acknowledge", acknowledge)
    for number in range(WINDOW):
        assert gateway.say(b"s1", short(b"hi", 1, 7 + number)) == [Puback(TP, 7 + number, 0)]
    assert_found_in_time(gateway, "uplink_stalled", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_reading_that_could_go_and_does_not_is_ours() -> None:
    gateway = WatchedGateway(Acknowledge.UPSTREAM)
    gateway.join(b"s1")
    gateway.lose_broker()
    gateway.run(10.0)
    assert gateway.say(b"s1", short(b"hi", 1, 7)) == [], "it waits, as configured"
    gateway.run(60.0)
    assert gateway.history == {}
    put_in(gateway.engine.upstream.publisher, pump=lambda _now: [])
    gateway.bring_broker_back()
    assert_found_in_time(gateway, "uplink_stalled", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_connection_that_never_takes_bytes_again_is_found() -> None:
    gateway = WatchedGateway(Acknowledge.UPSTREAM)
    gateway.join(b"s1")
    gateway.host.clog(is_congested=True)
    assert gateway.say(b"s1", short(b"hi", 1, 7)) == []
    assert_found_in_time(gateway, "uplink_stalled", Cause.BROKER)
    gateway.host.clog(is_congested=False)
    gateway.run(2.0)
    assert gateway.found == {}


@pytest.mark.guarantee("9")
def test_a_reading_that_no_queue_has_is_owed_by_us() -> None:
    gateway = WatchedGateway(Acknowledge.UPSTREAM)
    gateway.join(b"s1")
    gateway.unanswered = is_reading
    gateway.say(b"s1", short(b"hi", 1, 7))
    gateway.engine.upstream.publisher.in_flight.published.clear()
    assert_found_in_time(gateway, "answer_overdue", Cause.INSIDE)
    assert "PUBACK or PUBREC of message id 7 is owed, of s1" in (gateway.watch.check() or "")


@pytest.mark.guarantee("9")
def test_a_broker_that_does_not_answer_subscribe_is_found_with_who_waits() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.unanswered = lambda packet: isinstance(packet, mqtt5.SubscribePacket)
    assert gateway.say(b"s1", subscribe(1)) == []
    assert_found_in_time(gateway, "answer_overdue", Cause.BROKER)
    gateway.run(bound_of("subscription_unanswered") - bound_of("answer_overdue"))
    assert gateway.found["subscription_unanswered"] is Cause.BROKER


def test_a_subscription_that_is_never_asked_for_is_ours() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    put_in(gateway.engine.upstream.subscriptions, advance=lambda: [])
    assert gateway.say(b"s1", subscribe(1)) == []
    assert_found_in_time(gateway, "subscription_unanswered", Cause.INSIDE)


def test_a_wish_that_nobody_knows_any_more_is_ours() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.unanswered = lambda packet: isinstance(packet, mqtt5.SubscribePacket)
    gateway.say(b"s1", subscribe(1))
    gateway.engine.downlink.pending._asked.clear()
    assert_found_in_time(gateway, "answer_overdue", Cause.INSIDE)


# The backlog


def test_a_backlog_that_is_never_read_is_found() -> None:
    gateway = queued()
    put_in(gateway.host._committer, _begin_read=lambda _now: False)
    gateway.bring_broker_back()
    assert_found_in_time(gateway, "backlog_stalled", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_backlog_on_a_disk_that_hangs_is_the_disks() -> None:
    gateway = queued()
    hang(gateway.host._loop)
    gateway.bring_broker_back()
    assert_found_in_time(gateway, "backlog_stalled", Cause.DISK)


def test_a_backlog_that_cannot_be_read_is_the_disks_whatever_is_written_meanwhile() -> None:
    gateway = queued()
    gateway.join(b"s2")

    def refuse(request: BacklogRequest) -> list[Any]:
        request.failed = Failed(request.stretches[0].segment, 5, "Input/output error")
        return []

    put_in(gateway.host.journal, read=refuse)
    gateway.bring_broker_back()
    for number in range(40):
        gateway.say(b"s2", short(b"on", 2, 1 + number), Pubrel(1 + number))
        gateway.run(0.9)
    assert gateway.history == {"backlog_stalled": {Cause.DISK}}


@pytest.mark.guarantee("9")
def test_a_backlog_that_nobody_asks_for_is_ours() -> None:
    gateway = queued()
    put_in(gateway.engine.uplink, read_more=lambda: [])
    gateway.bring_broker_back()
    assert_found_in_time(gateway, "backlog_stalled", Cause.INSIDE)


def test_a_backlog_that_is_read_and_does_not_come_back_is_ours() -> None:
    gateway = queued()
    put_in(gateway.host._committer._callbacks, backlog=lambda _forwards: None)
    gateway.bring_broker_back()
    assert_found_in_time(gateway, "backlog_stalled", Cause.INSIDE)


# Timers, and messages to sensors


@pytest.mark.guarantee("9")
def test_a_timer_that_is_not_set_again_is_found() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1", keep_alive_s=10)
    put_in(gateway.host, _set_alarm=lambda: None)
    gateway.run(24.0)
    assert "timer_overdue" not in gateway.history
    gateway.run(20.0)
    assert gateway.found["timer_overdue"] is Cause.INSIDE


@pytest.mark.guarantee("9")
def test_a_session_whose_timer_is_in_no_list_is_found() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1", keep_alive_s=10)
    gateway.engine.client_table._timers.clear()
    gateway.run(40.0)
    assert gateway.found["timer_overdue"] is Cause.INSIDE
    assert "a timer is overdue, of s1" in (gateway.watch.check() or "")


@pytest.mark.guarantee("9")
def test_a_message_that_nothing_sends_is_found() -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    assert gateway.say(b"s1", subscribe(1)) != []
    session = next(iter(gateway.engine.sessions.values()))
    gateway.broker.route(Publication("tp", b"one", 1))
    gateway.broker.route(Publication("tp", b"two", 1))
    gateway.run(0.5)
    session.outbound.outstanding = None
    session.outbound.due_at = None
    assert_found_in_time(gateway, "delivery_stalled", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_sleeper_that_is_awake_and_gets_no_answer_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.say(b"s1", Disconnect(600))
    monkeypatch.setattr(
        type(gateway.engine.sessions["s1"]), "_until_drained", lambda _, got, __: got
    )
    assert gateway.say(b"s1", Pingreq(b"s1")) == []
    assert_found_in_time(gateway, "answer_overdue", Cause.INSIDE)


@pytest.mark.guarantee("9")
def test_a_will_that_is_nowhere_is_found() -> None:
    gateway = WatchedGateway()
    gateway.lose_broker()
    gateway.run(10.0)
    gateway.join(b"s1")
    session = gateway.engine.sessions["s1"]
    will = Will("tp", b"gone", 1, False).reading(session.client_id, gateway.now)
    gateway.engine.wills.begin(will)
    assert_found_in_time(gateway, "will_stalled", Cause.INSIDE)
    gateway.engine.wills.refused(will, 1, gateway.now)
    gateway.run(2.0)
    assert gateway.found == {}, "it is offered again, by a timer"


# When it counts, and what is logged


@pytest.mark.guarantee("9")
def test_time_in_which_the_process_did_not_run_does_not_count() -> None:
    gateway = WatchedGateway(Acknowledge.JOURNAL)
    gateway.join(b"s1")
    hang(gateway.host._loop)
    gateway.say(b"s1", short(b"hi", 1, 7))
    gateway.run(2.0)
    gateway.watch.look(gateway.now + 3600.0)
    assert gateway.found == {}
    assert max(gateway.watch.unmoved_s.values()) <= 2.0 + LOOK_S_MAX


def test_it_is_logged_again_when_it_turns_out_to_be_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = WatchedGateway(Acknowledge.JOURNAL)
    gateway.join(b"s1")
    hang(gateway.host._loop)
    gateway.say(b"s1", short(b"hi", 1, 7))
    with caplog.at_level(logging.INFO, "tidegate.liveness"):
        gateway.run(20.0)
        put_in(gateway.host._loop, busy_s=lambda: 0.0)  # the job has ended, and nobody knows
        gateway.run(10.0)
    begun = [record.getMessage().split(":")[0] for record in caplog.records]
    names = ("journal_stalled", "reading_waits_for_disk")
    assert begun == [f"standstill {name} ({how})" for how in ("disk", "inside") for name in names]


def test_it_is_logged_when_it_begins_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = WatchedGateway()
    gateway.join(b"s1")
    gateway.unanswered = is_reading
    gateway.say(b"s1", short(b"hi", 1, 7))
    with caplog.at_level(logging.INFO, "tidegate.liveness"):
        gateway.run(40.0)
        gateway.lose_broker()
        gateway.run(10.0)
    began, over = [record.getMessage() for record in caplog.records]
    assert began.startswith(
        "standstill uplink_stalled (broker): 1 readings are at the broker and 0 wait; PUBACK or "
        "PUBREC for the oldest, of s1, has not come; nothing of it has moved for 31 s: the broker "
        "is connected and does not answer"
    )
    assert over == "standstill uplink_stalled is over after 40 s"

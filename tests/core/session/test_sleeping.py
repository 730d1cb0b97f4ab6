"""Sleep: announced, supervised, interrupted to fetch what waits, one message after the other."""

from __future__ import annotations

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Send
from gateway.core.session.options import SessionOptions
from gateway.core.state_records import State
from gateway.core.values import Message
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    ReturnCode,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    WillTopicResp,
    WillTopicUpd,
)
from tests.core.session.client import (
    DEV1,
    ELSEWHERE,
    HERE,
    acked,
    asleep,
    asleep_with,
    connected,
    published,
)

ACCEPTED, CONGESTION, INVALID_TOPIC_ID, NOT_SUPPORTED = ReturnCode
T_RETRY, N_RETRY = 10.0, 4
KEEPS_QOS_0 = SessionOptions(queues_qos_0_for_sleepers=True)


# Going to sleep


def test_disconnect_with_a_duration_is_answered_and_the_client_sleeps() -> None:
    client = connected()
    assert client.says(Disconnect(600)) == [Disconnect()]
    assert client.moves == [State.ASLEEP]


def test_a_repeated_disconnect_is_answered_again_and_keeps_what_waits() -> None:
    client = asleep_with(b"1")
    assert client.says(Disconnect(600), at=10.0) == [Disconnect()]
    assert client.moves == []
    assert client.wakes(at=20.0) == [published(1, b"1")]


def test_a_repeated_disconnect_begins_the_sleep_anew_with_its_duration() -> None:
    client = asleep(duration_s=60)
    client.says(Disconnect(100), at=50.0)
    client.waits(until=159.9)
    assert client.state() is State.ASLEEP
    client.waits(until=160.1)
    assert client.state() is State.LOST


def test_a_duration_of_0_is_no_sleep() -> None:
    client = connected()
    assert client.says(Disconnect(0)) == [Disconnect()]
    assert client.state() is State.DISCONNECTED


@pytest.mark.parametrize("duration_s", [None, 0, 60])
def test_a_client_that_connects_cannot_go_to_sleep_yet(duration_s: int | None) -> None:
    client = connected()
    client.says(Disconnect())
    client.says(Connect(DEV1.encode(), 60, will=True))
    assert client.says(Disconnect(duration_s)) == [Disconnect()]
    assert client.state() is State.DISCONNECTED


def test_nothing_is_repeated_to_a_sleeper() -> None:
    client = connected()
    client.is_sent("a/b")
    client.sleeps(600, at=1.0)
    assert client.waits(until=600.0) == []


# Fetching what waits


@pytest.mark.guarantee("4g")
def test_pingreq_with_the_client_id_fetches_what_waits_one_by_one() -> None:
    client = asleep_with(b"1", b"2")
    assert client.wakes(at=60.0) == [published(1, b"1")]
    assert client.state() is State.AWAKE
    assert client.says(acked(1), at=60.1) == [published(2, b"2")]
    assert client.says(acked(2), at=60.2) == [Pingresp()]
    assert client.state() is State.ASLEEP


def test_pingresp_comes_at_once_when_nothing_waits() -> None:
    client = asleep()
    assert client.wakes(at=60.0) == [Pingresp()]
    assert client.moves == [State.AWAKE, State.ASLEEP]


def test_pingresp_waits_for_the_last_acknowledgement_of_qos_2() -> None:
    client = asleep()
    client.is_sent("a/b", b"1", qos=2)
    assert client.wakes(at=60.0) == [Publish(1, 1, b"1", qos=2)]
    assert client.says(Pubrec(1), at=60.1) == [Pubrel(1)]
    assert client.says(Pubcomp(1), at=60.2) == [Pingresp()]


def test_qos_0_is_fetched_too_and_needs_no_acknowledgement() -> None:
    client = asleep(options=KEEPS_QOS_0)
    client.is_sent("a/b", b"1", qos=0)
    client.is_sent("a/b", b"2", qos=0)
    assert client.wakes() == [Publish(1, 0, b"1"), Publish(1, 0, b"2"), Pingresp()]


def test_a_name_is_registered_while_awake() -> None:
    client = asleep(options=KEEPS_QOS_0)
    client.is_sent("x/y", b"1", qos=0)
    assert client.wakes() == [Register(2, 1, b"x/y")]
    assert client.says(Regack(2, 1, ACCEPTED)) == [Publish(2, 0, b"1"), Pingresp()]


def test_a_refused_name_does_not_keep_a_client_awake() -> None:
    client = asleep()
    client.is_sent("x/y", b"1")
    client.wakes()
    assert client.says(Regack(2, 1, NOT_SUPPORTED)) == [Pingresp()]


def test_what_arrives_while_awake_is_fetched_as_well() -> None:
    client = asleep_with(b"1")
    client.wakes()
    assert client.is_sent("a/b", b"2") == []
    assert client.says(acked(1)) == [published(2, b"2")]
    assert client.says(acked(2)) == [Pingresp()]


# Asking again


def test_a_copy_of_pingreq_while_awake_changes_nothing() -> None:
    client = asleep_with(b"1")
    client.wakes(at=60.0)
    assert client.says(Pingreq(DEV1.encode()), at=60.9) == []
    assert client.says(Pingreq(), at=62.0) == []  # PINGRESP would send it to sleep too early
    assert client.says(acked(1), at=63.0) == [Pingresp()]


@pytest.mark.guarantee("4g")
def test_one_that_asks_again_while_awake_gets_the_message_again_at_once() -> None:
    """It had gone back to sleep without a word; its message is still under way here."""
    client = asleep_with(b"1")
    client.wakes(at=60.0)
    for at in (65.0, 70.0):
        assert client.wakes(at) == [published(1, b"1", dup=True)]
    assert client.says(acked(1), at=70.1) == [Pingresp()]


def test_one_that_asks_again_has_all_repeats_before_it_again() -> None:
    client = asleep_with(b"1")
    client.wakes(at=0.0)
    client.waits(until=N_RETRY * T_RETRY)
    client.wakes(at=45.0)
    again = published(1, b"1", dup=True)
    assert client.waits(until=500.0)[:-1] == [(45.0 + T_RETRY * n, again) for n in range(1, 5)]


def test_one_that_only_asks_is_answered_when_the_repeats_have_had_their_time() -> None:
    client = asleep_with(b"1")
    client.wakes(at=0.0)
    for second in range(5, 50, 5):
        assert client.wakes(at=float(second)) == [published(1, b"1", dup=True)]
    assert client.wakes(at=50.0) == [Pingresp()]
    assert client.state() is State.ASLEEP


def test_one_that_ignores_pubrel_is_answered_too_and_hears_no_more_of_it_in_the_end() -> None:
    client = asleep()
    client.is_sent("a/b", qos=2)
    client.is_sent("a/b", b"next")
    for waking in (0.0, 100.0, 200.0):
        client.wakes(at=waking)
        client.says(Pubrec(1), at=waking)
        assert client.wakes(at=waking + 50.0) == [Pingresp()]
    assert client.wakes(at=300.0) == [Publish(1, 2, b"next", qos=1)]
    drops = [each for each in client.effects if isinstance(each, Dropped)]
    assert [(each.reason, each.count) for each in drops] == [(Reason.UNACKNOWLEDGED, 0)]


def test_what_waits_for_our_disk_is_not_hurried_by_asking_again() -> None:
    client = asleep()
    client.session.deliver(Message("a/b", b"1", 2), 0.0)  # not durable yet
    client.session.receive(Pingreq(DEV1.encode()), 60.0)
    assert client.wakes(at=65.0) == []
    assert client.state() is State.AWAKE


def test_a_pingreq_whose_pingresp_was_lost_is_answered_again() -> None:
    client = asleep()
    client.wakes(at=60.0)
    assert client.wakes(at=70.0) == [Pingresp()]


def test_pingreq_without_client_id_is_answered_and_wakes_nobody() -> None:
    client = asleep_with(b"1")
    assert client.says(Pingreq(), at=5.0) == [Pingresp()]
    assert client.state() is State.ASLEEP


def test_pingreq_of_an_active_client_is_answered_with_or_without_its_id() -> None:
    client = connected()
    assert client.says(Pingreq()) == [Pingresp()]
    assert client.says(Pingreq(DEV1.encode())) == [Pingresp()]
    assert client.state() is State.ACTIVE


def test_one_that_slept_before_and_asks_as_a_sleeper_does_is_asleep_again() -> None:
    """A late duplicate of its CONNECT came behind its DISCONNECT."""
    client = asleep_with(b"1", duration_s=20)
    assert client.says(Connect(DEV1.encode(), 60, clean_session=False), at=5.0)[0] == Connack(0)
    assert client.state() is State.ACTIVE
    assert client.says(Pingreq(DEV1.encode()), at=5.5) == [published(1, b"1", dup=True)]
    assert client.state() is State.AWAKE
    assert client.says(acked(1), at=5.6) == [Pingresp()]
    assert client.state() is State.ASLEEP
    client.waits(until=5.5 + 85.0)  # a keep-alive, as its 20 s may be those of an earlier sleep
    assert client.state() is State.ASLEEP
    assert client.is_sent("a/b", b"2") == []


def test_pingreq_of_another_client_does_not_fetch_what_waits_for_this_one() -> None:
    """An address used again, behind a router: the other one must connect."""
    client = asleep_with(b"1")
    assert client.says(Pingreq(b"dev2"), at=5.0) == [Disconnect()]
    assert client.drops == [Reason.STRANGER]
    assert client.state() is State.ASLEEP


def test_a_name_that_the_client_registers_itself_while_awake_ends_in_pingresp() -> None:
    client = asleep(options=KEEPS_QOS_0)
    client.is_sent("x/y", b"1", qos=0)
    client.wakes(at=0.0)
    heard = client.says(Register(0, 9, b"x/y"), at=1.0)
    assert heard == [Regack(2, 9, ACCEPTED), Publish(2, 0, b"1"), Pingresp()]


# Unacknowledged


@pytest.mark.guarantee("4g")
def test_what_is_not_acknowledged_while_awake_is_repeated_and_then_waits_for_the_next() -> None:
    client = asleep_with(b"1", b"2")
    client.wakes(at=0.0)
    again = published(1, b"1", dup=True)
    repeats = [(T_RETRY * n, again) for n in range(1, N_RETRY + 1)]
    assert client.waits(until=500.0) == [*repeats, (50.0, Pingresp())]
    assert client.moves == [State.ASLEEP]
    assert client.wakes(at=550.0) == [again]
    assert client.says(acked(1), at=550.1) == [published(2, b"2")]
    assert client.says(acked(2), at=550.2) == [Pingresp()]


def test_after_unanswered_retries_the_whole_sleep_lies_before_the_client() -> None:
    client = asleep_with(b"1", duration_s=10)
    client.wakes(at=0.0)
    client.waits(until=50.0)
    assert client.state() is State.ASLEEP
    client.waits(until=64.9)
    assert client.state() is State.ASLEEP
    client.waits(until=65.1)
    assert client.state() is State.LOST


def test_sleeping_again_while_awake_keeps_what_was_not_acknowledged() -> None:
    client = asleep_with(b"1")
    client.wakes(at=0.0)
    client.sleeps(600, at=1.0)
    assert client.waits(until=500.0) == []
    assert client.wakes(at=500.0) == [published(1, b"1", dup=True)]


# Late acknowledgements: they count, but a sleeper hears nothing more


def test_a_late_puback_counts_and_the_next_message_waits() -> None:
    client = connected()
    client.is_sent("a/b", b"1")
    client.is_sent("a/b", b"2")
    client.sleeps(600, at=1.0)
    assert client.says(acked(1), at=1.1) == []
    assert client.waits(until=500.0) == []
    assert client.wakes(at=500.0) == [published(2, b"2")]


def test_a_late_regack_counts_and_the_message_waits() -> None:
    client = connected()
    client.is_sent("x/y", b"1")
    client.sleeps(600, at=1.0)
    assert client.says(Regack(2, 1, ACCEPTED), at=1.1) == []
    assert client.waits(until=500.0) == []
    assert client.wakes(at=500.0) == [Publish(2, 1, b"1", qos=1)]


def test_a_late_pubrec_gets_pubrel_once() -> None:
    client = connected()
    client.is_sent("a/b", b"1", qos=2)
    client.sleeps(600, at=1.0)
    assert client.says(Pubrec(1), at=1.1) == [Pubrel(1)]
    assert client.waits(until=500.0) == []
    assert client.wakes(at=500.0) == [Pubrel(1)]
    assert client.says(Pubcomp(1), at=500.1) == [Pingresp()]


def test_a_late_objection_counts_and_the_message_waits() -> None:
    client = connected()
    client.is_sent("a/b", b"1")
    client.sleeps(600, at=1.0)
    assert client.says(Puback(1, 1, INVALID_TOPIC_ID), at=1.1) == []
    assert client.waits(until=500.0) == []
    assert client.wakes(at=500.0) == [Register(1, 1, b"a/b")]


# Being supervised


@pytest.mark.parametrize(("duration_s", "deadline_s"), [(60, 90.0), (600, 660.0)])
def test_a_sleeper_that_does_not_return_is_lost(duration_s: int, deadline_s: float) -> None:
    client = asleep(duration_s)
    client.waits(until=deadline_s - 0.1)
    assert client.state() is State.ASLEEP
    client.waits(until=deadline_s + 0.1)
    assert client.moves == [State.LOST]


def test_keep_alive_is_not_supervised_while_asleep() -> None:
    client = connected(keep_alive_s=10)
    client.sleeps(600, at=1.0)
    client.waits(until=600.0)
    assert client.state() is State.ASLEEP


def test_each_pingresp_begins_the_sleep_anew() -> None:
    client = asleep(duration_s=60)
    for second in range(80, 800, 80):
        client.waits(until=float(second))
        assert client.wakes(at=float(second)) == [Pingresp()]


def test_a_sleeper_that_does_not_return_after_pingresp_is_lost() -> None:
    client = asleep(duration_s=60)
    client.wakes(at=80.0)
    client.waits(until=169.9)
    assert client.state() is State.ASLEEP
    client.waits(until=170.1)
    assert client.state() is State.LOST


def test_a_sleeper_may_register_and_subscribe_and_sleeps_on() -> None:
    client = asleep(duration_s=60)
    assert client.says(Register(0, 7, b"x/y"), at=50.0) == [Regack(2, 7, ACCEPTED)]
    client.says(Subscribe(8, b"a/b", qos=1), at=51.0)
    answer = client.heard(client.session.subscribed(client.wishes[0], ACCEPTED))
    assert answer == [Suback(1, 8, ACCEPTED, qos=1)]
    assert client.says(Unsubscribe(9, b"a/b"), at=52.0) == [Unsuback(9)]
    assert client.says(WillTopicUpd(b"w", 1), at=53.0) == [WillTopicResp(ACCEPTED)]
    assert client.waits(until=53.0 + 89.9) == []
    assert client.state() is State.ASLEEP


def test_one_that_is_lost_in_its_sleep_finds_what_waited_when_it_connects() -> None:
    client = asleep_with(b"1", b"2", duration_s=60)
    client.waits(until=1000.0)
    assert client.state() is State.LOST
    client.is_sent("a/b", b"3", at=1001.0)
    client.says(Connect(DEV1.encode(), 60), at=2000.0)
    for number, payload in enumerate((b"1", b"2", b"3"), 1):
        if number == 1:
            client.says(Regack(1, 1, ACCEPTED), at=2000.1)
        (frame,) = [each.frame for each in client.effects if isinstance(each, Send)]
        assert frame == published(number, payload)
        client.says(acked(number), at=2000.2)


def test_a_reading_from_a_sleeper_goes_on_and_begins_the_sleep_anew() -> None:
    client = asleep(duration_s=60)
    (reading,) = client.reads(b"21.5", at=80.0)
    assert client.state() is State.ASLEEP
    assert client.settles(reading) == [acked(1)]
    client.waits(until=169.9)
    assert client.state() is State.ASLEEP


# Waking for good


def test_connect_with_clean_0_and_no_will_is_a_signal_and_what_waits_comes() -> None:
    client = asleep_with(b"1")
    wake = Connect(DEV1.encode(), 30)
    assert client.says(wake, at=60.0) == [Connack(ACCEPTED), published(1, b"1")]
    assert client.moves == [State.ACTIVE]


def test_a_signal_while_awake_goes_on_with_what_is_under_way() -> None:
    client = asleep_with(b"1", b"2")
    client.wakes(at=60.0)
    wake = Connect(DEV1.encode(), 30)
    assert client.says(wake, at=61.0) == [Connack(ACCEPTED), published(1, b"1", dup=True)]
    assert client.says(acked(1), at=62.0) == [published(2, b"2")]
    assert client.says(acked(2), at=63.0) == []  # no PINGRESP for one that is active


def test_a_signal_brings_its_keep_alive_and_address() -> None:
    client = asleep()
    client.says(Connect(DEV1.encode(), 30), at=60.0, peer=ELSEWHERE)
    assert client.session.peer == ELSEWHERE != HERE
    client.waits(until=104.9)
    assert client.state() is State.ACTIVE
    client.waits(until=105.1)
    assert client.state() is State.LOST


@pytest.mark.parametrize("awake", [False, True])
def test_connect_with_will_is_a_connection_of_its_own(awake: bool) -> None:
    client = asleep_with(b"1")
    if awake:
        client.wakes()
    client.says(Connect(DEV1.encode(), 60, will=True), at=60.0)
    assert client.state() is State.CONNECTING
    assert client.waits(until=100.0) == []


def test_connect_with_clean_1_is_a_connection_of_its_own() -> None:
    client = asleep()
    client.says(Connect(DEV1.encode(), 60, clean_session=True), at=60.0)
    assert client.moves == [State.CONNECTING, State.ACTIVE]
    assert client.session.clean


def test_a_signal_leaves_a_clean_session_clean() -> None:
    client = connected()
    client.says(Connect(DEV1.encode(), 60, clean_session=True))
    client.sleeps()
    client.says(Connect(DEV1.encode(), 60), at=60.0)
    assert client.session.clean


def test_disconnect_ends_the_sleep_and_its_supervision() -> None:
    client = asleep(duration_s=60)
    assert client.says(Disconnect(), at=10.0) == [Disconnect()]
    assert client.moves == [State.DISCONNECTED]
    assert client.waits(until=100_000.0) == []
    assert client.state() is State.DISCONNECTED

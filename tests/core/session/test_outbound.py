"""Messages on their way down: in order, one at a time, each acknowledged before the next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import DeliverySaved
from gateway.core.session.options import SessionOptions
from gateway.core.session.outbound import ROUNDS_MAX
from gateway.core.session.outbox import GivenUp
from gateway.core.state_records import State
from gateway.core.values import Message
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
    ReturnCode,
    Subscribe,
    TopicIdType,
)
from tests.core.session.client import DEV1, Client, acked, acknowledged, asleep, connected

ACCEPTED, CONGESTION, INVALID_TOPIC_ID, NOT_SUPPORTED = ReturnCode
T_RETRY, N_RETRY = 10.0, 4


def with_one_under_way(qos: int = 1, topic: str = "a/b") -> Client:
    """A message went out at second 0 and is not acknowledged; a second one waits behind it."""
    client = connected(topics=("a/b", "c/d"))
    assert client.is_sent(topic, b"first", qos) != []
    assert client.is_sent("c/d", b"second", 1) == []
    return client


SECOND = Publish(2, 2, b"second", qos=1)


# As it came


def test_a_message_of_qos_0_goes_out_without_message_id() -> None:
    assert connected().is_sent("a/b", b"on", qos=0) == [Publish(1, 0, b"on")]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_of_qos_1_or_2_has_a_message_id(qos: int) -> None:
    assert connected().is_sent("a/b", b"on", qos) == [Publish(1, 1, b"on", qos)]


def test_the_retain_flag_is_passed_on() -> None:
    client = connected()
    sent = client.heard(client.session.deliver(Message("a/b", b"on", 1, retain=True), 0.0))
    assert sent == [Publish(1, 1, b"on", qos=1, retain=True)]


@pytest.mark.no_cover  # the same lines 65,537 times
def test_message_ids_count_to_65535_and_start_again_at_1() -> None:
    client = connected()
    ids = []
    for _ in range(65_537):
        (frame,) = client.is_sent("a/b")
        client.says(acknowledged(frame))
        assert isinstance(frame, Publish)
        ids.append(frame.message_id)
    assert ids == [*range(1, 65_536), 1, 2]


# One at a time, in order


@pytest.mark.guarantee("4a")
def test_a_message_waits_until_the_one_before_it_is_acknowledged() -> None:
    client = with_one_under_way()
    assert client.says(Puback(1, 1, ACCEPTED), at=1.0) == [SECOND]


def test_qos_0_keeps_its_place_behind_an_unacknowledged_message() -> None:
    client = connected(topics=("a/b", "c/d"))
    client.is_sent("a/b", b"1", qos=1)
    for payload, qos in ((b"2", 0), (b"3", 0), (b"4", 1), (b"5", 0)):
        assert client.is_sent("c/d", payload, qos) == []
    assert client.says(Puback(1, 1, ACCEPTED)) == [
        Publish(2, 0, b"2"),
        Publish(2, 0, b"3"),
        Publish(2, 2, b"4", qos=1),
    ]
    assert client.says(Puback(2, 2, ACCEPTED)) == [Publish(2, 0, b"5")]


def test_qos_2_is_finished_by_pubcomp() -> None:
    client = with_one_under_way(qos=2)
    assert client.says(Pubrec(1)) == [Pubrel(1)]
    assert client.says(Pubcomp(1)) == [SECOND]


@pytest.mark.parametrize(
    "frame",
    [
        Puback(1, 2, ACCEPTED),
        Puback(1, 2, INVALID_TOPIC_ID),
        Pubcomp(1),
        Pubcomp(2),
        Regack(1, 1, ACCEPTED),
    ],
    ids=repr,
)
def test_an_acknowledgement_of_something_else_changes_nothing(frame: Puback | Pubcomp) -> None:
    client = with_one_under_way(qos=1)
    assert client.says(frame) == []
    assert client.drops == [Reason.OUT_OF_TURN]
    assert client.says(Puback(1, 1, ACCEPTED)) == [SECOND]


def test_puback_does_not_acknowledge_qos_2() -> None:
    client = with_one_under_way(qos=2)
    assert client.says(Puback(1, 1, ACCEPTED)) == []
    assert client.drops == [Reason.OUT_OF_TURN]


def test_pubrec_acknowledges_qos_1_and_its_exchange_can_end() -> None:
    client = with_one_under_way(qos=1)
    assert client.says(Pubrec(1)) == [Pubrel(1), SECOND]
    assert client.says(Pubcomp(1)) == []
    assert client.drops == [Reason.OUT_OF_TURN]


@pytest.mark.parametrize("qos", [0, 1])
def test_acknowledgements_with_the_low_byte_first_count(qos: int) -> None:
    client = connected()
    assert client.is_sent("new", b"first", qos) == [Register(2, 1, b"new")]
    following = client.says(Regack(0x0200, 0x0100, ACCEPTED))
    assert following == [Publish(2, qos, b"first", qos)]
    if qos:
        assert client.says(Puback(0x0200, 0x0100, ACCEPTED)) == []
        assert client.session.outbound.waiting == 0


@pytest.mark.parametrize("frame", [Puback(0x0100, 0x0200, 0), Puback(0x0200, 0x0100, 0)], ids=repr)
def test_others_with_the_low_byte_first_do_not(frame: Puback) -> None:
    client = with_one_under_way(qos=1)
    assert client.says(frame) == []
    assert client.drops == [Reason.OUT_OF_TURN]


def test_a_repeated_pubrec_gets_pubrel_again() -> None:
    client = with_one_under_way(qos=2)
    client.says(Pubrec(1))
    assert client.says(Pubrec(1), at=5.0) == [Pubrel(1)]
    assert client.says(Pubcomp(1), at=6.0) == [SECOND]


# Names the client does not know


def test_an_unknown_name_is_registered_before_its_first_message() -> None:
    client = connected()
    assert client.is_sent("x/y", b"on") == [Register(2, 1, b"x/y")]
    assert client.says(Regack(2, 1, ACCEPTED)) == [Publish(2, 1, b"on", qos=1)]
    client.says(Puback(2, 1, ACCEPTED))
    assert client.is_sent("x/y", b"off") == [Publish(2, 2, b"off", qos=1)]


@pytest.mark.guarantee("4a")
def test_qos_0_waits_for_regack_too_and_nothing_overtakes_it() -> None:
    client = connected()
    assert client.is_sent("x/y", b"1", qos=0) == [Register(2, 1, b"x/y")]
    assert client.is_sent("a/b", b"2", qos=0) == []
    assert client.says(Regack(2, 1, ACCEPTED)) == [Publish(2, 0, b"1"), Publish(1, 0, b"2")]


def test_a_name_is_registered_again_in_each_connection_with_its_number() -> None:
    client = connected()
    client.says(Connect(DEV1.encode(), 60))
    assert client.is_sent("a/b") == [Register(1, 1, b"a/b")]
    assert client.says(Regack(1, 1, ACCEPTED)) == [Publish(1, 1, b"on", qos=1)]


def test_a_refused_name_costs_its_messages_only() -> None:
    client = connected()
    client.is_sent("x/y", b"1")
    client.is_sent("x/y", b"2")
    client.is_sent("a/b", b"3")
    assert client.says(Regack(2, 1, NOT_SUPPORTED)) == [Publish(1, 3, b"3", qos=1)]
    assert client.drops == [Reason.CLIENT_REFUSED] * 2
    client.says(Puback(1, 3, ACCEPTED))
    assert client.is_sent("x/y", b"4", qos=0) == []
    assert client.drops == [Reason.CLIENT_REFUSED]


@pytest.mark.parametrize("frame", [Register(0, 9, b"x/y"), Connect(DEV1.encode(), 60)], ids=repr)
def test_a_refused_name_is_wanted_again_when_the_client_asks_or_reconnects(
    frame: Register | Connect,
) -> None:
    client = connected()
    client.is_sent("x/y", b"1")
    client.says(Regack(2, 1, INVALID_TOPIC_ID))
    client.says(frame)
    assert len(client.is_sent("x/y", b"2")) == 1


def test_beyond_the_limit_of_names_a_message_is_dropped_and_the_next_goes_on() -> None:
    client = connected(options=SessionOptions(topics_max=1))
    assert client.is_sent("x/y") == []
    assert client.drops == [Reason.TOPICS_FULL]
    assert client.is_sent("a/b") == [Publish(1, 1, b"on", qos=1)]


# What a client objects to


def forgets(client: Client, message_id: int = 1, qos: int = 1, dup: bool = True) -> None:
    """It does not know topic id 1; it is told, and gets the message again."""
    assert client.says(Puback(1, message_id, INVALID_TOPIC_ID)) == [Register(1, message_id, b"a/b")]
    answer = [Publish(1, message_id, b"first", qos, dup=dup)]
    assert client.says(Regack(1, message_id, ACCEPTED)) == answer


@pytest.mark.parametrize("qos", [1, 2])
def test_a_forgotten_number_is_registered_again_and_the_message_sent_again(qos: int) -> None:
    client = with_one_under_way(qos)
    forgets(client, qos=qos)


def test_a_client_that_never_learns_a_number_loses_the_message_and_not_the_rest() -> None:
    client = with_one_under_way()
    for _ in range(N_RETRY):
        forgets(client)
    assert client.says(Puback(1, 1, INVALID_TOPIC_ID)) == [SECOND]
    assert client.drops == [Reason.CLIENT_REFUSED]


@pytest.mark.guarantee("4d")
def test_a_client_that_answers_the_last_repeat_with_a_forgotten_number_keeps_its_message() -> None:
    client = with_one_under_way()
    assert len(client.waits(until=45.0)) == SessionOptions().retry_count_max
    assert client.says(Puback(1, 1, INVALID_TOPIC_ID), at=46.0) == [Register(1, 1, b"a/b")]
    assert client.drops == []


def test_a_number_forgotten_at_qos_0_is_registered_before_its_next_use() -> None:
    client = connected()
    client.is_sent("a/b", qos=0)
    assert client.says(Puback(1, 0, INVALID_TOPIC_ID)) == []
    assert client.drops == [Reason.CLIENT_REFUSED]
    assert client.is_sent("a/b") == [Register(1, 1, b"a/b")]


@pytest.mark.parametrize("topic_id", [0, 99])
def test_an_objection_to_a_number_it_never_had_changes_nothing(topic_id: int) -> None:
    client = connected()
    client.says(Puback(topic_id, 0, INVALID_TOPIC_ID))
    assert client.is_sent("a/b") == [Publish(1, 1, b"on", qos=1)]


def test_a_message_refused_at_qos_0_is_counted() -> None:
    client = connected()
    client.is_sent("a/b", qos=0)
    client.says(Puback(1, 0, CONGESTION))
    assert client.drops == [Reason.CLIENT_REFUSED]
    assert client.is_sent("a/b", qos=0) == [Publish(1, 0, b"on")]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("return_code", [NOT_SUPPORTED, 0x04, 0xFF])
def test_a_refused_message_makes_room_for_the_next(qos: int, return_code: int) -> None:
    client = with_one_under_way(qos)
    assert client.says(Puback(1, 1, return_code)) == [SECOND]
    assert client.drops == [Reason.CLIENT_REFUSED]


def test_a_congested_client_is_asked_again_later_and_not_for_ever() -> None:
    client = with_one_under_way()
    for attempt in range(1, N_RETRY + 1):
        assert client.says(Puback(1, 1, CONGESTION), at=T_RETRY * attempt - 1) == []
        assert client.waits(until=T_RETRY * attempt) == [
            (T_RETRY * attempt, Publish(1, 1, b"first", qos=1, dup=True))
        ]
    assert client.says(Puback(1, 1, CONGESTION), at=45.0) == [SECOND]
    assert client.drops == [Reason.CLIENT_REFUSED]
    assert client.state() is State.ACTIVE


def test_a_client_without_room_for_one_more_name_gets_its_other_messages() -> None:
    client = connected()
    client.is_sent("x/y", b"1")
    client.is_sent("a/b", b"2")
    for attempt in range(1, N_RETRY + 1):
        assert client.says(Regack(2, 1, CONGESTION), at=T_RETRY * attempt - 1) == []
        assert client.waits(until=T_RETRY * attempt) == [
            (T_RETRY * attempt, Register(2, 1, b"x/y"))
        ]
    assert client.says(Regack(2, 1, CONGESTION), at=45.0) == [Publish(1, 2, b"2", qos=1)]


def test_an_unknown_predefined_id_is_not_sent_again() -> None:
    """The client named it so itself, and a predefined id cannot be registered."""
    client = connected()
    client.subscribes(b"\x00\x07", TopicIdType.PREDEFINED)
    client.is_sent("sensors/boot")
    assert client.says(Puback(7, 1, INVALID_TOPIC_ID)) == []
    assert client.drops == [Reason.CLIENT_REFUSED]
    assert client.session.outbound.waiting == 0


def test_an_acknowledgement_that_crosses_a_second_register_counts() -> None:
    client = with_one_under_way(qos=1)
    client.says(Puback(1, 1, INVALID_TOPIC_ID))
    assert client.says(Puback(1, 1, ACCEPTED)) == [SECOND]
    client = with_one_under_way(qos=2)
    client.says(Puback(1, 1, INVALID_TOPIC_ID))
    assert client.says(Pubrec(1)) == [Pubrel(1)]
    assert client.says(Pubcomp(1)) == [SECOND]


# Repeating


def test_an_unanswered_publish_is_repeated_with_dup_until_the_client_is_lost() -> None:
    client = connected()
    client.is_sent("a/b")
    again = Publish(1, 1, b"on", qos=1, dup=True)
    assert client.waits(until=1000.0) == [(T_RETRY * n, again) for n in range(1, N_RETRY + 1)]
    assert client.moves == [State.LOST]


def test_a_repeat_does_not_change_the_frame_sent_before_it() -> None:
    client = connected()
    (first,) = client.is_sent("a/b")
    client.waits(until=T_RETRY)
    assert first == Publish(1, 1, b"on", qos=1, dup=False)


def test_an_unanswered_register_is_repeated() -> None:
    client = connected()
    (register,) = client.is_sent("x/y")
    assert client.waits(until=1000.0) == [(T_RETRY * n, register) for n in range(1, N_RETRY + 1)]
    assert client.moves == [State.LOST]


def test_so_is_the_publish_behind_it_with_retries_of_its_own() -> None:
    client = connected()
    client.is_sent("new", b"on", 1)
    assert len(client.waits(until=2 * T_RETRY)) == 2
    (frame,) = client.says(Regack(2, 1, ACCEPTED), at=2 * T_RETRY)
    assert isinstance(frame, Publish)
    repeats = client.waits(until=7 * T_RETRY - 1.0)
    assert [each for _, each in repeats] == [replace(frame, dup=True)] * N_RETRY


def test_an_unanswered_pubrel_is_repeated_with_retries_of_its_own() -> None:
    client = connected()
    client.is_sent("a/b", qos=2)
    client.waits(until=T_RETRY * N_RETRY)
    client.says(Pubrec(1), at=45.0)
    assert client.waits(until=1000.0) == [
        (45.0 + T_RETRY * n, Pubrel(1)) for n in range(1, N_RETRY + 1)
    ]
    assert client.moves == [State.LOST]


def test_pubrec_again_and_again_does_not_hold_the_line_for_ever() -> None:
    client = connected()
    client.is_sent("a/b", qos=2)
    client.says(Pubrec(1), at=0.0)
    for second in range(1, 50):
        client.says(Pubrec(1), at=float(second))
        client.waits(until=float(second))
    client.is_sent("a/b", b"next")
    for second in range(50, 151):
        client.says(Pubrec(1), at=float(second))
        client.waits(until=float(second))
    assert client.state() is State.ACTIVE, "it is heard"
    assert client.says(acked(2), at=151.0) == []
    assert client.drops == [], "the next one went out"


def test_the_retries_are_counted_for_each_message_anew() -> None:
    client = with_one_under_way()
    client.waits(until=T_RETRY * N_RETRY)
    assert client.says(Puback(1, 1, ACCEPTED), at=45.0) == [SECOND]
    assert len(client.waits(until=1000.0)) == N_RETRY


def test_nothing_is_repeated_once_it_is_acknowledged() -> None:
    client = connected()
    client.is_sent("a/b")
    client.says(Puback(1, 1, ACCEPTED), at=9.9)
    assert client.waits(until=10_000.0) == []


def test_a_timer_that_fires_early_does_nothing() -> None:
    client = connected()
    client.is_sent("a/b")
    assert client.heard(client.session.handle_time(T_RETRY - 0.1)) == []
    assert client.heard(connected().session.handle_time(T_RETRY)) == []


# In the next connection


@pytest.mark.guarantee("4d")
def test_what_was_unacknowledged_comes_first_in_the_next_connection_with_dup() -> None:
    client = with_one_under_way()
    assert client.says(Connect(DEV1.encode(), 60), at=5.0) == [
        Connack(ACCEPTED),
        Register(1, 1, b"a/b"),
    ]
    assert client.says(Regack(1, 1, ACCEPTED), at=6.0) == [Publish(1, 1, b"first", qos=1, dup=True)]
    assert client.says(Puback(1, 1, ACCEPTED), at=7.0) == [Register(2, 2, b"c/d")]
    assert client.says(Regack(2, 2, ACCEPTED), at=8.0) == [SECOND]


def test_a_message_that_was_never_sent_goes_out_without_dup() -> None:
    client = connected()
    client.is_sent("x/y")
    client.says(Connect(DEV1.encode(), 60), at=5.0)
    assert client.says(Regack(2, 1, ACCEPTED), at=6.0) == [Publish(2, 1, b"on", qos=1)]


def test_a_half_finished_qos_2_goes_on_with_pubrel_in_the_next_connection() -> None:
    client = with_one_under_way(qos=2)
    client.says(Pubrec(1), at=1.0)
    assert client.says(Connect(DEV1.encode(), 60), at=5.0) == [Connack(ACCEPTED), Pubrel(1)]
    assert client.waits(until=15.0) == [(15.0, Pubrel(1))]


# Never acknowledged


def test_one_that_is_heard_is_not_lost_and_a_message_it_never_acknowledges_is_given_up() -> None:
    client = connected()
    client.is_sent("a/b", b"")
    client.is_sent("a/b", b"next")
    at = 0.0
    while client.session.outbound.waiting == 2:
        at += 5.0
        came = client.says(Pingreq(), at=at)
        drops = client.drops
        client.waits(until=at)
        assert client.state() is State.ACTIVE
    assert at == ROUNDS_MAX * T_RETRY * (N_RETRY + 1)
    assert came == [Publish(1, 2, b"next", qos=1), Pingresp()]
    assert drops == [Reason.UNACKNOWLEDGED]
    while client.session.outbound.waiting:
        at += 5.0
        client.says(Pingreq(), at=at)
        client.waits(until=at)
    assert at == 2 * ROUNDS_MAX * T_RETRY * (N_RETRY + 1)
    assert client.session.outbound.given_up == GivenUp(2, "a/b")


def test_one_that_is_active_and_asks_as_a_sleeper_does_gets_the_message_before_pingresp() -> None:
    """It takes itself for asleep: a copy of its CONNECT came late."""
    client = connected()
    client.is_sent("a/b")
    again = Publish(1, 1, b"on", qos=1, dup=True)
    assert client.says(Pingreq(), at=4.0) == [Pingresp()]
    assert client.says(Pingreq(DEV1.encode()), at=8.0) == [again, Pingresp()]
    assert client.says(acked(1), at=8.1) == []


def test_so_does_one_whose_repeats_were_spent_between_its_pings() -> None:
    client = connected()
    client.is_sent("a/b")
    client.waits(until=45.0)
    client.says(Pingreq(), at=45.0)
    client.waits(until=50.0)
    again = Publish(1, 1, b"on", qos=1, dup=True)
    assert client.says(Pingreq(), at=54.0) == [again, Pingresp()]


def test_nor_is_one_whose_message_is_given_up_over_several_connections() -> None:
    """It is silent while we repeat, and is heard when it finds that it was lost."""
    client = connected()
    client.is_sent("a/b", b"")
    client.is_sent("a/b", b"next")
    again = Publish(1, 1, b"", qos=1, dup=True)
    for at in (100.0, 200.0):
        client.waits(until=at - 10.0)
        assert client.state() is State.LOST
        assert client.says(Pingreq(), at=at - 10.0) == [Disconnect()]
        assert client.says(Connect(DEV1.encode(), 0), at=at)[1:] == [Register(1, 1, b"a/b")]
        assert client.says(Regack(1, 1, ACCEPTED), at=at) == [again]
    client.waits(until=290.0)
    client.says(Pingreq(), at=290.0)
    following = Publish(1, 2, b"next", qos=1)
    assert client.says(Connect(DEV1.encode(), 0), at=300.0)[1:] == [Register(1, 2, b"a/b")]
    assert client.says(Regack(1, 2, ACCEPTED), at=300.0) == [following]


def test_one_that_hears_nothing_keeps_its_messages() -> None:
    """Its CONNECTs arrive, and nothing arrives there: that is no objection to a message."""
    client = connected()
    client.is_sent("a/b")
    for connection in range(1, 3 * ROUNDS_MAX):
        client.waits(until=connection * 100.0)
        assert client.state() is State.LOST
        client.says(Connect(DEV1.encode(), 0), at=connection * 100.0)
        assert client.session.outbound.waiting == 1


def test_an_answer_to_one_of_the_repeats_is_enough() -> None:
    client = connected()
    client.is_sent("a/b", qos=2)
    for second in range(1, 95):
        client.says(Pingreq(), at=float(second))
        client.waits(until=float(second))
    assert client.says(Pubrec(1), at=95.0) == [Pubrel(1)]
    assert client.says(Pubcomp(1), at=96.0) == []
    assert client.session.outbound.waiting == 0


def test_a_client_that_answers_no_register_gets_its_message_all_the_same() -> None:
    client = connected()
    client.is_sent("x/y")
    for second in range(1, 50):
        client.says(Pingreq(), at=float(second))
        client.waits(until=float(second))
    assert client.waits(until=50.0) == [(50.0, Publish(2, 1, b"on", qos=1))]
    assert client.says(Puback(2, 1, ACCEPTED), at=51.0) == []
    assert client.is_sent("x/y", b"off", at=52.0) == [Publish(2, 2, b"off", qos=1)]


def test_a_sleeper_that_answers_no_register_gets_it_at_its_next_waking() -> None:
    client = asleep()
    client.is_sent("x/y")
    assert client.wakes(at=100.0) == [Register(2, 1, b"x/y")]
    assert client.wakes(at=150.0) == [Pingresp()]
    assert client.wakes(at=200.0) == [Publish(2, 1, b"on", qos=1)]


def test_a_name_that_no_connection_is_told_costs_its_messages_only() -> None:
    client = connected()
    for payload in (b"1", b"2"):
        client.is_sent("x/y", payload)
    client.is_sent("a/b", b"3")
    for connection in range(1, ROUNDS_MAX + 1):
        client.waits(until=connection * 100.0 - 10.0)
        client.says(Pingreq(), at=connection * 100.0 - 10.0)
        came = client.says(Connect(DEV1.encode(), 0), at=connection * 100.0)
    assert came == [Connack(ACCEPTED), Register(1, 3, b"a/b")]
    assert client.drops == [Reason.UNACKNOWLEDGED, Reason.CLIENT_REFUSED]


@pytest.mark.parametrize("frame", [Register(0, 9, b"x/y"), Subscribe(9, b"x/y", 1)])
def test_a_number_that_is_told_otherwise_ends_the_wait_for_regack(frame: Frame) -> None:
    client = connected()
    client.is_sent("x/y")
    heard = client.says(frame, at=1.0)
    for asked in client.wishes:
        granted = client.session.subscribed(asked, ACCEPTED)
        heard = client.heard([*granted, *client.session.topic_told(1.0)])
    assert heard[1:] == [Publish(2, 1, b"on", qos=1)]


def test_the_retries_begin_anew_in_the_next_connection() -> None:
    client = connected()
    client.is_sent("a/b")
    client.waits(until=100.0)
    assert client.state() is State.LOST
    client.says(Connect(DEV1.encode(), 0), at=200.0)
    assert len(client.waits(until=1000.0)) == N_RETRY


def test_what_is_durable_of_a_message_that_waits_for_nothing_changes_nothing() -> None:
    client = with_one_under_way()
    assert client.session.kept(DeliverySaved(DEV1, 0, is_released=False), 0.0) == []
    assert client.session.outbound.outstanding is not None

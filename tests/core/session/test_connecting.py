"""Connecting, being there, leaving: CONNECT in each state, keep-alive, addresses that change."""

from __future__ import annotations

from math import inf

import pytest

from gateway.core.effects import Send, StateChanged
from gateway.core.session.options import PredefinedTopics, SessionOptions, deadline_s
from gateway.core.session.session import Session
from gateway.core.state_records import State
from gateway.frames import Connack, Connect, Disconnect, Pingreq, ReturnCode
from tests.core.session.client import DEV1, ELSEWHERE, HERE, Client, connected

ACCEPTED = ReturnCode.ACCEPTED
CONNECT = Connect(DEV1.encode(), 60)


def test_connect_is_answered_and_the_client_is_active() -> None:
    client = Client()
    assert client.says(CONNECT) == [Connack(ACCEPTED)]
    assert client.moves == [State.CONNECTING, State.ACTIVE]


def test_the_news_of_a_connection_says_where_from_and_how_long() -> None:
    client = Client()
    client.says(CONNECT, peer=ELSEWHERE)
    news = client.effects[1]
    assert isinstance(news, StateChanged)
    assert (news.peer, news.detail) == (ELSEWHERE, "keep-alive 60 s")


def test_a_repeated_connect_gets_the_same_answer() -> None:
    client = Client()
    client.says(CONNECT)
    assert client.says(CONNECT, at=10.0) == [Connack(ACCEPTED)]
    assert client.state() is State.ACTIVE


def test_a_client_that_was_lost_or_left_may_connect_again() -> None:
    client = Client()
    client.says(CONNECT)
    client.waits(until=100.0)
    assert client.state() is State.LOST
    assert client.says(CONNECT, at=200.0) == [Connack(ACCEPTED)]
    client.says(Disconnect(), at=201.0)
    assert client.state() is State.DISCONNECTED
    assert client.says(CONNECT, at=202.0) == [Connack(ACCEPTED)]


def test_disconnect_is_answered() -> None:
    client = connected()
    assert client.says(Disconnect()) == [Disconnect()]
    assert client.moves == [State.DISCONNECTED]


def test_clean_session_is_that_of_the_last_connect() -> None:
    client = connected()
    assert not client.session.clean
    client.says(Connect(DEV1.encode(), 60, clean_session=True))
    assert client.session.clean


def test_a_session_that_has_not_begun_waits_for_nothing() -> None:
    session = Session(
        client_id=DEV1, peer=HERE, options=SessionOptions(), predefined=PredefinedTopics()
    )
    assert session.wake_at() == session.scheduled_at == inf
    assert (session.clean, session.will, session.keep_alive_s, session.sleep_s) == (
        False,
        None,
        0,
        0,
    )
    assert session.displace() == session.end() == []
    assert session.receive(Pingreq(), 0.0)[1:] == [Send(HERE, Disconnect())]


# Silence


@pytest.mark.parametrize(
    ("declared_s", "deadline"), [(1, 1.5), (60, 90.0), (61, 67.1), (65_535, 72_088.5)]
)
def test_a_client_may_be_silent_half_as_long_again_and_a_tenth_above_a_minute(
    declared_s: int, deadline: float
) -> None:
    assert deadline_s(declared_s) == pytest.approx(deadline)
    client = connected(keep_alive_s=declared_s)
    client.waits(until=deadline - 0.01)
    assert client.state() is State.ACTIVE
    client.waits(until=deadline + 0.01)
    assert client.moves == [State.LOST]


def test_any_frame_shows_that_the_client_is_there() -> None:
    client = connected(keep_alive_s=60)
    for second in range(80, 800, 80):
        client.waits(until=float(second))
        client.says(Pingreq(), at=float(second))
    assert client.state() is State.ACTIVE


def test_the_news_of_a_lost_client_says_how_long_it_was_silent() -> None:
    client = connected(keep_alive_s=60)
    client.waits(until=100.0)
    (news,) = client.effects
    assert isinstance(news, StateChanged)
    assert news.detail == "silent for 90 s"


def test_with_keep_alive_0_a_client_may_be_silent_for_ever() -> None:
    client = connected(keep_alive_s=0)
    assert client.waits(until=1e9) == []
    assert client.state() is State.ACTIVE


def test_who_left_or_was_lost_is_not_waited_for() -> None:
    client = connected(keep_alive_s=60)
    client.waits(until=100.0)
    client.waits(until=1e9)
    assert client.effects == []


# Addresses


def test_a_client_is_where_it_connected_last() -> None:
    client = connected()
    client.says(CONNECT, peer=ELSEWHERE)
    assert client.session.peer == ELSEWHERE != HERE
    client.is_sent("a/b")
    assert [getattr(effect, "peer", None) for effect in client.effects] == [ELSEWHERE]


def test_a_client_whose_address_another_one_took_is_gone_but_not_lost() -> None:
    client = connected(keep_alive_s=60)
    client.heard(client.session.displace())
    assert client.moves == [State.DISCONNECTED]
    assert client.waits(until=1000.0) == []


def test_who_left_cannot_be_displaced() -> None:
    client = connected()
    client.says(Disconnect())
    assert client.session.displace() == []


# What a client knows from its configuration


def test_a_clients_own_predefined_topics_win_over_the_common_ones() -> None:
    common = PredefinedTopics.of({"sensors/boot": 1, "sensors/log": 2})
    both = common.overlaid_with({"pump/state": 1, "pump/speed": 3})
    assert both.names == {1: "pump/state", 2: "sensors/log", 3: "pump/speed"}
    assert both.ids == {"pump/state": 1, "sensors/log": 2, "pump/speed": 3}
    assert common.names == {1: "sensors/boot", 2: "sensors/log"}

"""A late copy of CONNECT asks a client for its will that is here: it goes on where it was."""

from __future__ import annotations

import pytest

from gateway.core.session.will import Will
from gateway.core.state_records import State
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Register,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
)
from tests.core.session.client import DEV1, ELSEWHERE, Client, acknowledged

CONNECT = Connect(DEV1.encode(), 600, will=True)
LOST_AT = 660.0  # 1.1 times its keep-alive
STORED = Will("lw/dev1", b"bye", 1, retain=False)


def with_will() -> Client:
    client = Client()
    for frame in (CONNECT, WillTopic(b"lw/dev1", 1), WillMsg(b"bye"), Register(0, 1, b"a/b")):
        client.says(frame)
    assert client.state() is State.ACTIVE
    return client


def test_a_reading_after_a_copy_of_connect_goes_on() -> None:
    client = with_will()
    assert client.says(CONNECT, at=1.0) == [WillTopicReq()]
    (reading,) = client.reads(b"21.5", message_id=7, at=2.0)
    assert client.moves == [State.ACTIVE]
    assert client.settles(reading) == [Puback(1, 7, 0)]
    assert client.session.will == STORED


def test_one_that_answers_the_copy_has_connected() -> None:
    client = with_will()
    client.says(CONNECT, at=1.0)
    assert client.says(WillTopic(b"lw/other"), at=1.1) == [WillMsgReq()]
    assert client.says(WillMsg(b"gone"), at=1.2) == [Connack(0)]
    assert client.moves == [State.ACTIVE]
    assert client.session.will == Will("lw/other", b"gone", 0, retain=False)


def test_one_that_is_silent_after_the_copy_is_lost_when_its_keep_alive_is_over() -> None:
    client = with_will()
    client.says(CONNECT)
    client.waits(until=LOST_AT - 0.1)
    assert (client.state(), client.readings) == (State.ACTIVE, [])
    client.waits(until=LOST_AT)
    assert client.state() is State.LOST
    assert [will.payload for will in client.readings] == [b"bye"]


def test_with_a_short_keep_alive_it_is_lost_when_the_handshake_would_be_over() -> None:
    client = Client()
    short = Connect(DEV1.encode(), 10, will=True)
    for frame in (short, WillTopic(b"lw/dev1"), WillMsg(b"bye"), short):
        client.says(frame)
    client.waits(until=49.9)
    assert client.state() is State.CONNECTING
    client.waits(until=50.0)
    assert client.moves == [State.ACTIVE, State.LOST]
    assert [will.payload for will in client.readings] == [b"bye"]


def test_the_message_under_way_is_sent_again_and_its_late_answer_counts() -> None:
    client = with_will()
    (sent,) = client.is_sent("a/b", b"first")
    client.is_sent("a/b", b"second")
    assert client.says(CONNECT, at=1.0) == [WillTopicReq()]
    assert client.says(acknowledged(sent), at=1.1) == [Register(1, 2, b"a/b")]


def test_what_waits_is_sent_when_the_handshake_would_be_over() -> None:
    client = with_will()
    client.says(CONNECT)
    assert client.is_sent("a/b", at=1.0) == []
    ((at, frame),) = client.waits(until=55.0)
    assert (at, type(frame)) == (50.0, Register)


@pytest.mark.parametrize("copies", [1, 2])
def test_a_sleeper_sleeps_on(copies: int) -> None:
    client = with_will().sleeps(600)
    for _ in range(copies):
        assert client.says(CONNECT, at=1.0) == [WillTopicReq()]
    client.is_sent("a/b", at=2.0)
    client.waits(until=400.0)
    assert client.moves == [State.ASLEEP]
    assert [type(frame) for frame in client.wakes(at=401.0)] == [Register]
    assert client.state() is State.AWAKE


def test_who_asked_for_its_messages_asks_again() -> None:
    client = with_will().sleeps(600)
    client.is_sent("a/b")
    client.wakes(at=1.0)
    client.says(CONNECT, at=1.1)
    assert client.says(Pingreq(), at=1.2) == [Pingresp()]
    assert client.state() is State.ASLEEP
    assert [type(frame) for frame in client.wakes(at=2.0)] == [Register]


def test_it_goes_to_sleep_as_if_nothing_had_been() -> None:
    client = with_will()
    client.says(CONNECT, at=1.0)
    assert client.says(Disconnect(600), at=1.1) == [Disconnect()]
    assert client.moves == [State.ACTIVE, State.ASLEEP]


def test_it_may_say_goodbye() -> None:
    client = with_will()
    client.says(CONNECT, at=1.0)
    assert client.says(Disconnect(), at=1.1) == [Disconnect()]
    assert client.moves == [State.DISCONNECTED]


def test_what_the_copy_said_of_keep_alive_and_session_is_forgotten() -> None:
    client = with_will()
    client.says(Connect(DEV1.encode(), 5, will=True), at=1.0)
    client.says(Pingreq(), at=2.0)
    assert (client.session.keep_alive_s, client.session.clean) == (600, False)
    client.waits(until=LOST_AT)
    assert client.state() is State.ACTIVE


@pytest.mark.parametrize("frame", [Pingreq(), Publish(1, 0, b"21.5")], ids=repr)
def test_from_elsewhere_a_client_is_asked_and_nothing_else_is_heard(frame: Frame) -> None:
    """Where it was it is no more."""
    client = with_will()
    client.says(CONNECT, at=1.0, peer=ELSEWHERE)
    assert client.says(frame, at=2.0, peer=ELSEWHERE) == []
    assert client.state() is State.CONNECTING
    client.waits(until=60.0)
    assert client.moves == [State.DISCONNECTED]


def test_nothing_is_written_for_a_copy() -> None:
    client = with_will()
    client.says(CONNECT, at=1.0)
    assert client.saved == []
    client.says(Pingreq(), at=2.0)
    assert client.saved == []

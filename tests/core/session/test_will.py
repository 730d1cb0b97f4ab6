"""The will: asked for, kept over reconnects, changed, and published when the client is lost."""

from __future__ import annotations

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.session.options import SessionOptions
from gateway.core.session.will import Will
from gateway.core.state_records import State
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    ReturnCode,
    WillMsg,
    WillMsgReq,
    WillMsgResp,
    WillMsgUpd,
    WillTopic,
    WillTopicReq,
    WillTopicResp,
    WillTopicUpd,
)
from tests.core.session.client import DEV1, ELSEWHERE, Client, connected

ACCEPTED, _, INVALID_TOPIC_ID, NOT_SUPPORTED = ReturnCode
CONNECT = Connect(DEV1.encode(), 60, will=True)
STORED = Will("lw/dev1", b"bye", 1, retain=True)


def shaking_hands(*, options: SessionOptions | None = None) -> Client:
    client = Client(options)
    assert client.says(CONNECT) == [WillTopicReq()]
    assert client.moves == [State.CONNECTING]
    return client


def with_will(keep_alive_s: int = 60) -> Client:
    client = Client()
    client.says(Connect(DEV1.encode(), keep_alive_s, will=True))
    client.says(WillTopic(b"lw/dev1", qos=1, retain=True))
    client.says(WillMsg(b"bye"))
    assert client.session.will == STORED
    return client


def published(client: Client) -> list[tuple[str, bytes, int, bool]]:
    return [(will.topic, will.payload, will.qos, will.retain) for will in client.readings]


# The handshake


def test_a_will_is_asked_for_in_two_steps_and_then_the_client_is_active() -> None:
    client = shaking_hands()
    assert client.says(WillTopic(b"lw/dev1", qos=1, retain=True)) == [WillMsgReq()]
    assert client.session.will is None
    assert client.says(WillMsg(b"bye")) == [Connack(ACCEPTED)]
    assert client.moves == [State.ACTIVE]
    assert client.session.will == STORED


def test_an_empty_will_message_is_one() -> None:
    client = shaking_hands()
    client.says(WillTopic(b"lw/dev1"))
    assert client.says(WillMsg(b"")) == [Connack(ACCEPTED)]
    assert client.session.will == Will("lw/dev1", b"", 0, retain=False)


def test_an_empty_will_topic_deletes_the_will_and_ends_the_handshake() -> None:
    client = with_will()
    client.says(CONNECT)
    assert client.says(WillTopic()) == [Connack(ACCEPTED)]
    assert client.session.will is None


def test_connect_again_within_the_handshake_begins_it_again() -> None:
    client = shaking_hands()
    client.says(WillTopic(b"lw/dev1"))
    assert client.says(CONNECT, at=10.0) == [WillTopicReq()]
    assert client.says(WillTopic(b"lw/other"), at=12.0) == [WillMsgReq()]
    client.says(WillMsg(b"bye"), at=13.0)
    assert client.session.will == Will("lw/other", b"bye", 0, retain=False)


def test_a_copy_of_connect_does_not_cost_the_topic_that_was_named() -> None:
    client = shaking_hands()
    client.says(WillTopic(b"lw/dev1", qos=1, retain=True))
    assert client.says(CONNECT, at=0.1) == [WillTopicReq()]
    assert client.says(WillMsg(b"bye"), at=0.2) == [Connack(ACCEPTED)]
    assert client.session.will == STORED


def test_a_topic_that_was_named_at_another_address_is_forgotten() -> None:
    client = shaking_hands()
    client.says(WillTopic(b"lw/dev1"))
    client.says(CONNECT, at=0.1, peer=ELSEWHERE)
    assert client.says(WillMsg(b"bye"), at=0.2) == []
    assert client.drops == [Reason.OUT_OF_TURN]


def test_connect_without_will_ends_a_handshake() -> None:
    client = shaking_hands()
    assert client.says(Connect(DEV1.encode(), 60), at=10.0) == [Connack(ACCEPTED)]
    assert client.session.will is None


def test_a_repeated_will_topic_is_answered_again_and_the_last_one_counts() -> None:
    client = shaking_hands()
    client.says(WillTopic(b"lw/dev1"))
    assert client.says(WillTopic(b"lw/dev1"), at=10.0) == [WillMsgReq()]
    assert client.says(WillTopic(b"lw/other"), at=20.0) == [WillMsgReq()]
    client.says(WillMsg(b"bye"), at=21.0)
    assert client.session.will == Will("lw/other", b"bye", 0, retain=False)


@pytest.mark.parametrize(
    ("end", "is_stored"), [(WillMsg(b"bye"), True), (WillTopic(), False)], ids=repr
)
def test_the_end_of_the_handshake_is_answered_again_when_connack_was_lost(
    end: WillMsg | WillTopic, is_stored: bool
) -> None:
    client = shaking_hands()
    if is_stored:
        client.says(WillTopic(b"lw/dev1"))
    client.says(end)
    assert client.says(end, at=10.0) == [Connack(ACCEPTED)]
    assert client.moves == []


@pytest.mark.parametrize("frame", [WillMsg(b"other"), WillTopic(), WillTopic(b"lw/dev1")], ids=repr)
def test_other_will_frames_are_out_of_turn_once_active(frame: Frame) -> None:
    client = with_will()
    assert client.says(frame) == []
    assert client.drops == [Reason.OUT_OF_TURN]
    assert client.session.will == STORED


def test_the_end_of_a_handshake_is_not_answered_to_a_sleeper() -> None:
    client = with_will().sleeps()
    assert client.says(WillMsg(b"bye")) == []


@pytest.mark.parametrize(
    ("topic", "code", "reason"),
    [
        (WillTopic(b"lw/+"), INVALID_TOPIC_ID, Reason.BAD_TOPIC),
        (WillTopic(b"\xff"), INVALID_TOPIC_ID, Reason.BAD_TOPIC),
        (WillTopic(b"lw", qos=-1), NOT_SUPPORTED, Reason.NOT_SUPPORTED),
    ],
    ids=repr,
)
def test_a_will_that_mqtt_would_not_take_refuses_the_connection(
    topic: WillTopic, code: ReturnCode, reason: Reason
) -> None:
    client = shaking_hands()
    assert client.says(topic) == [Connack(code)]
    assert client.drops == [reason]
    assert client.moves == [State.DISCONNECTED]


def test_a_will_message_above_the_limit_refuses_the_connection() -> None:
    client = shaking_hands(options=SessionOptions(payload_bytes_max=3))
    client.says(WillTopic(b"lw/dev1"))
    assert client.says(WillMsg(b"bye")) == [Connack(ACCEPTED)]
    client.says(CONNECT)
    client.says(WillTopic(b"lw/dev1"))
    assert client.says(WillMsg(b"byes")) == [Connack(NOT_SUPPORTED)]
    assert client.drops == [Reason.PAYLOAD_TOO_LARGE]
    assert client.moves == [State.DISCONNECTED]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_handshake_that_is_not_finished_ends_after_the_retries(steps: int) -> None:
    client = shaking_hands()
    for _ in range(steps):
        client.says(WillTopic(b"lw/dev1"))
    client.waits(until=49.9)
    assert client.state() is State.CONNECTING
    client.waits(until=50.1)
    assert client.moves == [State.DISCONNECTED]
    assert published(client) == []


# When it is published


@pytest.mark.guarantee("7")
def test_a_silent_client_is_lost_and_its_will_published() -> None:
    client = with_will(keep_alive_s=60)
    client.waits(until=90.0)
    assert client.moves == [State.LOST]
    assert published(client) == [("lw/dev1", b"bye", 1, True)]


def test_a_sleeper_that_does_not_return_has_its_will_published() -> None:
    client = with_will().sleeps(60)
    client.waits(until=90.0)
    assert published(client) == [("lw/dev1", b"bye", 1, True)]


def test_a_client_that_answers_nothing_is_lost_and_its_will_published() -> None:
    client = with_will(keep_alive_s=0)
    client.is_sent("a/b")
    client.waits(until=1000.0)
    assert client.moves == [State.LOST]
    assert published(client) == [("lw/dev1", b"bye", 1, True)]


def test_a_client_that_was_awake_and_did_not_answer_is_not_lost_and_has_no_will_published() -> None:
    client = with_will().sleeps(600)
    client.is_sent("a/b")
    client.wakes()
    client.waits(until=50.0)
    assert (client.moves, published(client)) == ([State.ASLEEP], [])


@pytest.mark.parametrize("goodbye", [Disconnect(), Disconnect(60)], ids=repr)
def test_a_client_that_says_goodbye_has_no_will_published(goodbye: Disconnect) -> None:
    client = with_will()
    client.says(goodbye)
    assert published(client) == []


def test_a_client_whose_address_another_one_took_has_no_will_published() -> None:
    client = with_will()
    client.heard(client.session.displace())
    assert published(client) == []


def test_nobody_waits_for_the_acknowledgement_of_a_will() -> None:
    client = with_will()
    client.waits(until=90.0)
    (will,) = client.readings
    client.says(Connect(DEV1.encode(), 60), at=100.0)
    assert client.settles(will) == []


# Over connections


def test_connect_with_clean_0_and_no_will_keeps_the_stored_will() -> None:
    client = with_will()
    client.says(Disconnect())
    client.says(Connect(DEV1.encode(), 60), at=10.0)
    assert client.session.will == STORED


def test_a_will_is_kept_until_the_new_one_is_complete() -> None:
    client = with_will()
    client.says(CONNECT)
    client.says(WillTopic(b"lw/other"))
    assert client.session.will == STORED
    client.says(WillMsg(b"gone"))
    assert client.session.will == Will("lw/other", b"gone", 0, retain=False)


# Updates


def test_the_topic_of_a_will_is_changed_and_its_message_stays() -> None:
    client = with_will()
    assert client.says(WillTopicUpd(b"lw/x", qos=2)) == [WillTopicResp(ACCEPTED)]
    assert client.session.will == Will("lw/x", b"bye", 2, retain=False)


def test_the_message_of_a_will_is_changed_and_its_topic_stays() -> None:
    client = with_will()
    assert client.says(WillMsgUpd(b"gone")) == [WillMsgResp(ACCEPTED)]
    assert client.session.will == Will("lw/dev1", b"gone", 1, retain=True)


def test_an_empty_will_topic_update_deletes_the_will() -> None:
    client = with_will()
    assert client.says(WillTopicUpd()) == [WillTopicResp(ACCEPTED)]
    assert client.session.will is None


def test_a_topic_update_makes_a_will_where_there_was_none() -> None:
    client = connected()
    client.says(WillTopicUpd(b"lw/x"))
    assert client.session.will == Will("lw/x", b"", 0, retain=False)


@pytest.mark.parametrize(
    ("update", "answer", "reason"),
    [
        (WillTopicUpd(b"lw/#"), WillTopicResp(INVALID_TOPIC_ID), Reason.BAD_TOPIC),
        (WillTopicUpd(b"lw", qos=-1), WillTopicResp(NOT_SUPPORTED), Reason.NOT_SUPPORTED),
        (WillMsgUpd(b"x" * 1025), WillMsgResp(NOT_SUPPORTED), Reason.PAYLOAD_TOO_LARGE),
    ],
    ids=["wildcard", "QoS -1", "too large"],
)
def test_a_refused_update_leaves_the_will_as_it_was(
    update: Frame, answer: Frame, reason: Reason
) -> None:
    client = with_will()
    assert client.says(update) == [answer]
    assert client.drops == [reason]
    assert client.session.will == STORED


def test_a_message_without_a_topic_is_refused() -> None:
    client = connected()
    assert client.says(WillMsgUpd(b"gone")) == [WillMsgResp(NOT_SUPPORTED)]
    assert client.drops == [Reason.OUT_OF_TURN]

"""For how long what comes meanwhile keeps a sleeper awake that fetches its messages."""

from __future__ import annotations

import pytest

from gateway.core.session.options import SessionOptions, WhenOutboxFull
from gateway.core.state_records import State
from gateway.frames import Connect, Frame, Pingresp, Publish, Unsubscribe
from tests.core.session.client import Client, acked, asleep_with, published

T_RETRY = 10.0
AWAKE_S = SessionOptions().awake_s_max
NO_LONGER = SessionOptions(awake_s_max=0.0)


@pytest.mark.guarantee("4h")
def test_a_stream_of_messages_keeps_a_client_awake_for_so_long_and_the_rest_waits() -> None:
    client = asleep_with(b"1")
    assert client.wakes(at=60.0) == [published(1, b"1")]
    client.is_sent("a/b", b"2", at=60.0)
    assert client.says(acked(1), at=60.0 + AWAKE_S / 2) == [published(2, b"2")]
    client.is_sent("a/b", b"3", at=60.0 + AWAKE_S / 2)
    client.is_sent("a/b", b"4", at=60.0 + AWAKE_S)
    assert client.says(acked(2), at=60.0 + AWAKE_S) == [Pingresp()]
    assert client.state() is State.ASLEEP
    assert client.waits(until=600.0) == []
    assert client.wakes(at=120.0) == [published(3, b"3")]
    assert client.says(acked(3), at=120.0 + AWAKE_S) == [published(4, b"4")]
    assert client.says(acked(4), at=120.0 + AWAKE_S) == [Pingresp()]


def test_what_is_under_way_then_is_acknowledged_before_pingresp() -> None:
    client = asleep_with(b"1")
    client.wakes(at=60.0)
    client.is_sent("a/b", b"2", at=61.0)
    client.says(acked(1), at=61.0)
    at = 61.0 + T_RETRY
    assert at > 60.0 + AWAKE_S
    assert client.waits(until=at) == [(at, published(2, b"2", dup=True))]
    assert client.state() is State.AWAKE
    assert client.says(acked(2), at=at) == [Pingresp()]


@pytest.mark.guarantee("4h")
def test_what_waited_at_the_asking_comes_however_long_that_takes() -> None:
    client = asleep_with(b"1", b"2", b"3", options=NO_LONGER)
    client.wakes(at=60.0)
    client.is_sent("a/b", b"4", at=60.0)
    for number in (1, 2):
        following = published(number + 1, b"%d" % (number + 1))
        assert client.says(acked(number), at=60.0 + 1000 * number) == [following]
    assert client.says(acked(3), at=5000.0) == [Pingresp()]
    assert client.wakes(at=5001.0) == [published(4, b"4")]


def test_of_qos_0_too_comes_what_waited_at_the_asking() -> None:
    options = SessionOptions(awake_s_max=0.0, queues_qos_0_for_sleepers=True)
    client = asleep_with(b"1", options=options)
    client.is_sent("a/b", b"2", qos=0)
    client.wakes(at=60.0)
    client.is_sent("a/b", b"3", qos=0, at=60.0)
    assert client.says(acked(1), at=60.0) == [Publish(1, 0, b"2"), Pingresp()]
    assert client.wakes(at=61.0) == [Publish(1, 0, b"3"), Pingresp()]


@pytest.mark.guarantee("4h")
@pytest.mark.parametrize(
    ("policy", "first", "second"),
    [
        (WhenOutboxFull.DROP_OLDEST, [b"1", b"3"], [b"4", b"5"]),
        (WhenOutboxFull.DROP_NEWEST, [b"1", b"2", b"3"], [b"4"]),
    ],
)
def test_what_gives_way_meanwhile_is_not_made_up_for_by_what_came_later(
    policy: WhenOutboxFull, first: list[bytes], second: list[bytes]
) -> None:
    options = SessionOptions(awake_s_max=0.0, outbox_messages_max=3, when_outbox_full=policy)
    client = asleep_with(b"1", b"2", b"3", options=options)
    client.wakes(at=60.0)  # 1 is under way
    client.is_sent("a/b", b"4", at=60.0)
    client.is_sent("a/b", b"5", at=60.0)
    fetched: list[list[bytes]] = []
    for at in (60.0, 61.0):
        payloads: list[bytes] = []
        frames: list[Frame] = client.wakes(at) if fetched else [published(1, b"1")]
        while isinstance(frames[0], Publish):
            payloads.append(frames[0].payload)
            frames = client.says(acked(frames[0].message_id), at)
        assert frames == [Pingresp()]
        fetched.append(payloads)
    assert fetched == [first, second]


def test_to_ask_again_does_not_begin_the_time_anew() -> None:
    client = asleep_with(b"1")
    client.wakes(at=60.0)
    client.is_sent("a/b", b"2", at=65.0)
    assert client.wakes(at=69.0) == [published(1, b"1", dup=True)]
    assert client.says(acked(1), at=60.0 + AWAKE_S) == [Pingresp()]


def test_one_that_answered_nothing_gets_all_when_it_asks_the_next_time() -> None:
    client = asleep_with(b"1", b"2", options=NO_LONGER)
    client.wakes(at=0.0)
    client.is_sent("a/b", b"3", at=1.0)
    client.waits(until=100.0)
    assert client.wakes(at=100.0) == [published(1, b"1", dup=True)]
    assert client.says(acked(1), at=100.0) == [published(2, b"2")]
    assert client.says(acked(2), at=100.0) == [published(3, b"3")]
    assert client.says(acked(3), at=100.0) == [Pingresp()]


def test_one_that_connects_meanwhile_gets_all_that_comes() -> None:
    client = asleep_with(b"1", options=NO_LONGER)
    client.wakes(at=60.0)
    client.says(Connect(b"dev1", 60), at=60.0)
    client.is_sent("a/b", b"2", at=60.0)
    assert client.says(acked(1), at=60.0) == [published(2, b"2")]


def awake_and_out_of_rate() -> Client:
    """It has acknowledged what it asked for; what came meanwhile waits until its rate allows it."""
    options = SessionOptions(awake_s_max=0.5, egress_bytes_per_s_max=10)
    client = asleep_with(b"1" * 30, options=options)
    client.wakes(at=60.0)
    client.is_sent("a/b", b"2", at=60.0)
    assert client.says(acked(1), at=60.1) == []
    return client


def test_what_waits_for_its_rate_past_that_time_waits_for_the_next() -> None:
    client = awake_and_out_of_rate()
    (at, frame), *others = client.waits(until=100.0)
    assert (frame, others) == (Pingresp(), [])
    assert at > 60.5


def test_one_that_sleeps_again_hears_nothing_when_its_rate_allows_the_next() -> None:
    client = awake_and_out_of_rate()
    assert client.says(Unsubscribe(5, b"a/b"), at=60.6)[-1] == Pingresp()
    assert client.waits(until=600.0) == []

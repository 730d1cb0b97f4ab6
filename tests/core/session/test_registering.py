"""Numbers for names: per client, stable, one space of three, and bounded."""

from __future__ import annotations

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.session.options import SessionOptions
from gateway.frames import Connect, Publish, Regack, Register, ReturnCode
from tests.core.session.client import DEV1, connected

ACCEPTED, CONGESTION, INVALID_TOPIC_ID, _ = ReturnCode


def test_names_are_numbered_from_1_and_repeated_names_keep_their_number() -> None:
    client = connected(topics=())
    assert client.says(Register(0, 11, b"a/b")) == [Regack(1, 11, ACCEPTED)]
    assert client.says(Register(0, 12, b"c/d")) == [Regack(2, 12, ACCEPTED)]
    assert client.says(Register(0, 13, b"a/b")) == [Regack(1, 13, ACCEPTED)]


def test_each_number_stands_for_its_own_name() -> None:
    client = connected(topics=("a/b", "c/d", "e/f"))
    topics = []
    for topic_id in (1, 2, 3):
        client.says(Publish(topic_id, 0, b"x"))
        topics += [reading.topic for reading in client.readings]
    assert topics == ["a/b", "c/d", "e/f"]


def test_a_number_stays_with_its_name_over_connections() -> None:
    client = connected(topics=("a/b", "c/d"))
    client.says(Connect(DEV1.encode(), 60), at=10.0)
    assert client.says(Register(0, 1, b"c/d"), at=11.0) == [Regack(2, 1, ACCEPTED)]


@pytest.mark.parametrize(
    "name", [b"a/+", b"a/#", b"\xff\xfe", b"a\x00b", b"a\x07b", b"x" * 513], ids=repr
)
def test_a_name_that_mqtt_forbids_is_not_registered(name: bytes) -> None:
    client = connected()
    assert client.says(Register(0, 9, name)) == [Regack(0, 9, INVALID_TOPIC_ID)]
    assert client.drops == [Reason.BAD_TOPIC]


def test_beyond_the_limit_a_name_is_refused_and_the_others_stay() -> None:
    client = connected(options=SessionOptions(topics_max=2), topics=("a/b", "c/d"))
    assert client.says(Register(0, 9, b"e/f")) == [Regack(0, 9, CONGESTION)]
    assert client.drops == [Reason.TOPICS_FULL]
    assert client.says(Register(0, 10, b"c/d")) == [Regack(2, 10, ACCEPTED)]


def test_a_name_of_two_letters_that_is_registered_is_a_normal_name() -> None:
    client = connected(topics=("tp",))
    client.reads(b"x")
    assert [reading.topic for reading in client.readings] == ["tp"]

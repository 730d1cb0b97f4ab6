"""A clean CONNECT with a will ends the session that was there, also if it is a late copy.

What a copy does to a session that stays is in tests/core/session/test_copied_connect.py.
"""

from __future__ import annotations

import pytest

from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Publish,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
)
from tests.support.engine_bench import Bench

CLEAN = Connect(b"dev1", 60, will=True, clean_session=True)
HERE, ELSEWHERE = b"here", b"elsewhere"


def shaken(bench: Bench, at: bytes = HERE) -> None:
    assert bench.say(at, CLEAN) == [WillTopicReq()]
    assert bench.say(at, WillTopic(b"lw/dev1")) == [WillMsgReq()]
    assert bench.say(at, WillMsg(b"bye")) == [Connack(0)]


@pytest.mark.parametrize("frame", [Pingreq(), Publish(1, 7, b"21.5", 1)], ids=repr)
def test_who_was_here_hears_at_once_that_its_session_is_over_and_connects_again(
    frame: Frame,
) -> None:
    bench = Bench()
    shaken(bench)
    assert bench.say(HERE, CLEAN) == [WillTopicReq()]
    assert bench.say(HERE, frame) == [Disconnect()]
    shaken(bench)


def test_a_second_copy_changes_nothing() -> None:
    bench = Bench()
    shaken(bench)
    assert bench.say(HERE, CLEAN, CLEAN) == [WillTopicReq(), WillTopicReq()]
    assert bench.say(HERE, Pingreq()) == [Disconnect()]


def test_one_that_is_in_the_handshake_hears_nothing_of_it() -> None:
    bench = Bench()
    bench.say(HERE, CLEAN)
    assert bench.say(HERE, WillTopic(b"lw/dev1"), CLEAN) == [WillMsgReq(), WillTopicReq()]
    assert bench.say(HERE, Pingreq()) == []
    assert bench.say(HERE, WillMsg(b"bye")) == [Connack(0)]


def test_one_that_connects_from_elsewhere_begins_anew_there() -> None:
    bench = Bench()
    shaken(bench)
    assert bench.say(ELSEWHERE, CLEAN) == [WillTopicReq()]
    assert bench.say(ELSEWHERE, Pingreq()) == []
    shaken(bench, ELSEWHERE)


def test_a_clean_connect_without_a_will_ends_the_handshake_and_its_will() -> None:
    bench = Bench()
    bench.say(HERE, CLEAN, WillTopic(b"lw/dev1"))
    assert bench.say(HERE, Connect(b"dev1", 60, clean_session=True)) == [Connack(0)]
    bench.say(HERE, WillMsg(b"bye"))
    assert bench.engine.sessions["dev1"].will is None  # type: ignore[index]

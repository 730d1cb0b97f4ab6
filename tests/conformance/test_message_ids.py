"""Message ids, and who is asked for a sign of life: what a gateway does not do."""

from __future__ import annotations

from gateway.frames import (
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Regack,
    Register,
    Suback,
    Subscribe,
)
from tests.support.engine_bench import Bench, granted_id, short


def test_a_message_id_of_the_gateway_and_the_same_one_of_the_client_do_not_meet() -> None:
    bench = Bench()
    s1 = bench.join(b"s1")
    topic_id = granted_id(bench.subscribe(s1, b"a/b", 2))
    bench.publishes("a/b", b"on", 2)
    assert bench.hear(s1) == [Publish(topic_id, 1, b"on", 2)]
    # Message 1 of the gateway is under way; message 1 of the client goes through all its steps.
    assert bench.say(s1, short(b"21.5", 2, 1)) == [Pubrec(1)]
    assert bench.say(s1, Pubrec(1)) == [Pubrel(1)]
    assert bench.say(s1, Pubrel(1)) == [Pubcomp(1)]
    assert bench.say(s1, Register(0, 1, b"c/d")) == [Regack(topic_id + 1, 1, 0)]
    assert bench.say(s1, Subscribe(1, b"e/#", 1)) == [Suback(0, 1, 0, 1)]
    assert bench.say(s1, Pubcomp(1)) == []
    bench.publishes("a/b", b"off", 1)
    assert bench.hear(s1) == [Publish(topic_id, 2, b"off", 1)]


def test_register_and_publish_of_the_gateway_share_their_ids() -> None:
    bench = Bench()
    s1 = bench.join(b"s1")
    bench.subscribe(s1, b"#", 1)
    for number, topic in enumerate(("a", "b"), 1):
        bench.publishes(topic, b"on", 1)
        assert bench.hear(s1) == [Register(number, number, topic.encode())]
        assert bench.say(s1, Regack(number, number, 0)) == [Publish(number, number, b"on", 1)]
        assert bench.say(s1, Puback(number, number, 0)) == []


def test_a_silent_client_is_not_asked_and_hears_when_it_comes_too_late() -> None:
    bench = Bench()
    s1 = bench.join(b"s1", keep_alive_s=60)
    bench.wake(90.0)
    assert bench.hear(s1) == []
    assert bench.say(s1, short(b"21.5", 1, 1)) == [Disconnect()]

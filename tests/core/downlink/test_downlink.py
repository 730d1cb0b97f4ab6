"""Messages from the broker to the clients that asked: once each, at the right quality."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.frames import Disconnect, Pingreq, Publish
from tests.support.engine_bench import UPSTREAM, Bench, granted_id


def bench_with_clients(*names: bytes) -> Bench:
    bench = Bench()
    for name in names:
        bench.join(name)
    return bench


def test_a_message_reaches_each_client_that_asked_and_nobody_else() -> None:
    bench = bench_with_clients(b"s1", b"s2", b"s3")
    bench.subscribe(b"s1", b"cmd/a")
    bench.subscribe(b"s2", b"cmd/#")
    bench.publishes("cmd/a")
    assert bench.hear_all(b"s1") == [(b"on", 0, False)]
    assert bench.hear_all(b"s2") == [(b"on", 0, False)]
    assert bench.hear_all(b"s3") == []
    assert bench.engine.downlink.delivered == [2, 0, 0]


@pytest.mark.parametrize("sent", [0, 1, 2])
@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a_message_comes_at_the_lower_of_its_quality_and_the_clients(sent: int, asked: int) -> None:
    bench = bench_with_clients(b"s1")
    topic_id = granted_id(bench.subscribe(b"s1", b"cmd", asked))
    bench.publishes("cmd", qos=sent)
    (frame,) = bench.hear(b"s1")
    assert isinstance(frame, Publish)
    assert (frame.topic_id, frame.qos, frame.payload) == (topic_id, min(sent, asked), b"on")
    assert bench.engine.downlink.delivered[min(sent, asked)] == 1


def test_a_client_whose_filters_overlap_hears_once_at_the_highest_quality_of_those() -> None:
    bench = bench_with_clients(b"s1")
    for message_id, (topic_filter, qos) in enumerate([(b"a/+", 0), (b"+/b", 1), (b"#", 0)], 1):
        bench.subscribe(b"s1", topic_filter, qos, message_id=message_id)
    bench.publishes("a/b", b"twice covered", 2)
    assert bench.hear_all(b"s1") == [(b"twice covered", 1, False)]


def test_copies_that_the_broker_sends_for_two_filters_are_passed_on_once() -> None:
    bench = bench_with_clients(b"s1", b"s2")
    bench.subscribe(b"s1", b"a/+")
    bench.subscribe(b"s2", b"+/b")
    for _ in range(2):
        bench.publishes("a/b", by="a/+")
        bench.publishes("a/b", by="+/b")
    assert bench.hear_all(b"s1") == [(b"on", 0, False)] * 2
    assert bench.hear_all(b"s2") == [(b"on", 0, False)] * 2


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_is_acknowledged_to_the_broker_once_it_is_with_the_sessions(qos: int) -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"cmd")
    bench.seen()
    bench.publishes("cmd", qos=qos)
    (answer,) = bench.seen()
    assert isinstance(answer, mqtt5.PubAckPacket if qos == 1 else mqtt5.PubRecPacket)
    bench.publishes("unheard", qos=1)
    (answer,) = bench.seen()
    assert isinstance(answer, mqtt5.PubAckPacket)


def test_what_a_client_published_comes_back_to_those_who_asked_like_any_message() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"field")
    topic = bench.register(b"s1", b"field")
    bench.say(b"s1", Publish(topic, 0, b"hi"))
    packet = bench.seen_of(mqtt5.PublishPacket)[-1]
    bench.publishes(packet.topic, packet.payload, by="field")
    assert bench.hear_all(b"s1") == [(b"hi", 0, False)]


def test_messages_for_a_sleeper_wait_for_it_in_order() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"cmd", 1)
    bench.say(b"s1", Disconnect(duration_s=100))
    for payload in (b"1", b"2", b"3"):
        bench.publishes("cmd", payload, qos=1)
    assert bench.hear(b"s1") == []
    bench.heard += [(b"s1", frame) for frame in bench.say(b"s1", Pingreq(b"s1"))]
    assert [payload for payload, _, _ in bench.hear_all(b"s1")] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("octets", "comes"), [(16, True), (17, False)])
def test_a_message_too_large_for_the_frames_of_clients_is_dropped_once(
    octets: int, comes: bool
) -> None:
    bench = Bench(EngineOptions(UPSTREAM, session=SessionOptions(payload_bytes_max=16)))
    for name in (b"s1", b"s2"):
        bench.join(name)
        bench.subscribe(name, b"#")
    bench.publishes("cmd", b"x" * octets, qos=1)
    assert (len(bench.hear_all(b"s1")) == 1) is comes
    dropped = bench.told(Dropped)
    assert [each.reason for each in dropped] == ([] if comes else [Reason.PAYLOAD_TOO_LARGE])
    assert bench.seen_of(mqtt5.PubAckPacket), "else the broker would send it for ever"


def test_a_topic_too_long_for_clients_is_dropped_and_said_shortly() -> None:
    bench = bench_with_clients(b"s1")
    bench.subscribe(b"s1", b"#")
    bench.publishes("ö" * 257)
    (dropped,) = bench.told(Dropped)
    assert dropped.reason is Reason.PAYLOAD_TOO_LARGE
    assert len(dropped.detail) < 120
    bench.publishes("ö" * 256)
    assert len(bench.hear_all(b"s1")) == 1


def test_a_message_that_nobody_asked_for_changes_nothing() -> None:
    bench = bench_with_clients(b"s1")
    bench.news.clear()
    bench.publishes("unheard", b"x" * 5000)
    assert (bench.hear(b"s1"), bench.news) == ([], [])

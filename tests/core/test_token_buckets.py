"""Budgets: CONNECTs of unknown peers, packets of one address, bytes to one client."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Send
from gateway.core.engine import EngineOptions
from gateway.core.session.options import SessionOptions
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench, published


def bench_with(session: SessionOptions | None = None, **admission: int) -> Bench:
    options = AdmissionOptions(**admission)  # type: ignore[arg-type]
    return Bench(EngineOptions(UPSTREAM, session=session or SessionOptions(), admission=options))


def half_open(bench: Bench) -> int:
    return len(bench.engine.half_open)


def dropped(bench: Bench, reason: Reason) -> list[Dropped]:
    return [each for each in bench.told(Dropped) if each.reason is reason]


# Floods of CONNECT


def test_strangers_connect_within_a_budget_that_fills_again() -> None:
    bench = bench_with(connects_per_s_max=2, connects_at_once_max=5)
    bench.join(b"m")
    flood = [(b"x%d" % n, encode(Connect(b"c%d" % n, 60))) for n in range(20)]
    bench.take(bench.engine.receive(0, flood, 0.0))
    assert half_open(bench) == 4, "m was the first of five"
    (news,) = dropped(bench, Reason.TOO_MANY_CONNECTS)
    assert (news.count, news.peer) == (16, Peer(0, b"x19"))
    assert "2 CONNECTs/s" in news.detail
    assert bench.engine.received[Connect] == 5, "the others were not even decoded"
    assert bench.say(b"m", Connect(b"m", 60)) == [Connack(0)], "no stranger"
    bench.at = 1.0
    heard = [bench.say(b"y%d" % n, Connect(b"d%d" % n, 60)) for n in range(3)]
    assert heard == [[Connack(0)], [Connack(0)], []]


def test_clients_that_moved_have_a_budget_of_their_own() -> None:
    bench = bench_with(connects_per_s_max=1, connects_at_once_max=2)
    bench.join(b"s1", clean=False)
    bench.join(b"s2", clean=False)
    assert bench.say(b"x", Connect(b"s3", 60)) == []
    assert bench.say(b"x", Connect(b"s1", 60)) == [Connack(0)]
    long_form = b"\x01\x00\x0a\x04\x00\x01\x00\x3cs2"
    assert bench.say_octets(b"y", long_form) == [Connack(0)]
    assert bench.say(b"z", Connect(b"s1", 60)) == [], "of which there is an end, too"
    assert bench.say(b"z", Pingreq()) == [Disconnect()], "only CONNECT is counted"
    assert bench.say_octets(b"z", b"\x07\x04\x00\x01\x00\x3c\xff", b"\x04", b"\x01\x00\x04") == []


@pytest.mark.no_cover  # the same lines ten thousand times
@pytest.mark.parametrize("will", [False, True])
def test_ten_thousand_sensors_come_back_at_once_and_none_must_ask_again(will: bool) -> None:
    bench = Bench()
    names = [b"sensor-%05d" % number for number in range(10_000)]

    def all_say(frame_of: Callable[[bytes], Frame]) -> set[tuple[bytes, Frame]]:
        datagrams = [(name, encode(frame_of(name))) for name in names]
        effects = bench.engine.receive(0, datagrams, bench.at)
        return {(each.peer.address, each.frame) for each in effects if isinstance(each, Send)}

    def heard_by_all(frame: Frame) -> set[tuple[bytes, Frame]]:
        return {(name, frame) for name in names}

    if will:
        asked = all_say(lambda name: Connect(name, 60, will=True))
        assert asked == heard_by_all(WillTopicReq())
        assert all_say(lambda _: WillTopic(b"lw")) == heard_by_all(WillMsgReq())
        assert all_say(lambda _: WillMsg(b"bye")) == heard_by_all(Connack(0))
    else:
        assert all_say(lambda name: Connect(name, 60)) == heard_by_all(Connack(0))
        assert all_say(lambda _: Pingreq()) == heard_by_all(Pingresp())
    assert len(bench.engine.sessions) == 10_000


# Packets


def test_what_one_address_sends_beyond_its_pace_is_not_read() -> None:
    bench = bench_with(packets_per_s_max=3)
    bench.join(b"s1")
    bench.join(b"s2")
    bench.at = 2.0
    assert bench.say(b"s1", *[Pingreq()] * 5) == [Pingresp()] * 3
    (news,) = dropped(bench, Reason.TOO_MANY_PACKETS)
    assert (news.peer, news.count) == (Peer(0, b"s1"), 2)
    assert bench.say(b"s2", Pingreq()) == [Pingresp()]
    assert len(bench.say(b"x", *[Pingreq()] * 5)) == 5, "unknown peers have their own budget"
    bench.at = 3.0
    assert bench.say(b"s1", Pingreq()) == [Pingresp()]


# Egress


def listener(egress: int, qos: int) -> Bench:
    bench = bench_with(SessionOptions(egress_bytes_per_s_max=egress))
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"cmd", qos)
    return bench


def test_qos_0_beyond_the_egress_limit_is_dropped_and_counted() -> None:
    bench = listener(100, 0)
    for number in range(5):
        bench.publishes("cmd", b"%d" % number + b"x" * 42, by="cmd")
    assert len(bench.hear(b"s1")) == 2, "50 bytes each"
    news = dropped(bench, Reason.EGRESS_FULL)
    assert len(news) == 3
    assert "100 bytes/s" in news[0].detail
    bench.wake(0.5)
    bench.publishes("cmd", b"x" * 300, by="cmd")
    assert [len(each[0]) for each in published(bench.hear(b"s1"))] == [300], "of any size"
    bench.wake(3.0)
    bench.publishes("cmd", b"late", by="cmd")
    assert bench.hear(b"s1") == [], "that was 309 bytes"
    bench.wake(3.3)
    bench.publishes("cmd", b"later", by="cmd")
    assert published(bench.hear(b"s1")) == [(b"later", 0, False)]


def test_qos_1_beyond_the_egress_limit_waits_and_keeps_its_order() -> None:
    bench = listener(100, 1)
    for number in range(5):
        bench.publishes("cmd", b"%d" % number + b"x" * 42, qos=1, by="cmd")
    came: list[tuple[float, int]] = []
    for tenth in range(40):
        bench.wake(tenth / 10)
        came += [(tenth / 10, int(payload[:1])) for payload, _, _ in bench.hear_all(b"s1")]
    assert [number for _, number in came] == [0, 1, 2, 3, 4]
    assert [at for at, _ in came][:2] == [0.0, 0.0]
    assert 0.9 <= came[-1][0] <= 1.2, "250 bytes, of which 100 at once and 50 on credit"


def test_the_egress_limit_is_there_still_when_the_doubt_is_over() -> None:
    bench = listener(100, 0)
    bench.say(b"s1", Disconnect(duration_s=600))
    bench.say(b"new", Connect(b"s1", 60))
    assert bench.say(b"new", Pingreq()) == [Pingresp()]
    for _ in range(5):
        bench.publishes("cmd", b"x" * 43, by="cmd")
    assert len(bench.hear(b"new")) == 2
    assert len(dropped(bench, Reason.EGRESS_FULL)) == 3

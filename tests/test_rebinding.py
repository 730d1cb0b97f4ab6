"""A sleeper that wakes up at another address, as behind a NAT, and says so by PINGREQ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.effects import Send
from gateway.frames import (
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    encode,
)
from gateway.rules import EngineRules
from gateway.saved import ClientId
from tests.support.engine_bench import UPSTREAM, Bench
from tests.support.state_bench import StateBench

HERE, THERE = b"s1", b"elsewhere"


def asleep(rules: EngineRules | None = None) -> Bench:
    bench = Bench(rules)
    bench.join(HERE, clean=False)
    bench.subscribe(HERE, b"cmd", 1)
    assert bench.say(HERE, Disconnect(60)) == [Disconnect()]
    return bench


def address_of(bench: Bench) -> bytes:
    return bench.engine.sessions[ClientId("s1")].peer.address


def test_an_empty_outbox_is_answered_where_the_sleeper_is_now() -> None:
    bench = asleep()
    assert bench.say(THERE, Pingreq(b"s1")) == [Pingresp()]
    assert address_of(bench) == THERE


def test_what_waits_is_delivered_there_and_pingresp_comes_last() -> None:
    bench = asleep()
    bench.publishes("cmd", b"on", 1, by="cmd")
    (publish,) = bench.say(THERE, Pingreq(b"s1"))
    assert isinstance(publish, Publish)
    assert bench.say(THERE, Puback(publish.topic_id, publish.message_id, 0)) == [Pingresp()]
    assert bench.hear(HERE) == []


def test_where_it_was_it_is_no_more() -> None:
    bench = asleep()
    bench.say(THERE, Pingreq(b"s1"))
    assert bench.say(HERE, Pingreq()) == [Disconnect()]
    assert bench.say(HERE, Pingreq(b"s1")) == [Pingresp()], "unless it comes back"


def test_one_that_wakes_up_twice_goes_on_where_it_is() -> None:
    bench = asleep()
    bench.publishes("cmd", b"on", 1, by="cmd")
    bench.say(b"between", Pingreq(b"s1"))
    bench.hear(b"between")
    bench.say(THERE, Pingreq(b"s1"))
    bench.wake(bench.at + 11)
    assert any(isinstance(frame, Publish) for frame in bench.hear(THERE))
    assert bench.hear(b"between") == []


def test_an_address_that_another_client_has_is_not_taken_from_it() -> None:
    bench = asleep()
    bench.join(THERE)
    assert bench.say(THERE, Pingreq(b"s1")) == [Disconnect()]
    assert address_of(bench) == HERE
    assert bench.say(THERE, Pingreq()) == [Pingresp()]


@pytest.mark.parametrize("goodbye", [(), (Disconnect(),)], ids=["active", "disconnected"])
def test_only_one_that_sleeps_wakes_up_elsewhere(goodbye: tuple[Disconnect, ...]) -> None:
    bench = Bench()
    bench.join(HERE, clean=False)
    bench.say(HERE, *goodbye)
    assert bench.say(THERE, Pingreq(b"s1")) == [Disconnect()]


@pytest.mark.parametrize("client_id", [b"nobody", b"\xff\xfe"])
def test_nobody_wakes_up_under_an_id_that_nobody_has(client_id: bytes) -> None:
    assert asleep().say(THERE, Pingreq(client_id)) == [Disconnect()]


def test_the_operator_may_forbid_it() -> None:
    rules = replace(EngineRules(UPSTREAM), may_rebind=lambda former, address: False)
    bench = asleep(rules)
    assert bench.say(THERE, Pingreq(b"s1")) == [Disconnect()]
    assert bench.say(HERE, Pingreq(b"s1")) == [Pingresp()]


def test_a_sleeper_of_another_link_is_not_moved() -> None:
    bench = asleep()
    effects = bench.engine.receive(1, [(THERE, encode(Pingreq(b"s1")))], bench.at)
    assert [each.frame for each in effects if isinstance(each, Send)] == [Disconnect()]


def test_the_new_address_is_durable_before_it_is_answered() -> None:
    bench = StateBench()
    bench.join(HERE, clean=False)
    bench.say(HERE, Disconnect(60))
    bench.holds_disk = True
    assert bench.say(THERE, Pingreq(b"s1")) == []
    bench.let_disk_go()
    assert bench.hear(THERE) == [Pingresp()]
    (client,) = bench.rows.state().clients
    assert client.session.address == THERE


def test_a_flood_of_them_has_a_budget() -> None:
    rules = EngineRules(UPSTREAM)
    rules = replace(
        rules, admission=replace(rules.admission, connects_at_once_max=2, connects_per_s_max=1)
    )
    bench = Bench(rules)
    bench.say(HERE, Connect(b"s1", 60, clean_session=False), Pingreq(), Disconnect(60))
    moved = 0
    for number in range(10):
        bench.say(b"a%d" % number, Pingreq(b"s1"))
        moved += address_of(bench) == b"a%d" % number
    assert moved == 2

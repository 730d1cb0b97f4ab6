"""How many topic names the clients of one host may have together, beside a few of each. Addresses
are `host:port` here.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.options import EngineOptions
from gateway.core.session.session import Session
from gateway.core.session.topic_registry import NAMES_UNCOUNTED
from gateway.core.state_records import ClientId
from gateway.frames import Connect, Disconnect, Frame, Pingreq, Regack, Register, Suback
from tests.core.clients.test_host_quota import host_of
from tests.support.engine_bench import UPSTREAM, Bench
from tests.support.state_bench import SAVING, StateBench

CONGESTION = 1
NAMES_MAX = 10


def options_with(base: EngineOptions | None = None, names_max: int = NAMES_MAX) -> EngineOptions:
    base = base or EngineOptions(UPSTREAM)
    admission = AdmissionOptions(topics_per_host_max=names_max)
    return replace(base, admission=admission, host_of=host_of)


def bench_with(names_max: int = NAMES_MAX) -> Bench:
    return Bench(options_with(names_max=names_max))


def fill(bench: Bench, address: bytes, names: int, first: int = 0) -> list[Frame]:
    """Register so many names; the answers that are no numbers."""
    refused: list[Frame] = []
    for number in range(first, first + names):
        answers = bench.say(address, Register(0, number + 1, b"t/%d" % number))
        refused += [each for each in answers if not isinstance(each, Regack) or each.return_code]
    return refused


def proven(bench: Bench, address: bytes, names: int) -> None:
    """A client that does not give way: it has a subscription."""
    bench.join(address)
    bench.subscribe(address, b"cmd/#", qos=1)
    assert fill(bench, address, names) == []


def counted(bench: Bench) -> dict[bytes, int]:
    """The names of each host that count, by the sessions that there are."""
    table = bench.engine.client_table
    found: dict[bytes, int] = {}
    seen: set[int] = set()
    sessions: list[Session] = [*table.sessions.values(), *table.formers.values()]
    for each in sessions:
        if len(each.topics) >= NAMES_UNCOUNTED and id(each.topics) not in seen:
            seen.add(id(each.topics))
            host = host_of(each.peer.link, each.peer.address)
            found[host] = found.get(host, 0) + len(each.topics) - NAMES_UNCOUNTED
    assert {key: names.names for key, names in table.hosts._names.items()} == found
    return found


def reasons(bench: Bench) -> list[Reason]:
    return [each.reason for each in bench.told(Dropped)]


# How many


def test_a_few_names_of_each_client_count_nowhere() -> None:
    bench = bench_with()
    for number in range(100):
        bench.join(b"router:%d" % number)
        assert fill(bench, b"router:%d" % number, NAMES_UNCOUNTED) == []
    assert counted(bench) == {b"0 router": 0}
    assert bench.told(Dropped) == []


def test_a_host_has_so_many_and_no_more() -> None:
    bench = bench_with()
    proven(bench, b"a:1", NAMES_UNCOUNTED + NAMES_MAX - 2)
    proven(bench, b"a:2", NAMES_UNCOUNTED + 2)
    assert counted(bench) == {b"0 a": NAMES_MAX}
    assert bench.told(Dropped) == []
    assert bench.say(b"a:1", Register(0, 99, b"further")) == [Regack(0, 99, CONGESTION)]
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.HOST_TOPICS_FULL, "a:1")
    assert dropped.detail == "16 topic names, and no further one"
    known = bench.say(b"a:1", Register(0, 99, b"t/1"))
    assert [each.return_code for each in known if isinstance(each, Regack)] == [0]
    assert counted(bench) == {b"0 a": NAMES_MAX}
    bench.join(b"a:3")
    assert fill(bench, b"a:3", NAMES_UNCOUNTED) == [], "a few are free of each client"
    assert fill(bench, b"a:3", 1, first=50) == [Regack(0, 51, CONGESTION)]
    proven(bench, b"b:1", NAMES_UNCOUNTED + NAMES_MAX)
    assert counted(bench) == {b"0 a": NAMES_MAX, b"0 b": NAMES_MAX}


def test_a_subscription_and_a_message_need_a_number_too() -> None:
    bench = bench_with()
    proven(bench, b"a:1", NAMES_UNCOUNTED + NAMES_MAX)
    answers = bench.subscribe(b"a:1", b"further", qos=1)
    assert [each.return_code for each in answers if isinstance(each, Suback)] == [CONGESTION]
    assert reasons(bench) == [Reason.HOST_TOPICS_FULL]
    bench.publishes("cmd/1", qos=1)
    assert bench.hear_all(b"a:1") == []
    assert reasons(bench) == [Reason.HOST_TOPICS_FULL]
    bench.publishes("t/1", qos=1)
    assert counted(bench) == {b"0 a": NAMES_MAX}


def test_no_limit_is_none() -> None:
    bench = bench_with(names_max=0)
    proven(bench, b"a:1", 200)
    assert not bench.engine.client_table.hosts._names


def test_the_limit_of_a_client_is_told_apart() -> None:
    base = EngineOptions(UPSTREAM)
    session = replace(base.session, topics_max=4)
    bench = Bench(replace(options_with(base), session=session))
    proven(bench, b"a:1", 4)
    assert fill(bench, b"a:1", 1, first=9) == [Regack(0, 10, CONGESTION)]
    assert reasons(bench) == [Reason.TOPICS_FULL]


# Who gives way


def test_the_unproven_client_with_the_most_gives_way_and_hears_so() -> None:
    bench = bench_with()
    for address, names in ((b"a:1", 3), (b"a:2", 4), (b"a:5", 1), (b"a:3", -2), (b"b:1", 9)):
        bench.join(address)
        assert fill(bench, address, NAMES_UNCOUNTED + names) == []
    proven(bench, b"a:4", NAMES_UNCOUNTED + 2)
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.GAVE_WAY, "a:2")
    assert dropped.detail == "its host has 10 topic names, and this one 12"
    assert bench.hear(b"a:2") == [Disconnect()]
    assert counted(bench) == {b"0 a": 6, b"0 b": 9}
    assert fill(bench, b"a:4", 5, first=50) == []
    assert reasons(bench) == [Reason.GAVE_WAY]
    assert counted(bench) == {b"0 a": 8, b"0 b": 9}
    assert fill(bench, b"a:4", 2, first=60) == []
    assert reasons(bench) == [Reason.GAVE_WAY]
    assert fill(bench, b"a:4", 1, first=65) == []
    assert counted(bench) == {b"0 a": NAMES_MAX, b"0 b": 9}
    assert "a:3" in bench.engine.sessions, "it has few"
    assert fill(bench, b"a:4", 1, first=70) == [Regack(0, 71, CONGESTION)]


def test_one_that_is_alone_or_contested_or_proven_keeps_them() -> None:
    bench = bench_with()
    bench.join(b"b:1")
    assert fill(bench, b"b:1", NAMES_UNCOUNTED + NAMES_MAX) == []
    assert fill(bench, b"b:1", 1, first=50) == [Regack(0, 51, CONGESTION)]
    bench.join(b"a:1", clean=False)
    assert fill(bench, b"a:1", NAMES_UNCOUNTED + 2) == []
    bench.join(b"a:1", at=b"c:1")
    proven(bench, b"a:2", NAMES_UNCOUNTED + 4)
    proven(bench, b"a:3", NAMES_UNCOUNTED + 4)
    assert reasons(bench) == [Reason.HOST_TOPICS_FULL]
    assert fill(bench, b"a:3", 1, first=50) == [Regack(0, 51, CONGESTION)]


# Where they count


def test_they_go_where_their_client_goes_and_end_with_its_session() -> None:
    bench = bench_with()
    bench.join(b"a:1", clean=False)
    bench.subscribe(b"a:1", b"cmd", qos=1)
    assert fill(bench, b"a:1", NAMES_UNCOUNTED + 3) == []
    assert counted(bench) == {b"0 a": 4}
    bench.say(b"b:1", Connect(b"a:1", 60, clean_session=False))
    assert counted(bench) == {b"0 b": 4}, "what goes on with a session has its names"
    bench.say(b"a:1", Pingreq())
    assert counted(bench) == {b"0 a": 4}
    bench.say(b"a:1", Disconnect())
    assert counted(bench) == {b"0 a": 4}, "its session is kept"
    bench.join(b"a:1")
    assert counted(bench) == {}
    assert fill(bench, b"a:1", NAMES_UNCOUNTED + 1) == []
    assert counted(bench) == {b"0 a": 1}
    bench.say(b"a:1", Disconnect())
    assert counted(bench) == {}


def test_what_begins_in_a_clients_name_elsewhere_counts_where_it_is() -> None:
    bench = bench_with()
    bench.join(b"a:1", clean=False)
    assert fill(bench, b"a:1", NAMES_UNCOUNTED + 3) == []
    for _ in range(2):
        bench.join(b"a:1", at=b"b:1")
        assert fill(bench, b"b:1", NAMES_UNCOUNTED + NAMES_MAX, first=20) == []
        assert fill(bench, b"b:1", 1, first=50) == [Regack(0, 51, CONGESTION)]
        assert counted(bench) == {b"0 a": 3, b"0 b": NAMES_MAX}
        bench.say(b"a:1", Pingreq())
        assert counted(bench) == {b"0 a": 3}
    bench.join(b"a:1", at=b"b:1")
    bench.subscribe(b"b:1", b"cmd", qos=1)
    assert fill(bench, b"b:1", NAMES_UNCOUNTED) == []
    bench.publishes("cmd", qos=1)
    assert len(bench.hear_all(b"b:1")) == 1
    assert not bench.engine.client_table.formers
    assert counted(bench) == {b"0 b": 1}
    bench.ask(bench.engine.operator.forget(ClientId("a:1"), bench.at))
    assert counted(bench) == {}


def test_after_a_restart_they_count() -> None:
    bench = StateBench(options_with(SAVING))
    for address, names in ((b"a:1", 3), (b"a:2", 4), (b"b:1", 5)):
        bench.join(address, clean=False, keep_alive_s=600)
        assert fill(bench, address, NAMES_UNCOUNTED + names) == []
    bench.say(b"a:2", Disconnect())
    bench.restart()
    assert counted(bench) == {b"0 a": 7, b"0 b": 5}
    bench.restart(options_with(SAVING, names_max=5))
    assert counted(bench) == {b"0 a": 7, b"0 b": 5}, "a lower limit takes nothing away"
    assert fill(bench, b"b:1", 1, first=50) == [Regack(0, 51, CONGESTION)]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_clients_do_the_count_is_right_and_bounded(seed: int) -> None:
    bench, dice = bench_with(names_max=30), Random(seed)
    addresses = [b"%c:%d" % (host, port) for host in b"ab" for port in range(4)]
    ids = [b"s%d" % number for number in range(6)]
    for _ in range(400):
        address, client = dice.choice(addresses), dice.choice(ids)
        act = dice.randrange(8)
        if act == 0:
            clean = dice.random() < 0.5
            bench.say(address, Connect(client, 60, clean_session=clean), Pingreq())
        elif act == 1:
            bench.say(address, Disconnect(dice.choice((0, 0, 60))))
        elif act == 2:
            bench.say(address, Pingreq(client))
        elif act == 3:
            bench.subscribe(address, b"t/%d" % dice.randrange(60), qos=1)
        elif act == 4:
            bench.ask(bench.engine.operator.forget(ClientId(client.decode()), bench.at))
        else:
            fill(bench, address, dice.randrange(12), first=dice.randrange(60))
        bench.at += dice.random() * 20
        bench.wake(bench.at)
        assert all(names <= 30 for names in counted(bench).values())

"""What one host may take of the places of all: everything while places are free, and not those
that others need. Addresses are `host:port` here.
"""

from __future__ import annotations

import sys
import tracemalloc
from dataclasses import replace
from itertools import count
from random import Random
from time import thread_time

import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.host_quota import LOOKS_MAX, ByHost, HostQuota
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, StateChanged
from gateway.core.options import EngineOptions
from gateway.core.session.lifecycle import PROVEN_AFTER_S
from gateway.core.session.session import FEW_READINGS
from gateway.core.state_records import ClientId
from gateway.core.values import Peer
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Unsubscribe,
    WillMsg,
    WillMsgReq,
    WillTopic,
    WillTopicReq,
)
from tests.support.engine_bench import UPSTREAM, Bench, short
from tests.support.state_bench import SAVING, StateBench

CONGESTION = 1
HOSTILE, HONEST = 10_000, 100
P99_S_MAX = 0.05
ABSENT_S_MIN = 3600.0


def host_of(link: int, address: bytes) -> bytes:
    return b"%d " % link + address.partition(b":")[0]


def options_with(base: EngineOptions | None = None, /, **admission: int) -> EngineOptions:
    return replace(
        base or EngineOptions(UPSTREAM),
        admission=AdmissionOptions(**admission),  # type: ignore[arg-type]
        host_of=host_of,
    )


def bench_with(**admission: int) -> Bench:
    return Bench(options_with(**admission))


def hosts(bench: Bench) -> dict[bytes, int]:
    """How many clients each has, by the sessions that there are."""
    found: dict[bytes, int] = {}
    for session in bench.engine.sessions.values():
        host = host_of(session.peer.link, session.peer.address)
        found[host] = found.get(host, 0) + 1
    table = bench.engine.client_table.hosts
    for session in bench.engine.sessions.values():
        host = host_of(session.peer.link, session.peer.address)
        assert table.clients(session.peer) == found[host]
    assert len(table._hosts) == len(found)
    return found


def hears_congestion(bench: Bench, address: bytes, name: bytes | None = None) -> bool:
    return bench.say(address, Connect(name or address, 60)) == [Connack(CONGESTION)]


def reasons(bench: Bench) -> list[Reason]:
    return [each.reason for each in bench.told(Dropped)]


# While places are free


def test_a_fleet_behind_one_router_is_served_whole() -> None:
    bench = bench_with(clients_max=1000)
    for number in range(1000):
        bench.join(b"router:%d" % number)
    assert hosts(bench) == {b"0 router": 1000}
    assert bench.told(Dropped) == []
    assert hears_congestion(bench, b"router:1000")
    assert reasons(bench) == [Reason.CLIENTS_FULL]
    for number in range(1000):
        assert bench.say(b"router:%d" % number, Pingreq()) == [Pingresp()]


# Who gives way


def test_the_longest_silent_of_the_largest_host_gives_way_and_hears_so() -> None:
    bench = bench_with(clients_max=5)
    for address in (b"a:1", b"b:1", b"a:2", b"b:2", b"a:3"):
        bench.at += 1
        bench.join(address)
    bench.at += 1
    bench.say(b"a:1", Pingreq())
    bench.join(b"c:1")
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.GAVE_WAY, "a:2")
    assert dropped.detail == "its host has 3 clients, the most, and another one needs a place"
    assert dropped.peer == Peer(0, b"a:2")
    assert bench.hear(b"a:2") == [Disconnect()]
    assert hosts(bench) == {b"0 a": 2, b"0 b": 2, b"0 c": 1}
    assert hears_congestion(bench, b"a:2"), "its host has as many as any"
    assert hears_congestion(bench, b"c:2"), "it would have more than those that give way"
    bench.join(b"d:1")
    assert sorted(hosts(bench).values()) == [1, 1, 1, 2]


def test_a_host_with_one_client_gives_way_to_none() -> None:
    bench = bench_with(clients_max=3)
    for address in (b"a:1", b"b:1", b"c:1"):
        bench.join(address)
    assert hears_congestion(bench, b"d:1")
    assert len(hosts(bench)) == 3


def test_one_that_leaves_makes_room_and_does_not_count() -> None:
    bench = bench_with(clients_max=3)
    for address in (b"a:1", b"a:2", b"a:3"):
        bench.join(address)
    bench.say(b"a:1", Disconnect())
    bench.say(b"a:2", Disconnect())
    assert hosts(bench) == {b"0 a": 1}
    bench.join(b"b:1")
    bench.join(b"b:2")
    bench.join(b"c:1")
    assert hosts(bench) == {b"0 a": 1, b"0 b": 1, b"0 c": 1}
    for address in (b"a:3", b"b:2", b"c:1"):
        bench.say(address, Disconnect())
    assert hosts(bench) == {}


def subscribes(bench: Bench, address: bytes) -> None:
    bench.join(address)
    bench.subscribe(address, b"cmd/" + address, qos=1)


def waits_for_its_subscription(bench: Bench, address: bytes) -> None:
    bench.holds = True
    bench.join(address)
    assert bench.subscribe(address, b"cmd/" + address, qos=1) == []


def acknowledged_a_message(bench: Bench, address: bytes) -> None:
    subscribes(bench, address)
    bench.publishes("cmd/" + address.decode(), qos=1, by="cmd/" + address.decode())
    assert len(bench.hear_all(address)) == 1
    bench.say(address, Unsubscribe(2, b"cmd/" + address))


def left_a_will(bench: Bench, address: bytes) -> None:
    assert bench.say(address, Connect(address, 60, will=True)) == [WillTopicReq()]
    assert bench.say(address, WillTopic(b"gone", 0)) == [WillMsgReq()]
    assert bench.say(address, WillMsg(b"1")) == [Connack(0)]


def sent_readings(bench: Bench, address: bytes) -> None:
    bench.join(address)
    for number in range(FEW_READINGS + 1):
        assert isinstance(bench.say(address, short(b"21.5", 1, number + 1))[0], Puback)


def stayed(bench: Bench, address: bytes) -> None:
    bench.join(address, keep_alive_s=6000)
    bench.at += PROVEN_AFTER_S + 1
    bench.say(address, short(b"21.5", 0, 0))


def began_again_after_it_had_stayed(bench: Bench, address: bytes) -> None:
    stayed(bench, address)
    bench.join(address)


def is_asleep_with_a_message(bench: Bench, address: bytes) -> None:
    bench.join(address, clean=False)
    bench.subscribe(address, b"cmd/" + address, qos=1)
    bench.say(address, Disconnect(600))
    bench.publishes("cmd/" + address.decode(), qos=1, by="cmd/" + address.decode())


def is_spoken_for_elsewhere(bench: Bench, address: bytes) -> None:
    bench.join(address)
    bench.join(address, at=b"elsewhere-" + address)


@pytest.mark.parametrize(
    "proves",
    [
        subscribes, waits_for_its_subscription, acknowledged_a_message, left_a_will,
        sent_readings, stayed, began_again_after_it_had_stayed, is_asleep_with_a_message,
        is_spoken_for_elsewhere,
    ],
)  # fmt: skip
def test_who_is_proven_never_gives_way(proves: object) -> None:
    bench = bench_with(clients_max=3)
    for address in (b"a:1", b"a:2", b"a:3"):
        assert callable(proves)
        proves(bench, address)
    bench.holds = False
    bench.told(Dropped)
    assert hears_congestion(bench, b"b:1")
    assert set(bench.engine.sessions) == {"a:1", "a:2", "a:3"}
    assert reasons(bench) == [Reason.CLIENTS_FULL]


@pytest.mark.parametrize("last", [Pingreq(), short(b"1", 0, 0), short(b"1", 1, 1), Disconnect(60)])
@pytest.mark.parametrize("clean", [True, False])
def test_who_has_said_little_gives_way(last: Pingreq | Publish | Disconnect, clean: bool) -> None:
    bench = bench_with(clients_max=2)
    for address in (b"a:1", b"a:2"):
        bench.say(address, Connect(address, 60, clean_session=clean), last)
    bench.join(b"b:1")
    assert set(bench.engine.sessions) == {"a:2", "b:1"}


def test_a_qos_2_reading_that_is_never_released_holds_no_place() -> None:
    bench = bench_with(clients_max=2)
    for address in (b"a:1", b"a:2"):
        bench.say(address, Connect(address, 60), short(b"1", 2, 1))
    bench.join(b"b:1")
    assert set(bench.engine.sessions) == {"a:2", "b:1"}


def test_where_the_largest_host_is_proven_the_next_one_gives_way() -> None:
    """A fleet behind a router, made-up ids of another host, and a sensor of a third."""
    bench = bench_with(clients_max=60)
    for number in range(3 * LOOKS_MAX - 8):
        subscribes(bench, b"fleet:%d" % number)
    for number in range(20):
        bench.join(b"hostile:%d" % number)
    for number in range(10):
        bench.join(b"sensor-%d:1" % number)
    found = hosts(bench)
    assert (found[b"0 fleet"], found[b"0 hostile"], len(found)) == (40, 10, 12)
    assert hears_congestion(bench, b"fleet:100"), "its host has more than the one that gives way"


def test_the_first_of_the_clients_of_a_host_may_be_proven_and_the_others_not() -> None:
    bench = bench_with(clients_max=3)
    subscribes(bench, b"a:1")
    bench.join(b"a:2")
    bench.join(b"a:3")
    bench.join(b"b:1")
    assert set(bench.engine.sessions) == {"a:1", "a:3", "b:1"}


# Where a client counts


def test_a_client_that_moves_counts_where_it_is() -> None:
    bench = bench_with(clients_max=3)
    bench.join(b"a:1", clean=False)
    bench.join(b"a:2", clean=False)
    bench.join(b"b:1", clean=False)
    bench.say(b"a:1", Disconnect())
    bench.say(b"b:2", Connect(b"a:1", 60, clean_session=False), Pingreq())
    assert hosts(bench) == {b"0 a": 1, b"0 b": 2}
    bench.say(b"b:2", Disconnect())
    assert hosts(bench) == {b"0 a": 1, b"0 b": 2}, "its session is kept"
    bench.join(b"c:1")
    assert hosts(bench) == {b"0 a": 1, b"0 b": 1, b"0 c": 1}


def test_one_that_is_proven_stays_so_where_it_comes() -> None:
    table: HostQuota = HostQuota(host_of)
    bench = Bench()
    for name in (b"s1", b"s2", b"s3", b"s4"):
        bench.join(name)
    sessions = [*bench.engine.sessions.values()]
    for each in sessions[:3]:
        table.enter(each, Peer(0, b"a:1"))
    table.prove(sessions[0].client_id)
    table.enter(sessions[0], Peer(0, b"b:1"))
    table.enter(sessions[0], Peer(0, b"b:1"))
    table.enter(sessions[3], Peer(0, b"b:2"))
    assert table.clients(Peer(0, b"b:9")) == 2
    table.leave(sessions[1].client_id)
    largest = table.largest()
    assert largest is not None
    assert [*largest.unproven] == ["s4"]


def test_what_begins_in_a_clients_name_elsewhere_counts_nowhere_until_it_is_the_clients() -> None:
    bench = bench_with(clients_max=3)
    bench.join(b"a:1", clean=False)
    bench.subscribe(b"a:1", b"cmd", qos=1)
    bench.join(b"a:1", at=b"b:1")
    assert len(bench.engine.client_table.formers) == 1
    assert bench.engine.client_table.hosts.clients(Peer(0, b"b:1")) == 0
    bench.say(b"a:1", Pingreq())
    assert hosts(bench) == {b"0 a": 1}
    bench.join(b"a:1", at=b"b:1")
    bench.subscribe(b"b:1", b"other", qos=1)
    bench.publishes("other", qos=1, by="other")
    assert len(bench.hear_all(b"b:1")) == 1
    assert not bench.engine.client_table.formers
    assert hosts(bench) == {b"0 b": 1}


def test_after_a_restart_they_count_and_one_frame_is_enough_to_be_proven() -> None:
    bench = StateBench(options_with(SAVING, clients_max=4))
    for number in range(4):
        bench.join(b"a:%d" % number, clean=False, keep_alive_s=600)
    bench.say(b"a:0", Disconnect())
    bench.at += 10
    bench.restart()
    assert hosts(bench) == {b"0 a": 4}
    bench.at += 1
    bench.say(b"a:1", Pingreq())
    bench.join(b"b:1")
    bench.join(b"c:1")
    bench.join(b"d:1")
    assert set(bench.engine.sessions) == {"a:1", "b:1", "c:1", "d:1"}
    assert bench.hear(b"a:0") == [], "it was not there"


# Those that are absent for long


def fills_up_with_one_absent(bench: Bench, absent: bytes) -> None:
    bench.join(absent, clean=False)
    bench.subscribe(absent, b"cmd", qos=1)
    bench.say(absent, Disconnect())
    bench.at += ABSENT_S_MIN
    for number in range(2):
        subscribes(bench, b"full:%d" % number)


def test_a_hosts_many_ids_do_not_end_what_waits_for_one_that_is_absent() -> None:
    bench = bench_with(clients_max=3)
    fills_up_with_one_absent(bench, b"a:1")
    assert hears_congestion(bench, b"full:3")
    assert "a:1" in bench.engine.sessions
    bench.join(b"b:1")
    assert set(bench.engine.sessions) == {"full:0", "full:1", "b:1"}


def test_of_its_own_host_one_that_is_absent_for_long_gives_its_place() -> None:
    bench = bench_with(clients_max=3)
    fills_up_with_one_absent(bench, b"full:9")
    bench.join(b"full:3")
    assert set(bench.engine.sessions) == {"full:0", "full:1", "full:3"}


def test_one_that_is_absent_and_would_lose_nothing_gives_its_place_to_anybody() -> None:
    bench = bench_with(clients_max=3)
    bench.join(b"a:1", clean=False)
    bench.say(b"a:1", Disconnect())
    bench.at += ABSENT_S_MIN
    for number in range(3):
        subscribes(bench, b"full:%d" % number)
    assert set(bench.engine.sessions) == {"full:0", "full:1", "full:2"}


# Half-open clients


@pytest.mark.parametrize("will", [False, True])
def test_the_oldest_half_open_client_of_the_largest_host_gives_way(will: bool) -> None:
    bench = bench_with(callers_max=4, handshakes_max=4)
    answer = WillTopicReq() if will else Connack(0)
    for address in (b"b:1", b"a:1", b"a:2", b"a:3", b"c:1"):
        assert bench.say(address, Connect(address, 60, will=will)) == [answer]
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.UNHEARD, "a:1")
    assert bench.engine.half_open.of(ClientId("b:1")) is not None
    for address in (b"d:1", b"e:1"):
        bench.say(address, Connect(address, 60, will=will))
    assert {each.client_id for each in bench.engine.half_open} == {"a:3", "c:1", "d:1", "e:1"}


# A hard limit


def test_beyond_the_hard_limit_of_a_host_there_is_congestion_though_places_are_free() -> None:
    bench = bench_with(clients_per_host_max=2)
    bench.say(b"h:3", Connect(b"s3", 60))
    for name in (b"h:1", b"h:2"):
        bench.join(name)
    assert bench.say(b"h:3", Pingreq()) == [Disconnect()]
    assert hears_congestion(bench, b"h:4")
    dropped = bench.told(Dropped)
    assert {(each.reason, each.detail) for each in dropped} == {
        (Reason.HOST_FULL, "2 clients of this host")
    }
    bench.join(b"other:1")
    assert bench.say(b"h:9", Connect(b"h:2", 60)) == [Connack(0)], "it has its place"


# Ten thousand ids


def honest(number: int) -> bytes:
    return b"sensor-%d:1" % number


@pytest.mark.parametrize("frames", [1, 2])
@pytest.mark.parametrize("clean", [True, False])
def test_ten_thousand_ids_of_one_host_refuse_no_client_elsewhere(frames: int, clean: bool) -> None:
    """A third of the sensors was there before, a third comes meanwhile, a third afterwards."""
    bench = bench_with(clients_max=HOSTILE, callers_max=2000, connects_at_once_max=10**6)
    took: list[float] = []
    coming = iter(range(HONEST))

    def joins(number: int) -> None:
        address = honest(number)
        began = thread_time()
        assert bench.say(address, Connect(address, 60)) == [Connack(0)]
        (puback,) = bench.say(address, short(b"21.5", 1, 7))
        took.append(thread_time() - began)
        assert puback == Puback(int.from_bytes(b"tp", "big"), 7, 0)

    for _ in range(HONEST // 3):
        joins(next(coming))
    for number in range(HOSTILE):
        address, name = b"h:%d" % number, b"hostile-%d" % number
        bench.say(address, Connect(name, 60, clean_session=clean), *[Pingreq()] * (frames - 1))
        if number % (HOSTILE // (HONEST // 3)) == 0:
            joins(next(coming))
    for number in coming:
        joins(number)
    for number in range(HONEST):
        assert bench.say(honest(number), Pingreq()) == [Pingresp()]
    p99_s = sorted(took)[int(HONEST * 0.99) - 1]
    found = f"{HOSTILE} hostile ids, {HONEST} honest sensors: 0 refused, p99 {p99_s * 1000:.2f} ms"
    sys.stdout.write(found + "\n")
    assert p99_s < P99_S_MAX
    lost = {each.client_id for each in bench.told(StateChanged) if each.after.value == "lost"}
    assert not {honest(number).decode() for number in range(HONEST)} & lost


# Any order of events


def test_the_counts_are_those_of_the_members_whatever_happens() -> None:
    dice = Random(1)
    table: ByHost[Named] = ByHost(host_of)
    members: dict[ClientId, tuple[Named, bytes]] = {}
    proven: set[ClientId] = set()
    for turn in count():
        client_id = ClientId(f"c{dice.randrange(30)}")
        address = b"h%d:1" % min(dice.randrange(6), dice.randrange(6))
        match dice.randrange(4):
            case 0:
                table.leave(client_id)
                members.pop(client_id, None)
                proven.discard(client_id)
            case 1 if client_id in members:
                table.prove(client_id)
                proven.add(client_id)
            case _:
                members[client_id] = Named(client_id), address
                table.enter(members[client_id][0], Peer(0, address))
        by_host: dict[bytes, list[Named]] = {}
        for member, where in members.values():
            by_host.setdefault(where, []).append(member)
        for number in range(6):
            address = b"h%d:1" % number
            assert table.clients(Peer(0, address)) == len(by_host.get(address, []))
        giving = [
            len(each)
            for each in by_host.values()
            if len(each) > 1 and any(one.client_id not in proven for one in each)
        ]
        largest = table.largest()
        assert (largest.clients if largest else 0) == max(giving, default=0)
        if largest:
            assert all(members[each][0] is one for each, one in largest.unproven.items())
            assert not proven & set(largest.unproven)
        if turn == 3000:
            return


class Named:
    def __init__(self, client_id: ClientId) -> None:
        self.client_id = client_id


@pytest.mark.parametrize("hosts_count", [1, 100, 10_000])
def test_ten_thousand_clients_cost_little_memory(hosts_count: int) -> None:
    members = [Named(ClientId(f"sensor-{number}")) for number in range(10_000)]
    keys = [bytes((10, 0, *divmod(number % hosts_count, 256))) for number in range(10_000)]
    tracemalloc.start()
    table: ByHost[Named] = ByHost(lambda _, address: bytes(bytearray(address)))
    for member, key in zip(members, keys, strict=True):
        table.enter(member, Peer(0, key))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sys.stdout.write(f"{hosts_count} hosts: {taken / 10_000:.0f} bytes for each client\n")
    assert taken / 10_000 < 250

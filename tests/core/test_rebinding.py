"""Sleepers that wake up at another address, as behind a NAT: PINGREQ with the client id says who
they are.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.addresses import address_behind
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped, Rebound, Send
from gateway.core.options import EngineOptions
from gateway.core.state_records import ClientId, SessionRecord, State
from gateway.core.values import Peer
from gateway.frames import (
    Connect,
    Disconnect,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Regack,
    Register,
    Subscribe,
    TopicIdType,
    WillTopicReq,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench, published, short
from tests.support.state_bench import SAVING, StateBench, sleeper

S1 = ClientId("s1")
OLD, NEW = b"a1", b"a2"


def asleep(messages: int = 0, bench: StateBench | None = None, at: bytes = OLD) -> StateBench:
    """s1 sleeps, and so many QoS 1 messages wait for it."""
    return sleeper(at, bench, messages=messages)


def acknowledged(frame: Frame) -> Puback:
    assert isinstance(frame, Publish)
    return Puback(frame.topic_id, frame.message_id, 0)


def state_of(bench: StateBench) -> State:
    return bench.engine.sessions[S1].state


def saved_at(bench: StateBench) -> bytes:
    """The address in the saved row."""
    (row,) = [row for row in bench.rows.durable.values() if isinstance(row, SessionRecord)]
    return row.address


def test_a_sleeper_fetches_its_messages_from_another_address() -> None:
    bench = asleep(messages=2)
    (first,) = bench.say(NEW, Pingreq(b"s1"))
    (second,) = bench.say(NEW, acknowledged(first))
    assert published([first, second]) == [(b"0", 1, False), (b"1", 1, False)]
    assert bench.say(NEW, acknowledged(second)) == [Pingresp()]
    assert bench.told(Rebound) == [Rebound(S1, Peer(0, OLD), Peer(0, NEW))]
    assert bench.hear(OLD) == []


def test_a_ping_of_another_id_pays_for_its_own_bytes_and_not_for_those_of_a_long_id() -> None:
    name, bench = b"s" * 64, StateBench()
    bench.join(name, at=OLD)
    bench.say(OLD, Subscribe(1, b"tp", 1, topic_id_type=TopicIdType.SHORT), Disconnect(600))
    bench.publishes("tp", b"x" * 1000, qos=1, by="tp")
    assert bench.say(NEW, Pingreq(name)) == [Pingreq()]
    for _ in range(40):
        bench.say(NEW, Pingreq(b"x"))
    bench.wake(bench.at + 5)
    assert published(bench.say(NEW, Pingreq(name))) == [], "252 bytes do not pay for 1009"


def test_what_pingreq_does_not_pay_for_is_registered_again_and_sent_when_that_is_answered() -> None:
    """Clients answer REGISTER; there are some that ignore PINGREQ, and then got nothing."""
    bench = asleep()
    for payload in (b"x" * 100, b"y"):
        bench.publishes("cmd", payload, qos=1, by="cmd")
    (register,) = bench.say(NEW, Pingreq(b"s1"))
    assert register == Register(1, 1, b"cmd")
    (first,) = bench.say(NEW, Regack(1, 1, 0))
    (second,) = bench.say(NEW, acknowledged(first))
    assert published([first, second]) == [(b"x" * 100, 1, False), (b"y", 1, False)]
    assert bench.say(NEW, acknowledged(second)) == [Pingresp()]


def test_one_that_asks_again_because_register_was_lost_gets_it_again() -> None:
    bench = asleep()
    bench.publishes("cmd", b"x" * 100, qos=1, by="cmd")
    (register,) = bench.say(NEW, Pingreq(b"s1"))
    bench.wake(bench.at + 10)
    assert bench.hear(NEW) == [], "what came from there is spent"
    assert bench.say(NEW, Pingreq(b"s1")) == [register]
    assert published(bench.say(NEW, Regack(1, 1, 0))) == [(b"x" * 100, 1, False)]


def test_with_a_longer_client_id_the_gateway_asks_again_itself_and_any_word_will_do() -> None:
    bench = StateBench()
    client_id = b"a-longer-client-id"
    bench.join(client_id, at=OLD, clean=False)
    bench.subscribe(OLD, b"cmd", qos=1)
    bench.say(OLD, Disconnect(600))
    bench.publishes("cmd", b"x" * 100, qos=1, by="cmd")
    (register,) = bench.say(NEW, Pingreq(client_id))
    assert isinstance(register, Register)
    bench.wake(bench.at + 10)
    assert bench.hear(NEW) == [Pingreq()]
    assert published(bench.say(NEW, Pingresp())) == [(b"x" * 100, 1, False)]


def test_one_that_knows_the_topic_by_another_kind_of_name_is_asked_by_pingreq() -> None:
    bench = StateBench()
    bench.join(b"s1", at=OLD, clean=False)
    bench.say(OLD, Subscribe(9, b"tp", 1, topic_id_type=TopicIdType.SHORT), Disconnect(600))
    bench.publishes("tp", b"x" * 100, qos=1, by="tp")
    assert bench.say(NEW, Pingreq(b"s1")) == [Pingreq()]
    assert published(bench.say(NEW, Pingresp())) == [(b"x" * 100, 1, False)]


def test_one_for_whom_nothing_waits_hears_that_at_once() -> None:
    bench = asleep()
    assert bench.say(NEW, Pingreq(b"s1")) == [Pingresp()]
    assert state_of(bench) is State.ASLEEP


def test_when_it_has_acknowledged_a_message_only_the_new_address_counts() -> None:
    bench = asleep()
    bench.say(NEW, Pingreq(b"s1"))
    assert bench.say(NEW, short(b"21.5", 1, 7)) == [Puback(int.from_bytes(b"tp", "big"), 7, 0)]
    bench.publishes("cmd", qos=1, by="cmd")
    (message,) = bench.say(NEW, Pingreq(b"s1"))
    assert bench.say(NEW, acknowledged(message)) == [Pingresp()]
    assert bench.say(OLD, short(b"21.5", 1, 7)) == [Disconnect()]
    # The old one is free, for this client as for others.
    bench.join(b"s2", at=OLD)
    assert bench.say(OLD, Pingreq()) == [Pingresp()]


def test_it_may_go_back_to_where_it_was() -> None:
    bench = asleep()
    bench.say(NEW, Pingreq(b"s1"))
    assert bench.say(OLD, Pingreq()) == [Pingresp()]
    assert bench.say(NEW, Pingreq()) == [Disconnect()]
    assert state_of(bench) is State.ASLEEP


def test_one_that_moves_twice_gets_what_was_under_way_where_it_is() -> None:
    bench = asleep(messages=1)
    (first,) = bench.say(b"between", Pingreq(b"s1"))
    assert isinstance(first, Publish)
    assert bench.say(NEW, Pingreq(b"s1")) == [replace(first, dup=True)]
    bench.wake(bench.at + 11)
    assert bench.hear(b"between") == []


def test_the_new_address_is_saved_when_something_was_acknowledged_there() -> None:
    bench = asleep(messages=2)
    (first,) = bench.say(NEW, Pingreq(b"s1"))
    assert saved_at(bench) == OLD
    bench.say(NEW, acknowledged(first))
    assert saved_at(bench) == NEW


@pytest.mark.parametrize(
    ("acknowledges", "known", "unknown"), [(False, OLD, NEW), (True, NEW, OLD)]
)
def test_after_a_power_cut_it_is_known_where_it_acknowledged_something_last(
    acknowledges: bool, known: bytes, unknown: bytes
) -> None:
    bench = asleep(messages=2)
    (first,) = bench.say(NEW, Pingreq(b"s1"))
    if acknowledges:
        bench.say(NEW, acknowledged(first))
    bench.restart()
    assert bench.say(unknown, Pingreq()) == [Disconnect()]
    payloads = [b"1"] if acknowledges else [b"0"]
    assert published(bench.say(known, Pingreq(b"s1"))) == [(each, 1, False) for each in payloads]


def test_what_waited_for_the_disk_does_not_go_to_the_old_address() -> None:
    bench = StateBench()
    bench.join(b"s1", at=OLD, clean=False)
    bench.holds_disk = True
    assert bench.say(OLD, Disconnect(600)) == []
    assert bench.say(NEW, Pingreq(b"s1")) == [Pingresp()]
    bench.let_disk_go()
    assert bench.hear(OLD) == []


def test_one_that_is_awake_goes_on_at_its_new_address_with_what_was_under_way() -> None:
    bench = asleep(messages=2)
    (first,) = bench.say(OLD, Pingreq(b"s1"))
    (again,) = bench.say(NEW, Pingreq(b"s1"))
    assert isinstance(first, Publish)
    assert again == replace(first, dup=True)
    (second,) = bench.say(NEW, acknowledged(again))
    assert bench.say(OLD, acknowledged(first)) == [Disconnect()]
    assert bench.say(NEW, acknowledged(second)) == [Pingresp()]
    bench.wake(60.0)
    assert bench.hear(OLD) == []


def test_a_sleeper_of_a_clean_session_is_as_good_as_any() -> None:
    bench = StateBench()
    bench.join(b"s1", at=OLD)
    bench.say(OLD, Disconnect(600))
    assert bench.say(NEW, Pingreq(b"s1")) == [Pingresp()]
    bench.restart()
    assert bench.say(NEW, Pingreq(b"s1")) == [Pingresp()]


def test_its_sleep_begins_anew_and_ends_as_ever() -> None:
    bench = asleep()
    bench.wake(600.0)
    assert bench.say(NEW, Pingreq(b"s1")) == [Pingresp()]
    bench.wake(1259.0)
    assert state_of(bench) is State.ASLEEP
    bench.wake(1261.0)
    assert state_of(bench) is State.LOST
    assert bench.say(NEW, Pingreq(b"s1")) == [Disconnect()]


def test_a_node_may_wake_up_under_another_id_or_through_another_forwarder() -> None:
    bench = asleep(at=address_behind(b"f1", b"\1"))
    for address in (address_behind(b"f1", b"\2"), address_behind(b"f2", b"\1"), b"f2"):
        before = bench.engine.sessions[S1].peer
        assert bench.say(address, Pingreq(b"s1")) == [Pingresp()]
        assert bench.told(Rebound) == [Rebound(S1, before, Peer(0, address))]
        bench.news.clear()


# Who is not moved


def is_refused(bench: StateBench, address: bytes, client_id: bytes = b"s1") -> bool:
    """PINGREQ with the client id is answered with DISCONNECT, and moves nobody."""
    before = {name: session.peer for name, session in bench.engine.sessions.items()}
    answer = bench.say(address, Pingreq(client_id))
    after = {name: session.peer for name, session in bench.engine.sessions.items()}
    assert bench.told(Rebound) == []
    return answer == [Disconnect()] and before == after


@pytest.mark.parametrize("client_id", [b"s2", b"\xff", b"S1", b"s1 "])
def test_a_client_id_that_nobody_has_is_a_strangers(client_id: bytes) -> None:
    bench = asleep(messages=1)
    assert is_refused(bench, NEW, client_id)
    assert [(dropped.reason, dropped.client_id) for dropped in bench.told(Dropped)] == [
        (Reason.STRANGER, None)
    ]
    assert state_of(bench) is State.ASLEEP


def test_a_client_that_is_active_is_not_moved() -> None:
    bench = StateBench()
    bench.join(b"s1", at=OLD, clean=False)
    assert is_refused(bench, NEW)
    assert bench.say(OLD, Pingreq()) == [Pingresp()]


def test_a_client_in_its_will_handshake_is_not_moved() -> None:
    bench = StateBench()
    assert bench.say(OLD, Connect(b"s1", 60, will=True)) == [WillTopicReq()]
    assert is_refused(bench, NEW)


def test_a_client_that_left_or_is_lost_is_not_moved() -> None:
    bench = StateBench()
    bench.join(b"s1", at=OLD, clean=False)
    bench.say(OLD, Disconnect())
    assert is_refused(bench, NEW)
    bench.join(b"s1", at=OLD, clean=False)
    bench.wake(100.0)
    assert state_of(bench) is State.LOST
    assert is_refused(bench, NEW)


def test_the_address_of_another_client_is_not_taken() -> None:
    bench = asleep(messages=1)
    bench.join(b"s2", at=NEW)
    assert is_refused(bench, NEW)
    assert bench.say(NEW, Pingreq()) == [Pingresp()]
    assert published(bench.say(OLD, Pingreq(b"s1"))) == [(b"0", 1, False)]


def test_a_sleeper_of_another_link_is_not_moved() -> None:
    bench = asleep()
    effects = bench.engine.receive(1, [(NEW, encode(Pingreq(b"s1")))], bench.at)
    assert [each.frame for each in effects if isinstance(each, Send)] == [Disconnect()]


@pytest.mark.parametrize(
    "frame", [Pingreq(), short(b"21.5", 1, 7), Subscribe(1, b"cmd", 1), Disconnect(600)]
)
def test_only_pingreq_with_the_client_id_says_who_it_is(frame: Frame) -> None:
    bench = asleep(messages=1)
    assert bench.say(NEW, frame) == [Disconnect()]
    assert bench.engine.sessions[S1].peer == Peer(0, OLD)


def test_the_operator_decides_from_where() -> None:
    asked: list[tuple[bytes, bytes]] = []

    def may_rebind(before: bytes, after: bytes) -> bool:
        asked.append((before, after))
        return after == b"a3"

    bench = asleep(bench=StateBench(replace(SAVING, may_rebind=may_rebind)))
    assert is_refused(bench, NEW)
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.client_id) == (Reason.STRANGER, S1)
    assert "mqtt_sn.rebind_sleepers" in dropped.detail
    assert bench.say(b"a3", Pingreq(b"s1")) == [Pingresp()]
    assert asked == [(OLD, NEW), (OLD, b"a3")]


def test_a_flood_of_them_has_a_budget() -> None:
    options = EngineOptions(UPSTREAM)
    options = replace(
        options, admission=replace(options.admission, connects_at_once_max=2, connects_per_s_max=1)
    )
    bench = Bench(options)
    bench.say(OLD, Connect(b"s1", 60, clean_session=False), Pingreq(), Disconnect(60))
    moved = 0
    for number in range(10):
        address = b"b%d" % number
        bench.say(address, Pingreq(b"s1"))
        moved += bench.engine.sessions[S1].peer.address == address
    assert moved == 2

"""The door of the engine: unknown peers, clients, their sessions and addresses."""

from __future__ import annotations

import mqtt5
import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.clients.discovery import DiscoveryOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import (
    Broadcast,
    Dropped,
    DropUpstream,
    ReleaseRecorded,
    Send,
    StateChanged,
)
from gateway.core.engine import EngineOptions
from gateway.core.session.session import NAMES_IF_SCARCE
from gateway.core.state_records import ClientId, State
from gateway.core.values import Peer
from gateway.frames import (
    Advertise,
    Connack,
    Connect,
    Disconnect,
    Frame,
    GwInfo,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Regack,
    Register,
    SearchGw,
    Subscribe,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench, published, short


def bench_with(**changed: object) -> Bench:
    return Bench(EngineOptions(UPSTREAM, **changed))  # type: ignore[arg-type]


def reasons(bench: Bench) -> list[Reason]:
    return [dropped.reason for dropped in bench.told(Dropped)]


# Strangers


@pytest.mark.parametrize(
    "frame", [Pingreq(), Publish(1, 7, b"hi", 1), Subscribe(1, b"a"), Disconnect(), Puback(1, 1, 0)]
)
def test_a_stranger_is_told_to_connect(frame: Frame) -> None:
    bench = Bench()
    assert bench.say(b"x", frame) == [Disconnect()]
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.peer) == (Reason.STRANGER, Peer(0, b"x"))
    assert dropped.detail == type(frame).__name__.upper()


@pytest.mark.parametrize("frame", [Advertise(1, 900), GwInfo(1)])
def test_what_gateways_say_is_not_answered_with_disconnect(frame: Frame) -> None:
    bench = Bench()
    assert bench.say(b"x", frame) == []
    assert reasons(bench) == [Reason.STRANGER]


def test_a_search_is_answered_while_a_reading_could_be_taken() -> None:
    bench = Bench()
    assert bench.say(b"x", SearchGw(0)) == []
    assert reasons(bench) == [Reason.NOT_ADVERTISING]
    bench.ask(bench.engine.discovery.set_serving(None, bench.at))
    assert bench.say(b"x", SearchGw(0)) == [GwInfo(1)]


def test_a_member_that_searches_is_answered_and_was_heard() -> None:
    bench = Bench()
    bench.ask(bench.engine.discovery.set_serving(None, bench.at))
    bench.join(b"s1", keep_alive_s=60)
    bench.wake(80)
    assert bench.say(b"s1", SearchGw(0)) == [GwInfo(1)]
    bench.wake(160)
    assert list(bench.engine.sessions) == ["s1"]
    bench.wake(171)
    assert list(bench.engine.sessions) == []


def test_what_comes_by_a_group_reaches_no_session() -> None:
    bench = bench_with(discovery=DiscoveryOptions(has_groups=True))
    bench.ask(bench.engine.discovery.set_serving(None, bench.at))
    bench.join(b"s1")
    said = [encode(Pingreq()), encode(Connect(b"s2", 60)), encode(SearchGw(0))]
    bench.take(bench.engine.receive_group(0, [(b"s1", each) for each in said], bench.at))
    assert bench.hear(b"s1") == [GwInfo(1)]
    assert list(bench.engine.sessions) == ["s1"]


def test_the_engine_wakes_to_advertise() -> None:
    bench = bench_with(discovery=DiscoveryOptions(gateway_id=0, has_groups=True))
    bench.ask(bench.engine.discovery.set_serving(None, bench.at))
    bench.engine.discovery.joined(0, bench.at)
    bench.wake(901)
    assert bench.told(Broadcast) == [Broadcast(0, Advertise(0, 900))] * 2


def test_strangers_are_answered_at_a_bounded_rate_and_members_always() -> None:
    bench = bench_with(admission=AdmissionOptions(answers_per_s_max=3))
    bench.join(b"s1")
    answers = [bench.say(b"x%d" % number, Pingreq()) for number in range(10)]
    assert sum(map(len, answers)) == 3
    assert bench.say(b"s1", Pingreq()) == [Pingresp()]
    bench.at = 1.0
    assert bench.say(b"x", Pingreq()) == [Disconnect()]


@pytest.mark.parametrize(
    "octets", ["", "00", "02", "0316", "020c", "0111", "01000116", "ff0c", "0300ff", "0211"]
)
def test_what_is_no_frame_is_counted_and_not_answered(octets: str) -> None:
    bench = Bench()
    assert bench.say_octets(b"x", bytes.fromhex(octets)) == []
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.peer) == (Reason.MALFORMED, Peer(0, b"x"))
    assert dropped.detail


def test_one_bad_datagram_costs_its_neighbours_nothing() -> None:
    bench = Bench()
    connect = encode(Connect(b"s1", 60, clean_session=True))
    assert bench.say_octets(b"s1", b"\x00", connect, b"\x02\x16\xff", b"\xff") == [
        Connack(0), Pingresp(),
    ]  # fmt: skip
    assert reasons(bench) == [Reason.MALFORMED, Reason.TRAILING_OCTETS, Reason.MALFORMED]


def test_trailing_octets_are_refused_if_the_operator_wants_it_so() -> None:
    bench = bench_with(allow_trailing_octets=False)
    bench.join(b"s1")
    assert bench.say_octets(b"s1", b"\x02\x16\xff") == []
    assert bench.say_octets(b"s1", b"\x01\x00\x04\x16") == [Pingresp()], "no byte too many"
    assert reasons(bench) == [Reason.TRAILING_OCTETS]


# The door


@pytest.mark.parametrize(
    ("frame", "code", "reason"),
    [
        (Connect(b"s1", 60, protocol_id=2), 3, Reason.PROTOCOL_ID),
        (Connect(b"", 60, clean_session=True), 3, Reason.CLIENT_ID),
        (Connect(b"x" * 65, 60), 3, Reason.CLIENT_ID),
        (Connect(b"\xff", 60), 3, Reason.CLIENT_ID),
    ],
)
def test_a_connect_that_cannot_be_served_is_refused(
    frame: Connect, code: int, reason: Reason
) -> None:
    bench = Bench()
    assert bench.say(b"x", frame) == [Connack(code)]
    assert reasons(bench) == [reason]
    assert len(bench.engine.sessions) == 0
    assert bench.say(b"x", Pingreq()) == [Disconnect()]


def test_when_every_place_is_taken_a_newcomer_hears_congestion() -> None:
    bench = bench_with(admission=AdmissionOptions(clients_max=2))
    bench.join(b"s1", clean=False)
    bench.join(b"s2")
    assert bench.say(b"s3", Connect(b"s3", 60)) == [Connack(1)]
    assert reasons(bench) == [Reason.CLIENTS_FULL]
    bench.say(b"s1", Disconnect())
    assert bench.say(b"s3", Connect(b"s3", 60)) == [Connack(1)], "s1 may come back"
    bench.join(b"s1", clean=False)
    bench.say(b"s2", Disconnect())
    bench.join(b"s3")


def test_clients_without_an_id_get_one_each_if_allowed() -> None:
    bench = bench_with(admission=AdmissionOptions(assign_empty_client_id=True))
    bench.join(b"auto-1")
    for address in (b"x", b"y"):
        assert bench.say(address, Connect(b"", 60, clean_session=True)) == [Connack(0)]
        assert bench.say(address, Pingreq()) == [Pingresp()]
    assert set(bench.engine.sessions) == {"auto-1", "auto-2", "auto-3"}


def test_a_connect_that_comes_twice_is_answered_twice() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.join(b"s1", clean=False)
    bench.join(b"s2", clean=True)
    bench.join(b"s2", clean=True)
    assert set(bench.engine.sessions) == {"s1", "s2"}


def test_a_client_that_comes_from_a_new_address_leaves_the_old_one() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    topic = bench.register(b"s1", b"field")
    bench.subscribe(b"s1", b"field", qos=1)
    assert bench.say(b"new", Connect(b"s1", 60)) == [Connack(0)]
    assert bench.register(b"new", b"field") == topic
    assert bench.say(b"new", Publish(topic, 7, b"hi", 1)) == [Puback(topic, 7, 0)]
    bench.publishes("field", qos=1, by="field")
    (message,) = bench.hear(b"new")
    assert isinstance(message, Publish)
    bench.say(b"new", Puback(topic, message.message_id, 0))
    assert bench.say(b"s1", Pingreq()) == [Disconnect()], "it has acknowledged something elsewhere"


def test_a_clean_connect_from_a_new_address_begins_anew() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.subscribe(b"s1", b"cmd/#")
    bench.say(b"new", Connect(b"s1", 60, clean_session=True))
    assert bench.engine.sessions[ClientId("s1")].filters == {}
    bench.publishes("cmd/a")
    assert bench.hear(b"new") == []


def test_another_client_id_from_the_same_address_sends_the_first_one_away() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False)
    bench.news.clear()
    assert bench.say(b"s1", Connect(b"s2", 60), Pingreq()) == [Connack(0), Pingresp()]
    first, *_ = bench.told(StateChanged)
    assert (first.client_id, first.after) == ("s1", State.DISCONNECTED)
    assert "another client id" in first.detail
    assert set(bench.engine.sessions) == {"s1", "s2"}
    assert bench.say(b"elsewhere", Connect(b"s1", 60)) == [Connack(0)]
    assert bench.say(b"s1", Pingreq()) == [Pingresp()], "s2 kept the address"


def test_a_clean_session_that_is_sent_away_is_forgotten() -> None:
    bench = Bench()
    bench.join(b"s1", clean=True)
    bench.say(b"s1", Connect(b"s2", 60), Pingreq())
    assert set(bench.engine.sessions) == {"s2"}


def test_one_client_may_be_at_the_same_address_on_two_links() -> None:
    bench = Bench()
    for link, client_id in enumerate((b"s1", b"s2")):
        connect = encode(Connect(client_id, 60, clean_session=True))
        effects = bench.engine.receive(link, [(b"a", connect), (b"a", encode(Pingreq()))], 0.0)
        assert len([each for each in effects if isinstance(each, Send)]) == 2
    assert set(bench.engine.sessions) == {"s1", "s2"}
    assert bench.say(b"a", Pingreq()) == [Pingresp()]


# The end of a clean session


def test_the_end_of_a_clean_session_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.join(b"s1", clean=True)
    bench.subscribe(b"s1", b"cmd/#")
    bench.seen()
    assert bench.say(b"s1", Disconnect()) == [Disconnect()]
    engine = bench.engine
    assert (len(engine.sessions), len(engine.downlink.subscriptions)) == (0, 0)
    assert engine.downlink._newcomers == {}
    assert all(not client_table for client_table in engine.client_table._by_address.values())
    (given_up,) = bench.seen_of(mqtt5.UnsubscribePacket)
    assert given_up.patterns == ["cmd/#"]
    bench.wake(1000.0)
    assert engine.client_table._timers == []


def test_a_clean_session_that_is_lost_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.join(b"s1", clean=True, keep_alive_s=10)
    bench.subscribe(b"s1", b"cmd/#", qos=1)
    bench.publishes("cmd/go", qos=1, by="cmd/#")
    bench.news.clear()
    bench.wake(15.0)
    assert [each.after for each in bench.told(StateChanged)] == [State.LOST]
    assert reasons(bench) == [Reason.SESSION_ENDED]
    assert len(bench.engine.sessions) == 0
    assert bench.say(b"s1", Pingreq()) == [Disconnect()]


def test_a_kept_session_is_there_when_its_client_returns() -> None:
    bench = Bench()
    bench.join(b"s1", clean=False, keep_alive_s=10)
    bench.subscribe(b"s1", b"cmd/#", qos=1)
    bench.wake(15.0)
    assert bench.say(b"s1", Pingreq()) == [Disconnect()]
    bench.publishes("cmd/go", qos=1, by="cmd/#")
    connack, register = bench.say(b"s1", Connect(b"s1", 10))
    assert connack == Connack(0)
    assert isinstance(register, Register)
    frames = bench.say(b"s1", Regack(register.topic_id, register.message_id, 0))
    assert published(frames) == [(b"on", 1, False)]


# The broker


def test_frames_are_counted_by_kind() -> None:
    bench = Bench()
    bench.join(b"s1")
    bench.say(b"s1", Pingreq(), Pingreq())
    bench.say_octets(b"s1", b"\x00")
    assert bench.engine.received == {Connect: 1, Pingreq: 3}


def test_what_ends_the_connection_to_the_broker_is_said_to_the_shell() -> None:
    bench = Bench()
    bench.from_broker(b"\x00\x00")
    assert len(bench.told(DropUpstream)) == 1


def test_on_stopping_the_gateway_says_goodbye_to_the_broker() -> None:
    bench = Bench()
    bench.seen()
    bench.take(bench.engine.stop(0.0))
    presence, farewell = bench.seen()
    assert presence.payload == b"offline"
    assert isinstance(farewell, mqtt5.DisconnectPacket)


def test_when_every_place_is_taken_the_longest_absent_makes_room_after_a_while() -> None:
    options = AdmissionOptions(clients_max=3, absent_s_min=3600)
    bench = bench_with(admission=options)
    for client_id in (b"s1", b"s2", b"s3"):
        bench.join(client_id, clean=False)
    bench.say(b"s2", Disconnect())
    bench.at += 10
    bench.say(b"s1", Disconnect())
    bench.at += 3589
    assert bench.say(b"s4", Connect(b"s4", 60)) == [Connack(1)], "s2 may come back"
    bench.at += 1
    bench.join(b"s4")
    assert set(bench.engine.sessions) == {"s1", "s3", "s4"}
    assert bench.say(b"s5", Connect(b"s5", 60)) == [Connack(1)], "s1 left later"


def test_who_came_back_is_not_absent() -> None:
    bench = bench_with(admission=AdmissionOptions(clients_max=1, absent_s_min=3600))
    bench.join(b"s1", clean=False)
    bench.say(b"s1", Disconnect())
    bench.join(b"s1", clean=False)
    bench.at += 7200
    assert bench.say(b"s2", Connect(b"s2", 60)) == [Connack(1)]


def test_while_memory_is_scarce_nobody_new_comes_in_whoever_is_absent() -> None:
    bench = bench_with(admission=AdmissionOptions(clients_max=2, absent_s_min=3600))
    bench.join(b"s1", clean=False)
    bench.join(b"s2", clean=False)
    bench.say(b"s1", Disconnect())
    bench.at += 7200
    bench.join(b"s2", clean=False)
    assert bench.say(b"s3", Connect(b"s3", 60)) == [Connack(0)]
    bench.engine.set_memory_scarce(True)
    assert bench.say(b"s3", Pingreq()) == [Disconnect()], "it has not said more than CONNECT"
    assert bench.say(b"s4", Connect(b"s4", 60)) == [Connack(1)]
    assert {each.reason for each in bench.told(Dropped)} >= {Reason.MEMORY_SCARCE}
    bench.join(b"s1", clean=False)
    assert set(bench.engine.sessions) == {"s1", "s2"}
    bench.say(b"s1", Disconnect())
    bench.at += 7200
    bench.join(b"s2", clean=False)
    bench.engine.set_memory_scarce(False)
    bench.join(b"s4")
    assert set(bench.engine.sessions) == {"s2", "s4"}


def test_while_memory_is_scarce_a_client_gets_no_more_than_a_few_topic_names() -> None:
    bench = Bench()
    bench.join(b"s1")
    names = [b"a/%d" % number for number in range(NAMES_IF_SCARCE + 1)]
    bench.engine.set_memory_scarce(True)
    topic_ids = [bench.register(b"s1", name) for name in names[:-1]]
    assert bench.say(b"s1", Register(0, 7, names[-1])) == [Regack(0, 7, 1)]
    assert reasons(bench) == [Reason.MEMORY_SCARCE]
    assert bench.register(b"s1", names[0]) == topic_ids[0], "it has its number"
    bench.engine.set_memory_scarce(False)
    assert bench.register(b"s1", names[-1]) not in topic_ids


def test_a_release_of_a_client_without_a_session_is_nothing() -> None:
    bench = Bench()
    assert bench.engine.durable([ReleaseRecorded(ClientId("gone"), 1)], bench.at) == []


def test_progress_is_an_acknowledgement_of_the_broker_on_this_connection() -> None:
    bench = Bench()
    assert not bench.engine.has_progressed
    bench.join(b"s1")
    bench.say(b"s1", short(b"21.5", 1, 7))
    assert bench.engine.has_progressed
    bench.lose_broker()
    bench.connect_broker()
    assert not bench.engine.has_progressed


def test_without_keys_no_counter_is_saved() -> None:
    engine = Bench().engine
    assert engine.protection_changes() == engine.protection_changes(is_end=True) == []

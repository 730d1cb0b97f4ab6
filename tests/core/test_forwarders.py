"""Nodes behind a forwarder (1.2, 5.5): each is a client at an address of its own."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.addresses import address_behind, split
from gateway.core.clients.qos_minus_one import QosMinusOneOptions
from gateway.core.drop_reasons import Reason
from gateway.core.effects import Dropped
from gateway.core.options import EngineOptions
from gateway.frames import (
    Connack,
    Connect,
    Disconnect,
    Forwarded,
    Frame,
    Pingreq,
    Pingresp,
    Puback,
    Subscribe,
    encode,
)
from tests.support.engine_bench import UPSTREAM, Bench, published, short
from tests.support.state_bench import StateBench

BRIDGE = b"bridge"
ONE, TWO = b"\x01\x02", b"\x03"


def says(bench: Bench, node_id: bytes, *frames: Frame, through: bytes = BRIDGE) -> list[Frame]:
    """What a node says through its forwarder, and what it hears at once."""
    node = address_behind(through, node_id)
    bench.hear(node)
    bench.say_octets(through, *(encode(Forwarded(node_id, encode(each))) for each in frames))
    return bench.hear(node)


def join(bench: Bench, node_id: bytes, name: bytes, *, clean: bool = False) -> None:
    heard = says(bench, node_id, Connect(name, 60, clean_session=clean), Pingreq())
    assert heard == [Connack(0), Pingresp()]


def test_two_nodes_behind_one_forwarder_are_two_clients() -> None:
    bench = Bench()
    join(bench, ONE, b"s1")
    join(bench, TWO, b"s2")
    assert says(bench, ONE, short(b"of one", 1, 7))[0] == Puback(short(b"", 0, 0).topic_id, 7, 0)
    assert set(bench.engine.sessions) == {"s1", "s2"}
    assert bench.hear(BRIDGE) == [], "nothing is for the forwarder itself"


def test_a_forwarder_may_be_a_client_as_well() -> None:
    bench = Bench()
    bench.join(BRIDGE)
    join(bench, ONE, b"s1")
    assert bench.say(BRIDGE, Pingreq()) == [Pingresp()]
    assert says(bench, ONE, Pingreq()) == [Pingresp()]


def test_the_same_node_id_behind_two_forwarders_is_two_nodes() -> None:
    bench = Bench()
    join(bench, ONE, b"s1")
    heard = says(bench, ONE, Connect(b"s2", 60, clean_session=True), through=b"other")
    assert heard == [Connack(0)]
    assert says(bench, ONE, Pingreq()) == [Pingresp()]


def test_a_node_that_connects_under_another_id_ends_nothing_while_the_client_is_heard() -> None:
    bench = Bench()
    join(bench, ONE, b"s1")
    join(bench, TWO, b"s1")
    assert says(bench, TWO, Pingreq()) == [Pingresp()]
    assert says(bench, ONE, Pingreq()) == [Pingresp()]
    assert says(bench, TWO, Pingreq()) == [Disconnect()]


def test_an_unknown_node_hears_disconnect_behind_its_forwarder() -> None:
    assert says(Bench(), ONE, Pingreq()) == [Disconnect()]


def test_a_node_may_publish_without_a_connection() -> None:
    bench = Bench(EngineOptions(UPSTREAM, qos_minus_one=QosMinusOneOptions(allow=True)))
    bench.seen()
    assert says(bench, ONE, short(b"hi", -1, 0)) == []
    (packet,) = bench.seen()
    assert packet.payload == b"hi"


def test_what_is_malformed_inside_is_counted_and_not_answered() -> None:
    bench = Bench()
    bench.say_octets(BRIDGE, b"\x05\xfe\x00" + ONE + b"\x07")
    (dropped,) = bench.told(Dropped)
    assert dropped.reason is Reason.MALFORMED
    assert dropped.peer is not None
    assert dropped.peer.address == address_behind(BRIDGE, ONE)
    assert bench.heard == []


def test_nothing_is_forwarded_inside_another_one() -> None:
    bench = Bench()
    inner = encode(Forwarded(TWO, encode(Pingreq())))
    bench.say_octets(BRIDGE, b"\x05\xfe\x00" + ONE + inner)
    assert [dropped.reason for dropped in bench.told(Dropped)] == [Reason.MALFORMED]
    assert bench.heard == []


def test_who_may_not_forward_is_not_heard() -> None:
    options = replace(EngineOptions(UPSTREAM), may_forward=lambda link, address: address == BRIDGE)
    bench = Bench(options)
    assert says(bench, ONE, Pingreq(), through=b"other") == []
    (dropped,) = bench.told(Dropped)
    assert (dropped.reason, dropped.detail) == (Reason.FORWARDER, "node 0102")
    join(bench, ONE, b"s1")


def test_a_node_is_served_after_a_restart_where_it_was() -> None:
    bench = StateBench()
    join(bench, ONE, b"s1")
    says(bench, ONE, Disconnect(30))
    bench.restart()
    assert says(bench, ONE, Pingreq(b"s1")) == [Pingresp()]


def test_a_message_goes_to_the_node_that_subscribed() -> None:
    bench = Bench()
    join(bench, ONE, b"s1")
    join(bench, TWO, b"s2")
    node = address_behind(BRIDGE, ONE)
    says(bench, ONE, Subscribe(1, b"cmd", 0))
    bench.publishes("cmd", by="cmd")
    assert published(bench.hear(node)) == [(b"on", 0, False)]
    assert bench.hear(address_behind(BRIDGE, TWO)) == []


@given(st.binary(max_size=40), st.binary(max_size=252))
def test_any_node_has_an_address_that_says_which(forwarder: bytes, node_id: bytes) -> None:
    address = address_behind(forwarder, node_id)
    assert split(address, len(forwarder)) == (forwarder, node_id)
    assert split(forwarder, len(forwarder)) is None


@given(st.binary(max_size=60), st.integers(0, 28))
def test_what_is_no_address_of_a_link_is_told(address: bytes, forwarder_bytes: int) -> None:
    found = split(address, forwarder_bytes)
    if found is not None:
        assert address_behind(*found) == address
        assert len(found[0]) == forwarder_bytes

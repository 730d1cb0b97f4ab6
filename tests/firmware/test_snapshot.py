"""What a node keeps over a deep sleep, and what it does with bytes that are not that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firmware.mqttsn.client import Client
from firmware.mqttsn.snapshot import put_back, take
from tests.support.samples import for_each


class Nowhere:
    gateways = 2

    def __init__(self) -> None:
        self.index = 0

    def send(self, frame: bytearray, size: int) -> None:
        raise AssertionError("a snapshot is no conversation")

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        return 0

    def next(self) -> None:
        pass

    def close(self) -> None:
        pass


def a_client() -> Client:
    return Client(Nowhere(), b"node", 64)


def kept() -> bytes:
    client = a_client()
    client.transport.index = 1
    client.duration_s = 900
    client.subscriptions = {b"cmd/#": 1, 7: 2, b"ab": 0}
    engine = client.engine
    engine.state, engine.message_id = 2, 0xFFFF
    engine.reading_id, engine.received = 0x1_0004, 0x2_0000
    engine.topics = {b"greenhouse/3": 1025, b"x/y/z": 0xFFFE}
    return take(client)


def state_of(client: Client) -> tuple[object, ...]:
    engine = client.engine
    return (
        client.transport.index,
        client.duration_s,
        client.subscriptions,
        engine.state,
        engine.message_id,
        engine.reading_id,
        engine.received,
        engine.topics,
    )


def test_what_was_taken_is_put_back() -> None:
    client = a_client()
    assert put_back(client, kept())
    assert state_of(client) == (
        1,
        900,
        {b"cmd/#": 1, 7: 2, b"ab": 0},
        2,
        0xFFFF,
        0x1_0004,
        0x2_0000,
        {b"greenhouse/3": 1025, b"x/y/z": 0xFFFE},
    )


def test_one_topic_and_one_subscription_fit_the_rtc_memory_of_any_board_many_times() -> None:
    assert len(kept()) < 100


@given(st.binary(max_size=120))
def test_other_octets_are_nothing(octets: bytes) -> None:
    client = a_client()
    client.engine.message_id = 0
    before = state_of(client)
    assert not put_back(client, octets)
    assert state_of(client) == before


@for_each("at", range(len(kept())))
def test_one_damaged_octet_makes_it_nothing(at: int) -> None:
    damaged = bytearray(kept())
    damaged[at] ^= 0x40
    client = a_client()
    assert not put_back(client, bytes(damaged))
    assert client.engine.topics == {}

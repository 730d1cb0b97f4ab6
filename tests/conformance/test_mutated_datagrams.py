"""Damaged datagrams in live conversations, with the bare engine: it serves on and does not grow.

The same over real sockets is in tests/end_to_end/test_mutated_conversations.py.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from random import Random

import mqtt5
import pytest

from gateway.core.clients.admission import AdmissionOptions
from gateway.core.effects import DropUpstream
from gateway.core.session.options import SessionOptions
from gateway.frames import Puback, Publish, encode
from tests.conformance.client import GatewayBench, options
from tests.conformance.conversation import (
    KINDS_HEARD,
    Talker,
    is_whole,
    what_was_heard,
    with_damaged_copy,
)
from tests.support.resident import resident_bytes

TALKERS = 12
CLIENTS_MAX = 40
GROWTH_BYTES_MAX = 8 << 20
GROWTH_BLOCKS_MAX = 8_000  # up to half of them were seen to come and go with what waits
BYSTANDER = b"bystander"
BROKERS_PACKET_ID = 7  # the one that the bench publishes under

RULES = replace(
    options(),
    session=SessionOptions(outbox_messages_max=20, topics_max=20, subscriptions_max=10),
    admission=AdmissionOptions(clients_max=CLIENTS_MAX, absent_s_min=0.0),
    retained_messages_max=20,
)


class Air:
    """Talkers, each at its address, and a bystander whose datagrams nobody touches."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.bench = GatewayBench(RULES)
        self.talkers = [Talker(b"talker-%d" % number, self.dice) for number in range(TALKERS)]
        self._at = {talker.client_id: talker for talker in self.talkers}
        self.whole = 0
        self._before = b"\x02\x16"
        self.bench.join(BYSTANDER, keep_alive_s=0)
        self.topic_id = self.bench.register(BYSTANDER, b"bystander/reading")
        self._message_id = 0

    def carry(self, datagrams: int) -> None:
        """And of each a damaged copy."""
        for count in range(datagrams):
            talker = self.dice.choice(self.talkers)
            datagram = talker.says()
            for each in with_damaged_copy(datagram, self._before, self.dice):
                self.whole += each != datagram and is_whole(each)
                self._bring(talker, each)
            self._before = datagram
            if count % 4 == 0:
                self._broker_publishes()
            if count % 100 == 0:
                self._bystander_publishes()
                self.bench.wake(self.bench.at + self.dice.choice([0.0, 0.1, 1.0, 20.0]))
                assert not self.bench.told(DropUpstream)
                self.bench.news.clear()

    def _bring(self, talker: Talker, datagram: bytes) -> None:
        bench = self.bench
        bench.take(bench.engine.receive(0, [(talker.client_id, datagram)], bench.at))
        self._hear()

    def _broker_publishes(self) -> None:
        dice, bench = self.dice, self.bench
        qos = dice.randint(0, 2)
        bench.publishes(
            f"t/{dice.randrange(10)}", dice.randbytes(8), qos, retain=dice.random() < 0.1
        )
        if qos == 2:
            bench.from_broker(mqtt5.PubRelPacket(BROKERS_PACKET_ID).write())
        self._hear()

    def _hear(self) -> None:
        bench = self.bench
        heard, bench.heard = bench.heard, []
        for address, frame in heard:
            talker = self._at.get(address)
            if talker is not None:  # else a node that damage has put behind one
                talker.hears(encode(frame))
        bench.packets.clear()
        bench.news.clear()

    def _bystander_publishes(self) -> None:
        self._message_id = self._message_id % 65_535 + 1
        reading = Publish(self.topic_id, self._message_id, b"21.5", qos=1)
        heard = self.bench.say(BYSTANDER, reading)
        assert heard == [Puback(self.topic_id, self._message_id, 0)]


def blocks() -> int:
    """Objects, roughly: what leaks a little each time shows here before the system sees it."""
    gc.collect()
    return sys.getallocatedblocks()


def serve(datagrams: int, seed: int) -> None:
    air = Air(seed)
    air.carry(datagrams // 10)  # until tables and caches are warm
    before, blocks_before = resident_bytes(), blocks()
    air.carry(datagrams)
    assert blocks() - blocks_before < GROWTH_BLOCKS_MAX
    assert resident_bytes() - before < GROWTH_BYTES_MAX
    assert len(air.bench.engine.sessions) <= CLIENTS_MAX
    # Damage that is all found at the first look would prove little, and so would conversations
    # that never get anywhere.
    assert datagrams // 4 < air.whole < datagrams
    heard = what_was_heard(air.talkers)
    # And others, which damage asks for.
    assert all(heard[kind] > datagrams // 1000 for kind in KINDS_HEARD)


def test_a_gateway_serves_on_while_conversations_are_damaged() -> None:
    serve(datagrams=15_000, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_million_damaged_datagrams_do_no_harm(seed: int) -> None:
    serve(datagrams=100_000, seed=seed)

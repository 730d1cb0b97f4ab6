"""Protected packets of the library, against the gateway's end."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from firmware.app.talk import STATE_OCTETS
from firmware.mqttsn.protect import AES_CCM_64, AES_CCM_128, HMAC_SHA256, Protected
from gateway.core.protection.channel import Channel
from gateway.core.protection.envelope import parse
from tests.firmware.cryptolib import cryptolib

__all__ = ["cryptolib"]

SENDER, KEY = b"12345678", b"canary key 16 by"
PACKET, OTHER = b"\x02\x16", b"\x02\x17"


class Air:
    """Between a node and the gateway's channel; `taken` is what that takes."""

    gateways = 1
    index = 0

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.taken: list[bytes] = []
        self.heads: set[bytes] = set()
        self.to_node: deque[bytes] = deque()

    def send(self, frame: bytearray, size: int) -> None:
        datagram = bytes(frame[:size])
        head = parse(datagram).head[1:]
        assert head not in self.heads
        self.heads.add(head)
        found = self.channel.open(parse(datagram), 0.0)
        if found.packet:
            self.taken.append(found.packet)
        if found.reply:
            self.to_node.append(found.reply)

    def receive(self, buffer: bytearray, wait_ms: int) -> int:
        if not self.to_node:
            return 0
        datagram = self.to_node.popleft()
        buffer[: len(datagram)] = datagram
        return len(datagram)

    def next(self) -> None:
        pass

    def close(self) -> None:
        pass


def fresh_channel(dice: Random | None = None) -> Channel:
    dice = dice or Random(1)
    return Channel(sender_id=SENDER, secret=KEY, epoch=1, random=dice.randbytes)


class Bench:
    def __init__(self, tag_bytes: int = 8, scheme: int = HMAC_SHA256) -> None:
        self.dice = Random(1)
        self.tag_bytes = tag_bytes
        self.scheme = scheme
        self.kept: list[bytes] = []
        self.air = Air(fresh_channel(self.dice))
        self.boot()

    def boot(self) -> None:
        kept = self.kept[-1] if self.kept else b""
        self.node = Protected(
            self.air,
            SENDER,
            KEY,
            kept,
            self.kept.append,
            tag_bytes=self.tag_bytes,
            scheme=self.scheme,
        )

    def sleep(self) -> None:
        """Deeply: what it knows is in RTC memory, and the flash not asked."""
        kept = self.node.take()
        assert len(kept) == STATE_OCTETS
        self.boot()
        assert self.node.put_back(kept)

    def says(self, packet: bytes) -> list[bytes]:
        self.node.send(bytearray(packet), len(packet))
        assert self.hears() == []
        taken, self.air.taken = self.air.taken, []
        return taken

    def hears(self) -> list[bytes]:
        buffer, heard = bytearray(256), []
        while self.air.to_node:
            size = self.node.receive(buffer, 10_000)
            if size:
                heard.append(bytes(buffer[:size]))
        return heard

    def is_told(self, packet: bytes) -> list[bytes]:
        self.air.to_node.append(self.air.channel.seal(packet))
        return self.hears()


@pytest.mark.usefixtures("cryptolib")
@pytest.mark.parametrize(
    ("scheme", "tag_bytes"),
    [(HMAC_SHA256, 8), (HMAC_SHA256, 16), (HMAC_SHA256, 32), (AES_CCM_64, 8), (AES_CCM_128, 16)],
)
def test_packets_are_taken_both_ways(scheme: int, tag_bytes: int) -> None:
    bench = Bench(tag_bytes, scheme)
    for size in (2, 200, 300):
        packet = bytes((2, 0x16)) + bytes(size - 2)
        assert bench.says(packet) == [packet]
        assert bench.is_told(OTHER) == [OTHER]
    assert len(bench.kept) == 1, "a block is saved once"


def test_blocks_are_saved_before_they_are_used() -> None:
    bench = Bench()
    for _ in range(2500):
        assert bench.says(PACKET) == [PACKET]
    assert len(bench.kept) == 3


def test_nothing_lost_costs_more_than_one_question() -> None:
    bench = Bench()
    for number in range(400):
        what = bench.dice.random()
        if what < 0.1:
            bench.boot()
        elif what < 0.12:
            bench.sleep()
        elif what < 0.15:
            bench.kept.clear()
            bench.boot()
        elif what < 0.2:
            bench.air.channel = fresh_channel(bench.dice)
        elif what < 0.25:
            bench.node.next()
        packet = b"\x04\x16" + number.to_bytes(2, "big")
        assert bench.says(packet) == [packet], number
        assert bench.is_told(OTHER) == [OTHER], number


def test_a_deep_sleep_writes_no_flash_and_asks_nothing() -> None:
    bench = Bench()
    bench.says(PACKET)
    asked = bench.air.channel.memory()
    for _ in range(500):
        bench.sleep()
        assert bench.says(PACKET) == [PACKET]
        assert bench.is_told(OTHER) == [OTHER]
    assert len(bench.kept) == 1
    assert bench.air.channel.memory() == asked


def test_only_a_node_with_this_key_goes_on_there() -> None:
    bench = Bench()
    bench.says(PACKET)
    kept = bench.node.take()
    other = Protected(bench.air, SENDER, KEY[::-1], b"", bench.kept.append)
    assert not other.put_back(kept)
    assert not bench.node.put_back(kept[:-1])
    for place in range(len(kept)):
        changed = bytearray(kept)
        changed[place] ^= 1
        assert not bench.node.put_back(bytes(changed))


def test_a_gateway_with_an_old_series_gets_no_head_twice() -> None:
    """Two gateways choose series for one node, each by itself."""
    bench = Bench()
    for _ in range(50):
        assert bench.says(PACKET) == [PACKET]
        bench.air.channel = fresh_channel(bench.dice)  # which asserts that no head is there twice


@pytest.mark.parametrize(("count", "expected"), [(1, [OTHER]), (2, [])])
def test_of_several_gateways_only_the_run_that_answered_is_taken(
    count: int, expected: list[bytes]
) -> None:
    """Another one may have chosen a series of the same number: in it all would be new."""
    bench = Bench()
    bench.node.gateways = count
    assert bench.says(PACKET) == [PACKET]
    assert bench.is_told(OTHER) == [OTHER]
    other = Channel(
        sender_id=SENDER, secret=KEY, epoch=1, random=bench.dice.randbytes,
        memory=bench.air.channel.memory(),
    )  # fmt: skip
    bench.air.to_node.append(other.seal(OTHER))
    assert bench.hears() == expected
    if count == 2:
        assert bench.is_told(OTHER) == [OTHER], "the other one has changed nothing"


@pytest.mark.usefixtures("cryptolib")
@pytest.mark.parametrize("scheme", [HMAC_SHA256, AES_CCM_64])
def test_what_is_wrong_is_not_taken(scheme: int) -> None:
    bench = Bench(scheme=scheme)
    bench.says(PACKET)
    right = bench.air.channel.seal(OTHER)
    for place in range(len(right)):
        changed = bytearray(right)
        changed[place] ^= 1
        bench.air.to_node.append(bytes(changed))
        bench.air.to_node.append(right[:place] or b"\x02")
        assert bench.hears() == []
    bench.air.to_node.append(OTHER)
    assert bench.hears() == [], "nor what is plain"
    bench.air.to_node += [right, right]
    assert bench.hears() == [OTHER], "nor a copy"

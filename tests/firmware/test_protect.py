"""Protected packets of the library, against the gateway's end."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from firmware.mqttsn.protect import Protected
from gateway.core.protection.channel import Channel
from gateway.core.protection.envelope import parse

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


class Bench:
    def __init__(self, tag_bytes: int = 8) -> None:
        self.dice = Random(1)
        self.tag_bytes = tag_bytes
        self.kept: list[bytes] = []
        self.air = Air(self.fresh_channel())
        self.boot()

    def fresh_channel(self) -> Channel:
        return Channel(sender_id=SENDER, secret=KEY, epoch=1, random=self.dice.randbytes)

    def boot(self) -> None:
        kept = self.kept[-1] if self.kept else b""
        self.node = Protected(
            self.air, SENDER, KEY, kept, self.kept.append, tag_bytes=self.tag_bytes
        )

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


@pytest.mark.parametrize("tag_bytes", [8, 16, 32])
def test_packets_are_taken_both_ways(tag_bytes: int) -> None:
    bench = Bench(tag_bytes)
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
        elif what < 0.15:
            bench.kept.clear()
            bench.boot()
        elif what < 0.2:
            bench.air.channel = bench.fresh_channel()
        elif what < 0.25:
            bench.node.next()
        packet = b"\x04\x16" + number.to_bytes(2, "big")
        assert bench.says(packet) == [packet], number
        assert bench.is_told(OTHER) == [OTHER], number


def test_what_is_wrong_is_not_taken() -> None:
    bench = Bench()
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

"""Both ends of a channel, which lose what one likes."""

from __future__ import annotations

from random import Random

from gateway.core.protection.channel import Channel, Memory, Opened
from gateway.core.protection.envelope import parse

SENDER = b"\x01\x02\x03\x04\x05\x06\x07\x08"
SECRET = b"0123456789abcdef"


def device(dice: Random, memory: Memory | None = None, **given: int) -> Channel:
    return Channel(
        sender_id=SENDER,
        secret=SECRET,
        epoch=1,
        random=dice.randbytes,
        memory=memory,
        is_device=True,
        **given,
    )


def gateway(dice: Random, memory: Memory | None = None) -> Channel:
    return Channel(sender_id=SENDER, secret=SECRET, epoch=1, random=dice.randbytes, memory=memory)


def opened(channel: Channel, datagram: bytes, now: float = 0.0) -> Opened:
    return channel.open(parse(datagram), now)


def exchanged(one: Channel, other: Channel, packet: bytes) -> tuple[list[bytes], int]:
    """What the other end takes of a packet, with all questions and answers; and how many datagrams
    that took.
    """
    return carried(one.seal(packet), one, other)


def carried(datagram: bytes, one: Channel, other: Channel) -> tuple[list[bytes], int]:
    """The same, of a datagram that `one` has made."""
    taken: list[bytes] = []
    ends, at = (other, one), 0
    count = 0
    while datagram:
        count += 1
        found = opened(ends[at], datagram)
        if found.packet:
            taken.append(found.packet)
        datagram, at = found.reply, 1 - at
        assert count < 10, "they go on for ever"
    return taken, count

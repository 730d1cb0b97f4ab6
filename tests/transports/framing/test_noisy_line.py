"""One byte in a hundred is wrong: what HDLC-like framing makes of that."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from gateway.frames import Puback, Publish, encode
from gateway.transports.serial.framing_choice import framing

FRAMES = 10_000
ERRORS = 0.01  # of all octets

Damage = Callable[[int, Random], bytes]


def readings(number: int, dice: Random) -> bytes:
    """What a node sends: no two are the same."""
    return encode(Publish(5, number, dice.randbytes(dice.randint(4, 30)), qos=1))


def acknowledgements(number: int, dice: Random) -> bytes:
    """What it gets."""
    return encode(Puback(dice.randrange(0x10000), number, 0))


def changed(octet: int, dice: Random) -> bytes:
    return bytes((octet ^ dice.randrange(1, 0x100),))


def lost(octet: int, dice: Random) -> bytes:
    return b""


def joined_by_another(octet: int, dice: Random) -> bytes:
    return bytes((octet, dice.randrange(0x100)))


def turned_into_a_mark(octet: int, dice: Random) -> bytes:
    return dice.choice((b"\x7e", b"\x7d"))


def damaged(frame: bytes, damage: Damage, dice: Random) -> bytes:
    return b"".join(
        damage(octet, dice) if dice.random() < ERRORS else frame[at : at + 1]
        for at, octet in enumerate(frame)
    )


@pytest.mark.parametrize("damage", [changed, lost, joined_by_another, turned_into_a_mark])
@pytest.mark.parametrize("message_of", [readings, acknowledgements])
def test_no_corrupt_message_is_received_and_no_whole_frame_is_lost(
    message_of: Callable[[int, Random], bytes], damage: Damage
) -> None:
    dice = Random(1662)
    sent = [message_of(number, dice) for number in range(FRAMES)]
    line = framing("hdlc", message_bytes_max=64)
    whole: set[bytes] = set()
    received: list[bytes] = []
    for message in sent:
        frame = line.wrap(message)
        on_line = damaged(frame, damage, dice)
        if on_line == frame:
            whole.add(message)
        received += line.feed(on_line, 0.0)
    # FCS-16 lets one in 65,536 of the damaged ones through. Here they are some two thousand.
    assert set(received) <= set(sent)
    assert whole <= set(received)
    assert 900 < FRAMES - len(whole) < 4000
    # Once each, and in order.
    assert received == sorted(set(received), key=sent.index)
    assert line.counters.good == len(received)
    assert line.counters.resyncs > 500

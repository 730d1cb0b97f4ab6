"""What must hold for any bytes at all, and inputs that are nearly right: those find bugs."""

from __future__ import annotations

from random import Random

from gateway.frames import Frame, MalformedFrame, decode, encode, has_trailing_octets
from tests.frames.golden import ROWS

VECTORS = [row.octets for row in ROWS]


def frame_in(datagram: bytes) -> Frame | None:
    """The frame that these octets are, if any, after asking all that is promised about any octets.

    An exception other than MalformedFrame goes through and fails the test.
    """
    trailing = has_trailing_octets(datagram)
    try:
        frame = decode(datagram)
    except MalformedFrame:
        return None
    sent = encode(frame)
    assert decode(sent) == frame, datagram.hex()
    assert not has_trailing_octets(sent), datagram.hex()
    # What we send is the shortest form, and without what trailed.
    assert len(sent) + trailing <= len(datagram), datagram.hex()
    return frame


def noise(dice: Random) -> bytes:
    octets = dice.randbytes(dice.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 300)))
    if len(octets) < 2 or dice.random() < 0.3:
        return octets
    # With a length that is right and a type that may exist, the octets get past the first check.
    head = bytes((len(octets) & 0xFF, dice.randrange(0x20) if dice.random() < 0.9 else 0xFE))
    return head + octets[2:]


def mutated_vector(dice: Random) -> bytes:
    octets = bytearray(dice.choice(VECTORS))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(min(len(octets), 12)) if octets else 0
        match dice.randrange(6):
            case 0:
                octets[at : at + 1] = dice.randbytes(1)
            case 1:
                octets[at : at + 1] = (
                    bytes((octets[at] ^ 1 << dice.randrange(8),)) if octets else b""
                )
            case 2:
                octets[at:at] = dice.randbytes(dice.randint(1, 3))
            case 3:
                del octets[at : at + dice.randint(1, 3)]
            case 4:
                del octets[-dice.randint(1, 3) :]
            case _:
                octets += dice.randbytes(dice.randint(1, 3))
    if octets and octets[0] != 1 and dice.random() < 0.5:
        octets[0] = len(octets) & 0xFF
    return bytes(octets)

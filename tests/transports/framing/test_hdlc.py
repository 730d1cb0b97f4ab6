"""What RFC 1662 says, held against code that computes it in another way."""

from __future__ import annotations

from random import Random

import pytest

from gateway.frames import Puback, encode
from gateway.transports.framing.hdlc import HdlcFrames, fcs
from gateway.transports.serial.framing_choice import DEFAULT_ESCAPES, framing

PUBACK = encode(Puback(5, 7, 0))


def fcs_by_bits(message: bytes) -> bytes:
    """C.2: the register is shifted to the right, 0x8408 is the polynomial."""
    register = 0xFFFF
    for octet in message:
        register ^= octet
        for _ in range(8):
            register = register >> 1 ^ 0x8408 if register & 1 else register >> 1
    return (register ^ 0xFFFF).to_bytes(2, "little")


def test_the_fcs_is_that_of_x25() -> None:
    # The check value that catalogues of CRCs give for CRC-16/IBM-SDLC.
    assert fcs(b"123456789") == (0x906E).to_bytes(2, "little")


def test_the_fcs_is_that_of_the_rfc() -> None:
    dice = Random(1662)
    for size in (0, 1, 2, 7, 20, 300):
        message = dice.randbytes(size)
        assert fcs(message) == fcs_by_bits(message)


def test_every_octet_is_the_same_behind_the_line() -> None:
    message = b"\x01\x01\x04\x0c" + bytes(range(256))
    line = framing("hdlc", message_bytes_max=300)
    assert line.feed(line.wrap(message), 0.0) == [message]


@pytest.mark.parametrize("octet", sorted(DEFAULT_ESCAPES))
def test_an_octet_of_the_map_is_sent_escaped_and_removed_where_it_is_not(octet: int) -> None:
    line = framing("hdlc", message_bytes_max=64)
    frame = line.wrap(PUBACK)
    for at in range(1, len(frame)):
        put_in = frame[:at] + bytes((octet,)) + frame[at:]
        assert line.feed(put_in, 0.0) == [PUBACK]
    assert line.counters.bad_check == 0


def test_an_octet_that_is_not_in_the_map_is_never_removed() -> None:
    line = framing("hdlc", message_bytes_max=64, escapes=frozenset({0x11}))
    frame = line.wrap(PUBACK)
    assert line.feed(frame[:3] + b"\x11" + frame[3:], 0.0) == [PUBACK]
    assert line.feed(frame[:3] + b"\x13" + frame[3:], 0.0) == []
    assert line.counters.bad_check == 1


def test_every_wrong_bit_is_noticed() -> None:
    line = framing("hdlc", message_bytes_max=64)
    frame = line.wrap(PUBACK)
    for at in range(1, len(frame) - 1):
        for bit in range(8):
            damaged = bytearray(frame)
            damaged[at] ^= 1 << bit
            assert line.feed(bytes(damaged), 0.0) == []
            assert line.feed(frame, 0.0) == [PUBACK]
    assert line.counters.resyncs == 8 * (len(frame) - 2)


def test_only_control_characters_are_escaped_besides() -> None:
    with pytest.raises(ValueError, match="below 0x20"):
        HdlcFrames(100, frozenset({0x41}))

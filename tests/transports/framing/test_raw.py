"""When bare messages are waited for, and which damage is believed to be over."""

from __future__ import annotations

import pytest

from gateway.frames import Pingreq, Puback, Publish, encode
from gateway.transports.serial.framing_choice import framing

PING = encode(Pingreq())
PUBLISH = encode(Publish(5, 7, b"21.5", qos=1))


def test_a_gap_is_waited_for_while_a_message_is_not_whole() -> None:
    line = framing("raw", message_bytes_max=64, gap_s=0.05)
    assert line.wait_s(9.0) is None
    line.feed(PUBLISH[:4], 10.0)
    assert line.wait_s(10.02) == pytest.approx(0.03)
    assert line.wait_s(11.0) == 0.0
    line.feed(PUBLISH[4:6], 10.04)
    assert line.wait_s(10.04) == pytest.approx(0.05)
    assert line.feed(PUBLISH[6:], 10.06) == [PUBLISH]
    assert line.wait_s(10.06) is None


@pytest.mark.parametrize("last_received_at", [0.1, 1.3, 1e5 + 0.7, 1e9 / 3])
def test_the_gap_is_over_when_it_was_waited_for(last_received_at: float) -> None:
    line = framing("raw", message_bytes_max=64, gap_s=0.05)
    line.feed(PUBLISH[:4], last_received_at)
    wait_s = line.wait_s(last_received_at)
    assert wait_s is not None
    line.feed(b"", last_received_at + wait_s)
    wait_s = line.wait_s(last_received_at + wait_s)
    # A float cannot always say the sum; then the second wait is the rest of it.
    assert wait_s is None or wait_s < 1e-6


def test_noise_without_end_is_waited_for_as_well() -> None:
    line = framing("raw", message_bytes_max=64)
    line.feed(b"\xff" * 64, 0.0)
    assert line.held_bytes == 0
    assert line.wait_s(0.0) == 0.05
    # Still no place at which a message could begin.
    assert line.feed(PING, 0.01) == []
    assert line.feed(b"", 0.1) == []
    assert line.feed(PING, 0.2) == [PING]
    assert line.counters.bad_check == 1


def test_the_end_of_a_cut_message_is_not_taken_for_a_message() -> None:
    line = framing("raw", message_bytes_max=64)
    cut = encode(Publish(5, 7, b"........" + PING, qos=1))[1:]
    assert line.feed(cut, 0.0) + line.feed(b"", 1.0) == []
    assert line.counters.bad_check == 1


def test_a_late_rest_is_no_rest_when_it_is_a_message_itself() -> None:
    line = framing("raw", message_bytes_max=64)
    puback = encode(Puback(5, 7, 0))
    # Its last seven octets are missing, and what comes next has seven.
    line.feed(encode(Publish(5, 7, b"0123456", qos=1))[:-7], 0.0)
    assert line.feed(puback, 1.0) == [puback]
    assert line.counters.bad_check == 1

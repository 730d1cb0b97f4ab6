"""What waits for a line, and how fast it goes there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.transports.framing.outflow import CHUNK_BYTES, WAITING_S, LineOutflow

RATE = 960.0  # octets a second: 9600 baud


def test_without_pauses_everything_goes_at_once_and_in_order() -> None:
    outflow = LineOutflow(RATE)
    assert outflow.next(0.0) == b""
    for frame in (b"one", b"two", b"three"):
        assert outflow.put(frame)
    assert outflow.waiting_bytes == 11
    assert outflow.next(0.0) == b"onetwothree"
    outflow.taken(11, 0.0)
    assert (outflow.next(0.0), outflow.waiting_bytes, outflow.wait_s(0.0)) == (b"", 0, None)


def test_what_the_line_did_not_take_goes_first_next_time() -> None:
    outflow = LineOutflow(RATE)
    outflow.put(b"one")
    assert outflow.next(0.0) == b"one"
    outflow.taken(2, 0.0)
    outflow.put(b"two")
    assert outflow.next(9.0) == b"e"
    outflow.taken(1, 9.0)
    assert outflow.next(9.0) == b"two"


def test_one_write_is_not_endless() -> None:
    outflow = LineOutflow(1e6)
    for _ in range(100):
        outflow.put(bytes(100))
    assert CHUNK_BYTES <= len(outflow.next(0.0)) < CHUNK_BYTES + 100


def test_no_more_waits_than_the_line_takes_in_a_few_seconds() -> None:
    outflow = LineOutflow(RATE)
    count = 0
    while outflow.put(bytes(100)):
        count += 1
    assert count == int(RATE * WAITING_S / 100)
    outflow.taken(len(outflow.next(0.0)), 0.0)
    assert outflow.put(bytes(100))


def test_a_single_frame_may_be_larger_than_that() -> None:
    outflow = LineOutflow(RATE)
    assert outflow.put(bytes(100_000))
    assert not outflow.put(b"x")


def test_a_pause_follows_each_frame_once_it_is_on_the_line() -> None:
    outflow = LineOutflow(100.0, gap_s=0.5)
    outflow.put(b"0123456789")
    outflow.put(b"next")
    assert outflow.next(1.0) == b"0123456789"
    outflow.taken(4, 1.0)
    assert outflow.wait_s(1.0) is None  # for the pause; it is the line that is waited for
    assert outflow.next(1.2) == b"456789"
    outflow.taken(6, 2.0)
    # 10 octets take 0.1 s, then the pause.
    assert outflow.wait_s(2.0) == pytest.approx(0.1 + 0.5)
    assert outflow.next(2.5) == b""
    assert outflow.wait_s(3.0) == 0.0
    assert outflow.next(2.6) == b"next"


def test_bursts_are_parts_of_one_frame() -> None:
    outflow = LineOutflow(1000.0, burst_bytes_max=4, gap_s=0.01)
    outflow.put(b"0123456789")
    outflow.put(b"ab")
    sent, now = [], 0.0
    while octets := outflow.next(now):
        sent.append(octets)
        outflow.taken(len(octets), now)
        now += outflow.wait_s(now) or 0.0
    assert sent == [b"0123", b"4567", b"89", b"ab"]


@pytest.mark.parametrize("gap_s", [0.0, 60.0])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_what_waits_for_a_line_that_is_gone_is_given_up_and_counted(
    gap_s: float, taken: int
) -> None:
    outflow = LineOutflow(RATE, burst_bytes_max=2, gap_s=gap_s)
    for frame in (b"first", b"second", b"third"):
        outflow.put(frame)
    outflow.next(0.0)
    outflow.taken(taken, 0.0)
    assert outflow.clear() == 3
    assert (outflow.waiting_bytes, outflow.next(0.0), outflow.clear()) == (0, b"", 0)
    outflow.put(b"new")
    assert outflow.next(0.0)[:2] == b"ne"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=20),
    st.integers(0, 9),
    st.sampled_from([0.0, 0.01]),
    st.integers(1, 50),
)
def test_what_goes_out_is_what_was_put_in(
    frames: list[bytes], burst: int, gap_s: float, takes: int
) -> None:
    outflow = LineOutflow(1e4, burst_bytes_max=burst, gap_s=gap_s)
    assert all(map(outflow.put, frames))
    sent, now = b"", 0.0
    for _ in range(10_000):
        if not outflow.waiting_bytes:
            break
        octets = outflow.next(now)[:takes]
        sent += octets
        outflow.taken(len(octets), now)
        now += 0.005
    assert (sent, outflow.waiting_bytes) == (b"".join(frames), 0)

"""What must hold for any bytes in any pieces."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.frames import Connect, Forwarded, Pingreq, Puback, Publish, Register, WillMsg, encode
from gateway.transports.framing.chatter import LINE_BYTES_MAX
from gateway.transports.framing.hdlc import CONTROL_BYTES
from gateway.transports.serial.framing_choice import DEFAULT_ESCAPES, FramingKind, framing
from tests.support.samples import examples

KINDS: tuple[FramingKind, ...] = ("hdlc", "slip", "raw")
EACH_KIND = pytest.mark.parametrize("kind", KINDS)
MESSAGE_BYTES_MAX = 64
# On the line every octet of a message and its FCS may be escaped.
FRAME_OCTETS_MAX = {
    "hdlc": 2 * (MESSAGE_BYTES_MAX + 2),
    "slip": 2 * MESSAGE_BYTES_MAX,
    "raw": MESSAGE_BYTES_MAX,
}

MESSAGES = st.one_of(
    st.builds(
        lambda payload, ids: encode(Publish(ids, ids, payload, qos=1)),
        st.binary(max_size=57),
        st.integers(0, 65_535),
    ),
    st.builds(
        lambda ids, code: encode(Puback(ids, ids, code)),
        st.integers(0, 65_535),
        st.integers(0, 255),
    ),
    st.builds(lambda name: encode(Connect(name, 60)), st.binary(max_size=23)),
    st.builds(lambda name: encode(Register(0, 1, name)), st.binary(min_size=1, max_size=58)),
    st.builds(lambda text: encode(WillMsg(text.encode("ascii"))), st.text("ab \n", max_size=40)),
    st.builds(
        lambda node: encode(Forwarded(node, encode(Pingreq(b"dev1")))), st.binary(max_size=8)
    ),
)
# Octets that mean something in one of the framings are as likely as all others together.
NOISE = st.lists(
    st.sampled_from(list(b"\x7e\x7d\xc0\xdb\xdc\xdd\x01\x02\x16\x0c\xfe\n\r }^"))
    | st.integers(0, 255),
    max_size=300,
).map(bytes)
CUTS = st.lists(st.integers(1, 40), max_size=40)


def cut(octets: bytes, sizes: list[int]) -> list[bytes]:
    """In pieces of these sizes, and the rest."""
    pieces = []
    for size in sizes:
        pieces.append(octets[:size])
        octets = octets[size:]
    return [*pieces, octets]


@EACH_KIND
@given(st.lists(NOISE | MESSAGES, max_size=6), CUTS, st.booleans())
@examples(times=2)
def test_no_octets_raise_and_no_more_than_a_frame_is_held(
    kind: FramingKind, parts: list[bytes], sizes: list[int], is_slow: bool
) -> None:
    lines: list[bytes] = []
    line = framing(kind, message_bytes_max=MESSAGE_BYTES_MAX, chatter=lines.append)
    now = 0.0
    received = []
    for piece in cut(b"".join(parts), sizes):
        received += line.feed(piece, now)
        assert line.held_bytes <= FRAME_OCTETS_MAX[kind]
        wait_s = line.wait_s(now)
        if is_slow and wait_s is not None:
            now += wait_s
            received += line.feed(b"", now)
            assert line.wait_s(now) is None
            assert line.held_bytes == 0
    assert all(2 <= len(message) <= MESSAGE_BYTES_MAX for message in received)
    assert all(0 < len(text) <= LINE_BYTES_MAX for text in lines)
    assert line.counters.good == len(received)


@EACH_KIND
@given(st.lists(MESSAGES, max_size=8), CUTS)
@examples(times=2)
def test_messages_survive_any_cut(
    kind: FramingKind, messages: list[bytes], sizes: list[int]
) -> None:
    line = framing(kind, message_bytes_max=MESSAGE_BYTES_MAX)
    octets = b"".join(map(line.wrap, messages))
    received = [message for piece in cut(octets, sizes) for message in line.feed(piece, 0.0)]
    assert received == messages
    assert line.held_bytes == 0
    assert line.counters.resyncs == 0


@pytest.mark.parametrize("kind", ["hdlc", "slip"])
@given(NOISE, MESSAGES, CUTS)
@examples(times=2)
def test_where_frames_have_marks_any_noise_costs_no_frame_behind_it(
    kind: FramingKind, noise: bytes, message: bytes, sizes: list[int]
) -> None:
    line = framing(kind, message_bytes_max=MESSAGE_BYTES_MAX)
    pieces = cut(noise + line.wrap(message), sizes)
    assert [got for piece in pieces for got in line.feed(piece, 0.0)][-1] == message


@EACH_KIND
@given(NOISE, MESSAGES, CUTS)
@examples(times=2)
def test_after_a_silence_any_message_is_received(
    kind: FramingKind, noise: bytes, message: bytes, sizes: list[int]
) -> None:
    line = framing(kind, message_bytes_max=MESSAGE_BYTES_MAX)
    for piece in cut(noise, sizes):
        line.feed(piece, 0.0)
    line.feed(b"", 1.0)
    assert line.feed(line.wrap(message), 2.0)[-1] == message


@EACH_KIND
@given(NOISE, MESSAGES)
def test_after_a_reset_it_is_as_new(kind: FramingKind, noise: bytes, message: bytes) -> None:
    line = framing(kind, message_bytes_max=MESSAGE_BYTES_MAX)
    line.feed(noise, 0.0)
    line.reset()
    assert line.held_bytes == 0
    assert line.wait_s(0.0) is None
    assert line.feed(line.wrap(message), 0.0) == [message]


@given(st.sets(st.sampled_from(sorted(CONTROL_BYTES))), MESSAGES)
def test_no_octet_of_the_map_goes_on_the_line(escapes: set[int], message: bytes) -> None:
    sender = framing("hdlc", message_bytes_max=MESSAGE_BYTES_MAX, escapes=frozenset(escapes))
    octets = sender.wrap(message)
    assert not escapes & set(octets)
    assert octets.count(b"\x7e") == 2
    # Whatever map the receiver has.
    for receivers in (frozenset[int](), DEFAULT_ESCAPES, CONTROL_BYTES):
        line = framing("hdlc", message_bytes_max=MESSAGE_BYTES_MAX, escapes=receivers)
        assert line.feed(octets, 0.0) == [message]


@EACH_KIND
@pytest.mark.parametrize(
    "pattern",
    [
        b"\x00",
        b"\xff",
        b"\x7d",
        b"\xdb",
        b"A",
        b"line of text\r\n",
        b"\xc3\xa4\n",
        b"\x01\x04\x00\x0c",
        b"\xff\xfe\x00",
    ],
)
def test_no_octets_leave_memory_behind(kind: FramingKind, pattern: bytes) -> None:
    line = framing(kind, message_bytes_max=1024)
    octets = pattern * 64
    line.feed(octets, 0.0)
    tracemalloc.start()
    try:
        for number in range(20_000 // len(octets)):
            line.feed(octets, number * 0.001)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 16 * 1024


def calls_in(work: Callable[[], object]) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@EACH_KIND
def test_the_cost_of_noise_grows_with_its_length_only(kind: FramingKind) -> None:
    """Calls, not seconds. Everywhere in it messages begin, and none of them leads to the end."""

    def calls(octets: int) -> int:
        noise = b"\x00" + bytes((2, 0x16)) * (octets // 2) + bytes(30)
        line = framing(kind, message_bytes_max=2 * octets)
        return calls_in(lambda: line.feed(noise, 0.0) + line.feed(b"", 9.0))

    assert calls(8192) < 10 * calls(1024)


def test_a_map_of_octets_that_may_not_be_escaped_is_refused() -> None:
    with pytest.raises(ValueError, match=r"below 0x20, got \{94\}"):
        framing("hdlc", message_bytes_max=64, escapes=frozenset({0x5E}))

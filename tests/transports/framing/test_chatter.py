"""What a board prints on the line of its frames is handed out to be read."""

from __future__ import annotations

import pytest

from gateway.frames import Pingreq, WillMsg, encode
from gateway.transports.framing.chatter import LINE_BYTES_MAX, is_text, shown
from gateway.transports.serial.framing_choice import Framing, FramingKind, framing

EACH_KIND = pytest.mark.parametrize("kind", ["hdlc", "slip", "raw"])
WITH_MARKS = pytest.mark.parametrize("kind", ["hdlc", "slip"])
PING = encode(Pingreq())
BOOT = (
    b"ets Jul 29 2019 12:21:46\r\n\r\nrst:0x1 (POWERON_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)\r\n"
)
BOOT_LINES = [
    b"ets Jul 29 2019 12:21:46",
    b"rst:0x1 (POWERON_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)",
]


class Heard:
    """A line and what was heard on it."""

    def __init__(self, kind: FramingKind, message_bytes_max: int = 300) -> None:
        self.lines: list[bytes] = []
        self.on_line: Framing = framing(
            kind, message_bytes_max=message_bytes_max, chatter=self.lines.append
        )

    def after(self, *reads: bytes) -> list[bytes]:
        for octets in reads:
            self.on_line.feed(octets, 0.0)
        if self.on_line.wait_s(0.0) is not None:
            self.on_line.feed(b"", 1.0)
        return self.lines


@EACH_KIND
def test_a_boot_message_is_handed_out_in_lines_and_is_no_error(kind: FramingKind) -> None:
    heard = Heard(kind)
    assert heard.after(BOOT, heard.on_line.wrap(PING)) == BOOT_LINES
    counters = heard.on_line.counters
    assert (counters.good, counters.chatter_bytes, counters.bad_check) == (1, len(BOOT), 0)
    assert counters.resyncs == 0


@WITH_MARKS
def test_lines_are_handed_out_before_their_piece_has_an_end_and_only_once(
    kind: FramingKind,
) -> None:
    heard = Heard(kind)
    assert heard.after(BOOT[:40]) == BOOT_LINES[:1]
    assert heard.after(BOOT[40:]) == BOOT_LINES
    assert heard.after(b">>> ") == BOOT_LINES
    assert heard.on_line.counters.chatter_bytes == 0
    assert heard.after(heard.on_line.wrap(PING)) == [*BOOT_LINES, b">>> "]
    assert heard.on_line.counters.chatter_bytes == len(BOOT) + 4


@WITH_MARKS
def test_a_message_that_reads_like_text_is_received_all_the_same(kind: FramingKind) -> None:
    will = encode(WillMsg(b"greenhouse is off\nline\r\n         "))
    on_line = framing(kind, message_bytes_max=64)
    octets = on_line.wrap(will)
    received = [got for octet in octets for got in on_line.feed(bytes((octet,)), 0.0)]
    assert received == [will]
    assert on_line.counters.chatter_bytes == 0


@EACH_KIND
def test_text_without_end_is_handed_out_whole(kind: FramingKind) -> None:
    heard = Heard(kind, message_bytes_max=100)
    text = [b"reading %d: 21.5 \xc2\xb0C" % number for number in range(100)]
    heard.after(*(line + b"\r\n" for line in text))
    assert heard.on_line.counters.bad_check == 0
    assert b"".join(heard.lines) == b"".join(text)


@WITH_MARKS
def test_a_line_longer_than_a_frame_is_not_held(kind: FramingKind) -> None:
    heard = Heard(kind, message_bytes_max=50)
    assert heard.after(b"hello\n" + b"x" * 300) == [b"hello", b"x" * 200, b"x" * 100]
    assert heard.on_line.held_bytes == 0
    assert heard.after(b"y" * 80, b"\n" + b"z" * 80)[3:] == [b"y" * 80]
    assert heard.on_line.held_bytes == 80
    assert heard.on_line.counters.too_long == 0


@EACH_KIND
def test_a_long_line_is_handed_out_in_parts(kind: FramingKind) -> None:
    heard = Heard(kind)
    lines = heard.after(b"x" * 250 + b"\n", heard.on_line.wrap(PING))
    assert lines == [b"x" * LINE_BYTES_MAX, b"x" * 50]


@WITH_MARKS
def test_text_that_goes_over_into_octets_is_damage(kind: FramingKind) -> None:
    heard = Heard(kind)
    heard.after(b"hello\n", b"\xff\xfe", heard.on_line.wrap(PING))
    assert heard.lines == [b"hello"]
    assert heard.on_line.counters.chatter_bytes == 0
    assert heard.on_line.counters.bad_check == 1


@WITH_MARKS
def test_lines_that_are_no_text_after_all_are_not_handed_out(kind: FramingKind) -> None:
    assert Heard(kind).after(b"\x80\x80\n", b"\xe2\x82\n") == []


@EACH_KIND
def test_nobody_need_listen(kind: FramingKind) -> None:
    on_line = framing(kind, message_bytes_max=100)
    for _ in range(10):
        on_line.feed(BOOT, 0.0)
    on_line.feed(on_line.wrap(PING), 1.0)
    assert on_line.counters.chatter_bytes == 10 * len(BOOT)


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (b"", True),
        (b">>> print('\x1b[1mon\x1b[0m')\r\n\t\x08", True),
        ("21,5 °C ✓ 漢字 🙂".encode(), True),
        (b"21,5 \xb0C", False),  # Latin-1
        (b"\xff", False),
        (b"OK\x04", False),
        (b"\x7f", False),
        ("\u0085".encode(), True),
        (b"\xc3", False),  # half a character
        (b"\x0c\x20", False),
        (b"\x00", False),
    ],
)
def test_text_is_printable_and_utf_8(octets: bytes, expected: bool) -> None:
    assert is_text(octets) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b">>> ", ">>>"),
        (b"\x1b[0;31mE (12) wifi: off\x1b[0m", "E (12) wifi: off"),
        (b"\x1b]0;title\x07\x08\tx", "]0;titlex"),
        ("21,5 °C\u009b2J".encode(), "21,5 °C2J"),
        (b"\xff", "\ufffd"),
    ],
)
def test_a_line_that_is_shown_gives_a_terminal_no_commands(line: bytes, expected: str) -> None:
    assert shown(line) == expected

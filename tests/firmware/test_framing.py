"""The node's serial framing agrees with the gateway's by the same golden file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.mqttsn.framing import Decoder, check, encode
from tests.support.samples import for_each

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "serial.txt"
MESSAGE_OCTETS_MAX = 302


def octets_of(text: str) -> bytes:
    """Hex, with 78*300 for 78 three hundred times; what only says when it is read is left out."""
    found = bytearray()
    for word in text.replace("/", " ").replace("~", " ").split():
        pattern, _, times = word.partition("*")
        found += bytes.fromhex(pattern) * int(times or 1)
    return bytes(found)


def rows(direction: str) -> list[tuple[str, bytes, list[bytes]]]:
    found = []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) >= 5 and fields[1] == "hdlc" and fields[4].startswith(direction):
            messages = [octets_of(one) for one in fields[3].split(",") if one.strip() != "-"]
            found.append((fields[0], octets_of(fields[2]), messages))
    return found


def decoded(line: bytes) -> list[bytes]:
    """What an engine would look at: frames of the length that they say."""
    decoder, buffer = Decoder(), bytearray(MESSAGE_OCTETS_MAX + 2)
    frames = []
    for octet in line:
        size = decoder.push(octet, buffer)
        if size:
            frames.append(bytes(buffer[:size]))
    return [frame for frame in frames if says_its_length(frame)]


def says_its_length(frame: bytes) -> bool:
    if frame[0] == 0xFE or frame[1] == 0xFE:
        return True  # a forwarder's, which no node is
    if frame[0] == 1:
        length = int.from_bytes(frame[1:3], "big")
        return length in (len(frame), len(frame) - 2)  # Paho's library counts two too few
    return frame[0] == len(frame)


@for_each("row", rows("sent"))
def test_what_is_sent_is_what_the_golden_file_has(row: tuple[str, bytes, list[bytes]]) -> None:
    name, line, (message,) = row
    out = bytearray(2 * len(message) + 6)
    size = encode(bytearray(message), len(message), out)
    assert bytes(out[:size]) == line, name


@for_each("row", rows("sent") + rows("received"))
def test_what_is_received_is_what_the_golden_file_has(row: tuple[str, bytes, list[bytes]]) -> None:
    name, line, messages = row
    assert decoded(line) == messages, name


def test_the_golden_file_has_rows_of_both_kinds() -> None:
    assert len(rows("sent")) >= 10
    assert len(rows("received")) >= 20


@given(st.binary(min_size=2, max_size=300))
def test_any_frame_comes_back_within_the_room_that_is_promised(frame: bytes) -> None:
    line = bytearray(2 * len(frame) + 6)
    size = encode(bytearray(frame), len(frame), line)
    decoder, buffer = Decoder(), bytearray(302)
    sizes = [decoder.push(octet, buffer) for octet in line[:size]]
    assert [size for size in sizes if size] == [len(frame)]
    assert bytes(buffer[: len(frame)]) == frame
    assert decoder.dropped == 0


@given(st.binary(max_size=2000))
def test_noise_fills_no_more_than_the_buffer(noise: bytes) -> None:
    decoder, buffer = Decoder(), bytearray(64)
    for octet in noise:
        decoder.push(octet, buffer)
    assert len(buffer) == 64


def test_the_check_is_the_one_of_x25() -> None:
    assert check(bytearray(b"123456789"), 9) ^ 0xFFFF == 0x906E


@pytest.mark.parametrize(
    ("line", "dropped"),
    [("7e 070d0005000600 e85d 7e", 1), ("7e" + "00" * 70 + "7e", 1), ("7e 7e 7e", 0)],
)
def test_what_is_dropped_is_counted(line: str, dropped: int) -> None:
    decoder, buffer = Decoder(), bytearray(64)
    for octet in bytes.fromhex(line):
        decoder.push(octet, buffer)
    assert decoder.dropped == dropped

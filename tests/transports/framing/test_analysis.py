"""What a port says, in words, for those who do not know what is at its other end."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.frames import Connect, Forwarded, Pingreq, Publish, encode
from gateway.transports.framing.analysis import NODES_MAX, LineAnalysis, LineContent, What
from gateway.transports.framing.hdlc import HdlcFrames, fcs
from gateway.transports.framing.text_kinds import LINES_KEPT_MAX
from gateway.transports.serial.framing_choice import FramingKind, framing

BOOT = (
    b"ets Jul 29 2019 12:21:46\r\n\r\nrst:0x1 (POWERON_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)\r\n"
)
BROWNOUT = b"rst:0xf (RTCWDT_BROWN_OUT_RESET),boot:0x13 (SPI_FAST_FLASH_BOOT)\r\n"
REPL = b'MicroPython v1.27.0 on 2025-12-09; ESP32S3\r\nType "help()" for more information.\r\n>>> '
PING = encode(Pingreq())


def conversation(count: int) -> list[bytes]:
    dice = Random(count)
    return [
        encode(Connect(b"dev1", 60)),
        *(encode(Publish(5, number, dice.randbytes(12), qos=1)) for number in range(1, count)),
    ]


def analysed(octets: bytes, baud: int = 115_200, chunk: int = 64) -> LineContent:
    listener = LineAnalysis(baud)
    for at in range(0, len(octets), chunk):
        now = at / 11_520
        wait_s = listener.wait_s(now)
        assert wait_s is None or wait_s >= 0
        listener.feed(octets[at : at + chunk], now)
    return listener.result(10.0)


def spoken(kind: FramingKind, messages: Sequence[bytes]) -> bytes:
    return b"".join(map(framing(kind, message_bytes_max=300).wrap, messages))


@pytest.mark.parametrize(
    ("kind", "what", "text"),
    [
        ("hdlc", What.HDLC, "RFC 1662 frames, 1 node, 0 % bad FCS"),
        ("slip", What.SLIP, "SLIP frames, 1 node, 0 % no message"),
        ("raw", What.RAW, "MQTT-SN without framing (raw), 1 node, 0 % no message"),
    ],
)
def test_each_framing_is_known_and_named_as_the_configuration_has_it(
    kind: FramingKind, what: What, text: str
) -> None:
    told = analysed(spoken(kind, conversation(50)))
    assert (told.what, told.text, told.messages, told.nodes) == (what, text, 50, 1)
    assert f'framing = "{kind}"' in told.advice
    assert told.lines == ()


@pytest.mark.parametrize("kind", ["hdlc", "slip", "raw"])
def test_one_message_is_enough(kind: FramingKind) -> None:
    assert analysed(spoken(kind, [PING])).what.value == kind


def test_nodes_behind_a_forwarder_are_counted_and_so_is_who_is_none() -> None:
    messages = [encode(Forwarded(bytes((node,)), PING)) for node in (1, 2, 3, 1)]
    assert analysed(spoken("hdlc", messages)).text == "RFC 1662 frames, 3 nodes, 0 % bad FCS"
    assert analysed(spoken("hdlc", [*messages, PING])).nodes == 4


def test_no_more_nodes_are_remembered_than_a_line_can_have() -> None:
    messages = [encode(Forwarded(node.to_bytes(2), PING)) for node in range(NODES_MAX + 5)]
    told = analysed(spoken("hdlc", messages))
    assert told.nodes == NODES_MAX
    assert "1000 nodes or more" in told.text


def test_a_type_that_nobody_knows_is_a_node_s_as_well() -> None:
    assert analysed(spoken("hdlc", [b"\x02\x40"])).nodes == 1


def test_damaged_frames_are_told_as_a_share() -> None:
    good = spoken("hdlc", conversation(199))
    told = analysed(good + b"\x7e\x07\x0d\x00\x00\x00\x00\x00\x00\x7e")
    assert told.text == "RFC 1662 frames, 1 node, 0.5 % bad FCS"
    assert told.bad_share == pytest.approx(1 / 200)


def test_text_between_frames_is_told_beside_them() -> None:
    told = analysed(REPL + b"\r\n" + spoken("hdlc", conversation(9)))
    assert told.text == (
        "RFC 1662 frames, 1 node, 0 % bad FCS; between them text: looks like a MicroPython REPL"
    )
    assert told.lines[-1].startswith(">>>")


def test_a_board_that_restarts_is_told_beside_its_frames() -> None:
    told = analysed((BROWNOUT + spoken("hdlc", conversation(3))) * 4)
    assert told.text.endswith("the board started 4 times, the last time for RTCWDT_BROWN_OUT_RESET")


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (REPL, "text: looks like a MicroPython REPL"),
        (BOOT + REPL, "text: looks like a MicroPython REPL"),
        (b"\r\n>>> ", "text: looks like a MicroPython REPL"),
        (b"raw REPL; CTRL-B to exit\r\n>", "text: looks like a MicroPython REPL"),
        (
            b'Traceback (most recent call last):\r\n  File "main.py", line 3\r\nOSError: 19\r\n',
            "text: looks like a MicroPython REPL",
        ),
        (BOOT, "ESP32 boot ROM messages at 115200 baud"),
        (
            BOOT * 3,
            "ESP32 boot ROM messages at 115200 baud; the board started 3 times, the last time for "
            "POWERON_RESET",
        ),
        (
            b"ESP-ROM:esp32s3-20210327\r\nBuild:Mar 27 2021\r\n",
            "ESP32 boot ROM messages at 115200 baud",
        ),
        (b"Adafruit CircuitPython 9.2.1\r\n>>> ", "text: looks like a CircuitPython console"),
        (b"*** Booting Zephyr OS build v4.0.0 ***\r\nuart:~$ ", "text: looks like a Zephyr shell"),
        (b"\x1b[0;32mI (325) wifi: connected\x1b[0m\r\n", "text: looks like a log of ESP-IDF"),
        (
            b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n",
            "text: looks like a GPS receiver (NMEA 0183)",
        ),
        (b"raspberrypi login: ", "text: looks like a Linux console"),
        (b"\r\nOK\r\n", "text: looks like a modem"),
        (b"temperature 21.5\r\n", "text: looks like nothing known here"),
    ],
)
def test_text_is_told_by_whose_it_is(octets: bytes, text: str) -> None:
    for chunk in (1, 7, 1000):
        told = analysed(octets, chunk=chunk)
        assert (told.what, told.text) == (What.TEXT, text)
        assert told.advice
        assert 0 < len(told.lines) <= LINES_KEPT_MAX


def test_a_glitch_before_the_text_does_not_hide_it() -> None:
    assert analysed(b"\x00\xff\xfe" + BOOT).text == "ESP32 boot ROM messages at 115200 baud"


@pytest.mark.parametrize("baud", [9600, 115_200])
def test_noise_is_probably_another_baud_rate(baud: int) -> None:
    told = analysed(Random(1).randbytes(4000), baud=baud)
    assert (told.what, told.text) == (
        What.NOISE,
        f"noise at {baud} baud: probably another baud rate",
    )
    assert f" {baud}," not in told.advice
    assert "57600" in told.advice


def test_a_line_that_is_held_low_is_told_from_noise() -> None:
    assert analysed(bytes(500) + b"\x80").text.startswith("zeros only")


def test_silence_is_told_with_its_length() -> None:
    told = LineAnalysis(115_200).result(10.0)
    assert (told.what, told.text) == (What.NOTHING, "nothing in 10 s")


def test_frames_of_others_are_told_from_noise() -> None:
    dice = Random(2)
    lcp = bytes.fromhex("ff03c02101010004")
    ppp = b"\x7e" + lcp + fcs(lcp) + b"\x7e"
    assert analysed(ppp).text.startswith("RFC 1662 frames with a right FCS, but no MQTT-SN")
    xbee = b"".join(b"\x7e\x00\x10" + dice.randbytes(17) for _ in range(20))
    assert analysed(xbee).text.startswith("frames between bytes 7E, none with the FCS")
    ip = b"".join(b"\xc0\x45\x00" + dice.randbytes(40) + b"\xc0" for _ in range(20))
    assert analysed(ip).text.startswith("frames between bytes C0, but no MQTT-SN")


@given(st.lists(st.binary(max_size=80), max_size=20))
def test_anything_is_told_in_words(pieces: list[bytes]) -> None:
    told = analysed(b"".join(pieces), chunk=13)
    assert told.text
    assert told.advice
    assert all(line.isprintable() for line in told.lines)


def test_a_line_with_another_map_is_understood() -> None:
    octets = b"".join(map(HdlcFrames(300, frozenset()).wrap, conversation(20)))
    assert analysed(octets).text == "RFC 1662 frames, 1 node, 0 % bad FCS"

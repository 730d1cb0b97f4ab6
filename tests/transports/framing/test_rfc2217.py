"""RFC 2217 as bytes, written from RFC 854, 2217 and their tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.transports.framing.rfc2217 import SUBNEGOTIATION_BYTES_MAX, ComPort, PortSettings

WILL, WONT, DO, DONT = b"\xff\xfb", b"\xff\xfc", b"\xff\xfd", b"\xff\xfe"
BINARY, ECHO, GO_AHEAD, COM_PORT = b"\x00", b"\x01", b"\x03", b"\x2c"
TERMINAL_TYPE = b"\x18"

SETTINGS = PortSettings(115_200, "even", 2, rtscts=True)
ASKED = (
    b"\xff\xfa\x2c\x01\x00\x01\xc2\x00\xff\xf0"
    b"\xff\xfa\x2c\x02\x08\xff\xf0"
    b"\xff\xfa\x2c\x03\x03\xff\xf0"
    b"\xff\xfa\x2c\x04\x02\xff\xf0"
    b"\xff\xfa\x2c\x05\x03\xff\xf0"
    b"\xff\xfa\x2c\x0c\x03\xff\xf0"
)
CONFIRMED = (
    b"\xff\xfa\x2c\x65\x00\x01\xc2\x00\xff\xf0",
    b"\xff\xfa\x2c\x66\x08\xff\xf0",
    b"\xff\xfa\x2c\x67\x03\xff\xf0",
    b"\xff\xfa\x2c\x68\x02\xff\xf0",
)


def agreed(settings: PortSettings = SETTINGS) -> ComPort:
    port = ComPort(settings)
    port.begin()
    port.receive(DO + COM_PORT)
    return port


def ready() -> ComPort:
    port = agreed()
    port.receive(b"".join(CONFIRMED))
    assert port.is_ready
    return port


def test_it_begins_with_the_option_of_the_port_and_a_clean_channel() -> None:
    assert ComPort(SETTINGS).begin() == (
        WILL + COM_PORT + WILL + GO_AHEAD + WILL + BINARY + DO + BINARY + DO + GO_AHEAD
    )


def test_all_settings_go_out_when_the_server_agrees() -> None:
    port = ComPort(SETTINGS)
    port.begin()
    assert port.receive(DO + COM_PORT) == (b"", ASKED)
    assert port.receive(DO + COM_PORT) == (b"", b"")


def test_it_is_ready_when_each_of_them_is_confirmed() -> None:
    port = agreed()
    for confirmation in CONFIRMED:
        assert not port.is_ready
        port.receive(confirmation)
    assert (port.is_ready, port.refusal) == (True, None)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (b"\x65\x00\x00\x01\x2c", "it has set baud to 300 instead of 115200"),
        (b"\x66\x07", "it has set bits a byte to 7 instead of 8"),
        (b"\x67\x01", "it has set parity to none instead of even"),
        (b"\x67\x09", "it has set parity to 9 instead of even"),
        (b"\x68\x01", "it has set stop bits to 1 instead of 2"),
        (b"\x65", "it has set baud to 0 instead of 115200"),
    ],
)
def test_another_value_than_was_asked_for_is_a_refusal(answer: bytes, refusal: str) -> None:
    port = agreed()
    port.receive(b"\xff\xfa\x2c" + answer + b"\xff\xf0")
    assert port.refusal == refusal


def test_a_server_without_the_option_says_so() -> None:
    port = ComPort(SETTINGS)
    port.begin()
    assert port.receive(DONT + COM_PORT) == (b"", b"")
    assert "does not speak RFC 2217" in (port.refusal or "")


@pytest.mark.parametrize("parity", ["none", "odd", "even"])
def test_parities_have_their_numbers(parity: str) -> None:
    number = {"none": 1, "odd": 2, "even": 3}[parity]
    port = ComPort(PortSettings(300, parity))  # type: ignore[arg-type]
    port.begin()
    assert b"\x2c\x03" + bytes((number,)) in port.receive(DO + COM_PORT)[1]
    assert b"\xff\xfa\x2c\x05\x01\xff\xf0" in agreed_answers(PortSettings(300))


def agreed_answers(settings: PortSettings) -> bytes:
    port = ComPort(settings)
    port.begin()
    return port.receive(DO + COM_PORT)[1]


def test_an_octet_ff_of_a_setting_is_doubled_as_in_data() -> None:
    answers = agreed_answers(PortSettings(255))
    assert b"\x2c\x01\x00\x00\x00\xff\xff\xff\xf0" in answers
    port = agreed(PortSettings(255))
    port.receive(b"\xff\xfa\x2c\x65\x00\x00\x00\xff\xff\xff\xf0")
    assert port.refusal is None
    assert port.wrap(b"a\xffb") == b"a\xff\xffb"


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (WILL + ECHO, DO + ECHO),
        (WILL + COM_PORT, DO + COM_PORT),
        (WILL + TERMINAL_TYPE, DONT + TERMINAL_TYPE),
        (WONT + TERMINAL_TYPE, b""),
        (DO + TERMINAL_TYPE, WONT + TERMINAL_TYPE),
        (DO + ECHO, WONT + ECHO),
        (DONT + ECHO, b""),
        # Answers to what we asked for are not answered.
        (WILL + BINARY, b""),
        (WONT + BINARY, b""),
        (DO + BINARY, b""),
        (DONT + BINARY, b""),
        # A second time it is a wish of the server's own.
        (DO + BINARY + DO + BINARY, WILL + BINARY),
        (WILL + BINARY + WILL + BINARY, DO + BINARY),
    ],
)
def test_other_options_are_taken_or_declined(asked: bytes, answer: bytes) -> None:
    port = ComPort(SETTINGS)
    port.begin()
    assert port.receive(asked) == (b"", answer)


def test_data_stands_between_commands() -> None:
    port = ready()
    stream = b"one\xff\xf1two\xff\xff" + CONFIRMED[0] + b"three\xff\xf0four"
    assert port.receive(stream) == (b"onetwo\xffthreefour", b"")
    assert port.receive(b"plain") == (b"plain", b"")


def test_the_server_may_ask_for_silence() -> None:
    port = ready()
    port.receive(b"\xff\xfa\x2c\x6c\xff\xf0")
    assert port.is_suspended
    port.receive(b"\xff\xfa\x2c\x6d\xff\xf0")
    assert not port.is_suspended


@pytest.mark.parametrize(
    "inside", [b"", b"\x2c", b"\x18\x65\x00", b"\x2c\x6a\xff\xff", b"\x2c\x00x"]
)
def test_what_else_is_told_of_the_port_changes_nothing(inside: bytes) -> None:
    port = ready()
    assert port.receive(b"\xff\xfa" + inside + b"\xff\xf0data") == (b"data", b"")
    assert (port.refusal, port.is_suspended) == (None, False)


def test_a_subnegotiation_without_an_end_is_not_kept_for_ever() -> None:
    port = ready()
    port.receive(b"\xff\xfa\x2c\x64" + b"x" * 1000)
    for _ in range(100):
        assert port.receive(b"x" * 1000) == (b"", b"")
    assert len(port._inside or b"") < SUBNEGOTIATION_BYTES_MAX + 1000
    assert port.receive(b"\xff\xf0data") == (b"data", b"")


@given(
    st.lists(st.sampled_from([*CONFIRMED, DO + COM_PORT, DO, b"\xff\xff", b"x", b"\xff\xfa\x2c"])),
    st.lists(st.binary(max_size=4)),
    st.integers(1, 7),
)
def test_any_octets_in_any_pieces_mean_the_same(
    words: list[bytes], noise: list[bytes], size: int
) -> None:
    stream = b"".join(words) + b"".join(noise) + b"".join(words)
    whole, cut = agreed(), agreed()
    expected = whole.receive(stream)
    data, answers = b"", b""
    for at in range(0, len(stream), size):
        some, answer = cut.receive(stream[at : at + size])
        data, answers = data + some, answers + answer
    assert (data, answers) == expected
    assert (cut.is_ready, cut.refusal) == (whole.is_ready, whole.refusal)


@given(st.binary())
def test_data_goes_there_and_back_unchanged(data: bytes) -> None:
    assert ready().receive(ComPort.wrap(data)) == (data, b"")

"""Questions and answers inside an envelope: layout."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.protection.freshness import Question, read, written
from gateway.frames import MalformedFrame

TOKEN = b"12345678"
QUESTION = Question(b"abcdefgh", 0x0102, 0x03040506, 0x0708)


def test_the_layout() -> None:
    assert written(QUESTION, TOKEN, b"\x02\x16").hex() == (
        "0003" "6162636465666768" "0102" "03040506" "0708" "3132333435363738" "0216"
    )  # fmt: skip
    assert written(None, b"", b"\x02\x16") == b"\x02\x16"


@given(
    st.sampled_from([None, QUESTION]),
    st.sampled_from([b"", TOKEN]),
    st.sampled_from([b"", b"\x02\x16"]),
)
def test_what_is_written_is_read(question: Question | None, answer: bytes, packet: bytes) -> None:
    content = written(question, answer, packet)
    found = read(content)
    assert (found.question, found.answer, found.packet) == (question, answer, packet)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_malformed(content: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        read(b"\x00" + content)


@pytest.mark.parametrize("content", ["00", "0000", "0004", "0001616263", "000231323334353637"])
def test_what_is_cut_off_is_malformed(content: str) -> None:
    with pytest.raises(MalformedFrame):
        read(bytes.fromhex(content))

"""What people are shown of a payload: a printable line, whatever a sensor sent."""

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.presence.readings import PAYLOAD_LENGTH_MAX, shown

CBOR = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.integers(-7, 9), st.text()), inner, max_size=3),
    ),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "(empty)"),
        (b"21.5", "21.5"),
        ("Gew\u00e4chs".encode(), "Gew\u00e4chs"),
        (b"a\nb", "0x610a62"),
        (b"\xff", "0xff"),
        (cbor2.dumps([{0: "t", 2: 1.5}]), '[{"n": "t", "v": 1.5}]'),
        (cbor2.dumps([{0: "t", 8: b"\1"}]), '[{"n": "t", "vd": "01"}]'),
        (cbor2.dumps([{0: "t", 99: 1}]), '[{"n": "t", "99": 1}]'),
        (cbor2.dumps([1, 2]), "0x820102"),
        (cbor2.dumps([{}]), "0x81a0"),
        (cbor2.dumps([]), "0x80"),
        (cbor2.dumps([{0: "t"}]) + b"\0", "0x81a100617400"),
        (b"\x81" * 60_000, "0x" + "81" * 49 + "..."),
        (b"x" * 101, "x" * 100 + "..."),
    ],
)
def test_text_and_packs_are_read_and_all_else_is_octets(payload: bytes, said: str) -> None:
    assert shown(payload) == said


@given(st.one_of(st.binary(max_size=300), CBOR.map(cbor2.dumps), st.lists(CBOR).map(cbor2.dumps)))
def test_any_payload_is_one_printable_line_of_bounded_length(payload: bytes) -> None:
    line = shown(payload)
    assert line.isprintable()
    assert 0 < len(line) <= PAYLOAD_LENGTH_MAX + len("...")

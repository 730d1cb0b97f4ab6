"""What payloads say: SenML, JSON, CBOR, numbers, texts, and anything at all."""

from __future__ import annotations

import math

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.presence.values import TEXT_LENGTH_MAX, VALUES_MAX, values_of

PACK = [{-2: "urn:dev:1", 0: "temperature", 1: "Cel", 2: 21.5}, {0: "humidity", 1: "%RH", 2: 40}]


DEEP = b"[" * 10_000


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (cbor2.dumps(PACK), [("temperature", 21.5, "Cel"), ("humidity", 40.0, "%RH")]),
        (b'[{"bn":"dev1","u":"V","v":3.1}]', [("dev1", 3.1, "V")]),
        (
            b'[{"bu":"Cel","bv":20,"n":"t","v":1.5},{"n":"x","vs":"on"}]',
            [("t", 21.5, "Cel"), ("x", "on", "Cel")],
        ),
        (
            b'[{"n":"door","vb":true},{"n":"raw","vd":"AQ"}]',
            [("door", True, ""), ("raw", "AQ", "")],
        ),
        (
            b'{"t":21.5,"air":{"co2":400,"deep":{"er":1}},"ok":true}',
            [("t", 21.5, ""), ("air.co2", 400.0, ""), ("ok", True, "")],
        ),
        (b"21.5", [("", 21.5, "")]),
        (b" 21 \n", [("", 21.0, "")]),
        (b"true", [("", True, "")]),
        (b"on", [("", "on", "")]),
        ("läuft".encode(), [("", "läuft", "")]),
        (b"[1, 2]", [("0", 1.0, ""), ("1", 2.0, "")]),
        (cbor2.dumps({"t": 1, "b": b"\x01\x02"}), [("t", 1.0, ""), ("b", "0x0102", "")]),
        (b"\xff\x00\x01", [("", "0xff0001", "")]),
        (b"", [("", "(empty)", "")]),
        (b"NaN", [("", "NaN", "")]),
        (b"[[[[", [("", "[[[[", "")]),
        (DEEP, [("", "[" * (TEXT_LENGTH_MAX - 3) + "...", "")]),
        (b"{}", [("", "{}", "")]),
        (b"\xf6", [("", "0xf6", "")]),
        (b"\x01\x02\x03", [("", "0x010203", "")]),
    ],
)
def test_a_payload_is_shown_as(payload: bytes, values: list[tuple[str, object, str]]) -> None:
    assert [tuple(one) for one in values_of(payload)] == values


def test_no_more_is_shown_than_a_few_short_values() -> None:
    many = values_of(cbor2.dumps({f"{number}" * 100: "x" * 100 for number in range(20)}))
    assert len(many) == VALUES_MAX
    assert all(len(one.name) <= TEXT_LENGTH_MAX for one in many)
    assert all(len(str(one.value)) <= TEXT_LENGTH_MAX for one in many)


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_whatever_it_is_it_never_raises_and_is_bounded(payload: bytes) -> None:
    values = values_of(payload)
    assert 1 <= len(values) <= VALUES_MAX
    for name, value, unit in values:
        assert max(len(name), len(unit)) <= TEXT_LENGTH_MAX
        assert not isinstance(value, float) or math.isfinite(value)
        assert f"{name}{unit}".isprintable()

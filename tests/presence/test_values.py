"""What payloads say: SenML, JSON, CBOR, numbers, texts, and anything at all."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, datetime
from decimal import Decimal

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.presence.values import (
    PAYLOAD_BYTES_MAX,
    TEXT_LENGTH_MAX,
    VALUES_MAX,
    Content,
    content_of,
    found_in,
    number_text,
    values_of,
)

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
            [("t", 21.5, ""), ("air.co2", 400, ""), ("air.deep.er", 1, ""), ("ok", True, "")],
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


# All of a reading, for Home Assistant


def contents(payload: bytes) -> list[tuple[str, object]]:
    return [(each.name, each.value) for each in content_of(payload, 64, 255).values]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\xfa" + struct.pack(">f", 41.3), "41.3"),
        (b"\xf9" + struct.pack(">e", 21.6), "21.6"),
        (b"\xfa" + struct.pack(">f", 16777216.0), "16777216"),
        (b"\xfa" + struct.pack(">f", 3.4e38), "3.4e+38"),
        (b"\xfb" + struct.pack(">d", 41.29999923706055), "41.29999923706055"),
        (cbor2.dumps(80), "80"),
        (b"80", "80"),
        (b"80.0", "80"),
        (b"9007199254740993", "9007199254740993"),
        (cbor2.dumps(2**70), str(2**70)),
        (b"0.12345678901234567890123", "0.12345678901234567890123"),
        (b"0.1234567890123456", "0.1234567890123456"),
        (cbor2.dumps(Decimal("273.15")), "273.15"),
        (cbor2.dumps(Decimal("0.1234567890123456789012345")), "0.1234567890123456789012345"),
    ],
)
def test_a_number_is_as_exact_as_its_sensor_wrote_it(payload: bytes, text: str) -> None:
    ((_, value),) = contents(payload)
    assert isinstance(value, int | float)
    assert number_text(value) == text
    assert json.loads(text, parse_float=Decimal) == Decimal(text)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"t":null}',
        b'{"t":NaN}',
        b'{"t":1e400}',
        cbor2.dumps({"t": None}),
        cbor2.dumps({"t": cbor2.undefined}),
        cbor2.dumps({"t": math.nan}),
        cbor2.dumps({"t": Decimal("NaN")}),
        cbor2.dumps([{0: "t", 2: math.inf}]),
        b'[{"n":"t","v":null}]',
        b'{"t":1' + 301 * b"0" + b"}",
    ],
)
def test_null_and_what_is_no_number_is_a_value_that_is_unknown(payload: bytes) -> None:
    assert contents(payload) == [("t", None)]
    assert found_in(payload) == [], "and is nothing to look at"


@pytest.mark.parametrize(
    ("payload", "values"),
    [
        (b'[{"bn":"a/","n":"t","v":1},{"bn":"b/","n":"t","v":2}]', [("a/t", 1), ("b/t", 2)]),
        (b'[{"bn":"a/","n":"t","v":1},{"n":"h","v":2}]', [("t", 1), ("h", 2)]),
        (b'[{"n":"energy","v":3,"s":40,"bs":2}]', [("energy", 3), ("energy.sum", 42)]),
        (b'[{"bv":0.1,"n":"t","v":0.2}]', [("t", 0.3)]),
        (b'[{"bv":20,"n":"t","v":1}]', [("t", 21)]),
        (b'{"a.b":1,"a":{"b":2}}', [("a.b", 1), ("a.b (2)", 2)]),
        (b'{"a":{"b":{"c":[1,{"d":true}]}}}', [("a.b.c.0", 1), ("a.b.c.1.d", True)]),
        (b'{"a":{},"b":1}', [("b", 1)]),
        (
            cbor2.dumps({"at": datetime(2026, 1, 2, tzinfo=UTC)}),
            [("at", "2026-01-02T00:00:00+00:00")],
        ),
    ],
)
def test_what_is_nested_summed_or_of_two_bases_has_a_name_of_its_own(
    payload: bytes, values: list[tuple[str, object]]
) -> None:
    assert contents(payload) == values


def test_two_names_that_differ_far_behind_are_two() -> None:
    names = ["x" * 100 + "1", "x" * 100 + "2"]
    payload = json.dumps(dict.fromkeys(names, 1)).encode()
    assert [name for name, _ in contents(payload)] == names


def test_what_is_left_out_of_a_reading_is_named() -> None:
    many = content_of(json.dumps({f"n{number}": number for number in range(5)}).encode(), 4, 255)
    assert (len(many.values), many.is_more) == (4, True)
    long = content_of(json.dumps({"a": "x" * 256, "b": "y" * 255}).encode(), 64, 255)
    assert long.cut == ("a",)
    assert [len(str(each.value)) for each in long.values] == [255, 255]
    for payload in (b"\xff\x00\x01", b"{}", b"\x01\x02\x03", b" " * (PAYLOAD_BYTES_MAX + 1)):
        assert content_of(payload, 64, 255).problem
    assert content_of(b"", 64, 255) == Content([])


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_whatever_a_reading_has_is_found_without_an_error(payload: bytes) -> None:
    content = content_of(payload, 64, 255)
    assert len(content.values) <= 64
    for each in content.values:
        assert max(len(each.name), len(each.unit), len(str(each.value))) <= 310

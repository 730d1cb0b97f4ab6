"""SenML as the node writes it, read by cbor2 and by the gateway's own tools."""

from __future__ import annotations

import io
import json
import math
import struct
from fractions import Fraction
from pathlib import Path

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firmware.app.senml import number, pack, records
from gateway.cli.sensors import senml

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "senml.jsonl"
ROWS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_packs_are_those_of_the_golden_file(row: dict[str, object]) -> None:
    measured = row["measured"]
    assert isinstance(measured, list)
    inner = records([tuple(each) for each in measured])
    arguments = row["base_name"], row["base_time"], row["sequence"], len(measured), inner
    payload = pack(*arguments)  # type: ignore[arg-type]
    assert payload.hex() == row["payload_hex"]
    decoded = cbor2.load(io.BytesIO(payload))
    assert [{str(key): each[key] for key in each} for each in decoded] == row["decoded"]
    assert len(senml.decode(payload).measurements) == len(decoded)


@given(st.integers(-(2**60), 2**60), st.integers(0, 9))
@example(1, 1)
@example(2**53 * 10 + 5, 1)  # half-way between two doubles: the even one
@example((2**54 - 1) * 10, 1)
@example(-65504, 0)
@example(1, 9)
def test_a_number_is_the_nearest_double_in_as_few_octets_as_hold_it(
    digits: int, places: int
) -> None:
    payload = number(digits, places)
    found = cbor2.loads(payload)
    if isinstance(found, int):
        assert found * 10**places == digits
        assert len(payload) == len(cbor2.dumps(found))
    else:
        assert found == digits / 10**places
        assert float(Fraction(digits, 10**places)) == found
        assert payload == cbor2.dumps(found, canonical=True)


@pytest.mark.parametrize(
    ("digits", "places", "payload"),
    [
        (0, 2, "00"),
        (-1, 0, "20"),
        (2350, 2, "f94de0"),  # 23.5
        (-625, 4, "f9ac00"),  # -0.0625
        (1000005, 1, "fa47c35040"),  # 100000.5
        (2137, 2, "fb40355eb851eb851f"),  # 21.37
        (101325, 0, "1a00018bcd"),
    ],
)
def test_numbers_on_the_wire(digits: int, places: int, payload: str) -> None:
    assert number(digits, places).hex() == payload


def test_a_half_that_is_too_small_is_a_single() -> None:
    value = 2**-15
    digits = Fraction(value) * 10**15
    assert digits.denominator == 1
    assert number(int(digits), 15).hex() == "fa" + struct.pack(">f", value).hex()


def test_a_long_text_has_its_length_in_front() -> None:
    (record,) = cbor2.loads(b"\x81" + records([("x" * 300, "", 1, 0)]))
    assert record == {0: "x" * 300, 2: 1}
    assert math.isfinite(record[2])

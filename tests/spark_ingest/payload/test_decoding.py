"""Which form a payload has, plain values, and that nothing raises but UndecodableError."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import cbor2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_ingest.payload.decoding import Format, decode
from spark_ingest.payload.plain import DEPTH_MAX, POINTS_MAX
from spark_ingest.payload.record import UNIX_US_MAX, Fault, Point, UndecodableError

NOW_US = 1_800_000_000_000_000


def fault_of(payload: bytes, format: Format = Format.AUTO, **wishes: str) -> UndecodableError:
    with pytest.raises(UndecodableError) as raised:
        decode(payload, NOW_US, format=format, time_field=wishes.get("time_field"))
    return raised.value


def faults_of(payload: bytes, format: Format = Format.AUTO) -> dict[str, Fault | None]:
    points = decode(payload, NOW_US, format=format)
    assert all((each.fault is None) == (each.value is not None) for each in points)
    return {each.metric: None if each.fault is None else each.fault.fault for each in points}


def cyclic() -> bytes:
    """An array that holds itself twice, and so has as many leaves as anybody looks for."""
    return bytes.fromhex("d81c82d81d00d81d00")


def bomb() -> bytes:
    """Arrays of 100 references to the array before: 10^14 empty arrays in a few hundred bytes."""
    nested: list[object] = []
    for _ in range(7):
        nested = [nested] * 100
    return cbor2.dumps(nested, value_sharing=True)


@pytest.mark.parametrize(
    "payload",
    [b'{"air": {"t": 21.5}, "door": "open", "on": true, "gone": null}',
     cbor2.dumps({"air": {"t": 21.5}, "door": "open", "on": True, "gone": None})],
    ids=["json", "cbor"],
)  # fmt: skip
def test_each_number_text_and_truth_value_is_a_point(payload: bytes) -> None:
    assert decode(payload, NOW_US) == [
        Point("air.t", 21.5),
        Point("door", None, "open"),
        Point("on", 1.0),
    ]


@pytest.mark.parametrize(
    ("payload", "points"),
    [
        (b"21.5", [Point("value", 21.5)]),
        (b" \n-3", [Point("value", -3.0)]),
        (b"true", [Point("value", 1.0)]),
        (b'"open"', [Point("value", None, "open")]),
        (b"[1, [2, 3]]", [Point("0", 1.0), Point("1.0", 2.0), Point("1.1", 3.0)]),
        (cbor2.dumps(21.5), [Point("value", 21.5)]),
        (cbor2.dumps(7), [Point("value", 7.0)]),
        (cbor2.dumps("open"), [Point("value", None, "open")]),
        (cbor2.dumps(b"\x01\xff"), [Point("value", None, "01ff")]),
        (cbor2.dumps({1: 2, "x": [3]}), [Point("1", 2.0), Point("x.0", 3.0)]),
        (cbor2.dumps(Decimal("1.25")), [Point("value", 1.25)]),
        (cbor2.dumps(Fraction(1, 4)), [Point("value", 0.25)]),
        (cbor2.dumps(datetime(2026, 1, 2, tzinfo=UTC)),
         [Point("value", None, "2026-01-02T00:00:00+00:00")]),
    ],
)  # fmt: skip
def test_any_plain_value_is_taken(payload: bytes, points: list[Point]) -> None:
    assert decode(payload, NOW_US) == points


def test_a_topic_of_plain_text_takes_numbers_and_words() -> None:
    assert decode(b"21.5", NOW_US, format=Format.TEXT) == [Point("value", 21.5)]
    assert decode(b"OPEN", NOW_US, format=Format.TEXT) == [Point("value", None, "OPEN")]
    assert fault_of(b"\xff\xfe", Format.TEXT).fault is Fault.FORM
    assert faults_of(b"nan", Format.TEXT) == {"value": Fault.NUMBER}


@pytest.mark.parametrize(
    ("time", "unit_s"),
    [
        (1_700_000_000, 1.0),
        (1_700_000_000_000, 1e-3),
        ("2023-11-14T22:13:20Z", 1.0),
        ("2023-11-15T00:13:20+02:00", 1.0),
        ("2023-11-14T22:13:20", 1.0),
    ],
)
def test_a_field_that_says_when_is_no_value(time: object, unit_s: float) -> None:
    payload = json.dumps({"meta": {"ts": time}, "t": 21.5}).encode()
    found = decode(payload, NOW_US, time_field="meta.ts", time_unit_s=unit_s)
    assert found == [Point("t", 21.5, time_us=1_700_000_000_000_000)]


def test_a_date_of_cbor_says_when_too() -> None:
    payload = cbor2.dumps({"ts": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "t": 1})
    found = decode(payload, NOW_US, time_field="ts")
    assert found == [Point("t", 1.0, time_us=1_700_000_000_000_000)]


def test_a_number_too_long_to_show_is_described() -> None:
    (point,) = decode(cbor2.dumps({"t": -(10**400)}), NOW_US)
    assert point.fault is not None
    assert point.fault.detail == "'t' is a number of more than 20 digits"


@pytest.mark.parametrize(
    ("payload", "bad", "fault"),
    [
        (b'{"t": NaN, "h": 41.5}', "t", Fault.NUMBER),
        (b'{"t": -Infinity, "h": 41.5}', "t", Fault.NUMBER),
        (b'{"t": 1e999, "h": 41.5}', "t", Fault.NUMBER),
        (b'{"t": ' + b"1" * 10_000 + b', "h": 41.5}', "t", Fault.NUMBER),
        (b'{"t": "\\ud800", "h": 41.5}', "t", Fault.FORM),
        (b'{"\\ud800": 1, "h": 41.5}', "?", Fault.FORM),
        (b'{"' + b"t" * 300 + b'": 1, "h": 41.5}', "t" * 256, Fault.TOO_LARGE),
        (b'{"air": {"t": NaN}, "h": 41.5}', "air.t", Fault.NUMBER),
        (cbor2.dumps({"t": float("nan"), "h": 41.5}), "t", Fault.NUMBER),
        (cbor2.dumps({"t": Decimal("Infinity"), "h": 41.5}), "t", Fault.NUMBER),
        (cbor2.dumps({"t": 10**400, "h": 41.5}), "t", Fault.NUMBER),
        (cbor2.dumps({"t": {1, 2}, "h": 41.5}), "t", Fault.FORM),
        (cbor2.dumps({2.5: {"deep": 1}, "h": 41.5}), "2.5", Fault.FORM),
        (cbor2.dumps({10**5000: 1, "h": 41.5}), "a number of more than 20 digits", Fault.FORM),
    ],
)  # fmt: skip
def test_a_value_that_no_column_holds_leaves_the_others_of_its_message_alone(
    payload: bytes, bad: str, fault: Fault
) -> None:
    assert faults_of(payload) == {bad: fault, "h": None}
    assert decode(payload, NOW_US)[1] == Point("h", 41.5)


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"", Fault.EMPTY),
        (b"hello", Fault.FORM),
        (b'{"t": 21.5', Fault.FORM),
        (b'{"t": 21.5}}', Fault.FORM),
        (b"{}", Fault.FORM),
        (b"null", Fault.FORM),
        (b"[" * 100_000, Fault.FORM),
        (cbor2.dumps({"t": 1}) + b"\x00", Fault.FORM),
        (cbor2.dumps({"t": 1})[:-1], Fault.FORM),
        (cbor2.dumps(list(range(POINTS_MAX + 1))), Fault.TOO_LARGE),
        (b"[" * (DEPTH_MAX + 1) + b"1" + b"]" * (DEPTH_MAX + 1), Fault.TOO_LARGE),
        (cyclic(), Fault.TOO_LARGE),
        (bomb(), Fault.TOO_LARGE),
    ],
)
def test_what_cannot_be_decoded_says_which_fault_it_has(payload: bytes, fault: Fault) -> None:
    assert fault_of(payload).fault is fault


@pytest.mark.parametrize("time", ["soon", True, -1, 1e300, [1]])
def test_a_time_that_is_none_is_a_fault_of_the_clock(time: object) -> None:
    payload = json.dumps({"ts": time, "t": 1}).encode()
    if isinstance(time, list):
        assert [each.metric for each in decode(payload, NOW_US, time_field="ts")] == ["ts.0", "t"]
    else:
        assert fault_of(payload, time_field="ts").fault is Fault.CLOCK


def test_what_is_said_to_be_senml_must_be_a_pack() -> None:
    assert fault_of(b'{"t": 21.5}', Format.SENML).fault is Fault.SENML
    assert fault_of(b"[]", Format.SENML).fault is Fault.SENML


def test_what_is_said_to_be_plain_is_no_pack() -> None:
    found = decode(b'[{"n": "t", "v": 1}]', NOW_US, format=Format.JSON)
    assert [each.metric for each in found] == ["0.n", "0.v"]


def is_fit_for_a_table(point: Point) -> bool:
    texts = [point.metric, point.text or "", point.unit or "", point.device or ""]
    times = point.time_us is None or 0 <= point.time_us <= UNIX_US_MAX
    value = point.value is None or abs(point.value) < float("inf")
    kinds = [point.value is not None, point.text is not None, point.fault is not None]
    if not point.metric or sum(kinds) != 1 or not (point.fault or BLANK).detail.isprintable():
        return False
    return all(each.encode() is not None for each in texts) and times and value


def judge(payload: bytes, format: Format) -> None:
    try:
        points = decode(payload, NOW_US, format=format, time_field="t")
    except UndecodableError as error:
        points, detail = [], error.detail
        assert detail.isprintable(), detail
    else:
        assert points
    assert all(map(is_fit_for_a_table, points))


BLANK = UndecodableError(Fault.FORM, "")
FORMATS = st.sampled_from(Format)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
LABELS = st.integers(-8, 10) | st.sampled_from(["n", "v", "bn", "bt", "t", "u", "vs", "vb", "x_"])
VALUES = st.recursive(
    SCALARS | st.decimals() | st.datetimes(timezones=st.just(UTC)),
    lambda inner: st.lists(inner) | st.dictionaries(LABELS | st.text(), inner),
    max_leaves=20,
)
PACKS = st.lists(st.dictionaries(LABELS, SCALARS))


@given(st.binary(), FORMATS)
@example(cyclic(), Format.AUTO)
@example(bomb(), Format.SENML)
def test_no_octets_raise_anything_else(payload: bytes, format: Format) -> None:
    judge(payload, format)


@given(VALUES | PACKS, FORMATS)
def test_no_cbor_raises_anything_else(value: object, format: Format) -> None:
    judge(cbor2.dumps(value), format)


@given(VALUES | PACKS, FORMATS)
def test_no_json_raises_anything_else(value: object, format: Format) -> None:
    judge(json.dumps(value, default=str, skipkeys=True).encode(), format)


@given(VALUES | PACKS, st.binary(min_size=1, max_size=4), st.integers(0, 400), FORMATS)
def test_no_damaged_cbor_raises_anything_else(
    value: object, damage: bytes, at: int, format: Format
) -> None:
    payload = cbor2.dumps(value)
    at %= len(payload)
    judge(payload[:at] + damage + payload[at + len(damage) :], format)

"""SenML to points; where RFC 8428 has an example, it is the example."""

from __future__ import annotations

import json
from pathlib import Path

import cbor2
import pytest

from spark_ingest.payload.decoding import Format, decode
from spark_ingest.payload.record import Fault, Point, UndecodableError
from spark_ingest.payload.senml import RECORDS_MAX

NOW_US = 1_800_000_000_000_000
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "senml.jsonl"


def pack(*records: dict[str | int, object]) -> list[Point]:
    """The same pack in JSON; in CBOR its labels would be numbers."""
    return decode(json.dumps(records).encode(), NOW_US)


def fault_of(*records: dict[str | int, object]) -> UndecodableError:
    with pytest.raises(UndecodableError) as raised:
        pack(*records)
    return raised.value


def test_a_single_record_has_its_whole_name_as_metric() -> None:  # 5.1.1
    (point,) = pack({"n": "urn:dev:ow:10e2073a01080063", "u": "Cel", "v": 23.1})
    assert point == Point("urn:dev:ow:10e2073a01080063", 23.1, None, "Cel", None, None)


def test_a_base_name_is_the_device() -> None:  # 5.1.2
    points = pack(
        {"bn": "urn:dev:ow:10e2073a01080063:", "n": "voltage", "u": "V", "v": 120.1},
        {"n": "current", "u": "A", "v": 1.2},
    )
    assert [(each.device, each.metric, each.value) for each in points] == [
        ("urn:dev:ow:10e2073a01080063:", "voltage", 120.1),
        ("urn:dev:ow:10e2073a01080063:", "current", 1.2),
    ]


def test_base_time_and_unit_last_until_they_are_replaced() -> None:  # 5.1.2, its second example
    points = pack(
        {"bn": "d:", "bt": 1.276020076001e09, "bu": "A", "bver": 5, "n": "voltage", "u": "V",
         "v": 120.1},
        {"n": "current", "t": -5, "v": 1.2},
        {"n": "current", "t": -4, "v": 1.3},
        {"bu": "V", "n": "mains", "v": 230},
    )  # fmt: skip
    assert [(each.unit, each.time_us) for each in points] == [
        ("V", 1_276_020_076_001_000),
        ("A", 1_276_020_071_001_000),
        ("A", 1_276_020_072_001_000),
        ("V", 1_276_020_076_001_000),
    ]


def test_times_below_2_to_28_are_relative_to_when_the_reading_was_taken_on() -> None:  # 4.5.3
    points = pack(
        {"bn": "d:", "n": "a", "v": 1, "t": -30}, {"n": "b", "v": 2}, {"n": "c", "v": 3, "t": 2**28}
    )
    assert [each.time_us for each in points] == [NOW_US - 30_000_000, None, 2**28 * 1_000_000]


def test_base_value_and_base_sum_are_added() -> None:  # 4.1
    points = pack(
        {"bn": "d:", "bv": 20, "bs": 100, "n": "t", "u": "W", "v": 1.5, "s": 7}, {"n": "u", "v": 2}
    )
    assert [(each.metric, each.value, each.unit) for each in points] == [
        ("t", 21.5, "W"),
        ("t.sum", 107.0, "W.s"),
        ("u", 22.0, None),
        ("u.sum", 100.0, None),
    ]


def test_text_truth_and_octets_are_values_too() -> None:  # 5.1.6
    points = pack(
        {"bn": "d:", "n": "label", "vs": "Machine Room"},
        {"n": "open", "vb": False},
        {"n": "nfc", "vd": "aGkgCg"},
    )
    assert [(each.metric, each.value, each.text) for each in points] == [
        ("label", None, "Machine Room"),
        ("open", 0.0, None),
        ("nfc", None, "aGkgCg"),
    ]


def test_a_record_with_base_values_alone_has_no_point() -> None:
    points = pack({"bn": "d:", "bt": 1.3e9}, {"n": "t", "v": 1})
    assert [each.metric for each in points] == ["t"]


def test_a_device_without_names_for_what_it_measures_has_one_metric() -> None:
    (point,) = pack({"bn": "urn:dev:mac:0024befffe804ff1", "v": 3})
    assert (point.device, point.metric) == ("urn:dev:mac:0024befffe804ff1", "value")


def test_labels_are_numbers_in_cbor() -> None:  # section 6
    payload = cbor2.dumps(
        [
            {-2: "d:", -3: 1.276020076001e09, -4: "A", -1: 5, 0: "voltage", 1: "V", 2: 120.1},
            {0: "current", 6: -5, 2: 1.2},
            {0: "raw", 8: b"\x01\xff"},
            {0: "on", 4: True},
        ]
    )
    assert decode(payload, NOW_US) == [
        Point("voltage", 120.1, None, "V", 1_276_020_076_001_000, "d:"),
        Point("current", 1.2, None, "A", 1_276_020_071_001_000, "d:"),
        Point("raw", None, "01ff", "A", 1_276_020_076_001_000, "d:"),
        Point("on", 1.0, None, "A", 1_276_020_076_001_000, "d:"),
    ]


def test_unknown_labels_are_ignored_unless_they_must_be_understood() -> None:  # 4.4
    (point,) = pack({"n": "t", "v": 1, "colour": "red"})
    assert point.metric == "t"
    (point,) = decode(
        cbor2.dumps([{0: "t", 2: 1, -9: 0, 9: 0, 2.5: 0}]), NOW_US, format=Format.SENML
    )
    assert point.metric == "t"
    assert fault_of({"n": "t", "v": 1, "colour_": "red"}).fault is Fault.SENML


@pytest.mark.parametrize(
    ("records", "fault", "words"),
    [
        ([{"bn": "d:"}], Fault.SENML, "no record has a value"),
        ([{"bn": "d:", "n": "t", "v": 1, "bver": 11}], Fault.SENML, "version 11"),
        ([{"n": "t", "v": 1}] * (RECORDS_MAX + 1), Fault.TOO_LARGE, "1025 records"),
    ],
)
def test_what_is_no_valid_pack_says_why(
    records: list[dict[str | int, object]], fault: Fault, words: str
) -> None:
    error = fault_of(*records)
    assert error.fault is fault
    assert words in error.detail


@pytest.mark.parametrize(
    ("records", "fault", "words"),
    [
        ([{"n": "t"}], Fault.SENML, "has no value"),
        ([{"v": 1, "u": "Cel"}], Fault.SENML, "without name"),
        ([{"n": "t", "v": 1, "vs": "one"}], Fault.SENML, "more than one value"),
        ([{"n": "t", "v": "1"}], Fault.SENML, "t is '1', not a number"),
        ([{"n": "t", "v": True}], Fault.SENML, "not a number"),
        ([{"n": "t", "vb": 1}], Fault.SENML, "vb of 't' is 1"),
        ([{"n": "t", "vs": 1}], Fault.SENML, "not text"),
        ([{"n": 7, "v": 1}], Fault.SENML, "n is 7, not text"),
        ([{"n": ["t"], "v": 1}], Fault.SENML, "n is a list, not text"),
        ([{"n": "t", "v": 1, "u": 5}], Fault.SENML, "u is 5, not text"),
        ([{"n": "t", "v": 1, "t": "now"}], Fault.SENML, "t is 'now', not a number"),
        ([{"n": "t", "v": 1, "t": -1.9e9}], Fault.CLOCK, "the time"),
        ([{"n": "t", "v": 1, "t": 1e300}], Fault.CLOCK, "the time"),
        ([{"n": "t", "v": 1e999}], Fault.NUMBER, "inf"),
        ([{"n": "t", "v": float("nan")}], Fault.NUMBER, "nan"),
        ([{"n": "t" * 257, "v": 1}], Fault.TOO_LARGE, "257 characters"),
    ],
)
def test_a_record_that_is_wrong_leaves_the_others_of_its_pack_alone(
    records: list[dict[str | int, object]], fault: Fault, words: str
) -> None:
    first, bad, last = pack({"n": "a", "v": 1}, *records, {"n": "b", "v": 2})
    assert (first, last) == (Point("a", 1.0), Point("b", 2.0))
    assert bad.fault is not None
    assert bad.fault.fault is fault
    assert words in bad.fault.detail
    assert bad.metric in ("t", "value", "t" * 256)
    assert (bad.value, bad.text) == (None, None)


@pytest.mark.parametrize(
    ("label", "wrong", "right"),
    [("bn", 7, "d:"), ("bt", "now", 0), ("bu", 7, "Cel"), ("bv", float("inf"), 0)],
)
def test_a_base_value_that_is_wrong_is_so_until_it_is_set_again(
    label: str, wrong: object, right: object
) -> None:
    points = pack(
        {"n": "a", "v": 1}, {label: wrong, "n": "b", "v": 2}, {"n": "c", "v": 3},
        {label: right, "n": "d", "v": 4},
    )  # fmt: skip
    assert [each.metric for each in points] == ["a", "b", "c", "d"]
    assert [each.value for each in points] == [1.0, None, None, 4.0]
    assert [each.fault is None for each in points] == [True, False, False, True]


def test_who_does_not_need_a_base_value_is_good_without_it() -> None:
    points = pack(
        {"bu": 7, "bv": "x", "n": "a", "u": "Cel", "vs": "on"}, {"n": "b", "u": "V", "v": 1}
    )
    assert [(each.metric, each.text, each.fault is None) for each in points] == [
        ("a", "on", True), ("b", None, False),
    ]  # fmt: skip


def test_a_sum_is_wrong_alone_too() -> None:
    points = pack(
        {"bn": "d:", "n": "a", "u": "W", "v": 1, "s": 1e999}, {"n": "b", "v": "x", "s": 2}
    )
    assert [(each.metric, each.value, each.fault is None) for each in points] == [
        ("a", 1.0, True), ("a.sum", None, False), ("b", None, False), ("b.sum", 2.0, True),
    ]  # fmt: skip
    (wrong, _, after) = pack({"bn": "d:", "bs": "x", "n": "a"}, {"n": "b"}, {"bs": 1, "n": "c"})
    assert (wrong.metric, wrong.fault is None, after.value) == ("a.sum", False, 1.0)


@pytest.mark.parametrize("line", GOLDEN.read_text().splitlines())
def test_what_nodes_say_is_decoded_as_they_meant_it(line: str) -> None:
    """`seq` and `undated` are metrics like others: by the one a lost reading shows in the tables,
    by the other one whose time is not known.
    """
    row = json.loads(line)
    base_time = row["base_time"]
    expected = [("seq", None, float(row["sequence"]))]
    if base_time is None:
        expected.append(("undated", None, 1.0))
    for name, unit, digits, places in row["measured"]:
        expected.append((name, unit or None, digits / 10**places))
    points = decode(bytes.fromhex(row["payload_hex"]), NOW_US)
    assert [(each.metric, each.unit, each.value) for each in points] == expected
    assert {each.device for each in points} == {row["base_name"]}
    when = {NOW_US} if not base_time else {base_time * 1_000_000 + (base_time < 0) * NOW_US}
    assert {NOW_US if each.time_us is None else each.time_us for each in points} == when

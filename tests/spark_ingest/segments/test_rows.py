"""Messages to rows: identity, times, quarantine beside the good rows, and repeats left out."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_ingest.payload.decoding import decode
from spark_ingest.payload.record import Fault
from spark_ingest.payload.registry import Field, Kind, SchemaOptions
from spark_ingest.segments.rows import RowOptions
from tests.spark_ingest.examples import RECEIVED_US, TAKEN_ON_MS, delivery, rows_of, tagged

HOUR_US = 3_600_000_000


def test_a_message_of_three_values_has_three_rows() -> None:
    columns, footer = rows_of(delivery({"t": 21.5, "h": 50, "door": "open"}, tagged(7))).finished(
        "c1", 3
    )
    assert (columns.seq, columns.topic) == ([7], ["farm/1/climate"])
    assert (columns.message, columns.part) == ([0, 0, 0], [0, 1, 2])
    assert columns.metric == ["t", "h", "door"]
    assert columns.value == [21.5, 50.0, None]
    assert columns.text == [None, None, "open"]
    assert columns.device == ["s1"] * 3
    assert (footer.rows, footer.messages, footer.number, footer.collector) == (3, 1, 3, "c1")


def test_a_reading_that_is_there_already_is_left_out() -> None:
    again = [delivery({"t": value}, tagged(7)) for value in (1, 2)]
    columns, footer = rows_of(*again, delivery({"t": 3}, tagged(7, epoch=2))).finished("c1", 0)
    assert columns.value == [1.0, 3.0]
    assert (footer.messages, footer.repeated) == (2, 1)


def test_messages_without_a_tag_are_all_kept() -> None:
    columns, footer = rows_of(delivery({"t": 1}), delivery({"t": 1})).finished("c1", 0)
    assert (columns.seq, columns.gw, footer.ids) == ([None, None], [None, None], {})


@pytest.mark.parametrize(
    ("payload", "properties", "ts", "clock"),
    [
        ([{"n": "t", "v": 1, "t": 1.7e9}], tagged(1), 1_700_000_000_000_000, "device"),
        ([{"n": "t", "v": 1, "t": -5}], tagged(1), TAKEN_ON_MS * 1000 - 5_000_000, "device"),
        ([{"n": "t", "v": 1}], tagged(1), TAKEN_ON_MS * 1000, "gateway"),
        ([{"n": "t", "v": 1}], [], RECEIVED_US, "collector"),
        ([{"n": "t", "v": 1, "t": -5}], [], RECEIVED_US - 5_000_000, "device"),
        # A gateway whose clock stands at its beginning, and one that is a day ahead.
        ([{"n": "t", "v": 1}], tagged(1, ts=12_000), RECEIVED_US, "collector"),
        ([{"n": "t", "v": 1}], tagged(1, ts=RECEIVED_US // 1000 + 86_400_000), RECEIVED_US,
         "collector"),
    ],
)  # fmt: skip
def test_the_time_is_that_of_the_first_clock_that_can_be_right(
    payload: object, properties: list[tuple[str, str]], ts: int, clock: str
) -> None:
    columns, _ = rows_of(delivery(payload, properties)).finished("c1", 0)
    assert (columns.ts, columns.ts_src) == ([ts], [clock])


def test_a_reading_measured_in_the_future_is_in_quarantine() -> None:
    pack = [
        {"n": "late", "v": 1, "t": (RECEIVED_US + HOUR_US) / 1e6 - 1},
        {"n": "early", "v": 1, "t": (RECEIVED_US + HOUR_US) / 1e6 + 60},
    ]
    columns, footer = rows_of(delivery(pack, tagged(1))).finished("c1", 0)
    assert columns.error == [None, "clock"]
    assert columns.error_detail[1] == "measured 3660 s after it was received"
    assert footer.quarantined == {"clock": 1}


def test_a_payload_that_nobody_decodes_is_one_row_with_its_octets() -> None:
    columns, footer = rows_of(delivery(b"\xff\x00", tagged(4))).finished("c1", 0)
    assert (columns.error, columns.metric, columns.value) == (["form"], [None], [None])
    assert (columns.payload, columns.payload_of) == ([b"\xff\x00"], [0])
    assert footer.quarantined == {"form": 1}
    assert list(footer.ids) == ["gh/1"], "it is no hole in the sequence"


def test_one_bad_value_does_not_take_the_good_ones_with_it() -> None:
    climate = SchemaOptions("climate", "#", fields={"t": Field(Kind.NUMBER, "Cel", -40, 85)})
    columns, _ = rows_of(delivery({"t": 400, "h": 50}, tagged(1)), schemas=(climate,)).finished(
        "c1", 0
    )
    assert columns.error == ["range", None]
    assert columns.value == [400.0, 50.0], "what was sent stands in the row"
    assert columns.payload_of == [0, None]


def test_rows_name_the_schema_as_it_is_at_the_end_of_the_segment() -> None:
    climate = SchemaOptions("climate", "#")
    columns, footer = rows_of(delivery({"t": 1}), delivery({"h": 1}), schemas=(climate,)).finished(
        "c1", 0
    )
    (id_,) = footer.schemas
    assert columns.schema == [id_, id_]
    assert set(footer.schemas[id_]) == {"t", "h"}


def test_payloads_of_good_messages_are_kept_where_that_is_wished() -> None:
    columns, _ = rows_of(
        delivery({"t": 1, "h": 2}), options=RowOptions(keep_payload=True)
    ).finished("c1", 0)
    assert columns.payload_of == [0, 0]


def test_a_value_that_is_wrong_is_in_quarantine_alone() -> None:
    payload = b'{"t": NaN, "h": 41.5, "p": 1013}'
    columns, footer = rows_of(delivery(payload)).finished("c1", 0)
    assert columns.metric == ["t", "h", "p"]
    assert columns.value == [None, 41.5, 1013.0]
    assert columns.error == ["number", None, None]
    assert columns.part == [0, 1, 2]
    assert columns.payload_of == [0, None, None]
    assert footer.quarantined == {"number": 1}


def test_of_large_payloads_only_so_much_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_ingest.segments.rows.REPEATED_BYTES_MAX", 40)
    bad = b'{"t": NaN, "h": 1, "p": NaN}'
    columns, _ = rows_of(delivery(bad), delivery(bad), delivery(b'{"t": NaN, "h": 1}')).finished(
        "c1", 0
    )
    assert columns.metric == ["t", "h", "p", None, "t", "h"]
    assert columns.error == ["number", None, "number", "number", "number", None]
    assert columns.payload_of == [0, None, 0, 1, 2, None]
    kept, _ = rows_of(
        delivery({"t": 1, "h": 2}), *[delivery({"t": 1, "h": 2, "long": "x" * 20})] * 2,
        options=RowOptions(keep_payload=True),
    ).finished("c1", 0)  # fmt: skip
    assert kept.payload_of == [0, 0, 1, None, None, 2, None, None]


def test_a_mistake_of_ours_stops_no_other_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def mistaken(payload: bytes, now_us: int, **wishes: Any) -> Any:
        if payload == b"13":
            raise ZeroDivisionError("thirteen")
        return decode(payload, now_us, **wishes)

    monkeypatch.setattr("spark_ingest.segments.rows.decode", mistaken)
    with caplog.at_level(logging.ERROR):
        rows = rows_of(delivery(b"12"), delivery(b"13"), delivery(b"14"))
    columns, footer = rows.finished("c1", 0)
    assert columns.value == [12.0, None, 14.0]
    assert footer.quarantined == {Fault.OURS.value: 1}
    assert [type(each) for each in rows.mistakes] == [ZeroDivisionError]


PROPERTIES = st.lists(st.tuples(st.sampled_from(["gw", "client", "epoch", "seq", "ts"]),
                                st.text(max_size=3) | st.integers(0, 5).map(str)))  # fmt: skip


@given(st.lists(st.tuples(st.binary(max_size=20), PROPERTIES), min_size=1))
def test_whatever_comes_no_message_is_lost(
    messages: list[tuple[bytes, list[tuple[str, str]]]],
) -> None:
    rows = rows_of(*(delivery(payload, properties) for payload, properties in messages))
    columns, footer = rows.finished("c1", 0)
    assert footer.messages + footer.repeated == len(messages)
    assert set(columns.message) == set(range(footer.messages))
    assert footer.rows == len(columns.error) == len(columns.metric) == len(columns.payload_of)
    assert sum(footer.quarantined.values()) == sum(each is not None for each in columns.error)

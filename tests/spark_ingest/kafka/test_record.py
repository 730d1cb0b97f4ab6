"""Messages as records of a Kafka topic."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from spark_ingest.kafka.record import Record, records_of
from spark_ingest.payload.record import Delivery
from tests.spark_ingest.examples import RECEIVED_US, TAKEN_ON_MS, delivery, rows_of, tagged

PACK = [{"bn": "n7:", "n": "t", "u": "Cel", "v": 21.5}, {"n": "on", "vb": True}]


def records(*deliveries: Delivery, bytes_max: int = 100_000) -> list[Record]:
    columns, _ = rows_of(*deliveries).finished("c1", 0)
    return list(records_of(columns, bytes_max))


def value(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.value)
    return found


def test_all_values_of_a_message_are_in_one_record_by_the_names_of_the_columns() -> None:
    (record,) = records(delivery(PACK, tagged(7)))
    assert record.key == b"gh"
    assert record.headers == [("tidegate", b"1"), ("gw", b"gh"), ("epoch", b"1"), ("seq", b"7")]
    assert (record.rows, record.is_cut) == (2, False)
    common = {"ts": TAKEN_ON_MS * 1000, "ts_src": "gateway", "device": "n7:"}
    first, second = value(record)["rows"]
    assert first == {"part": 0, **common, "metric": "t", "value": 21.5, "unit": "Cel"}
    assert second == {"part": 1, **common, "metric": "on", "value": 1.0}
    assert {key: each for key, each in value(record).items() if key != "rows"} == {
        "gw": "gh", "client": "s1", "epoch": 1, "seq": 7, "topic": "farm/1/climate", "qos": 1,
        "retain": False, "gw_ts": TAKEN_ON_MS * 1000, "rx_ts": RECEIVED_US,
    }  # fmt: skip


def test_messages_keep_their_order_and_repeats_are_one_record() -> None:
    found = records(*(delivery(float(n), tagged(n)) for n in (3, 1, 3, 2)))
    assert [value(each)["seq"] for each in found] == [3, 1, 2]


def test_a_message_without_a_complete_tag_has_none_in_its_headers() -> None:
    half, none = records(delivery(b"1", [("gw", "gh"), ("seq", "4")]), delivery(b"2", topic="ü"))
    assert [name for name, _ in (*half.headers, *none.headers)] == ["tidegate", "tidegate"]
    assert (half.key, none.key) == (b"gh", "ü".encode())


def test_a_payload_that_nobody_decodes_is_there_as_it_came() -> None:
    (record,) = records(delivery(b"\xff\x00", tagged(1)))
    (row,) = value(record)["rows"]
    assert (row["error"], row["payload"]) == ("form", True)
    assert b64decode(value(record)["payload"]) == b"\xff\x00"


def test_a_message_of_more_than_a_record_takes_is_one_row_in_quarantine_with_its_payload() -> None:
    message = delivery(PACK, tagged(7))
    (whole,) = records(message)
    (fits,) = records(message, bytes_max=len(whole.value))
    assert fits == whole
    (cut,) = records(message, bytes_max=len(whole.value) - 1)
    assert (cut.rows, cut.is_cut, cut.headers) == (1, True, whole.headers)
    (row,) = value(cut)["rows"]
    assert (row["part"], row["error"], row["device"]) == (0, "too_large", "n7:")
    assert "metric" not in row
    assert row["error_detail"] == (
        f"its 2 rows are {len(whole.value)} bytes, a record has at most {len(whole.value) - 1}"
    )
    assert b64decode(value(cut)["payload"]) == message.payload

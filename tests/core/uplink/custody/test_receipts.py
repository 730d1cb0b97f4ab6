"""What an ingest says it has: read as it is meant, and refused with a reason otherwise."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.uplink.custody.receipts import (
    RANGES_MAX,
    RECEIPT_BYTES_MAX,
    ReceiptError,
    read_receipt,
    receipt_topic,
)

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "receipts.jsonl"

REFUSED = {
    "no JSON": (b"all of it", "not JSON"),
    "no text": (b"\xff\xfe", "not JSON"),
    "too deep": (b"[" * 60_000, "not JSON"),
    "too long a number": (b'{"v":1,"epochs":{"1":[[0,' + b"9" * 5000 + b"]]}}", "not JSON"),
    "a list": (b"[]", "no epochs"),
    "no epochs": (b'{"v":1}', "no epochs"),
    "a later version": (b'{"v":2,"epochs":{}}', "version 1"),
    "a word for an epoch": (b'{"v":1,"epochs":{"now":[[0,1]]}}', "'now' is no epoch"),
    "too large an epoch": (b'{"v":1,"epochs":{"1234567890123456":[[0,1]]}}', "no epoch"),
    "ranges that are none": (b'{"v":1,"epochs":{"1":7}}', "are a list"),
    "a number for a range": (b'{"v":1,"epochs":{"1":[7]}}', "two sequences"),
    "three sequences": (b'{"v":1,"epochs":{"1":[[0,1,2]]}}', "two sequences"),
    "truth for a sequence": (b'{"v":1,"epochs":{"1":[[false,true]]}}', "two sequences"),
    "a fraction": (b'{"v":1,"epochs":{"1":[[0,1.5]]}}', "two sequences"),
    "backwards": (b'{"v":1,"epochs":{"1":[[2,1]]}}', "to a later one"),
    "below zero": (b'{"v":1,"epochs":{"1":[[-1,1]]}}', "to a later one"),
    "too many bytes": (b" " * (RECEIPT_BYTES_MAX + 1), f"at most {RECEIPT_BYTES_MAX}"),
    "too many ranges": (
        json.dumps({"v": 1, "epochs": {"1": [[0, 1]] * (RANGES_MAX + 1)}}).encode(),
        f"at most {RANGES_MAX}",
    ),
}


@pytest.mark.parametrize(("payload", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_receipt_is_refused_with_the_reason(payload: bytes, reason: str) -> None:
    with pytest.raises(ReceiptError, match=reason):
        read_receipt(payload)


@given(st.binary() | st.text().map(str.encode))
def test_any_octets_are_a_receipt_or_refused(payload: bytes) -> None:
    with suppress(ReceiptError):
        assert all(first <= last for _, (first, last) in read_receipt(payload))


@pytest.mark.parametrize("line", GOLDEN.read_text().splitlines())
def test_receipts_are_read_as_collectors_write_them(line: str) -> None:
    row = json.loads(line)
    assert row["topic"].startswith(receipt_topic(row["gw"]) + "/")
    ranges = [
        [epoch, first, last] for epoch, (first, last) in read_receipt(row["payload"].encode())
    ]
    assert ranges == row["ranges"]

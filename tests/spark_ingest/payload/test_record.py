"""The delivery tag, as the gateway writes it and as unknown peers might."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.packets.codec import read_packet
from spark_ingest.payload.record import UNIX_US_MAX, Tag, tag_of

GOLDEN = Path(__file__).parents[2] / "golden" / "upstream.jsonl"
READINGS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]


@pytest.mark.parametrize("reading", READINGS, ids=[each["name"] for each in READINGS])
def test_the_tag_is_what_the_gateway_put_on(reading: dict[str, object]) -> None:
    packet, _, _ = read_packet(memoryview(bytes.fromhex(str(reading["packet_hex"]))))
    tag = tag_of(packet.user_properties)  # type: ignore[attr-defined]
    assert isinstance(reading["ts"], int)
    assert tag == Tag(
        reading["gw"],  # type: ignore[arg-type]
        reading["client"],  # type: ignore[arg-type]
        reading["epoch"],  # type: ignore[arg-type]
        reading["seq"],  # type: ignore[arg-type]
        reading["ts"] * 1000,
    )


@pytest.mark.parametrize(
    "properties",
    [
        [],
        [("epoch", "1"), ("seq", "2")],
        [("gw", ""), ("epoch", "1"), ("seq", "2")],
        [("gw", "x" * 257), ("epoch", "1"), ("seq", "2")],
        [("gw", "gh"), ("epoch", "1")],
        [("gw", "gh"), ("seq", "1")],
        [("gw", "gh"), ("epoch", "-1"), ("seq", "2")],
        [("gw", "gh"), ("epoch", "1"), ("seq", "2.0")],
        [("gw", "gh"), ("epoch", "1"), ("seq", "٣")],
        [("gw", "gh"), ("epoch", "1"), ("seq", "1" * 19)],
    ],
)
def test_half_a_tag_names_no_reading(properties: list[tuple[str, str]]) -> None:
    tag = tag_of(properties)
    assert not tag.is_complete
    assert (tag.epoch, tag.sequence) == (None, None)


def test_a_time_that_no_table_holds_is_left_out() -> None:
    assert tag_of([("gw", "gh"), ("ts", str(UNIX_US_MAX // 1000))]).taken_on_us is not None
    assert tag_of([("gw", "gh"), ("ts", str(UNIX_US_MAX // 1000 + 1))]).taken_on_us is None


@given(st.lists(st.tuples(st.sampled_from(["gw", "client", "epoch", "seq", "ts"]), st.text())))
def test_no_properties_raise(properties: list[tuple[str, str]]) -> None:
    tag = tag_of(properties)
    assert (tag.epoch is None) == (tag.sequence is None)

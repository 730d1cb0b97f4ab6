"""Segments as files: what PyArrow reads is what was written, and damage is found."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_ingest.payload.record import COLUMNS
from spark_ingest.payload.registry import SchemaOptions
from spark_ingest.segments.footer import Footer, FooterError
from spark_ingest.segments.segment import octets_of, read_footer, schema
from tests.spark_ingest.examples import delivery, rows_of, tagged

PACK = [{"bn": "d:", "n": "t", "u": "Cel", "v": 21.5, "t": 1.7e9}, {"n": "door", "vs": "auf ⚷"}]


def segment(path: Path) -> Footer:
    rows = rows_of(
        delivery(PACK, tagged(7)),
        delivery(b"\xff", tagged(8)),
        schemas=(SchemaOptions("all", "#"),),
    )
    columns, footer = rows.finished("c1", 12)
    path.write_bytes(octets_of(columns, footer))
    return footer


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    segment(tmp_path / "s.parquet")
    table = pq.read_table(tmp_path / "s.parquet", page_checksum_verification=True)
    assert table.schema.remove_metadata() == schema()
    assert table.column_names == [each.name for each in COLUMNS]
    first, door, bad = table.to_pylist()
    assert first["ts"] == datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    assert {name: first[name] for name in ("gw", "epoch", "seq", "part", "metric", "value")} == {
        "gw": "gh", "epoch": 1, "seq": 7, "part": 0, "metric": "t", "value": 21.5,
    }  # fmt: skip
    assert (first["unit"], first["device"], first["payload"]) == ("Cel", "d:", None)
    assert (door["part"], door["text"], door["value"]) == (1, "auf ⚷", None)
    assert (bad["seq"], bad["error"], bad["payload"]) == (8, "form", b"\xff")


def test_the_footer_is_read_without_the_rows(tmp_path: Path) -> None:
    written = segment(tmp_path / "s.parquet")
    read = read_footer(tmp_path / "s.parquet")
    assert read == written
    assert (read.number, read.rows, read.messages) == (12, 3, 2)


def test_a_column_is_as_wide_as_its_meaning_says(tmp_path: Path) -> None:
    segment(tmp_path / "s.parquet")
    types = {each.name: str(each.type) for each in schema()}
    assert types == {each.name: each.type for each in COLUMNS}


def test_a_flipped_bit_in_a_page_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    segment(path)
    octets = bytearray(path.read_bytes())
    octets[octets.index(b"d:")] ^= 1
    path.write_bytes(octets)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.read_table(path, page_checksum_verification=True)


@pytest.mark.parametrize("field", ["rows", "collector", "ids"])
def test_a_footer_with_a_flipped_bit_is_refused(tmp_path: Path, field: str) -> None:
    octets = bytearray(segment(tmp_path / "s.parquet").encoded())
    octets[octets.index(field.encode()) + len(field) + 3] ^= 1
    with pytest.raises(FooterError, match="checksum"):
        Footer.decoded(bytes(octets))


def test_a_footer_of_a_later_version_is_refused(tmp_path: Path) -> None:
    later = replace(segment(tmp_path / "s.parquet"), version=2)
    with pytest.raises(FooterError, match="version 2, this program knows 1"):
        Footer.decoded(later.encoded())


def test_a_footer_without_its_parts_is_refused(tmp_path: Path) -> None:
    broken = replace(segment(tmp_path / "s.parquet"), ids={"gh/x": [[0, "1"]]})
    with pytest.raises(FooterError, match="damaged"):
        Footer.decoded(broken.encoded())


def test_a_file_that_is_no_segment_says_so(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"noise")
    with pytest.raises(FooterError, match="noise is damaged"):
        read_footer(tmp_path / "noise")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(FooterError, match=r"other\.parquet: it has no footer of ours"):
        read_footer(tmp_path / "other.parquet")

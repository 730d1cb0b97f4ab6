"""What a backfill is about to do comes back as it was, or is told to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_ingest.payload.decoding import Format
from spark_ingest.payload.registry import Field, Kind, SchemaOptions
from spark_ingest.segments.rows import RowOptions
from spark_ingest.tables.checkpoint import CheckpointError
from spark_ingest.tables.half_way import FILE, Intent

CLIMATE = SchemaOptions(
    "climate",
    "site/+/climate",
    Format.JSON,
    "ts",
    0.001,
    {"t": Field(Kind.NUMBER, "Cel", -40.0, 85.0), "door": Field(Kind.TEXT), "any": Field()},
    takes_other_fields=False,
)


def test_what_was_begun_comes_back_as_it_was(tmp_path: Path) -> None:
    assert Intent.left_in(tmp_path) is None
    for version in (7, 8):
        schemas = (CLIMATE, SchemaOptions("rest", "#"))
        routes = {"hot": "value > 30"} if version == 8 else None  # as older releases have it
        intent = Intent(version, schemas, RowOptions(True, 5.0), routes)
        intent.record(tmp_path)
        assert Intent.left_in(tmp_path) == intent
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize("text", ["", "[]", '{"version": 7}', '{"version":7,"schemas":[{}]}'])
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CheckpointError, match=f"{FILE} is damaged.*remove it"):
        Intent.left_in(tmp_path)

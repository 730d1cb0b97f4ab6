"""A table gets each batch once, keeps what others write, and refuses who does not belong to it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from spark_ingest.tables.delta import files
from spark_ingest.tables.delta.files import Added, write_files
from spark_ingest.tables.delta.table import Table, TableError

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SCHEMA = pa.schema([("n", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")), ("day", pa.date32())])


TODAY = NOON.date()


def rows(*numbers: int, day: date = TODAY, schema: Any = SCHEMA) -> Any:
    return pa.table(
        {
            "n": numbers,
            "ts": [NOON + timedelta(microseconds=n) for n in numbers],
            "day": [day] * len(numbers),
        },
        schema=schema,
    )


def added(table: Table, *batches: Any) -> list[Added]:
    return write_files(batches, table.folder, table.schema)


def numbers_in(table: Table) -> list[int]:
    return sorted(table.read()["n"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "t", SCHEMA)


def test_a_batch_that_is_repeated_is_not_appended_again(table: Table) -> None:
    assert table.append(added(table, rows(1, 2)), "app", 0)
    again = added(table, rows(1, 2))
    assert not table.append(again, "app", 0)
    assert numbers_in(table) == [1, 2]
    assert not (table.folder / again[0].path).exists(), "its files are removed"
    assert table.append(added(table, rows(3)), "app", 1)
    assert table.version_of("app") == 1


def test_it_is_repeated_by_a_process_that_knows_nothing_of_the_first(table: Table) -> None:
    table.append(added(table, rows(1)), "app", 0)
    anew = Table(table.folder, SCHEMA)
    assert not anew.append(added(anew, rows(1)), "app", 0)
    assert numbers_in(anew) == [1]


def test_of_two_that_write_the_same_batch_at_once_one_is_refused(table: Table) -> None:
    other = Table(table.folder, SCHEMA)
    assert (table.version_of("app"), other.version_of("app")) == (None, None)
    with patch.object(Table, "version_of", return_value=None):
        table.append(added(table, rows(1)), "app", 0)
        with pytest.raises(TableError, match="somebody else has written"):
            other.append(added(other, rows(1)), "app", 0)
    assert numbers_in(table) == [1]


def test_another_checkpoint_is_refused_where_there_are_rows(table: Table) -> None:
    table.must_belong_to("app", Path("checkpoints/q"))
    table.append([], "app", 0)
    table.append(added(table, rows(1)), "app", 1)
    table.must_belong_to("app", Path("checkpoints/q"))
    with pytest.raises(TableError, match=r"another checkpoint than checkpoints/q.*mv "):
        table.must_belong_to("other", Path("checkpoints/q"))


def test_what_is_appended_while_files_are_replaced_stays(table: Table) -> None:
    table.append(added(table, rows(1)), "app", 0)
    table.append(added(table, rows(2)), "app", 1)
    paths = table.paths()
    Table(table.folder, SCHEMA).append(added(table, rows(3)), "app", 2)
    table.replace(paths, added(table, rows(12)))
    assert numbers_in(table) == [3, 12]


def test_files_are_replaced_once(table: Table) -> None:
    table.append(added(table, rows(1)), "app", 0)
    paths, other = table.paths(), Table(table.folder, SCHEMA)
    table.replace(paths, added(table, rows(10)))
    with pytest.raises(TableError, match="somebody else has written"):
        other.replace(paths, added(other, rows(20)))
    assert numbers_in(table) == [10]


def test_days_are_folders_and_readers_leave_out_what_is_not_asked_for(table: Table) -> None:
    tomorrow = NOON.date() + timedelta(days=1)
    table.append(added(table, rows(1, 2), rows(3, day=tomorrow)), "app", 0)
    assert table.files_by_day() == {"2026-11-21": 1, "2026-11-22": 1}
    assert table.paths("2026-11-22")[0].startswith("day=2026-11-22/part-")
    actions = pa.table(DeltaTable(str(table.folder)).get_add_actions(flatten=True)).to_pylist()
    (first,) = (each for each in actions if each["partition.day"] == NOON.date())
    assert (first["num_records"], first["min.ts"], first["max.ts"]) == (
        2, NOON + timedelta(microseconds=1), NOON + timedelta(microseconds=2),
    )  # fmt: skip


def test_more_days_than_files_may_be_open_lose_no_row(table: Table) -> None:
    days = [NOON.date() + timedelta(days=n % 5) for n in range(40)]
    with patch.object(files, "DAYS_OPEN_MAX", 2):
        made = added(table, *(rows(n, day=day) for n, day in enumerate(days)))
    assert len(made) > 5, "files were closed and others begun"
    table.append(made, "app", 0)
    assert numbers_in(table) == list(range(40))


def test_an_attempt_that_fails_leaves_no_file(table: Table) -> None:
    def failing() -> Any:
        yield rows(1)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_files(failing(), table.folder, SCHEMA)
    assert not list(table.folder.rglob("*.parquet"))


def test_a_column_that_changes_is_refused(table: Table) -> None:
    changed = pa.schema([("n", pa.string()), SCHEMA.field("ts"), SCHEMA.field("day")])
    with pytest.raises(TableError, match=r"column 'n' is .*long.* move the table"):
        Table(table.folder, changed)


def test_a_column_that_is_new_is_added_and_null_in_old_rows(table: Table) -> None:
    table.append(added(table, rows(1)), "app", 0)
    grown = Table(table.folder, pa.schema([*SCHEMA, ("unit", pa.string())]))
    assert grown.read().to_pylist()[0]["unit"] is None


def test_a_table_of_a_newer_version_is_refused(table: Table) -> None:
    Table(table.folder, pa.schema([*SCHEMA, ("unit", pa.string())]))
    with pytest.raises(TableError, match=r"does not know: unit\. A newer one"):
        Table(table.folder, SCHEMA)


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photographs").mkdir()
    with pytest.raises(TableError, match="is no Delta table, and photographs is in it"):
        Table(tmp_path, SCHEMA)


def test_a_damaged_log_is_an_error_with_the_folder(table: Table) -> None:
    table.append(added(table, rows(1)), "app", 0)
    (table.folder / "_delta_log" / f"{0:020d}.json").write_text("not JSON\n")
    with pytest.raises(TableError, match=str(table.folder)):
        Table(table.folder, SCHEMA)


def test_small_files_become_one_and_orphans_go(table: Table) -> None:
    for batch in range(4):
        table.append(added(table, rows(batch)), "app", batch)
    added(table, rows(99))  # of an attempt that died before its commit
    table.compact()
    assert len(table.paths()) == 1
    assert table.vacuum(0) == 5
    assert numbers_in(table) == [0, 1, 2, 3]
    assert table.version_of("app") == 3


def test_an_overwritten_table_has_the_new_rows_only(table: Table) -> None:
    table.append(added(table, rows(1, 2)), "app", 0)
    table.overwrite(rows(7))
    assert numbers_in(table) == [7]


WIDE = pa.schema(
    [
        ("number", pa.int64()),
        ("value", pa.float64()),
        ("flag", pa.bool_()),
        ("word", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("on", pa.date32()),
        ("octets", pa.binary()),
        ("never", pa.string()),
        ("buckets", pa.map_(pa.int32(), pa.int64())),
    ]
)
ROWS = [
    {"number": n, "value": n / 4, "flag": n > 4, "word": "x" * 40 + str(n), "octets": b"%d" % n,
     "at": NOON + timedelta(microseconds=n), "on": TODAY + timedelta(days=n), "buckets": [(n, 1)]}
    for n in range(9)
]  # fmt: skip
ROWS[8] |= dict.fromkeys(("value", "word", "octets"))


@pytest.mark.parametrize("name", [each for each in WIDE.names if each not in ("buckets", "never")])
def test_whoever_asks_for_some_rows_gets_them_whatever_the_column(
    tmp_path: Path, name: str
) -> None:
    """Readers leave out files by what each says of its columns."""
    table = Table(tmp_path / "t", WIDE)
    for number, part in enumerate((ROWS[:3], ROWS[3:6], ROWS[6:])):
        batch = pa.Table.from_pylist(part, schema=WIDE)
        table.append(write_files([batch], table.folder, WIDE), "app", number)
    reader = DeltaTable(table.folder).to_pyarrow_dataset()
    for row in ROWS:
        wanted = pc.field(name).is_null() if row[name] is None else pc.field(name) == row[name]
        expected = [each["number"] for each in ROWS if each[name] == row[name]]
        found = reader.to_table(columns=["number"], filter=wanted)["number"].to_pylist()
        assert sorted(found) == expected
    nothing = reader.to_table(filter=pc.field("never").is_valid() | (pc.field("number") > 100))
    assert nothing.num_rows == 0
    assert len(list(reader.get_fragments(pc.field("number") == 4))) == 1, "two files are left out"


def test_values_that_json_has_no_word_for_leave_no_bounds(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("value", pa.float64())])
    table = Table(tmp_path / "t", schema)
    batch = pa.table({"n": [1, 2], "value": [float("inf"), 1.0]}, schema=schema)
    table.append(write_files([batch], table.folder, schema), "app", 0)
    reader = DeltaTable(table.folder).to_pyarrow_dataset()
    assert reader.to_table(filter=pc.field("n") == 2).num_rows == 1
    assert reader.to_table(filter=pc.field("value") > 5).num_rows == 1

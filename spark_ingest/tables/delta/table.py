"""One Delta table in a folder: made, checked, appended to exactly once, compacted.

Rule 1: each append names its writer (`app`, one for each checkpoint) and its batch, and stands in
        the same commit as the data. A batch that is there already is not appended again.
Rule 2: a table and the checkpoint that fills it are a pair. A writer that is new to a table with
        data in it is refused: it would begin at its batch 0 and write everything twice.
Rule 3: columns may be added at the end and never change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from spark_ingest.segments.disk import Disk
from spark_ingest.tables.delta.files import Added, now_ms, write_files
from spark_ingest.tables.tables import DAY

LOG = "_delta_log"
# One file for each batch; delta-rs looks through all of them for the newest.
LOG_RETENTION = "interval 1 days"


class TableError(Exception):
    """A table that is not what it should be, with what to do about it."""


class Table:
    """Opened, or made if there is none. One thread at a time."""

    def __init__(self, folder: Path, schema: Any) -> None:
        """`schema` is a `pyarrow.Schema`. Raises TableError, and OSError."""
        self.folder = folder
        self.schema = schema
        self._partition_by = [DAY] if DAY in schema.names else None
        self._delta = self._opened()
        self._durable_version = self._delta.version()

    # Reading

    def version_of(self, app: str) -> int | None:
        """The last batch that this writer has appended."""
        self._delta.update_incremental()
        version: int | None = self._delta.transaction_version(app)
        return version

    @property
    def version(self) -> int:
        self._delta.update_incremental()
        return int(self._delta.version())

    def paths(self, day: str | None = None) -> list[str]:
        """Of its files, as they are now, from the folder on."""
        self._delta.update_incremental()
        inside = "" if day is None else f"{DAY}={day}/"
        found = self._delta.get_add_actions(flatten=True)["path"].to_pylist()
        return sorted(path for path in found if path.startswith(inside))

    def files_by_day(self) -> Counter[str]:
        return Counter(path.partition("/")[0].removeprefix(f"{DAY}=") for path in self.paths())

    def read(self) -> Any:
        """All of it as a `pyarrow.Table`; for small tables."""
        self._delta.update_incremental()
        return self._delta.to_pyarrow_table()

    # Writing

    def must_belong_to(self, app: str, checkpoint: Path) -> None:
        """Rule 2."""
        if self.version_of(app) is None and self.paths():
            raise TableError(
                f"{self.folder} was filled from another checkpoint than {checkpoint}. To build it "
                f"again from the segments, move it away (mv {self.folder} {self.folder}.old); to "
                "keep it, bring its checkpoint back"
            )

    def append(self, added: Sequence[Added], app: str, batch: int) -> bool:
        """Whether it was new. Files for a batch that is there already are removed."""
        version = self.version_of(app)
        if version is not None and version >= batch:
            for each in added:
                (self.folder / each.path).unlink(missing_ok=True)
            return False
        mark = CommitProperties(app_transactions=[Transaction(app, batch)])
        self._commit([self._action(each) for each in added], mark)
        return True

    def replace(self, paths: Sequence[str], added: Sequence[Added]) -> None:
        """These files by those, in one commit. What others append meanwhile stays.

        Raises TableError if another writer has replaced one of them.
        """
        now = now_ms()
        removals = [
            RemoveAction(path, data_change=True, deletion_timestamp=now,
                         partition_values=self._partition_of(path))
            for path in paths
        ]  # fmt: skip
        self._commit([*removals, *map(self._action, added)], None)

    def overwrite(self, data: Any) -> None:
        """All of it by a `pyarrow.Table`; for small tables that are made again each time."""
        self.replace(self.paths(), write_files([data], self.folder, self.schema))

    def compact(self) -> None:
        """Small files of a day to large ones; rows stay as they are."""
        self._delta.update_incremental()
        try:
            self._delta.optimize.compact()
        except CommitFailedError as error:
            raise self._disturbed(error) from None
        self._make_durable()

    def vacuum(self, older_than_h: int) -> int:
        """Removes files that no version of this age needs, and orphans; how many it were."""
        found = self._delta.vacuum(
            older_than_h, dry_run=False, enforce_retention_duration=False, full=True
        )
        return len(found)

    def _commit(self, actions: list[Any], mark: CommitProperties | None) -> None:
        try:
            self._delta.create_write_transaction(
                actions, "append", self._delta.schema(), partition_by=self._partition_by,
                commit_properties=mark,
            )  # fmt: skip
        except CommitFailedError as error:
            raise self._disturbed(error) from None
        self._make_durable()

    def _disturbed(self, error: Exception) -> TableError:
        return TableError(
            f"{self.folder}: somebody else has written to it at the same time ({error}). One job "
            "fills a table, and one compacts it: is there another?"
        )

    def _make_durable(self) -> None:
        """delta-rs leaves that to the system, and Spark's checkpoint would be ahead of it."""
        self._delta.update_incremental()
        for version in range(self._durable_version + 1, self._delta.version() + 1):
            path = self.folder / LOG / f"{version:020d}.json"
            if path.exists():  # else it is in a checkpoint already
                Disk().sync_file(path)
        Disk().sync_folder(self.folder / LOG)
        self._durable_version = self._delta.version()

    def _opened(self) -> DeltaTable:
        if not (self.folder / LOG).exists() and (strange := self._strange()) is not None:
            raise TableError(f"{self.folder} is no Delta table, and {strange} is in it")
        try:
            delta = DeltaTable.create(
                str(self.folder), self.schema, mode="ignore", partition_by=self._partition_by,
                configuration={"delta.logRetentionDuration": LOG_RETENTION},
            )  # fmt: skip
            self._evolve(delta)
        except DeltaError as error:
            raise TableError(f"{self.folder} cannot be opened as a Delta table: {error}") from None
        return delta

    def _strange(self) -> str | None:
        """Something that no worker of ours has put there before the table was."""
        if not self.folder.is_dir():
            return None
        names = (each.name for each in self.folder.iterdir())
        return next((name for name in names if not name.startswith(("part-", f"{DAY}="))), None)

    def _evolve(self, delta: DeltaTable) -> None:
        """Rule 3."""
        there = {each.name: each.type for each in delta.schema().fields}
        wanted = DeltaSchema.from_arrow(self.schema).fields
        for each in wanted:
            if each.name in there and there[each.name] != each.type:
                raise TableError(
                    f"{self.folder}: its column {each.name!r} is {there[each.name]}, and would "
                    f"have to be {each.type}. Columns do not change: move the table and its "
                    "checkpoint away, and build both again"
                )
        missing = [each for each in wanted if each.name not in there]
        if missing:
            delta.alter.add_columns(missing)
            delta.update_incremental()
        unknown = there.keys() - {each.name for each in wanted}
        if unknown:
            raise TableError(
                f"{self.folder} has columns that this version does not know: "
                f"{', '.join(sorted(unknown))}. A newer one has written it; use that"
            )

    def _action(self, added: Added) -> AddAction:
        partition = {} if added.day is None else {DAY: added.day}
        return AddAction(added.path, added.bytes, partition, now_ms(), True, added.stats)

    def _partition_of(self, path: str) -> dict[str, str]:
        if self._partition_by is None:
            return {}
        return {DAY: path.partition("/")[0].removeprefix(f"{DAY}=")}

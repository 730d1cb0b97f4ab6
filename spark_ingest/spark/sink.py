"""`format("gwdelta")`: a Delta table in a folder as a sink of Spark, for streams and for batches,
without any jar.

    query.writeStream.format("gwdelta").option("appId", "alarms").start("lake/tables/alarms")
    frame.write.format("gwdelta").mode("append").save("lake/tables/alarms")

A micro-batch is in the table once, however often Spark replays it: its number is in the commit
beside the data. The table is made with the first batch, and partitioned by `day`, if there is such
a column of dates.

Options
    path          the table's folder, which workers and driver see under one path
    checkpointLocation    of streams, as always; made durable before a commit, if it is a folder
    appId         of streams: who writes, one for each checkpoint. Another checkpoint that writes to
                  the same table has another; one that begins again with the old name would have its
                  first batches taken for replays and left out
    txnAppId,     of batches, both or neither: the same for `foreachBatch`, as Delta calls them
    txnVersion
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_ingest.spark.arrow import arrow_schema
from spark_ingest.spark.options import OptionError, folder, local_folder, required
from spark_ingest.tables.checkpoint import Checkpoint
from spark_ingest.tables.delta.files import Added, write_files
from spark_ingest.tables.delta.table import Table
from spark_ingest.tables.tables import DAY


@dataclass
class Files(WriterCommitMessage):  # type: ignore[misc]  # PySpark's types are not looked at
    added: list[Added]


class Writing:
    """What both writers do: files in the workers, one commit in the driver."""

    def __init__(self, options: Mapping[str, str], schema: t.StructType) -> None:
        self.folder = folder(options, "the table's folder")
        self.schema = schema

    def write(self, batches: Iterator[Any]) -> Files:
        schema = arrow_schema(self.schema)
        return Files(write_files(batches, self.folder, schema))

    def table(self) -> Table:
        return Table(self.folder, arrow_schema(self.schema))

    def abort(self, messages: Sequence[Files | None]) -> None:
        for added in added_of(messages):
            (self.folder / added.path).unlink(missing_ok=True)


class GatewayDelta(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "gwdelta"

    def streamWriter(self, schema: t.StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise OptionError("gwdelta appends; the output mode of its streams is append")
        return StreamWriter(
            Writing(self.options, checked(schema)),
            required(self.options, "appId", "who writes, one name for each checkpoint"),
            required(self.options, "checkpointLocation", "a folder, as for every stream"),
        )

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceArrowWriter:
        writing = Writing(self.options, checked(schema))
        return BatchWriter(writing, overwrite, _transaction(self.options))


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    def __init__(self, writing: Writing, app: str, checkpoint: str) -> None:
        self._writing = writing
        self._app = app
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[Any]) -> Files:
        return self._writing.write(iterator)

    def commit(self, messages: list[Files | None], batchId: int) -> None:
        if (folder := local_folder(self._checkpoint)) is not None:
            Checkpoint(folder).make_durable(batchId)
        self._writing.table().append(added_of(messages), self._app, batchId)

    def abort(self, messages: list[Files | None], batchId: int) -> None:
        self._writing.abort(messages)


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(
        self, writing: Writing, overwrite: bool, transaction: tuple[str, int] | None
    ) -> None:
        self._writing = writing
        self._overwrite = overwrite
        self._transaction = transaction

    def write(self, iterator: Iterator[Any]) -> Files:
        return self._writing.write(iterator)

    def commit(self, messages: list[Files | None]) -> None:
        table, added = self._writing.table(), added_of(messages)
        if self._transaction is not None:
            table.append(added, *self._transaction)
        else:
            table.replace(table.paths() if self._overwrite else [], added)

    def abort(self, messages: list[Files | None]) -> None:
        self._writing.abort(messages)


def added_of(messages: Sequence[Files | None]) -> list[Added]:
    return [added for each in messages if each is not None for added in each.added]


def checked(schema: t.StructType) -> t.StructType:
    for each in schema:
        if each.name == DAY and not isinstance(each.dataType, t.DateType):
            raise OptionError(
                f"the column {DAY!r} partitions the table and must be a date, not "
                f"{each.dataType.simpleString()}: to_date(...), or another name"
            )
    return schema


def _transaction(options: Mapping[str, str]) -> tuple[str, int] | None:
    app, version = options.get("txnAppId"), options.get("txnVersion")
    if (app is None) != (version is None):
        raise OptionError("txnAppId and txnVersion are of use together only")
    if app is None or version is None:
        return None
    if not version.isdecimal():
        raise OptionError(f"txnVersion must be the number of a batch, not {version!r}")
    return app, int(version)

"""`format("gwlog")`: the lake's segments as a source of Spark, for streams and for batches.

    spark.dataSource.register(GatewayLog)
    spark.readStream.format("gwlog").option("maxRowsPerTrigger", 100_000).load("lake")

Each reading with a delivery tag comes once, however often the broker and the collectors had it:
the planner sees from footers what was there before, so nothing is shuffled, kept in a state store,
or forgotten behind a watermark. Foreign messages without a tag come as often as MQTT brought them.

Reader methods run in a process of Spark's driver, `read` in workers anywhere; all of them must see
the lake under the same path.

Options
    path                  the lake, a folder; or what `load` is given
    maxRowsPerTrigger     of one batch, default 1,000,000; at least one segment
    maxFilesPerTrigger    segments of one batch
    maxBytesPerTrigger    bytes of segments of one batch
    partitions            tasks of one batch, if it is large; default: cores of this machine
    rowsPerPartition      of one task, about; default 50,000 to 500,000, as `partitions` has it
    failOnDataLoss        whether a lost segment ends the query, default true
    consumer              a name under which the lake keeps how far this query is, for retention
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from spark_ingest.planning.offset import Offset
from spark_ingest.planning.plan import Limits, Planned, end_of_batch, planned
from spark_ingest.planning.reading import batches_of
from spark_ingest.planning.seen import FORGOTTEN, GatewayEpoch
from spark_ingest.segments.consumers import Consumers
from spark_ingest.segments.lake import LakeSegments
from spark_ingest.segments.sequences import Encoded
from spark_ingest.segments.shelf import SEGMENTS, segment_path
from spark_ingest.spark.columns import segment_schema
from spark_ingest.spark.options import OptionError, folder, truth, whole_number

log = logging.getLogger("tidegate.ingest.gwlog")

ROWS_OF_BATCH_MAX = 1_000_000
# A task costs as much as 40,000 rows; and one that fails is repeated from its first row on.
ROWS_OF_PARTITION_MIN, ROWS_OF_PARTITION_MAX = 50_000, 500_000
SPARE_SHARE = 0.2  # of a partition: a little more in each is cheaper than a round of tasks more


@dataclass
class Part(InputPartition):  # type: ignore[misc]  # PySpark's types are not looked at
    """What one task reads: paths, and what in each is left out."""

    segments: list[tuple[str, Mapping[GatewayEpoch, Encoded]]]
    columns: list[str]

    def batches(self) -> Iterator[Any]:
        for path, left_out in self.segments:
            yield from batches_of(Path(path), self.columns, left_out)


class SourceOptions:
    """The options, checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.lake = folder(options, "the folder of the lake, as load() takes it")
        self.limits = Limits(
            rows=whole_number(options, "maxRowsPerTrigger", ROWS_OF_BATCH_MAX),
            segments=whole_number(options, "maxFilesPerTrigger", None),
            bytes=whole_number(options, "maxBytesPerTrigger", None),
        )
        self._partitions = whole_number(options, "partitions", None)
        self._rows_of_partition = whole_number(options, "rowsPerPartition", None)
        self.fails_on_loss = truth(options, "failOnDataLoss", True)
        self.consumer = options.get("consumer")
        if not (self.lake / SEGMENTS).is_dir():
            raise OptionError(
                f"{self.lake} is no lake: it has no folder {SEGMENTS!r}; it is there once "
                "`python -m spark_ingest collect` has begun"
            )

    def segments(self) -> LakeSegments:
        return LakeSegments(self.lake, fails_on_loss=self.fails_on_loss)

    def parts(self, plan: list[Planned], columns: list[str]) -> list[Part]:
        """Neighbours together, about as many rows in each, and no segment in two."""
        rows = sum(each.footer.rows for each in plan)
        count = self._parts_of(rows)
        parts: list[Part] = []
        before = 0
        for each in plan:
            if before * count >= rows * len(parts):
                parts.append(Part([], columns))
            path = str(segment_path(self.lake, each.collector, each.number))
            parts[-1].segments.append((path, each.left_out))
            before += each.footer.rows
        return parts

    def _parts_of(self, rows: int) -> int:
        if self._rows_of_partition is not None:
            return ceil(rows / self._rows_of_partition)
        usual = self._partitions or len(os.sched_getaffinity(0))
        least = max(1, ceil(rows / ROWS_OF_PARTITION_MAX - SPARE_SHARE))
        if least > usual:  # in whole rounds: two cores do four tasks as fast as three
            return ceil(least / usual) * usual
        return max(min(usual, rows // ROWS_OF_PARTITION_MIN), least)


class GatewayLog(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "gwlog"

    def schema(self) -> StructType:
        return segment_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(SourceOptions(self.options), checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return reader_or_refusal(
            lambda: LogStreamReader(SourceOptions(self.options), checked(schema))
        )


class LogReader(DataSourceReader):  # type: ignore[misc]
    """All that is there now."""

    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[Part]:
        segments = self._options.segments()
        end = Offset(segments.heads())
        return self._options.parts(planned(Offset(), end, segments), self._columns)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from partition.batches()


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._segments = options.segments()
        self._ends: dict[str, int] | None = None  # of a query that ends by itself
        self._consumers = None if options.consumer is None else Consumers(options.lake)

    def initialOffset(self) -> dict[str, object]:
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        assert self._options.limits.rows is not None
        return ReadMaxRows(self._options.limits.rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._ends = self._segments.heads()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        begin = Offset.from_json(start)
        forgotten = begin.seen.forgotten
        end = end_of_batch(begin, self._segments, self._limits(limit), self._ends)
        if end.seen.forgotten > forgotten:
            log.warning(FORGOTTEN, end.seen.forgotten - forgotten)
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, object]:
        """For the progress report: how far the collectors are."""
        return Offset(self._segments.heads()).to_json()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[Part]:
        plan = planned(Offset.from_json(start), Offset.from_json(end), self._segments)
        return self._options.parts(plan, self._columns)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from partition.batches()

    def commit(self, end: dict[str, object]) -> None:
        """Late and not for every batch; good enough for what may be removed."""
        if self._consumers is not None and self._options.consumer is not None:
            self._consumers.note(self._options.consumer, Offset.from_json(end).next)

    def _limits(self, limit: ReadLimit) -> Limits:
        """Spark's, which may be none at all, and the options."""
        own = self._options.limits
        if isinstance(limit, ReadMaxRows):
            return Limits(limit.max_rows, own.segments, own.bytes)
        if isinstance(limit, ReadMaxFiles):
            return Limits(own.rows, limit.max_files, own.bytes)
        if isinstance(limit, ReadMaxBytes):
            return Limits(own.rows, own.segments, limit.max_bytes)
        return own


class Refusal(DataSourceStreamReader):  # type: ignore[misc]
    """Says what is wrong when Spark first asks. What a reader raises before that, Spark loses: it
    tells of a variable of its own instead.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, object]:
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        raise self._error

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        raise self._error

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[Part]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._error


def reader_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    try:
        return make()
    except OptionError as error:
        return Refusal(error)


def checked(schema: StructType) -> list[str]:
    """The columns to read: the user may ask for some of them, but not for other types."""
    known = {each.name: each.dataType for each in segment_schema()}
    for each in schema:
        if each.name not in known:
            raise OptionError(
                f"segments have no column {each.name!r}; they have {', '.join(known)}"
            )
        if each.dataType != known[each.name]:
            raise OptionError(
                f"the column {each.name!r} is {known[each.name].simpleString()}, not "
                f"{each.dataType.simpleString()}; read it as it is and cast it"
            )
    return [each.name for each in schema]

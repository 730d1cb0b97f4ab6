"""The job: segments to tables, for ever or until all that is there is read.

    gwlog or Kafka -> foreachBatch(Pipeline.write) -> bronze, quarantine, routes, rollups

Streaming is here only. One query fills all tables, from one checkpoint, so that a reading is never
in some of them for long. It ends on request, or with the first error that Spark's own
retries do not cure; its supervisor starts it again, and nothing is lost or repeated by that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql.streaming import StreamingQuery

from spark_ingest.spark.at_server import PipelineAtServer
from spark_ingest.spark.errors import first_line
from spark_ingest.spark.inputs import Input, InputError, LakeInput
from spark_ingest.spark.job_counters import JobCounters, Progress
from spark_ingest.spark.pipeline import Pipeline, PipelineOptions, check_routes
from spark_ingest.spark.place import stop_trying
from spark_ingest.spark.written import WrittenBatches
from spark_ingest.tables.checkpoint import Checkpoint, CheckpointError
from spark_ingest.tables.delta.table import TableError
from spark_ingest.tables.tables import checkpoint_folder

log = logging.getLogger("tidegate.ingest.job")

Result = TypeVar("Result")
Write = Callable[[DataFrame, int], None]

POLL_S = 0.2  # how often it looks for the request to stop
LAST_REPORT_S_MAX = 5.0
# What Spark's connector for Kafka says, and what it means.
OF_KAFKA = {
    "org.apache.kafka.common.errors.TimeoutException": "Kafka does not answer; start it again "
    "when it does",
    "not available in Kafka any more": "records are gone from the topic that were not read yet: "
    "for a topic that was made again move tables and checkpoint away; else set "
    "spark.goes_on_without_lost_segments, which leaves a gap",
}


class JobError(Exception):
    """The query ended by an error; what it was, in a line."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    lake: Path
    query: str = "tidegate"
    routes: Mapping[str, str] = field(default_factory=dict)
    trigger_s: float = 5.0
    rows_max: int = 1_000_000
    fails_on_loss: bool = True
    once: bool = False  # end when all is read that was there at the start
    progress_file: Path | None = None
    input: Input | None = None  # else the segments of the lake

    def source(self) -> Input:
        if self.input is not None:
            return self.input
        return LakeInput(
            lake=self.lake,
            query=self.query,
            rows_max=self.rows_max,
            fails_on_loss=self.fails_on_loss,
        )


class Job:
    """`stop` may be called from a signal handler."""

    def __init__(self, spark: SparkSession, options: JobOptions, counters: JobCounters) -> None:
        self._spark = spark
        self._options = options
        self._counters = counters
        self._stop_requested = threading.Event()

    def stop(self) -> None:
        self._stop_requested.set()

    def run(self) -> None:
        """Raises JobError, InputError, CheckpointError, TableError, RouteError, and OSError."""
        options, source = self._options, self._options.source()
        check_routes(self._spark, options.routes)
        with Checkpoint(checkpoint_folder(options.lake, options.query)) as checkpoint:
            source.check(checkpoint)
            to_tables = PipelineOptions(options.lake, options.routes, source.rows)
            pipeline = Pipeline(to_tables, checkpoint, self._counters.wrote)
            pipeline.check()
            write: Write = pipeline.write
            written: WrittenBatches | None = None
            if is_remote():
                write = PipelineAtServer(to_tables, checkpoint.folder, checkpoint.app)
                written = WrittenBatches(checkpoint.folder)
            listener = Progress(self._counters, options.progress_file, written)
            self._spark.streams.addListener(listener)
            try:
                self._await(self._started(source, write, checkpoint))
                listener.has_ended.wait(LAST_REPORT_S_MAX)
                source.ended(checkpoint)
            except JobError:
                stop_trying(self._spark)
                if isinstance(pipeline.error, TableError | InputError | CheckpointError | OSError):
                    raise pipeline.error from None
                raise
            finally:
                with suppress(PySparkException, Py4JNetworkError, ConnectionError):
                    self._spark.streams.removeListener(listener)

    def _started(self, source: Input, write: Write, checkpoint: Checkpoint) -> StreamingQuery:
        options = self._options
        log.info("filling the tables of %s from batch %d on", options.lake,
                 0 if checkpoint.last_batch is None else checkpoint.last_batch + 1)  # fmt: skip
        stream = source.stream(self._spark)
        writer = (
            stream.writeStream.foreachBatch(write)
            .queryName(options.query)
            .option("checkpointLocation", str(checkpoint.folder))
        )
        return _guarded(lambda: _triggered(writer, options).start())

    def _await(self, query: StreamingQuery) -> None:
        while not _guarded(lambda: query.awaitTermination(POLL_S)):
            if self._stop_requested.is_set():
                # A batch in work is given up; the next start repeats it.
                query.stop()
                log.info("stopped as told")
                return


def _triggered(writer: Any, options: JobOptions) -> Any:
    if options.once:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{round(options.trigger_s * 1000)} milliseconds")


def _guarded(action: Callable[[], Result]) -> Result:
    try:
        return action()
    except PySparkException as error:
        raise JobError(_error_text(error)) from None
    except (Py4JNetworkError, ConnectionError) as error:
        raise JobError(f"Spark's Java process is gone ({error}); start it again") from None


def _error_text(error: PySparkException) -> str:
    line = first_line(error)
    means = next((meaning for words, meaning in OF_KAFKA.items() if words in line), None)
    return line if means is None else f"{means} ({line})"

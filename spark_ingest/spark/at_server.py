"""The pipeline where a Spark Connect server calls it: in a process of the server, which the job can
neither see nor share a lock or a counter with.

It is pickled once, and lives as long as the query does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from spark_ingest.spark.pipeline import Pipeline, PipelineOptions
from spark_ingest.spark.written import WrittenBatches
from spark_ingest.tables.checkpoint import Checkpoint


@dataclass(slots=True)
class PipelineAtServer:
    """For `foreachBatch`. The job holds the checkpoint, and has looked at tables and rules."""

    options: PipelineOptions
    folder: Path  # of the checkpoint
    app: str
    _pipeline: Pipeline | None = field(default=None, init=False)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Raises CheckpointError, TableError, InputError, and OSError."""
        if self._pipeline is None:
            checkpoint = Checkpoint(self.folder)
            # Else it would begin with a lake of its own where the server is.
            checkpoint.must_be_of(self.app)
            self._pipeline = Pipeline(self.options, checkpoint, WrittenBatches(self.folder).keep)
        self._pipeline.write(rows, batch)

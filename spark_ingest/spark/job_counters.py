"""The job's numbers for Prometheus, and the last batch's progress as JSON.

Labels are names of tables, which the configuration bounds.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from spark_ingest.spark.written import Written, WrittenBatches

log = logging.getLogger("tidegate.ingest.progress")

BATCH_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class JobCounters:
    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.batches = Counter(
            "tidegate_tables_batches", "Batches in all tables", registry=registry
        )
        self.rows = Counter("tidegate_tables_rows", "Rows written", ["table"], registry=registry)
        self.batch_seconds = Histogram(
            "tidegate_tables_batch_seconds", "From rows that are there to all tables committed",
            buckets=BATCH_SECONDS, registry=registry,
        )  # fmt: skip
        self.segments_behind = Gauge(
            "tidegate_tables_segments_behind", "Segments that no batch has had yet",
            registry=registry,
        )  # fmt: skip
        self.records_behind = Gauge(
            "tidegate_tables_records_behind", "Records of Kafka that no batch has had yet",
            registry=registry,
        )  # fmt: skip
        self.left_out = Counter(
            "tidegate_tables_records_left_out",
            "Records of Kafka that went to no table: repeats, and those of no collector",
            ["reason"],
            registry=registry,
        )
        self.forgotten = Gauge(
            "tidegate_tables_lives_forgotten",
            "Lives of gateways, and blocks of their sequences with holes, that were more than can "
            "be remembered since the checkpoint began; repeats of theirs come through",
            registry=registry,
        )
        self.rows_per_s = Gauge(
            "tidegate_tables_rows_per_second", "Of the last batch", registry=registry
        )
        self.running = Gauge("tidegate_tables_running", "1 while the query runs", registry=registry)

    def wrote(self, written: Written) -> None:
        self.batches.inc()
        self.batch_seconds.observe(written.seconds)
        for table, count in written.rows.items():
            self.rows.labels(table).inc(count)
        self.left_out.labels("repeated").inc(written.repeated)
        self.left_out.labels("foreign").inc(written.foreign)
        if written.forgotten:
            self.forgotten.set(written.forgotten)


class Progress(StreamingQueryListener):  # type: ignore[misc]  # PySpark's types are not looked at
    """Spark's own report after each batch, to the counters, the log and a file. `written`: where
    a pipeline in another process tells of its batches.
    """

    def __init__(
        self, counters: JobCounters, file: Path | None, written: WrittenBatches | None
    ) -> None:
        self._counters = counters
        self._file = file
        self._written = written
        self.has_ended = threading.Event()  # it tells of that last, and later than the query does

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._counters.running.set(1)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        report = summary(json.loads(event.progress.json))
        self._counters.segments_behind.set(report.get("segments_behind", 0))
        self._counters.records_behind.set(report.get("records_behind", 0))
        self._counters.rows_per_s.set(report["rows_per_s"])
        if "lives_forgotten" in report:
            self._counters.forgotten.set(report["lives_forgotten"])
        if self._written is not None and (batch := self._written.take(report["batch"])):
            self._counters.wrote(batch)
        if report["rows"]:
            log.info(
                "batch %d: %d rows in %.1f s, %d %s behind",
                report["batch"], report["rows"], report["seconds"], *_behind(report),
            )  # fmt: skip
        if self._file is not None:
            _write(self._file, report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        self._counters.segments_behind.set(0)
        self._counters.records_behind.set(0)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._counters.running.set(0)
        self.has_ended.set()


def summary(progress: Mapping[str, Any]) -> dict[str, Any]:
    """What matters of a progress report of Spark."""
    source = progress["sources"][0]
    return {
        "batch": progress["batchId"],
        "at": progress["timestamp"],
        "rows": progress["numInputRows"],
        "rows_per_s": round(progress.get("processedRowsPerSecond") or 0.0, 1),
        "seconds": progress.get("durationMs", {}).get("triggerExecution", 0) / 1000,
        **_position(
            *(_as_dict(source.get(f"{name}Offset")) for name in ("start", "end", "latest"))
        ),
    }


def _position(
    begin: Mapping[str, Any], read: Mapping[str, Any], there: Mapping[str, Any]
) -> dict[str, Any]:
    """Of `gwlog` the next segment by collector, of Kafka the next offset by topic and partition."""
    if "next" in read or "next" in there:
        segments, newest = dict(read.get("next", {})), there.get("next", {})
        return {
            "segments_behind": _difference(newest, segments),
            "segments_read": segments,
            "lives_forgotten": read.get("forgotten", 0),
        }
    return {
        # Spark counts each record twice: for its tag, and for its rows.
        "rows": sum(_difference(read[topic], begin.get(topic, {})) for topic in read),
        "records_behind": sum(_difference(there[topic], read.get(topic, {})) for topic in there),
        "records_read": dict(read),
    }


def _difference(newest: Mapping[str, int], read: Mapping[str, int]) -> int:
    return sum(max(0, newest[name] - read.get(name, 0)) for name in newest)


def _behind(report: Mapping[str, Any]) -> tuple[int, str]:
    if "segments_behind" in report:
        return report["segments_behind"], "segments"
    return report["records_behind"], "records"


def _as_dict(offset: Any) -> dict[str, Any]:
    """Spark hands offsets out as JSON or as the text of it."""
    found = json.loads(offset) if isinstance(offset, str) else offset
    return dict(found) if found else {}


def _write(file: Path, report: Mapping[str, Any]) -> None:
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(report) + "\n", encoding="utf-8")
        temporary.rename(file)
    except OSError as error:
        log.warning("%s cannot be written: %s", file, error.strerror or error)

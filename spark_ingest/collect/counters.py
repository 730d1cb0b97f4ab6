"""The collector's numbers for Prometheus: one counter for each thing that can happen to a message.

Labels have words of ours only, never what a message says.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from spark_ingest.payload.record import Fault
from spark_ingest.segments.writing import Written

# From a fast disk to one that is about to fail.
WRITE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counters:
    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.received = Counter(
            "tidegate_ingest_messages_received", "Messages that the broker brought",
            registry=registry,
        )  # fmt: skip
        self.resent = Gauge(
            "tidegate_ingest_messages_resent",
            "Messages that came again after a break and were still here",
            registry=registry,
        )
        self.dropped = Counter(
            "tidegate_ingest_messages_dropped",
            "Messages of QoS 0 for which there was no room",
            registry=registry,
        )
        self.too_large = Counter(
            "tidegate_ingest_messages_too_large",
            "Messages that were skipped, because they are larger than collector.message_bytes_max",
            registry=registry,
        )
        self.unreadable = Counter(
            "tidegate_ingest_messages_unreadable",
            "Messages that were refused, because their topic is not UTF-8",
            registry=registry,
        )
        self.left_out = Counter(
            "tidegate_ingest_messages_left_out",
            "Messages that are no readings: receipts, and what gateways say of themselves",
            registry=registry,
        )
        self.durable = Counter(
            "tidegate_ingest_messages_durable", "Messages on disk and acknowledged",
            registry=registry,
        )  # fmt: skip
        self.repeated = Counter(
            "tidegate_ingest_messages_repeated",
            "Messages left out, because the same reading is in the same segment",
            registry=registry,
        )
        self.rows = Counter("tidegate_ingest_rows", "Values written", registry=registry)
        self.quarantined = Counter(
            "tidegate_ingest_rows_quarantined", "Values written to quarantine", ["fault"],
            registry=registry,
        )  # fmt: skip
        self.segments = Counter("tidegate_ingest_segments", "Segments written", registry=registry)
        self.bytes = Counter(
            "tidegate_ingest_segment_bytes", "Bytes of segments written", registry=registry
        )
        self.write_seconds = Histogram(
            "tidegate_ingest_write_seconds",
            "From a full batch to a durable segment",
            buckets=WRITE_SECONDS,
            registry=registry,
        )
        self.disk_errors = Counter(
            "tidegate_ingest_disk_errors", "Segments that the disk did not take",
            registry=registry,
        )  # fmt: skip
        self.stalled = Gauge(
            "tidegate_ingest_stalled",
            "1 while nothing is acknowledged, because the disk takes nothing",
            registry=registry,
        )
        self.connected = Gauge(
            "tidegate_ingest_connected", "1 while the broker sends to us", registry=registry
        )
        self.receipts = Counter(
            "tidegate_ingest_receipts", "Receipts published for gateways", registry=registry
        )
        self.held = Gauge(
            "tidegate_ingest_messages_held", "Messages here that are not acknowledged",
            registry=registry,
        )  # fmt: skip
        for fault in Fault:
            self.quarantined.labels(fault.value)

    def wrote(self, written: Written, seconds: float) -> None:
        footer = written.footer
        self.durable.inc(footer.messages + footer.repeated)
        self.repeated.inc(footer.repeated)
        self.rows.inc(footer.rows)
        for fault, rows in footer.quarantined.items():
            self.quarantined.labels(fault).inc(rows)
        self.segments.inc()
        self.bytes.inc(written.bytes)
        self.write_seconds.observe(seconds)

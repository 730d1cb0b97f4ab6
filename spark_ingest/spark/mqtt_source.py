"""`format("mqtt")`: a collector of its own in front of `gwlog`, for who wants a stream from a
broker and nothing else to run.

    spark.dataSource.register(MqttStream)
    spark.readStream.format("mqtt").option("config", "ingest.toml").load("lake")

Spark asks a source for the same rows again after a crash, and a broker gives none twice; so the
messages go to segments first, and what Spark reads are those. The collector is a child of Spark's
reader process and ends with it; messages wait with the broker until the query is started again.

Options: those of `gwlog`, and
    config        the file for the collector, as `python -m spark_ingest init` prints it
    broker        or, without a file, mqtt://host:port
    topics        and topic filters, with commas between them
    name          of the collector, default mqtt; each query that runs has its own
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from spark_ingest.segments.shelf import SEGMENTS
from spark_ingest.spark.options import OptionError, folder, required
from spark_ingest.spark.source import (
    GatewayLog,
    LogStreamReader,
    SourceOptions,
    checked,
    reader_or_refusal,
)

STOP_S_MAX = 15.0  # the collector gives its last segment ten
LOG_TAIL_BYTES = 2_000
_PR_SET_PDEATHSIG = 1


class CollectorEndedError(Exception):
    """The child has ended; its last line."""


class MqttStream(GatewayLog):
    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return reader_or_refusal(lambda: self._reader(schema))

    def _reader(self, schema: StructType) -> DataSourceStreamReader:
        lake = folder(self.options, "the folder of the lake, as load() takes it")
        arguments = collector_arguments(self.options, lake)
        (lake / SEGMENTS).mkdir(parents=True, exist_ok=True)
        log = lake / f"{self.options.get('name', 'mqtt')}.log"
        return MqttStreamReader(SourceOptions(self.options), checked(schema), Child(arguments, log))


class MqttStreamReader(LogStreamReader):
    """Spark makes several of them; the one that is asked how far the stream is has the child."""

    def __init__(self, options: SourceOptions, columns: list[str], collector: Child) -> None:
        super().__init__(options, columns)
        self._collector = collector

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:
        self._collector.must_run()
        return super().latestOffset(start, limit)

    def stop(self) -> None:
        self._collector.stop()


class Child:
    """`python -m spark_ingest collect`; ended when this process ends, however that is."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        self._arguments = arguments
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __getstate__(self) -> dict[str, object]:
        """For copies in workers, which have no child."""
        return {**self.__dict__, "_process": None}

    def must_run(self) -> None:
        """Started when first asked."""
        if self._process is None:
            self._process = self._started()
        code = self._process.poll()
        if code is not None:
            lines = self._log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").splitlines()
            raise CollectorEndedError(
                f"the collector has ended with {code}: {lines[-1] if lines else 'it said nothing'}"
            )

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "spark_ingest", "collect", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                preexec_fn=_end_with_parent,  # safe: the reader's process has one thread
            )  # fmt: skip


def collector_arguments(options: Mapping[str, str], lake: Path) -> list[str]:
    name = options.get("name", "mqtt")
    given = {"lake.path": str(lake), "collector.name": name}
    if (config := options.get("config")) is not None:
        source = ["--config", config]
    else:
        topics = required(options, "topics", 'what to subscribe to, such as "sensors/#"')
        given["broker.url"] = required(options, "broker", "mqtt://host:port, or give config")
        given["collector.topics"] = json.dumps([each.strip() for each in topics.split(",")])
        source = ["--config", "/dev/null"]
    if config is not None and (options.get("broker") or options.get("topics")):
        raise OptionError("broker and topics stand in the file that config names; give one")
    return [
        *source,
        *(word for key, value in given.items() for word in ("--set", f"{key}={value}")),
    ]


def _end_with_parent() -> None:
    """Also when the parent is killed. Linux only, as the gateway is."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

"""Whether workers can do our work, asked before the first batch does.

A cluster whose workers lack a package, or do not see the lake, fails each task, and Spark tries
again without a message; one that has no free worker waits without one. Both are reported here.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_ingest.spark.errors import NoSessionError, first_line
from spark_ingest.spark.place import cores_of, place_of

log = logging.getLogger("tidegate.ingest.spark")

TIME_LIMIT_S = 30.0
TASKS_MAX = 64
# What the tasks of all verbs import: by name, as a worker shall find them by itself.
MODULES = ("spark_ingest.spark.source", "spark_ingest.spark.sink", "spark_ingest.spark.writing")
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_PACKAGES = (
    "install the same packages in the Python that they start (PYSPARK_PYTHON), or give them the "
    "packages along (--py-files, spark.submit.pyFiles, spark.archives)"
)


class WorkersError(NoSessionError):
    """Spark is there, and its workers cannot do our work; the text says what they lack."""


def must_do_our_work(
    spark: SparkSession,
    lake: Path,
    *,
    modules: tuple[str, ...] = MODULES,
    time_limit_s: float = TIME_LIMIT_S,
) -> None:
    """Let workers import what their tasks will and look for the lake. Raises WorkersError.

    It waits as long as no worker is there, and says so every `time_limit_s`: a cluster may be asked
    to make some first.
    """
    place = place_of(spark)
    asking = _Asking(spark, lake, modules)
    asking.start()
    waited_s = 0.0
    while asking.has_no_answer_within(time_limit_s):
        waited_s += time_limit_s
        log.warning(
            "no worker of %s has taken a task for %.0f s: are there some, with a free core and "
            "the memory of spark.executor.memory?", place, waited_s,
        )  # fmt: skip
    if asking.problem:
        raise WorkersError(f"workers of {place} cannot do our work: {asking.problem}")


class _Asking(threading.Thread):
    """A job for all workers; a thread, because nothing else ends the wait for it."""

    def __init__(self, spark: SparkSession, lake: Path, modules: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self.problem = "the job that asks them ended without an answer"
        self._spark = spark
        # Who begins without segments makes it with the first batch.
        self._lake = str(lake) if lake.is_dir() else None
        self._modules = modules

    def has_no_answer_within(self, seconds: float) -> bool:
        self.join(seconds)
        return self.is_alive()

    def run(self) -> None:
        question = Question(self._modules, self._lake)
        try:
            tasks = min(cores_of(self._spark), TASKS_MAX)
            rows = self._spark.range(tasks, numPartitions=tasks)
            answers = rows.mapInArrow(question, "lack string").collect()
            self.problem = next((row["lack"] for row in answers if row["lack"]), "")
        except (PySparkException, Py4JError, OSError) as error:
            self.problem = lacking(error)


@dataclass(frozen=True, slots=True)
class Question:
    """For `mapInArrow`: what this worker does not have, or nothing."""

    modules: tuple[str, ...]
    lake: str | None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"lack": [self.lack()]})

    def lack(self) -> str:
        for name in self.modules:
            try:
                import_module(name)
            except ImportError as error:
                return f"{error}: {_PACKAGES}"
        if self.lake is not None and not Path(self.lake).is_dir():
            return f"they do not see {self.lake}, which must have one path everywhere (NFS will do)"
        return ""


def lacking(error: Exception) -> str:
    """In what Spark says of a task that failed: what can be fixed."""
    text = str(error)
    if (found := _NO_MODULE.search(text)) is not None:
        return f"No module named {found[1]!r}: {_PACKAGES}"
    if (found := _NO_PROGRAM.search(text)) is not None:
        return f"{found[1]} does not start there: set PYSPARK_PYTHON to a Python that they have"
    return first_line(error)

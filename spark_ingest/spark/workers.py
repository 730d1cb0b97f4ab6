"""Whether workers can do our work, asked before the first batch does.

A cluster whose workers lack a package, or do not see the lake, fails each task, and Spark tries
again without a word; one that has no free worker waits without one. Both are said here.
"""

from __future__ import annotations

import logging
import re
import threading
from importlib import import_module
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_ingest.spark.session import NoSessionError, first_line

log = logging.getLogger("tidegate.ingest.spark")

PATIENCE_S = 30.0
TASKS_MAX = 64
# What the tasks of all verbs import: by name, as a worker shall find them by itself.
MODULES = ("spark_ingest.spark.source", "spark_ingest.spark.sink", "spark_ingest.spark.writing")
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_PACKAGES = (
    "install 'tidegate[spark]' in the Python that they start (PYSPARK_PYTHON), or give them the "
    "packages along (--py-files, spark.submit.pyFiles, spark.archives)"
)


class WorkersError(NoSessionError):
    """Spark is there, and its workers cannot do our work; the text says what they lack."""


def are_elsewhere(spark: SparkSession) -> bool:
    """Whether they are other than the driver's own: its Python and its files."""
    return re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master) is None


def must_do_our_work(
    spark: SparkSession,
    lake: Path,
    *,
    modules: tuple[str, ...] = MODULES,
    patience_s: float = PATIENCE_S,
) -> None:
    """Let workers import what their tasks will and look for the lake. Raises WorkersError.

    It waits as long as no worker is there, and says so every `patience_s`: a cluster may be asked
    to make some first.
    """
    master = spark.sparkContext.master
    asking = _Asking(spark, lake, modules)
    asking.start()
    waited_s = 0.0
    while asking.has_no_answer_within(patience_s):
        waited_s += patience_s
        log.warning(
            "no worker of %s has taken a task for %.0f s: are there some, with a free core and "
            "the memory of spark.executor.memory?", master, waited_s,
        )  # fmt: skip
    if asking.problem:
        raise WorkersError(f"workers of {master} cannot do our work: {asking.problem}")


class _Asking(threading.Thread):
    """A job for all workers; a thread, because nothing else ends the wait for it."""

    def __init__(self, spark: SparkSession, lake: Path, modules: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self.problem = "the job that asks them ended without an answer"
        self._context = spark.sparkContext
        # Who begins without segments makes it with the first batch.
        self._lake = str(lake) if lake.is_dir() else None
        self._modules = modules

    def has_no_answer_within(self, seconds: float) -> bool:
        self.join(seconds)
        return self.is_alive()

    def run(self) -> None:
        context, lake, modules = self._context, self._lake, self._modules
        tasks = min(context.defaultParallelism, TASKS_MAX)
        try:
            answers = context.parallelize(range(tasks), tasks).map(lambda _: lacks(modules, lake))
            self.problem = next(filter(None, answers.collect()), "")
        except (PySparkException, Py4JError, OSError) as error:
            self.problem = lacking(error)


def lacks(modules: tuple[str, ...], lake: str | None) -> str:
    """In a worker: what it does not have, or nothing."""
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            return f"{error}: {_PACKAGES}"
    if lake is not None and not Path(lake).is_dir():
        return f"they do not see {lake}, which must have one path everywhere (NFS will do)"
    return ""


def lacking(error: Exception) -> str:
    """In what Spark says of a task that failed: what can be mended."""
    text = str(error)
    if (found := _NO_MODULE.search(text)) is not None:
        return f"No module named {found[1]!r}: {_PACKAGES}"
    if (found := _NO_PROGRAM.search(text)) is not None:
        return f"{found[1]} does not start there: set PYSPARK_PYTHON to a Python that they have"
    return first_line(error)

"""A standalone Spark cluster of this machine: a master, and workers with a core each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hil.rig.logged_process import LoggedProcess
from spark_ingest.spark.java import find_java
from tests.support.job import spark_home

START_S_MAX = 60.0
BOUND = r"Successfully started service 'sparkMaster' on port (\d+)"
REGISTERED = "Successfully registered with master"


class _Daemon(LoggedProcess):
    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        folder.mkdir(parents=True)
        super().__init__(folder / "log")
        self._folder = folder
        self._command = [f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments]

    def start(self) -> None:
        home = spark_home()
        java = str(find_java(os.environ).home)
        self.launch(
            [f"{home}/bin/spark-class", *self._command, "--port", "0", "--webui-port", "0"],
            folder=self._folder,
            environment={"SPARK_HOME": home, "JAVA_HOME": java, "SPARK_DAEMON_MEMORY": "256m"},
        )


@contextmanager
def cluster(folder: Path, *, workers: int = 1) -> Iterator[str]:
    """Its address."""
    with ExitStack() as stack:
        master = stack.enter_context(_Daemon(folder / "master", "master.Master"))
        port = master.wait_for_log(BOUND, START_S_MAX)[1]
        address = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            home = folder / f"worker-{number}"
            given = ["--cores", "1", "--memory", "1g", "--work-dir", str(home / "work")]
            worker = _Daemon(home, "worker.Worker", *given, address)
            stack.enter_context(worker).wait_for_log(REGISTERED, START_S_MAX)
        yield address

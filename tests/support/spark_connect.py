"""A Spark Connect server of this machine: the driver, where jobs of others run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from hil.rig.logged_process import LoggedProcess
from spark_ingest.spark.java import find_java
from tests.support.job import spark_home

REPOSITORY = Path(__file__).resolve().parents[2]
START_S_MAX = 120.0
STARTED = r"Spark Connect server started at: \S+:(\d+)"
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer(LoggedProcess):
    def __init__(
        self, folder: Path, *, python: str = sys.executable, conf: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / "log")
        self._folder = folder
        self._python = python
        self._conf = dict(conf or {})
        self.port = 0  # of its last start, and of the next

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it takes jobs."""
        home = spark_home()
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(self._folder),
            "spark.ui.enabled": "false",
            **self._conf,
        }
        given = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        self.launch(
            [f"{home}/bin/spark-submit", "--class", CLASS, "--master", "local[2,4]", *given,
             "spark-internal"],
            folder=self._folder,
            environment={
                "SPARK_HOME": home,
                "JAVA_HOME": str(find_java(os.environ).home),
                "PYSPARK_PYTHON": self._python,
                "PYTHONPATH": str(REPOSITORY),
            },
        )  # fmt: skip
        self.port = int(self.wait_for_log(STARTED, START_S_MAX)[1])

"""The job on a cluster of Spark's own kind, and what it says of one that cannot do its work."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark_ingest.examples import delivery, tagged
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.job import JobProcess
from tests.support.lakes import write_segments
from tests.support.spark_cluster import cluster
from tests.support.waiting import until

pytestmark = pytest.mark.soak

READINGS = 300


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    found = tmp_path / "lake"
    write_segments(found, "c1", [delivery(float(n), tagged(n)) for n in range(READINGS)])
    return found


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as address:
        yield address


def ended(lake: Path, master: str, python: str | None = None) -> JobProcess:
    job = JobProcess(lake, "--once", master=master)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYSPARK_PYTHON", raising=False)
        if python is not None:
            patch.setenv("PYSPARK_PYTHON", python)
        job.start()
    until(lambda: job.returncode is not None, 300)
    return job


def test_a_job_on_a_cluster_fills_the_tables(lake: Path, master: str) -> None:
    job = ended(lake, master)
    assert job.returncode == 0, job.log
    bronze = Counter(row["value"] for row in table_rows(lake, "bronze"))
    assert bronze == {float(n): 1 for n in range(READINGS)}


def test_workers_without_our_packages_are_said_so(lake: Path, master: str) -> None:
    bare = lake.parent / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    job = ended(lake, master, str(bare))
    assert job.returncode == 69
    last = job.log.splitlines()[-1]  # behind those of Spark's own log
    assert f"workers of {master} cannot do our work: No module named " in last
    assert "install 'tidegate[spark]' in the Python that they start (PYSPARK_PYTHON)" in last


def test_workers_without_such_a_python_are_said_so(lake: Path, master: str) -> None:
    job = ended(lake, master, "/no/such/python")
    assert job.returncode == 69
    last = job.log.splitlines()[-1]
    assert f"workers of {master} cannot do our work: /no/such/python does not start" in last


def test_a_cluster_without_workers_is_waited_for_and_said_so(lake: Path, tmp_path: Path) -> None:
    with cluster(tmp_path / "empty", workers=0) as address, JobProcess(lake, master=address) as job:
        job.wait_for_log(f"no worker of {address} has taken a task for 30 s", 120)

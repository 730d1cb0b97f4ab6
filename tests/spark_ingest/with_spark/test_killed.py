"""Whoever is killed and whenever: every reading is in the tables once."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.spark_ingest.with_spark.exactly_once import (
    SEGMENT,
    assert_exact,
    batches_done,
    write,
)
from tests.support.job import JobProcess
from tests.support.waiting import until

pytestmark = pytest.mark.soak

JAVA, WORKERS, EXECUTORS = "SparkSubmit", "pyspark.daemon", "CoarseGrainedExecutorBackend"


def finish(lake: Path) -> None:
    last = JobProcess(lake, "--once")
    last.start()
    until(lambda: last.returncode is not None, 120)
    assert last.returncode == 0, last.log


def test_driver_java_and_workers_killed_at_any_moment_lose_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    dice = random.Random(11)
    lake = tmp_path / "lake"
    write(lake, range(2))
    job = JobProcess(lake, extra_config="rows_max = 1000\n")
    kills: list[tuple[str, Callable[[], object]]] = [
        ("driver", job.kill),
        ("java", lambda: job.kill_below(JAVA)),
        ("workers", lambda: job.kill_below(WORKERS)),
    ]
    rounds = 20

    def has_done(batches: int) -> bool:
        """With a supervisor: some of its processes it does not replace."""
        if job.returncode is not None:
            job.start()
        return batches_done(lake) >= batches

    job.start()
    for round_ in range(rounds):
        done = batches_done(lake)
        write(lake, range(2 + round_ * 4, 6 + round_ * 4))
        until(partial(has_done, done + 1), 120)
        victim, kill = kills[round_ % len(kills)]
        until(partial(has_done, batches_done(lake) + dice.randrange(3)), 120)
        assert kill() != 0, f"there were no {victim} to kill"
        if victim != "workers":
            until(lambda: job.returncode is not None, 60)
    job.kill()
    finish(lake)
    assert_exact(lake, (2 + rounds * 4) * SEGMENT)


def test_executors_of_a_cluster_killed_lose_and_repeat_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(lake, range(60))
    with JobProcess(
        lake, "--once", master="local-cluster[2,1,1024]", extra_config="rows_max = 1000\n"
    ) as job:
        for goal in (3, 8):
            until(lambda goal=goal: batches_done(lake) >= goal, 180)  # type: ignore[misc]
            assert job.kill_below(EXECUTORS) > 0
        until(lambda: job.returncode is not None, 300)
        assert job.returncode == 0, job.log
    assert_exact(lake, 60 * SEGMENT)


def test_when_java_is_gone_the_job_ends_with_a_line_that_says_so(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(lake, range(1))
    with JobProcess(lake) as job:
        until(lambda: batches_done(lake) > 0, 120)
        assert job.kill_below(JAVA) > 0
        until(lambda: job.returncode is not None, 60)
        assert job.returncode == 1
        assert "Spark's Java process is gone" in job.log_tail()

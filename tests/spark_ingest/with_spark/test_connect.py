"""Jobs at a real Spark Connect server: what they do, and whoever of the two is gone."""

from __future__ import annotations

import re
import socket
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.ports import free_port
from spark_ingest.spark import server as connect
from spark_ingest.spark.errors import NoSessionError
from spark_ingest.spark.server import open_at_server, server_of
from spark_ingest.spark.written import FILES_KEPT, Written, WrittenBatches
from spark_ingest.tables.checkpoint import Checkpoint, CheckpointError
from tests.spark_ingest.cli.test_command_line import spark_ingest
from tests.spark_ingest.with_spark.exactly_once import (
    SEGMENT,
    assert_exact,
    batches_done,
    rounds_done,
    write,
)
from tests.support.job import JobProcess
from tests.support.spark_connect import ConnectServer
from tests.support.waiting import until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    found = tmp_path / "lake"
    write(found, range(2))
    return found


def until_done(lake: Path, rounds: int) -> None:
    until(lambda: rounds_done(lake) >= rounds, 120)


def metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in found}


@pytest.mark.soak
def test_a_job_at_a_server_fills_the_tables_counts_and_ends_when_told(
    lake: Path, server: ConnectServer
) -> None:
    port = free_port(socket.SOCK_STREAM)
    conf = f'rows_max = 1000\nmetrics_listen = "127.0.0.1:{port}"\n'
    with JobProcess(lake, master=server.address, extra_config=conf) as job:
        until_done(lake, 2)
        write(lake, range(2, 3))
        until_done(lake, 3)
        bronze = 'tidegate_tables_rows_total{table="bronze"}'
        until(lambda: metrics(port).get(bronze) == 3 * SEGMENT)
        assert metrics(port)["tidegate_tables_batches_total"] == batches_done(lake)
        assert metrics(port)["tidegate_tables_segments_behind"] == 0
        job.ask_to_stop()
        until(lambda: job.returncode is not None, 60)
        assert job.returncode == 0, job.log
        assert "stopped as told" in job.log
    assert_exact(lake, 3 * SEGMENT)
    for words in (["gaps"], ["compact"], ["backfill", "rollups"], ["backfill", "quarantine"]):
        answer = spark_ingest(*words, "--config", job.config_path)
        assert answer.returncode == 0, answer.stderr
    assert_exact(lake, 3 * SEGMENT)
    checked = spark_ingest("doctor", "--spark", "--config", job.config_path).stdout
    assert f"no Java is needed here: Spark is at {server.address}" in checked
    assert "at the Spark Connect server 127.0.0.1 runs our Python" in checked


@pytest.mark.soak
def test_a_job_that_was_killed_takes_its_query_over_from_the_server(
    lake: Path, server: ConnectServer
) -> None:
    with JobProcess(lake, master=server.address, extra_config="rows_max = 1000\n") as job:
        for round_ in range(2, 10):
            job.wait_for_log("filling the tables", 120)
            write(lake, range(round_, round_ + 1))
            until_done(lake, round_ - round_ % 2)  # in every second round it has more to do
            job.kill()
            job.start()
        job.wait_for_log("filling the tables", 120)
        until_done(lake, 10)
        job.ask_to_stop()
        until(lambda: job.returncode is not None, 60)
        assert job.returncode == 0, job.log
    assert_exact(lake, 10 * SEGMENT)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("is_back_soon", "said"),
    [(False, "does not answer any more"), (True, "was started again")],
)
def test_a_server_that_was_killed_is_said_so_and_nothing_is_lost_or_repeated(
    lake: Path, tmp_path: Path, *, is_back_soon: bool, said: str
) -> None:
    with (
        ConnectServer(tmp_path / "connect") as server,
        JobProcess(lake, master=server.address, extra_config="rows_max = 1000\n") as job,
    ):
        for round_ in range(2, 5):
            job.wait_for_log("filling the tables", 120)
            until_done(lake, round_)
            write(lake, range(round_, round_ + 1))
            server.kill()
            if is_back_soon:
                server.start()
            until(lambda: job.returncode is not None, 120)
            assert job.returncode == 1
            assert said in job.log.splitlines()[-1]
            if not is_back_soon:
                server.start()
            job.start()
        until_done(lake, 5)
    assert_exact(lake, 5 * SEGMENT)


@pytest.mark.soak
def test_a_server_without_our_packages_is_said_so(lake: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    with ConnectServer(tmp_path / "connect", python=str(bare)) as server:
        answer = spark_ingest("run", "--once", "--config", JobProcess(
            lake, master=server.address).config_path)  # fmt: skip
    assert answer.returncode == 69
    assert "cannot do our work: No module named " in answer.stderr
    assert "install 'tidegate[spark]' in the Python that they start" in answer.stderr


def test_where_no_server_is_that_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "ANSWER_S_MAX", 0.2)
    address = f"sc://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    told = rf"no Spark Connect server answers at {re.escape(address)} within 0 s; sbin/start-"
    with pytest.raises(NoSessionError, match=told):
        open_at_server("tests", f"{address}/;token=secret", {})


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(NoSessionError, match=r"^sc://: "):
        open_at_server("tests", "sc://", {})


def test_without_its_client_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "NEEDED", ("sys", "gone", "gone.too"))
    told = r"Spark Connect needs gone, gone\.too:  .* -m pip install .*grpcio"
    with pytest.raises(NoSessionError, match=told):
        open_at_server("tests", "sc://127.0.0.1:1", {})


@pytest.mark.parametrize(
    ("master", "conf", "environment", "expected"),
    [
        (None, {}, {}, None),
        ("spark://a:7077", {}, {}, None),
        ("sc://a", {}, {}, "sc://a"),
        (None, {"spark.remote": "sc://a"}, {}, "sc://a"),
        (None, {}, {"SPARK_REMOTE": "sc://a"}, "sc://a"),
        ("sc://a", {}, {"SPARK_REMOTE": "sc://a"}, "sc://a"),
    ],
)
def test_a_server_is_named_in_one_of_three_places(
    master: str | None, conf: dict[str, str], environment: dict[str, str], expected: str | None
) -> None:
    assert server_of(master, conf, environment) == expected


@pytest.mark.parametrize("master", ["local[2]", "sc://b"])
def test_two_places_that_differ_are_refused(master: str) -> None:
    told = "spark.master and SPARK_REMOTE name different places; leave one of them"
    with pytest.raises(NoSessionError, match=told):
        server_of(master, {}, {"SPARK_REMOTE": "sc://a"})


def test_a_server_that_sees_another_lake_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    with pytest.raises(CheckpointError, match="the lake must have one path everywhere"):
        Checkpoint(folder).must_be_of("job")
    assert not folder.exists()
    with Checkpoint(folder) as checkpoint:
        checkpoint.must_be_of(checkpoint.app)
        with pytest.raises(CheckpointError, match="or is another one"):
            checkpoint.must_be_of("job")


def test_what_a_batch_brought_is_told_once_and_not_kept_for_ever(tmp_path: Path) -> None:
    there = WrittenBatches(tmp_path)
    for batch in range(FILES_KEPT + 5):
        there.keep(Written(batch, {"bronze": batch}, 0.5, repeated=1))
    assert there.take(4) is None
    assert there.take(5) == Written(5, {"bronze": 5}, 0.5, repeated=1)
    assert there.take(5) is None
    assert len(list((tmp_path / "written").iterdir())) == FILES_KEPT - 1

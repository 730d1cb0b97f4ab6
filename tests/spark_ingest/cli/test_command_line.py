"""`python -m spark_ingest` as its user types it: help, mistakes, and what is in the lake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from spark_ingest.segments.segment import octets_of
from spark_ingest.segments.shelf import Shelf, segment_path
from tests.spark_ingest.examples import delivery, rows_of, tagged
from tests.support.collector import CollectorProcess

REPOSITORY = Path(__file__).resolve().parents[3]


def spark_ingest(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_ingest", *map(str, arguments)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("verb", [[], ["collect"], ["init"], ["check"], ["segments"]])
def test_every_verb_has_help_with_an_example(verb: list[str]) -> None:
    answer = spark_ingest(*verb, "--help")
    assert answer.returncode == 0
    assert ("example:" in answer.stdout) == bool(verb)


@pytest.mark.parametrize("arguments", [[], ["colect"], ["collect", "--until-idle", "soon"]])
def test_a_wrong_command_line_is_told_without_a_traceback(arguments: list[str]) -> None:
    answer = spark_ingest(*arguments)
    assert answer.returncode == 2
    assert "usage:" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_wrong_configuration_ends_with_78(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[colector]\n")
    for verb in ("collect", "check"):
        answer = spark_ingest(verb, "--config", tmp_path / "x.toml")
        assert answer.returncode == 78
        assert "did you mean collector?" in answer.stderr
        assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("content", [None, "", "-----BEGIN PRIVATE KEY-----\n"])
def test_check_refuses_the_files_that_collect_would_refuse(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    text = '[lake]\npath = "lake"\n[collector]\ntopics = ["a"]\n[broker]\nca_file = "ca.pem"\n'
    (tmp_path / "x.toml").write_text(text + 'url = "mqtts://127.0.0.1:1"\n')
    answers = [spark_ingest(verb, "--config", tmp_path / "x.toml") for verb in ("check", "collect")]
    assert [each.returncode for each in answers] == [78, 78]
    assert "broker.ca_file" in answers[0].stderr
    assert answers[0].stderr == answers[1].stderr


def test_check_says_what_the_configuration_means(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(spark_ingest("init").stdout)
    answer = spark_ingest("check", "--config", tmp_path / "x.toml", "--set", "collector.name=c7")
    assert answer.returncode == 0
    assert (
        "c7 collects sensors/# of mqtt://127.0.0.1:1883 as one of tidegate-ingest" in answer.stdout
    )
    assert f"into {tmp_path}/lake/segments/c7" in answer.stdout


def test_a_lake_that_cannot_be_made_ends_with_73(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "x.toml").write_text('[lake]\npath = "file"\n[collector]\ntopics = ["a"]\n')
    answer = spark_ingest("collect", "--config", tmp_path / "x.toml")
    assert answer.returncode == 73
    assert "file: it is a file, not a folder" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_second_collector_of_the_same_name_ends_with_69(tmp_path: Path) -> None:
    with Mosquitto() as broker, CollectorProcess(tmp_path, broker.url) as collector:
        collector.wait_until_collecting()
        answer = spark_ingest("collect", "--config", collector.config_path)
    assert answer.returncode == 69
    assert "another collector called 'c1' is at work" in answer.stderr


def test_two_of_one_name_on_two_machines_are_told_what_is_wrong(tmp_path: Path) -> None:
    """Mosquitto closes the connection of the one that was there; newer ones say why."""
    (tmp_path / "other").mkdir()
    with Mosquitto() as broker:
        first = CollectorProcess(tmp_path, broker.url, lake=tmp_path / "here")
        second = CollectorProcess(tmp_path / "other", broker.url, lake=tmp_path / "there")
        with first:
            first.wait_until_collecting()
            with second:
                first.wait_for_log("is there another client of our name|another client is called")


def test_a_port_for_metrics_that_is_taken_ends_with_69(tmp_path: Path) -> None:
    with Mosquitto() as broker:
        config = f'[metrics]\nlisten = "127.0.0.1:{broker.port}"\n'
        collector = CollectorProcess(tmp_path, broker.url, "c1", config)
        collector.start()
        assert collector.wait_for_exit() == 69
    assert "metrics.listen: 127.0.0.1:" in collector.log
    assert "Address already in use" in collector.log


def test_segments_tells_what_is_there_what_is_missing_and_what_is_damaged(tmp_path: Path) -> None:
    with Shelf(tmp_path, "c1") as shelf:
        for number in range(4):
            rows = rows_of(delivery({"t": 1, "h": 2}, tagged(number)), delivery(b"\xff"))
            shelf.place(octets_of(*rows.finished("c1", number)))
    segment_path(tmp_path, "c1", 1).unlink()
    answer = spark_ingest("segments", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "c1: 3 segments to number 3; 6 messages, 9 values" in answer.stdout
    assert "in quarantine 3 form; segments missing: 1" in answer.stdout
    segment_path(tmp_path, "c1", 2).write_bytes(b"noise")
    answer = spark_ingest("segments", tmp_path, "--json")
    assert answer.returncode == 1
    assert json.loads(answer.stdout)["messages"] == 4
    assert "0000000002.parquet is damaged" in answer.stderr


def test_a_folder_without_segments_is_told(tmp_path: Path) -> None:
    answer = spark_ingest("segments", tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "no collector has written here" in answer.stderr


def test_the_collector_imports_nothing_of_spark(tmp_path: Path) -> None:
    script = (
        "import sys; from spark_ingest.__main__ import main\n"
        "import spark_ingest.collect.collector, spark_ingest.collect.assembly\n"
        "import spark_ingest.segments.writing\n"
        "from spark_ingest.segments.segment import octets_of\n"
        "heavy = {'pyspark', 'pandas', 'numpy', 'deltalake', 'duckdb'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
        "of_gateway = {name for name in sys.modules if name.startswith('gateway.')}\n"
        "print(sorted(n for n in of_gateway if not n.startswith('gateway.packets')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[]\n[]\n"


@pytest.mark.parametrize(
    ("package", "more", "told"),
    [
        ("pyarrow", "", f"{sys.executable} -m pip install 'prometheus-client"),
        ("confluent_kafka", '[kafka]\nservers = "k:9092"\n', "-m pip install 'confluent-kafka"),
    ],
)
def test_without_what_it_writes_by_it_says_what_to_install(
    tmp_path: Path, package: str, more: str, told: str
) -> None:
    """As on 32-bit ARM."""
    config = tmp_path / "ingest.toml"
    config.write_text(f'[lake]\npath = "lake"\n[collector]\ntopics = ["a"]\n{more}')
    script = (
        "import sys\n"
        f"sys.modules['{package}'] = None\n"
        "from spark_ingest.__main__ import main\n"
        f"sys.exit(main(['collect', '--config', {str(config)!r}]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY, env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 69
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr

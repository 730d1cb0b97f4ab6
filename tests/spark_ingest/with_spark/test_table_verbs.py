"""The verbs of the tables where Spark is not needed to know that something is wrong."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from spark_ingest.segments.shelf import segment_path
from tests.spark_ingest.cli.test_command_line import spark_ingest
from tests.spark_ingest.examples import delivery, tagged
from tests.support.lakes import write_segments

VERBS = ("run", "backfill", "compact", "gaps", "doctor", "demo")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ingest.toml"
    path.write_text('[lake]\npath = "lake"\n[broker]\nurl = "mqtt://127.0.0.1:1"\n')
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    answer = spark_ingest(verb, "--help")
    assert answer.returncode == 0
    assert f"example:\n  python -m spark_ingest {verb}" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["backfill"], "required: what"),
        (["backfill", "rollups", "--from", "yesterday"], "a day such as 2026-11-21"),
        (["compact", "--vacuum-after", "-1"], "expected 0 to 1000000 whole hours"),
        (["demo", "--devices", "0"], "expected 1 to 1000"),
    ],
)
def test_a_wrong_command_line_is_told_without_a_traceback(arguments: list[str], said: str) -> None:
    answer = spark_ingest(*arguments)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("verb", ["run", "compact", "gaps"])
def test_where_nothing_was_collected_it_is_said_before_spark_starts(
    config: Path, verb: str
) -> None:
    answer = spark_ingest(verb, "--config", config)
    assert answer.returncode == 1
    assert "lake has no folder 'segments': nothing has been collected there" in answer.stderr
    assert "python -m spark_ingest demo" in answer.stderr


@pytest.mark.parametrize("verb", ["compact", "gaps"])
def test_where_nothing_was_read_from_a_topic_yet_it_is_said(config: Path, verb: str) -> None:
    config.write_text(config.read_text() + '[kafka]\nservers = "127.0.0.1:1"\n')
    answer = spark_ingest(verb, "--config", config)
    assert answer.returncode == 1
    assert "lake/tables is not there: python -m spark_ingest run fills it" in answer.stderr


def test_doctor_looks_for_kafka_instead_of_segments(config: Path) -> None:
    config.write_text(config.read_text() + '[kafka]\nservers = "127.0.0.1:1"\n')
    answer = spark_ingest("doctor", "--config", config)
    assert answer.returncode == 1
    assert "segments" not in answer.stdout
    missing = find_spec("confluent_kafka") is None
    said = "-m pip install 'confluent-kafka" if missing else "kafka.servers says where"
    assert said in answer.stdout


def test_a_folder_that_is_there_already_is_not_filled_by_the_demo(tmp_path: Path) -> None:
    answer = spark_ingest("demo", "--folder", tmp_path)
    assert answer.returncode == 73
    assert "is there already; name a new folder" in answer.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[spark]\ntrigger_s = 'fast'\n", "spark.trigger_s: expected a number from 0"),
        ("[spark]\nconf = { a = [1] }\n", "spark.conf: expected a table of at most 256 keys"),
        ("[[route]]\nname = 'hot'\n", "route.0.where: must be given"),
        ("[[route]]\nname = 'bronze'\nwhere = 'true'\n", "is another table's name already"),
        ("[[route]]\nname = 'a'\nwhere = 'x'\n" * 2, "is another table's name already"),
        ("[gaps]\nsilence_periods = 0\n", "gaps.silence_periods: expected a number from 1.5"),
    ],
)
def test_a_wrong_setting_is_told_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "x.toml"
    config.write_text(f"{text}[lake]\npath = 'lake'\n" if text[1] != "[" else text)
    answer = spark_ingest("run", "--config", config, "--set", f"lake.path={tmp_path}")
    assert answer.returncode == 78, answer.stderr
    assert said in answer.stderr


def test_the_doctor_says_what_is_wrong_and_what_to_do(config: Path) -> None:
    answer = spark_ingest("doctor", "--config", config)
    assert answer.returncode == 1
    lake = config.parent / "lake"
    assert f"BAD   {lake} does not exist; `collect` makes it" in answer.stdout
    assert "BAD   mqtt://127.0.0.1:1: Connection refused; only `collect` needs it" in answer.stdout
    for well in ("Python 3.", "pyarrow ", "pyspark ", "deltalake ", "Java "):
        assert f"ok    {well}" in answer.stdout


def test_the_doctor_finds_segments_that_are_lost_or_damaged(config: Path) -> None:
    lake = config.parent / "lake"
    write_segments(lake, "c1", *([delivery(1.0, tagged(n))] for n in range(4)))
    write_segments(lake, "c2", [delivery(1.0, tagged(9))])
    assert "ok    c1: 4 segments, 4 messages" in spark_ingest("doctor", "--config", config).stdout
    segment_path(lake, "c1", 2).unlink()
    answer = spark_ingest("doctor", "--config", config).stdout
    assert f"BAD   {lake}/segments/c1: segments 2 and others are missing" in answer
    write_segments(lake, "c1", [delivery(1.0, tagged(5))])
    segment_path(lake, "c1", 0).write_bytes(b"?")
    assert "is damaged" in spark_ingest("doctor", "--config", config).stdout


def test_the_doctor_finds_a_table_that_is_gone(config: Path) -> None:
    lake = config.parent / "lake"
    write_segments(lake, "c1", [delivery(1.0, tagged(0))])
    commits = lake / "checkpoints" / "tidegate" / "commits"
    commits.mkdir(parents=True)
    (commits / "0").write_text("v1\n{}")
    answer = spark_ingest("doctor", "--config", config).stdout
    assert f"BAD   {lake}/tables/bronze is gone, and {commits.parent} says" in answer

"""A Kafka topic to the tables by a job at a real Spark Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_ingest.cli.test_command_line import spark_ingest
from tests.spark_ingest.with_kafka.test_tables import BAD, READINGS, Site
from tests.support.job import JobProcess
from tests.support.kafka import KafkaBroker, connector
from tests.support.spark_connect import ConnectServer

pytestmark = pytest.mark.soak


@pytest.fixture
def site(spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path) -> Site:
    found = Site(spark, kafka, topic, tmp_path / "lake")
    found.write(READINGS[:200], READINGS[150:], [BAD], [BAD])
    return found


@pytest.fixture
def conf() -> dict[str, str]:
    return {"spark.jars": connector()}


@pytest.fixture
def server(tmp_path: Path, conf: dict[str, str]) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path / "connect", conf=conf) as running:
        yield running


def run(site: Site, server: ConnectServer) -> tuple[int, str]:
    kafka = f'[kafka]\nservers = "{site.kafka.servers}"\ntopic = "{site.topic}"\n'
    job = JobProcess(site.lake, master=server.address, extra_config=f"rows_max = 1000\n{kafka}")
    answer = spark_ingest("run", "--once", "--config", job.config_path)
    return answer.returncode, answer.stderr


def test_every_reading_of_a_topic_is_in_the_tables_once(site: Site, server: ConnectServer) -> None:
    code, said = run(site, server)
    assert code == 0, said
    site.assert_exact()
    site.write(READINGS[100:120])
    code, said = run(site, server)
    assert code == 0, said
    site.assert_exact()


@pytest.mark.parametrize("conf", [{}])
def test_a_server_without_the_connector_is_said_so(site: Site, server: ConnectServer) -> None:
    code, said = run(site, server)
    assert code == 1
    assert "start the Spark Connect server with --packages org.apache.spark:spark-sql-kafka" in said

"""Kafka where it is not to be had. Where it is: tests/spark_ingest/with_kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_ingest.spark.inputs import InputError
from spark_ingest.spark.job import Job, JobOptions
from spark_ingest.spark.job_counters import JobCounters, summary
from spark_ingest.spark.kafka_input import KafkaInput


def test_without_spark_s_connector_it_says_which_jar_to_take(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = JobOptions(tmp_path, once=True, input=KafkaInput("127.0.0.1:1", "readings"))
    with pytest.raises(InputError) as error:
        Job(spark, options, JobCounters()).run()
    packages = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    assert f'{{ "spark.jars.packages" = "{packages}" }}' in str(error.value)


def test_a_report_of_a_topic_counts_records_once() -> None:
    source = {
        "startOffset": {"t": {"0": 10, "1": 5}},
        "endOffset": '{"t": {"0": 20, "1": 5, "2": 3}}',
        "latestOffset": {"t": {"0": 21, "1": 5, "2": 7}},
    }
    progress = {"batchId": 4, "timestamp": "now", "numInputRows": 26, "sources": [source]}
    report = summary(progress)
    assert (report["rows"], report["records_behind"]) == (13, 5)
    assert report["records_read"] == {"t": {"0": 20, "1": 5, "2": 3}}

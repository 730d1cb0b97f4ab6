"""Records of a real Kafka to the tables: every reading once, whatever is there twice and whatever
dies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_ingest.kafka.topic import KafkaOptions
from spark_ingest.kafka.writer import KafkaWriter
from spark_ingest.payload.record import Delivery
from spark_ingest.payload.registry import Registry
from spark_ingest.segments.rows import RowOptions
from spark_ingest.spark.audit import SilenceOptions
from spark_ingest.spark.inputs import InputError
from spark_ingest.spark.job import Job, JobError, JobOptions
from spark_ingest.spark.job_counters import JobCounters
from spark_ingest.spark.kafka_input import KafkaInput
from spark_ingest.spark.upkeep import Upkeep
from spark_ingest.tables.checkpoint import CheckpointError
from spark_ingest.tables.tables import GAPS, ROLLUPS, checkpoint_folder, table_folder
from tests.spark_ingest.examples import delivery, tagged
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.dying_driver import die_at_each_commit
from tests.support.kafka import KafkaBroker, records_in
from tests.support.lakes import write_segments

READINGS = [delivery(float(n), tagged(n)) for n in range(300)]
BAD = delivery(b"\xff\x00", tagged(300))


class Site:
    """A topic, the lake that is filled from it, and collectors that write to it."""

    def __init__(self, spark: SparkSession, kafka: KafkaBroker, topic: str, lake: Path) -> None:
        self.kafka = kafka
        self.topic = topic
        self.lake = lake
        self.spark = spark

    def write(self, *batches: Sequence[Delivery], options: RowOptions | None = None) -> None:
        settings = KafkaOptions(self.kafka.servers, self.topic, "c1", partitions=2)
        options = options or RowOptions(clock_ahead_s_max=1e9)
        writer = KafkaWriter(
            options=settings, registry=Registry([]), row_options=options, lake=self.lake
        )
        for batch in batches:
            writer.write(list(batch))

    def run(self, records_max: int = 1_000_000, **options: Any) -> JobCounters:
        """Until all is read."""
        counters = JobCounters()
        source = KafkaInput(self.kafka.servers, self.topic, records_max)
        all_rules = JobOptions(self.lake, once=True, input=source)
        Job(self.spark, replace(all_rules, **options), counters).run()
        return counters

    def assert_exact(self, readings: int = 300) -> None:
        bronze = table_rows(self.lake, "bronze")
        assert Counter(row["value"] for row in bronze) == {float(n): 1 for n in range(readings)}
        (bad,) = table_rows(self.lake, "quarantine")
        assert (bad["error"], bad["payload"], bad["seq"]) == ("form", b"\xff\x00", 300)
        for name in ROLLUPS:
            partials = table_rows(self.lake, name)
            assert sum(row["n"] for row in partials) == readings
            assert sum(row["sum"] for row in partials) == sum(range(readings))


@pytest.fixture
def site(spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path) -> Site:
    return Site(spark, kafka, topic, tmp_path / "lake")


def gaps_of(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        Upkeep(site.spark, site.lake).audit(SilenceOptions())[GAPS].read().to_pylist()
    )
    return found


def left_out(counters: JobCounters, reason: str) -> float | None:
    return counters.registry.get_sample_value(
        "tidegate_tables_records_left_out_total", {"reason": reason}
    )


def test_all_tables_have_every_reading_once_within_a_batch_and_across(site: Site) -> None:
    site.write(READINGS[:200], READINGS[150:220])
    counters = site.run()
    assert left_out(counters, "repeated") == 50
    site.write(READINGS[:10], READINGS[220:], [BAD], [BAD])
    progress = site.lake / "progress.json"
    counters = site.run(progress_file=progress)
    assert left_out(counters, "repeated") == 11
    assert '"records_behind": 0' in progress.read_text()
    assert '"rows": 92' in progress.read_text()
    site.assert_exact()
    site.run()
    site.assert_exact()
    assert gaps_of(site) == []


def test_tables_are_the_same_as_from_segments(site: Site, spark: SparkSession) -> None:
    """All columns of all rows, of every kind of message there is."""
    pack = delivery(
        [{"bn": "n7/", "n": "t", "u": "Cel", "v": 0.1}, {"n": "s", "vs": "dörr"}], tagged(1)
    )
    plain = delivery({"level": 1e-310, "on": True}, tagged(2, gw="a/b"), topic="farm/ü")
    foreign = delivery(b"21.5", [], topic="other/t", qos=0)
    half = delivery(b"7", [("gw", "gh"), ("client", "c"), ("ts", "1799999000000")])
    messages = [pack, plain, foreign, half, replace(BAD, retain=True)]
    options = RowOptions(keep_payload=True, clock_ahead_s_max=1e9)
    site.write(messages, options=options)
    site.run()
    other = site.lake.parent / "other"
    write_segments(other, "c1", messages)
    Job(spark, JobOptions(other, once=True), JobCounters()).run()
    for name in ("bronze", "quarantine"):
        by_kafka, by_lake = (
            sorted(table_rows(lake, name), key=lambda row: (row["topic"], str(row["metric"])))
            for lake in (site.lake, other)
        )
        assert len(by_kafka) == {"bronze": 6, "quarantine": 1}[name]
        for row in (*by_kafka, *by_lake):
            del row["payload"]
        assert by_kafka == by_lake
    kept = {row["topic"]: row for row in table_rows(site.lake, "bronze")}
    assert kept["other/t"]["value"] == 21.5


def test_a_hole_in_a_gateway_s_numbering_is_found(site: Site) -> None:
    site.write([each for n, each in enumerate(READINGS) if not 40 <= n < 45])
    site.run()
    (gap,) = gaps_of(site)
    assert (gap["gw"], gap["epoch"], gap["first_seq"], gap["last_seq"]) == ("gh", 1, 40, 44)


def test_a_driver_that_dies_at_any_commit_loses_and_repeats_nothing(site: Site) -> None:
    """The first batch dies before its first commit, the second behind that, and so on. Repeats are
    in each batch, of itself and of those before.
    """
    dice = random.Random(5)
    for first in range(0, 300, 50):
        repeats = [dice.choice(READINGS[: first + 50]) for _ in range(10)]
        site.write(READINGS[first : first + 50], repeats)
    site.write([BAD])
    die_at_each_commit(lambda: site.run(records_max=50))
    site.assert_exact()


def test_what_was_seen_before_a_batch_cannot_be_done_without(site: Site) -> None:
    site.write(READINGS[:100])
    site.run()
    site.write(READINGS[50:], [BAD])
    seen = checkpoint_folder(site.lake, "tidegate") / "seen" / "0.json"
    kept = seen.read_bytes()
    for damage in (kept.replace(b"gh", b"hg"), None):
        seen.unlink() if damage is None else seen.write_bytes(damage)
        with pytest.raises(CheckpointError, match="would be there twice"):
            site.run()
    seen.write_bytes(kept)
    site.run()
    site.assert_exact()


def test_what_no_collector_wrote_is_left_out_and_counted(site: Site) -> None:
    site.write(READINGS, [BAD])
    ours = records_in(site.kafka, site.topic)[0]
    tag = [("tidegate", b"1"), ("gw", b"gh"), ("epoch", b"1"), ("seq", b"-4")]
    site.kafka.put(
        site.topic,
        {"value": b"hello"},
        {"value": None, "key": b"k"},
        {"value": b'{"rows": 3}', "headers": [("tidegate", b"one"), ("seq", b"7")]},
        {"value": b"no json", "headers": tag},
    )
    counters = site.run()
    assert left_out(counters, "foreign") == 3
    assert ours.message["rows"]
    site.assert_exact()


def test_records_of_a_newer_collector_are_refused(site: Site) -> None:
    site.write(READINGS[:10])
    site.kafka.put(site.topic, {"value": b"{}", "headers": [("tidegate", b"2")]})
    with pytest.raises(InputError, match="records of version 2, this program knows 1"):
        site.run()
    assert table_rows(site.lake, "bronze") == []


def test_a_checkpoint_of_segments_is_not_continued_with_a_topic(
    site: Site, spark: SparkSession
) -> None:
    write_segments(site.lake, "c1", READINGS[:10])
    Job(spark, JobOptions(site.lake, once=True), JobCounters()).run()
    with pytest.raises(InputError, match="reads segments, and this one reads a Kafka topic"):
        site.run()


def test_a_checkpoint_of_a_topic_is_not_continued_with_segments(
    site: Site, spark: SparkSession
) -> None:
    site.write(READINGS[:10])
    site.run()
    write_segments(site.lake, "c1", READINGS[:10])
    with pytest.raises(InputError, match="reads a Kafka topic, and this one reads segments"):
        Job(spark, JobOptions(site.lake, once=True), JobCounters()).run()
    assert len(table_rows(site.lake, "bronze")) == 10


def test_a_topic_that_was_made_anew_is_an_error_and_no_silent_loss(site: Site) -> None:
    site.write(READINGS[:100])
    site.run()
    site.kafka.remove_topic(site.topic)
    site.write(READINGS[100:110])
    with pytest.raises(JobError, match="records are gone from the topic that were not read yet"):
        site.run()
    assert table_folder(site.lake, "bronze").exists()

"""Sensors, gateway, broker, collectors, Kafka and Spark, each killed while readings come: what the
sensors were promised is in the tables, exactly once.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from pathlib import Path

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from tests.spark_ingest.with_kafka.test_collecting import config
from tests.spark_ingest.with_spark.exactly_once import batches_done
from tests.spark_ingest.with_spark.frames import table_rows
from tests.support.collector import CollectorProcess
from tests.support.job import JobProcess
from tests.support.kafka import KafkaBroker, connector, records_in
from tests.support.plain_sensors import PlainSensors
from tests.support.waiting import until

SENSORS, READINGS = 10, 400
VALUES = [count / 8 for count in range(READINGS)]  # whose sums are exact
EXPECTED = {(f"farm/{n}", value): 1 for n in range(SENSORS) for value in VALUES}


def values_in(lake: Path) -> Counter[tuple[str, float]]:
    if not (lake / "tables" / "bronze" / "_delta_log").exists():
        return Counter()
    return Counter((row["topic"], row["value"]) for row in table_rows(lake, "bronze"))


def reached(kafka: KafkaBroker, topic: str, records: int) -> bool:
    return len(records_in(kafka, topic)) >= records


def job_of(lake: Path, kafka: KafkaBroker, topic: str) -> JobProcess:
    return JobProcess(
        lake,
        extra_config=f'rows_max = 1000\nconf = {{ "spark.jars" = "{connector()}" }}\n'
        f'[kafka]\nservers = "{kafka.servers}"\ntopic = "{topic}"\n',
    )


def test_whoever_is_killed_every_reading_is_in_the_tables_once(
    broker: Mosquitto, topic: str, tmp_path: Path
) -> None:
    lake = tmp_path / "tables"
    with KafkaBroker(tmp_path) as kafka:
        collectors = [
            CollectorProcess(tmp_path, broker.url, name, config(kafka, topic))
            for name in ("c1", "c2")
        ]
        job = job_of(lake, kafka, topic)
        with (
            GatewayProcess(tmp_path, broker.url) as gateway,
            collectors[0],
            collectors[1],
            PlainSensors(gateway.port, "farm", SENSORS) as sensors,
        ):
            gateway.wait_until_connected()
            for each in collectors:
                each.wait_until_collecting()
            sending = threading.Thread(target=sensors.send, args=(VALUES,))
            sending.start()
            until(partial(reached, kafka, topic, 200))
            with job:
                for victim in (collectors[0], kafka, collectors[1], kafka):
                    before = len(records_in(kafka, topic))
                    victim.kill()
                    victim.start()
                    until(partial(reached, kafka, topic, min(before + 100, 4000)), 60)
                until(lambda: batches_done(lake) > 0, 120)
                job.kill()
                job.start()
                sending.join()
                until(lambda: values_in(lake) >= Counter(EXPECTED), 120)
    assert values_in(lake) == EXPECTED
    rows = table_rows(lake, "rollup_1d")
    assert (sum(row["n"] for row in rows), sum(row["sum"] for row in rows)) == (
        SENSORS * READINGS, SENSORS * sum(VALUES),
    )  # fmt: skip

"""From sensors over the gateway and the broker to segments: every acknowledged reading is there,
under the one sequence that the gateway gave it, also when everybody is killed."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from spark_ingest.segments.segment import read_footer
from spark_ingest.segments.sequences import sequences_by_epoch
from spark_ingest.segments.shelf import segment_numbers, segment_path
from tests.end_to_end.under_load import Field
from tests.support.collector import CollectorProcess, rows_in
from tests.support.plain_sensors import PlainSensors
from tests.support.publisher import Publisher
from tests.support.waiting import until
from tests.support.watcher import Watcher

# What else is on its topics the gateway says of itself.
READINGS = ("farm/", "tidegate/ingest/")
# The payloads of these sensors are their topics.
CONFIG = '[rotation]\nlinger_ms = 50\n[[schema]]\nname = "words"\ntopic = "#"\nformat = "text"\n'


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    with Mosquitto(["max_queued_messages 0"]) as running:
        yield running


def topics_in(lake: Path) -> set[str]:
    return {row["topic"] for row in rows_in(lake, "c1", "c2")}


def assert_every_reading_has_one_identity(lake: Path, expected: set[str]) -> None:
    by_identity: dict[tuple[int, int], set[str]] = {}
    for row in rows_in(lake, "c1", "c2"):
        assert (row["gw"], row["error"], row["ts_src"]) == ("under-test", None, "gateway")
        assert row["text"] == row["topic"]
        by_identity.setdefault((row["epoch"], row["seq"]), set()).add(row["topic"])
    assert all(len(topics) == 1 for topics in by_identity.values())
    assert {topic for topics in by_identity.values() for topic in topics} == expected


def holes(lake: Path) -> dict[tuple[str, int], set[int]]:
    """By gateway and epoch, from the footers alone, as an audit would."""
    seen: dict[tuple[str, int], set[int]] = {}
    for name in ("c1", "c2"):
        for number in segment_numbers(lake, name):
            footer = read_footer(segment_path(lake, name, number))
            for life, sequences in sequences_by_epoch(footer.ids).items():
                seen.setdefault(life, set()).update(sequences)
    return {life: {*range(max(each))} - each for life, each in seen.items()}


def test_what_sensors_were_promised_is_in_the_lake_under_one_identity(
    broker: Mosquitto, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    collectors = [CollectorProcess(tmp_path, broker.url, name, CONFIG) for name in ("c1", "c2")]
    with GatewayProcess(tmp_path, broker.url) as gateway, collectors[0], collectors[1]:
        gateway.wait_until_connected()
        for each in collectors:
            each.wait_until_collecting()
        field = Field(gateway.port, "farm", sensors=10, readings=20)
        asyncio.run(field.run())
        until(lambda: topics_in(lake) >= field.expected)
    assert_every_reading_has_one_identity(lake, field.expected)
    assert holes(lake) == {("under-test", 1): set()}


def test_whoever_is_killed_no_acknowledged_reading_is_lost(
    broker: Mosquitto, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    collectors = [CollectorProcess(tmp_path, broker.url, name, CONFIG) for name in ("c1", "c2")]
    gateway = GatewayProcess(tmp_path, broker.url, '[journal]\nacknowledge = "journal"\n')
    with gateway, collectors[0], collectors[1]:
        gateway.wait_until_connected()
        for each in collectors:
            each.wait_until_collecting()
        field = Field(gateway.port, "farm", sensors=10, readings=30)

        async def with_killings() -> None:
            sensing = asyncio.create_task(field.run())
            for share, victim in ((0.2, collectors[0]), (0.4, gateway), (0.6, collectors[1])):
                await field.progress(share)
                victim.kill()
                victim.start()
            await sensing

        asyncio.run(with_killings())
        until(lambda: topics_in(lake) >= field.expected)
    assert_every_reading_has_one_identity(lake, field.expected)
    assert set().union(*holes(lake).values()) == set()


KINDS = {"state", "stats", "clients", "announced", "values", "config"}


def test_what_the_gateway_says_of_itself_is_no_reading(broker: Mosquitto, tmp_path: Path) -> None:
    """Who collects everything has the readings, and nothing in quarantine."""
    lake, port = tmp_path / "lake", free_tcp_port()
    collector = CollectorProcess(
        tmp_path, broker.url, "c1",
        f'[rotation]\nlinger_ms = 50\n[metrics]\nlisten = "127.0.0.1:{port}"\n',
    )  # fmt: skip
    text = collector.config_path.read_text()
    collector.config_path.write_text(text.replace('["farm/#"]', '["#"]'))
    telling = "[presence]\nstats_s = 10\n[home_assistant]\nenable = true\n"
    with Watcher(broker, "#") as heard, collector:
        collector.wait_until_collecting()
        with GatewayProcess(tmp_path, broker.url, telling) as gateway:
            gateway.wait_until_connected()
            with PlainSensors(gateway.port, "farm", 3) as sensors:
                sensors.send([20.5, 21.5])
                until(lambda: kinds_of(heard) == KINDS)
            assert gateway.stop() == 0
        with Publisher(broker.port) as publisher:
            publisher.publish([99], topic="tidegate/under-test/state")
        until(lambda: any(row["seq"] == 99 for row in rows_in(lake)))
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            counted = answer.read().decode()
    found = Counter((row["topic"], row["value"], row["error"]) for row in rows_in(lake))
    readings = [(f"farm/{n}", value, None) for n in range(3) for value in (20.5, 21.5)]
    assert found == Counter([*readings, ("tidegate/under-test/state", 99.0, None)])
    said = [topic for topic in heard.topics() if not topic.startswith(READINGS)]
    (left_out,) = re.findall(r"^tidegate_ingest_messages_left_out_total (\S+)", counted, re.M)
    assert float(left_out) >= len(said)


def kinds_of(heard: Watcher) -> set[str]:
    """Of what is on no sensor's topic."""
    said = [topic.split("/") for topic in heard.topics() if not topic.startswith(READINGS)]
    return {levels[2] if levels[0] == "tidegate" else levels[-1] for levels in said}

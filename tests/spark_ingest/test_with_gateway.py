"""From sensors over the gateway and the broker to segments: every acknowledged reading is there,
under the one sequence that the gateway gave it, also when everybody is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto
from spark_ingest.segment import read_footer
from spark_ingest.sequences import lives_of
from spark_ingest.shelf import segment_numbers, segment_path
from tests.end_to_end.under_load import Field
from tests.support.collector import CollectorProcess, rows_in
from tests.support.waiting import until

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
            for life, sequences in lives_of(footer.ids).items():
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

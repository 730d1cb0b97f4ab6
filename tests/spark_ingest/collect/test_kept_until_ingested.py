"""Gateways keep readings until a collector says that they are on its disk: what a broker loses that
has acknowledged it comes again, and nothing is in the lake under two identities.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.end_to_end.under_load import Field
from tests.spark_ingest.collect.test_with_gateway import CONFIG as WORDS
from tests.spark_ingest.collect.test_with_gateway import (
    assert_every_reading_has_one_identity,
    holes,
    topics_in,
)
from tests.support.collector import CollectorProcess
from tests.support.waiting import until

NAMES = ("c1", "c2")
TELLS, TELLS_NOTHING = "every_s = 0.2", "enabled = false"


@pytest.fixture
def broker() -> Iterator[Mosquitto]:
    """It writes nothing to disk: whoever kills it takes all that it has acknowledged."""
    with Mosquitto(["max_queued_messages 0"]) as running:
        yield running


class Keeping:
    """A gateway that keeps what it sends, and two collectors."""

    def __init__(self, folder: Path, broker: Mosquitto, acknowledge: str, timeout_s: int) -> None:
        self.lake = folder / "lake"
        self.admin_port = free_tcp_port()
        self.gateway = GatewayProcess(
            folder,
            broker.url,
            f"[journal]\nkeep_until_ingested = true\ningest_timeout_s = {timeout_s}\n"
            f'[admin]\nlisten = "127.0.0.1:{self.admin_port}"\n',
        )
        config = f"{WORDS}[acknowledge]\n{acknowledge}\n"
        self.collectors = [CollectorProcess(folder, broker.url, each, config) for each in NAMES]

    def status(self) -> dict[str, Any]:
        with urlopen(f"http://127.0.0.1:{self.admin_port}/api/status") as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def kept(self) -> int:
        """-1 while the gateway starts."""
        try:
            count: int = self.status()["ingest"]["kept"]
        except URLError:
            return -1
        return count


@pytest.fixture
def keeping(request: pytest.FixtureRequest, broker: Mosquitto, tmp_path: Path) -> Iterator[Keeping]:
    """Its parameter, if any: whether collectors tell what they have, and `ingest_timeout_s`."""
    found = Keeping(tmp_path, broker, *getattr(request, "param", (TELLS, 60)))
    with found.gateway, found.collectors[0], found.collectors[1]:
        found.gateway.wait_until_connected()
        for each in found.collectors:
            each.wait_until_collecting()
        yield found


def test_the_journal_is_empty_when_two_collectors_have_all_between_them(keeping: Keeping) -> None:
    field = Field(keeping.gateway.port, "farm", sensors=10, readings=20)
    asyncio.run(field.run())
    until(lambda: keeping.kept() == 0)
    assert topics_in(keeping.lake) == field.expected
    ingest = keeping.status()["ingest"]
    assert (ingest["ingested"], ingest["sent_again"]) == (200, 0)
    assert keeping.status()["alarms"] == []


@pytest.mark.guarantee("8")
@pytest.mark.parametrize("keeping", [(TELLS, 2)], indirect=True)
def test_what_a_broker_took_with_it_comes_again(broker: Mosquitto, keeping: Keeping) -> None:
    for each in keeping.collectors:
        each.kill()
    field = Field(keeping.gateway.port, "farm", sensors=5, readings=10)
    asyncio.run(field.run())
    until(lambda: keeping.kept() == 50)
    assert topics_in(keeping.lake) == set()
    broker.kill()
    keeping.gateway.kill()  # in the same power cut
    broker.start()
    keeping.gateway.start()
    for each in keeping.collectors:
        each.start()
        each.wait_until_collecting()  # by what it has of these the gateway knows that it lives
    later = Field(keeping.gateway.port, "farm/later", sensors=2, readings=2)
    asyncio.run(later.run())
    # One that is on its way once more is not kept until the broker has it again.
    until(lambda: topics_in(keeping.lake) >= field.expected | later.expected, 60)
    until(lambda: keeping.kept() == 0, 60)
    assert_every_reading_has_one_identity(keeping.lake, field.expected | later.expected)
    assert set().union(*holes(keeping.lake).values()) == set()
    assert keeping.status()["ingest"]["sent_again"] > 40


@pytest.mark.guarantee("8")
@pytest.mark.parametrize("keeping", [(TELLS_NOTHING, 60)], indirect=True)
def test_a_collector_tells_in_its_next_life_what_it_has(
    broker: Mosquitto, keeping: Keeping
) -> None:
    """It ends between the segment and the receipt, and the broker forgets all receipts."""
    field = Field(keeping.gateway.port, "farm", sensors=2, readings=5)
    asyncio.run(field.run())
    until(lambda: topics_in(keeping.lake) >= field.expected)
    assert keeping.kept() == len(field.expected)
    for each in keeping.collectors:
        each.kill()
        config = each.config_path.read_text()
        each.config_path.write_text(config.replace(TELLS_NOTHING, TELLS))
    broker.restart()
    keeping.gateway.kill()
    keeping.gateway.start()
    for each in keeping.collectors:
        each.start()
    until(lambda: keeping.kept() == 0, 30)
    assert keeping.status()["ingest"]["sent_again"] == 0


@pytest.mark.parametrize("keeping", [(TELLS_NOTHING, 1)], indirect=True)
def test_who_asks_is_told_that_nobody_says_what_is_ingested(keeping: Keeping) -> None:
    field = Field(keeping.gateway.port, "farm", sensors=2, readings=2)
    asyncio.run(field.run())
    until(lambda: bool(keeping.status()["alarms"]))
    doubt = "4 readings are kept, the oldest for"
    assert doubt in asked_of(keeping, "status")
    assert "4 readings kept until ingested" in asked_of(keeping, "status")
    assert f"warning: {doubt}" in asked_of(keeping, "doctor")
    keeping.gateway.kill()
    assert "whether readings are ingested is not known" in asked_of(keeping, "doctor")


def asked_of(keeping: Keeping, verb: str) -> str:
    """What `tidegate VERB` says, in one line."""
    command = [sys.executable, "-m", "gateway", verb, "--config", str(keeping.gateway.config_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert "Traceback" not in answer.stderr
    return " ".join(answer.stdout.split())

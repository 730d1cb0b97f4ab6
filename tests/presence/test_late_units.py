"""A value that gets a unit later has its state class later still."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.core.state_records import ClientId
from gateway.presence.documents import LedgerEntry, RetainedMessage
from gateway.presence.homeassistant.announcements import Announcements
from gateway.presence.homeassistant.discovery_documents import DiscoveryDocuments
from gateway.presence.homeassistant.late_units import SETTLES_S
from gateway.presence.last_values import Received
from gateway.presence.retained_ledger import RetainedLedgerFile
from gateway.presence.topics import Topics
from gateway.presence.values import Value

TANK = ClientId("tank")
TOPIC = "site/tank"


class Said:
    """What is announced of one device, as times go by."""

    def __init__(self) -> None:
        documents = DiscoveryDocuments(Topics("", "gh"), "homeassistant", "gh", "1")
        self.announcements = Announcements(documents, lambda _: b"{}")
        self.last: RetainedMessage | None = None

    def reads(self, unit: str, at: float, name: str = "level") -> dict[str, Any] | None:
        value = Value(name, 1.5, unit)
        self.announcements.learn(Received(TANK, TOPIC, [value], []), at)
        self.announcements.presence_published(TANK)
        return self.at(at)

    def at(self, now: float) -> dict[str, Any] | None:
        """The entity of the value, if the device is announced now."""
        found = None
        while (message := self.announcements.next_announcement(now)) is not None:
            if message.client_id == TANK:
                self.last = message
                components = json.loads(message.payload)["components"]
                (found,) = (each for each in components.values() if each.get("name") == "Level")
        return found


def of(entity: dict[str, Any] | None) -> tuple[str | None, str | None]:
    assert entity is not None
    return entity.get("unit_of_measurement"), entity.get("state_class")


def test_statistics_begin_when_five_minutes_have_the_unit() -> None:
    said = Said()
    assert of(said.reads("", 0.0)) == (None, None)
    assert of(said.reads("m", 10.0)) == ("m", None)
    assert said.at(10.0 + SETTLES_S - 1) is None
    assert of(said.at(10.0 + SETTLES_S)) == ("m", "measurement")
    assert said.at(10.0 + 3 * SETTLES_S) is None


def test_a_value_that_comes_with_its_unit_has_statistics_at_once() -> None:
    assert of(Said().reads("m", 0.0)) == ("m", "measurement")


def test_another_announcement_meanwhile_changes_nothing() -> None:
    said = Said()
    said.reads("", 0.0)
    said.reads("m", 10.0)
    said.reads("Cel", 200.0, "t")
    said.announcements.announce_all()
    assert of(said.at(300.0)) == ("m", None)
    assert of(said.at(10.0 + SETTLES_S)) == ("m", "measurement")


@pytest.mark.parametrize("unit_before", ["", "m"])
def test_a_restart_of_the_gateway_does_not_shorten_it(tmp_path: Path, unit_before: str) -> None:
    before = Said()
    before.reads("", 0.0)
    if unit_before:
        before.reads(unit_before, 10.0)
    message = before.last
    assert message is not None
    ledger = RetainedLedgerFile(tmp_path)
    entry = LedgerEntry(TANK, message.values, without_unit=message.without_unit)
    ledger.published(message.topic, entry)
    ledger.flush()
    said = Said()
    said.announcements.restore(message.topic, RetainedLedgerFile(tmp_path).load()[message.topic])
    assert of(said.reads("m", 20.0)) == ("m", None)
    assert of(said.at(20.0 + SETTLES_S)) == ("m", "measurement")


def test_a_device_that_is_forgotten_begins_again() -> None:
    said = Said()
    said.reads("", 0.0)
    said.reads("m", 1.0)
    said.announcements.forget(TANK)
    assert said.at(1.0 + SETTLES_S) is None
    assert of(said.reads("m", 500.0)) == ("m", "measurement")


def test_one_that_is_not_announced_now_waits_for_that() -> None:
    said = Said()
    said.reads("", 0.0)
    said.reads("m", 1.0)
    said.announcements.connected()
    assert said.at(1.0 + SETTLES_S) is None
    said.announcements.presence_published(TANK)
    assert of(said.at(2.0 + SETTLES_S)) == ("m", "measurement")

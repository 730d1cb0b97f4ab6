"""What is published of a device that declares a command, and what is logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.core.values import Message, Reading
from gateway.frames import Pingreq
from gateway.presence.pending_commands import GRACE_S
from tests.admin.conftest import Log
from tests.presence.test_queue import ANNOUNCED, CLIENT, TANK, House

STATE = "tank/state"
SECOND = 4  # beats


def declares(house: House, *names: str) -> None:
    payload = json.dumps({"commands": names, "interval_s": 60}).encode()
    house.latest.receive(Reading(TANK, STATE, payload, 1, False, 0, 0, house.at))


def published(said: list[tuple[str, bytes]], topic: str) -> list[dict[str, Any]]:
    return [json.loads(payload) for each, payload in said if each == topic]


def test_a_declared_command_is_announced_and_what_waits_for_it_published(
    tmp_path: Path, log: Log
) -> None:
    house = House(tmp_path)
    session = house.enter("tank")
    declares(house, "interval_s", "dance")
    said = house.beat(2 * SECOND)
    announcement = published(said, ANNOUNCED)[-1]
    assert "command-tank_2finterval_s" in announcement["components"]
    assert "tank_2fstate_20interval_s" not in announcement["components"]
    assert published(said, CLIENT)[-1]["waiting"] == 0
    session.deliver(Message("tank/set/interval_s", b"30", 1), house.at)
    assert [each["waiting"] for each in published(house.beat(SECOND), CLIENT)] == [1]
    assert published(house.beat(SECOND), CLIENT) == []
    house.at += GRACE_S
    session.receive(Pingreq(b"tank"), house.at)
    house.beat(2 * SECOND)
    first, last = (line for line in log.read() if "command" in line)
    assert "declares 'dance', which is no command known here" in first
    assert "goes to 'tank/set/interval_s', to which it has not subscribed" in last


def test_a_declaration_outlives_a_restart(tmp_path: Path) -> None:
    house = House(tmp_path, "tank")
    declares(house, "restart")
    house.beat(2 * SECOND)
    again = House(tmp_path, "tank")
    (announcement,) = published(again.beat(2 * SECOND), ANNOUNCED)
    assert "command-tank_2frestart" in announcement["components"]

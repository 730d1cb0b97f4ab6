"""Gateway, broker and Home Assistant restart in each order, while the sensors of the demo go on.

The broker keeps nothing over its restart, which is the worst one: the gateway publishes everything
again. That Home Assistant loses the broker is what it has to log; it may log nothing else.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hil.rig.logged_process import LoggedProcess
from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.api import NotSoError, eventually
from tests.home_assistant.home import Home
from tests.home_assistant.site import Gateway, gateway, new_name

SENSORS = 5
SETTLED_S = 180.0
OF_THE_BROKER = (
    "Disconnected from MQTT server",
    "Failed to connect to MQTT server",
    "Error returned from MQTT server: The connection was lost",
    "Error talking to MQTT: The client is not currently connected",
)


class Sensors(LoggedProcess):
    """`tidegate simulate`: MODEL-1 and so on, a reading a second each."""

    def __init__(self, folder: Path, port: int, model: str) -> None:
        super().__init__(folder / "sensors.log")
        self.names = [f"{model}-{number}" for number in range(1, SENSORS + 1)]
        options = {"--gateway": f"127.0.0.1:{port}", "--name": model, "--sensors": SENSORS}
        options |= {"--seconds": 3600, "--interval": 1}
        given = [str(each) for pair in options.items() for each in pair]
        self._command = (sys.executable, "-m", "gateway", "simulate", *given, "--keep-sessions")

    def start(self) -> None:
        self.launch(self._command)


@contextmanager
def sensors(serving: Gateway) -> Iterator[Sensors]:
    with Sensors(serving.folder, serving.port, new_name("demo")) as running:
        yield running


def values_shown(home: Home, names: list[str]) -> dict[str, dict[str, str]]:
    """Of each device what its values are, and when each was written last."""
    states = home.api.states()
    return {
        name: {
            entity["entity_id"]: states[entity["entity_id"]]["last_reported"]
            for entity in home.api.entities(name).values()
            if entity["entity_category"] is None
            and states.get(entity["entity_id"], {}).get("state")
            not in (None, "unknown", "unavailable")
        }
        for name in names
    }


def wait_for_new_values(home: Home, names: list[str], entities: dict[str, set[str]]) -> None:
    """Until each value of each device has one that came after this was called."""
    before = values_shown(home, names)

    def are_all_new() -> bool:
        shown = values_shown(home, names)
        return all(
            shown[name].keys() == entities[name]
            and all(at != before[name].get(one) for one, at in shown[name].items())
            for name in names
        )

    eventually(are_all_new, "new values of all sensors", SETTLED_S)


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("gateway", "broker", "home"))), ids="-".join
)
def test_after_restarts_in_any_order_all_values_are_there_and_go_on(
    home: Home, broker: Mosquitto, tmp_path: Path, order: tuple[str, ...]
) -> None:
    with gateway(tmp_path / "gateway", broker) as serving, sensors(serving) as running:
        names = running.names

        def known() -> dict[str, set[str]] | None:
            shown = values_shown(home, names)
            return (
                {name: set(each) for name, each in shown.items()} if all(shown.values()) else None
            )

        entities = eventually(known, "all sensors", SETTLED_S)
        restart = {"gateway": serving.restart, "broker": broker.restart, "home": home.restart}
        for each in order:
            restart[each]()
        try:
            wait_for_new_values(home, names, entities)
        except NotSoError as error:
            error.add_note(f"expected {entities}, shown {values_shown(home, names)}")
            raise
    unexpected = [
        each for each in home.complaints() if not any(one in each for one in OF_THE_BROKER)
    ]
    assert unexpected == []

"""Sensors of `tidegate simulate` at a gateway, and what Home Assistant shows of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hil.rig.logged_process import LoggedProcess
from tests.home_assistant.api import NotSoError, eventually
from tests.home_assistant.home import Home
from tests.home_assistant.site import Gateway, new_name

SENSORS = 5
SETTLED_S = 180.0
SECONDS_MAX = 3600
# What Home Assistant has to log of a broker that goes.
OF_THE_BROKER = (
    "Disconnected from MQTT server",
    "Failed to connect to MQTT server",
    "Error returned from MQTT server: The connection was lost",
    "Error talking to MQTT: The client is not currently connected",
    "[paho.mqtt.client] failed to receive on socket: [Errno 104] Connection reset by peer",
)

Shown = dict[str, dict[str, str]]


class Sensors(LoggedProcess):
    """MODEL-1 and so on."""

    def __init__(
        self, folder: Path, port: int, model: str, sensors: int, interval_s: float, sleep_s: int
    ) -> None:
        super().__init__(folder / f"{model}.log")
        self.names = [f"{model}-{number}" for number in range(1, sensors + 1)]
        options = {"--gateway": f"127.0.0.1:{port}", "--name": model, "--sensors": sensors}
        options |= {"--seconds": SECONDS_MAX, "--interval": interval_s, "--sleep": sleep_s}
        given = [str(each) for pair in options.items() for each in pair]
        self._command = (sys.executable, "-m", "gateway", "simulate", *given, "--keep-sessions")

    def start(self) -> None:
        self.launch(self._command)


@contextmanager
def sensors(
    serving: Gateway,
    model: str = "demo",
    *,
    number: int = SENSORS,
    interval_s: float = 1,
    sleep_s: int = 0,
) -> Iterator[Sensors]:
    name = new_name(model)
    with Sensors(serving.folder, serving.port, name, number, interval_s, sleep_s) as running:
        yield running


def values_shown(home: Home, names: list[str]) -> Shown:
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


def wait_for_values(home: Home, names: list[str]) -> dict[str, set[str]]:
    """The entities of all devices, when each has some."""

    def known() -> dict[str, set[str]] | None:
        shown = values_shown(home, names)
        return {name: set(each) for name, each in shown.items()} if all(shown.values()) else None

    return eventually(known, "all sensors", SETTLED_S)


def wait_for_new_values(home: Home, names: list[str], entities: dict[str, set[str]]) -> None:
    """Until each device has all its values, and one of them came after this was called: Home
    Assistant writes a state when it is another, and a battery stays for minutes as it is.

    Raises NotSoError with what is shown instead.
    """
    before = values_shown(home, names)

    def are_all_new() -> bool:
        shown = values_shown(home, names)
        return all(
            shown[name].keys() == entities[name]
            and any(at != before[name].get(one) for one, at in shown[name].items())
            for name in names
        )

    try:
        eventually(are_all_new, "all values, and new ones of each sensor", SETTLED_S)
    except NotSoError as error:
        error.add_note(f"expected {entities}, shown {values_shown(home, names)}")
        raise


def without(allowed: tuple[str, ...], complaints: list[str]) -> list[str]:
    return [each for each in complaints if not any(one in each for one in allowed)]

"""Gateway, broker and Home Assistant restart in each order, while the sensors of the demo go on.

The broker keeps nothing over its restart, which is the worst one: the gateway publishes everything
again. That Home Assistant loses the broker is what it has to log; it may log nothing else.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hil.rig.mosquitto import Mosquitto
from tests.home_assistant.fleet import (
    OF_THE_BROKER,
    sensors,
    wait_for_new_values,
    wait_for_values,
    without,
)
from tests.home_assistant.home import Home
from tests.home_assistant.site import gateway


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("gateway", "broker", "home"))), ids="-".join
)
def test_after_restarts_in_any_order_all_values_are_there_and_go_on(
    home: Home, broker: Mosquitto, tmp_path: Path, order: tuple[str, ...]
) -> None:
    with gateway(tmp_path / "gateway", broker) as serving, sensors(serving) as running:
        entities = wait_for_values(home, running.names)
        restart = {"gateway": serving.restart, "broker": broker.restart, "home": home.restart}
        for each in order:
            restart[each]()
        wait_for_new_values(home, running.names, entities)
    assert without(OF_THE_BROKER, home.complaints()) == []

"""Drivers, store and SenML compute on real MicroPython what they compute on CPython.

Its integers beyond 31 bits are objects, its `struct` and slices are its own. The simulated sensors
are the same file on both.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from firmware.app import senml
from firmware.app.sensors.kinds import made
from hil.boards.wasi.board import WasiBoard
from tests.firmware.app import simulated_buses
from tests.firmware.app.conftest import NodeMaker
from tests.firmware.board_types import as_on_board

SPECS: list[dict[str, Any]] = [
    {"kind": "bme280", "scl": 1, "sda": 2, "name": "air"},
    {"kind": "ds18b20", "pin": 4, "name": "soil"},
    {"kind": "adc", "pin": 34, "name": "battery", "times": 2},
    {"kind": "internal"},
]
NUMBERS = [
    *((digits, places) for digits in (0, 1, -1, 5, 2137, -10125, 2**31 - 1) for places in range(8)),
    *((2**60 - 1, places) for places in range(0, 18, 3)),
    *((-(10**15) - 7, places) for places in range(10)),
]
PROGRAM = """
import json
from a.app.sensors.kinds import made
from a.app import senml
import buses
BUSES = {"bme280": buses.Bme280(), "ds18b20": buses.Ds18b20(-162)}
for spec in json.loads(%r):
    sensor = made(spec, BUSES.get(spec["kind"], buses.Pins(1851000, 900000, 1849000)))
    sensor.start()
    values = sensor.read()
    print(values, senml.records(values).hex())
for digits, places in %r:
    print(senml.number(digits, places).hex())
"""


def expected() -> list[str]:
    buses = {"bme280": simulated_buses.Bme280(), "ds18b20": simulated_buses.Ds18b20(-162)}
    lines = []
    for spec in SPECS:
        bus = buses.get(spec["kind"], simulated_buses.Pins(1851000, 900000, 1849000))
        sensor = made(spec, bus)
        sensor.start()
        values = sensor.read()
        lines.append(f"{values} {senml.records(values).hex()}")
    return lines + [senml.number(*each).hex() for each in NUMBERS]


def put_buses(node: WasiBoard) -> None:
    text = as_on_board(inspect.getsource(simulated_buses))
    text = text.replace("from __future__ import annotations", "")
    node.put("buses.py", text.replace("from firmware.app", "from a.app"))


def test_sensors_and_senml_are_the_same_on_micropython(new_node: NodeMaker) -> None:
    node = new_node(9)
    put_buses(node)
    outcome = node.run(PROGRAM % (json.dumps(SPECS), NUMBERS))
    assert outcome.code == 0, node.output
    assert node.output.splitlines() == expected()

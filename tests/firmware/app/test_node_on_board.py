"""The whole application on real MicroPython with 64 KiB of heap, at the real gateway and broker."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from hil.rig.gateway import GatewayProcess
from tests.firmware.app.conftest import NodeMaker, woken
from tests.firmware.app.listener import Listener
from tests.firmware.app.tap import Tap, kind_of
from tests.firmware.app.timekeeper import Timekeeper
from tests.firmware.serial_line import SerialLine
from tests.support.waiting import until

PUBLISH, PUBACK = 0x0C, 0x0D


def test_readings_arrive_as_senml_with_ascending_numbers(
    new_node: NodeMaker,
    gateway: GatewayProcess,
    listener: Listener,
    name: str,
    timekeeper: Timekeeper,
) -> None:
    node = new_node(gateway.port)
    for _ in range(3):
        woken(node)
    listener.wait_for(lambda: len(listener.readings()) == 3)
    readings = listener.readings()
    assert sorted(readings) == [1, 2, 3]
    for pack in readings.values():
        assert pack.base_name == f"{name}/"
        (_, measured) = pack.measurements
        assert measured.name == "temperature"
        assert measured.unit == "Cel"
        assert 15 < measured.value < 25


def test_a_wake_with_a_reading_is_one_datagram_each_way(
    new_node: NodeMaker, tap: Tap, listener: Listener, timekeeper: Timekeeper
) -> None:
    node = new_node(tap.port, retry_ms=5_000)
    woken(node)
    assert len(tap.up) > 3
    for number in (2, 3, 4):
        tap.clear()
        woken(node)
        assert [kind_of(each) for each in tap.up] == [PUBLISH]
        listener.wait_for(lambda wanted=number: wanted in listener.readings())  # type: ignore[misc]
    assert len(tap.up[0]) <= 70
    assert [(len(each), kind_of(each)) for each in tap.down] == [(7, PUBACK)]


def test_readings_wait_in_the_flash_for_a_gateway_that_is_away_and_the_wakes_stay_short(
    new_node: NodeMaker, tap: Tap, listener: Listener, timekeeper: Timekeeper
) -> None:
    node = new_node(tap.port, budget_s=5)
    woken(node)
    tap.is_deaf = True
    tap.clear()
    for _ in range(8):
        before = time.monotonic()
        woken(node)
        assert (
            time.monotonic() - before < 10
        )  # and half of that on a machine with nothing else to do
    assert 4 <= len(tap.up) <= 16  # of eight wakes three tried: the 1st, the 3rd and the 7th
    tap.is_deaf = False
    for _ in range(8):
        woken(node)
    listener.wait_for(lambda: len(listener.readings()) == 17)
    assert sorted(listener.readings()) == list(range(1, 18))


def test_a_power_cut_takes_no_reading_that_was_stored(
    new_node: NodeMaker, tap: Tap, listener: Listener, timekeeper: Timekeeper
) -> None:
    node = new_node(tap.port, budget_s=5)
    tap.is_deaf = True
    with node.start("import main"):
        until(lambda: bool(tap.up))  # it stores before it sends
    tap.is_deaf = False
    woken(node)
    if not {1, 2} <= set(listener.readings()):  # a busy machine may need more than its budget
        woken(node)
    listener.wait_for(lambda: {1, 2} <= set(listener.readings()))


def test_the_state_says_what_runs_and_what_is_wrong(
    new_node: NodeMaker, gateway: GatewayProcess, listener: Listener, timekeeper: Timekeeper
) -> None:
    sensors = [{"kind": "simulated"}, {"kind": "bme280", "scl": 1, "sda": 2}, {"kind": "rain"}]
    node = new_node(gateway.port, sensors=sensors, interval_s=2)
    woken(node)
    listener.wait_for(lambda: bool(listener.states()))
    state = listener.states()[0]
    expected: dict[str, Any] = {"app": 1, "slot": "a", "mode": "normal", "waiting": 0, "dropped": 0}
    assert state | expected == state
    assert state["trouble"][0] == "interval_s: 5 to 86400"
    assert [text.split(":")[0] for text in state["trouble"][1:]] == [
        "sensor bme280",
        "sensor rain",
    ]
    listener.wait_for(lambda: bool(listener.readings()))


def test_retained_settings_are_taken_kept_and_answered(
    new_node: NodeMaker, gateway: GatewayProcess, listener: Listener, timekeeper: Timekeeper
) -> None:
    listener.publish("set/settings", json.dumps({"interval_s": 30}).encode())
    node = new_node(gateway.port, listen_every=1)
    outcome = node.run("import main")
    assert 20_000 < outcome.sleep_ms <= 30_000
    listener.wait_for(lambda: listener.states()[-1:] != [])
    assert listener.states()[-1]["settings"] == "taken"
    assert 20_000 < node.run("import main").sleep_ms <= 30_000
    listener.publish("set/settings", b'{"interval_s": 1, "colour": 2}')
    assert 20_000 < node.run("import main").sleep_ms <= 30_000
    listener.wait_for(lambda: len(listener.states()) == 2)
    refused = "refused: unknown: colour, interval_s: 5 to 86400"
    assert listener.states()[-1]["settings"] == refused


def test_a_reading_that_differs_by_less_than_its_threshold_is_not_sent(
    new_node: NodeMaker, tap: Tap, listener: Listener, timekeeper: Timekeeper
) -> None:
    node = new_node(tap.port, thresholds={"temperature": 90.0}, listen_every=1000)
    woken(node)
    tap.clear()
    for _ in range(3):
        woken(node)
    assert tap.up == []


def test_a_node_without_usable_settings_says_what_is_missing_and_sleeps(
    new_node: NodeMaker,
) -> None:
    node = new_node(9, gateways=[], id="")
    outcome = node.run("import main")
    assert (outcome.how, outcome.sleep_ms) == ("deepsleep", 3_600_000)
    assert "E id: a text of 1 to 23 letters" in node.output
    assert "E gateways: " in node.output
    node.put("settings.json", "{ no json")
    outcome = node.run("import main")
    assert outcome.how == "deepsleep"
    assert "E /settings.json is no JSON" in node.output


@pytest.mark.parametrize("key", ["", "0f" * 15 + "0", "é" * 32, 5, None])
def test_a_mistyped_key_is_named_and_the_node_measures(
    new_node: NodeMaker,
    gateway: GatewayProcess,
    listener: Listener,
    key: object,
    timekeeper: Timekeeper,
) -> None:
    node = new_node(gateway.port)
    node.put("secrets.json", json.dumps({"update_key": key}))
    assert "E update_key: at least 32 hexadecimal digits" in woken(node)
    listener.wait_for(lambda: 1 in listener.readings())


def test_the_relative_time_of_a_reading_that_waited_is_its_age(
    new_node: NodeMaker, tap: Tap, listener: Listener
) -> None:
    node = new_node(tap.port, budget_s=5, retry_ms=500)
    tap.is_deaf = True
    woken(node)  # for more than two seconds
    tap.is_deaf = False
    woken(node)  # which leaves the network alone
    woken(node)
    listener.wait_for(lambda: 3 in listener.readings())
    packs = listener.readings()
    assert packs[1].time_s <= -2
    assert packs[3].time_s >= -1  # a second may begin meanwhile


def test_a_node_on_a_serial_line_needs_no_network(
    new_node: NodeMaker,
    serial_gateway: GatewayProcess,
    line: SerialLine,
    listener: Listener,
    timekeeper: Timekeeper,
) -> None:
    node = new_node(9, uarts=(line.device,), gateways=[], uart={"number": 0})
    for _ in range(3):
        woken(node)
    listener.wait_for(lambda: len(listener.readings()) == 3)


HANGS = """
class Sensor:
    def __init__(self, spec, board): pass
    def start(self): return 0
    def read(self):
        while True: pass
"""


def test_a_driver_that_hangs_is_ended_by_the_watchdog_and_counted(
    new_node: NodeMaker, gateway: GatewayProcess, listener: Listener, timekeeper: Timekeeper
) -> None:
    node = new_node(gateway.port, watchdog_s=2, sensors=[{"kind": "drivers.hangs"}])
    node.put("drivers/hangs.py", HANGS)
    assert node.run("import main").how == "watchdog"
    for _ in range(2):  # in other ways
        node.put("drivers/hangs.py", "from machine import reset\nreset()\n")
        assert node.run("import main").how == "reset"
    assert "safe mode" in woken(node)
    listener.wait_for(lambda: bool(listener.states()))
    assert listener.states()[-1]["mode"] == "safe"


def test_a_wake_that_waits_long_is_no_hanging(new_node: NodeMaker, tap: Tap) -> None:
    node = new_node(tap.port, watchdog_s=2, budget_s=5, retry_ms=600)
    tap.is_deaf = True
    before = time.monotonic()
    woken(node)
    assert time.monotonic() - before > 2.2


LIGHT = "import machine\ndel machine.DEEPSLEEP_RESET\nimport main\n"
LIGHT_WAKES = 150


def test_a_board_that_sleeps_lightly_lives_on_in_the_same_heap(
    new_node: NodeMaker, tap: Tap, timekeeper: Timekeeper, listener: Listener
) -> None:
    node = new_node(tap.port, log_level=7, listen_every=10, retry_ms=5_000)
    with node.start(LIGHT) as life:
        life.wait_for(f"sent {LIGHT_WAKES}\n")
        assert "Error" not in life.output
    assert len(tap.up) < 1.5 * LIGHT_WAKES
    listener.wait_for(lambda: LIGHT_WAKES in listener.readings())

"""Commands for a node on real MicroPython, through the real gateway and broker."""

from __future__ import annotations

import json

import pytest

from firmware.app.settings import RULES
from hil.boards.wasi.board import WasiBoard
from hil.boards.wasi.outcome import Outcome
from hil.rig.gateway import GatewayProcess
from tests.firmware.app.conftest import NodeMaker, woken
from tests.firmware.app.listener import Listener
from tests.firmware.app.tap import Tap, kind_of
from tests.firmware.app.timekeeper import Timekeeper

PUBLISH, PUBACK = 0x0C, 0x0D
DUP = 0x80
COMMANDS = {*RULES, "restart", "update"}


@pytest.fixture
def node(new_node: NodeMaker, gateway: GatewayProcess, timekeeper: Timekeeper) -> WasiBoard:
    return new_node(gateway.port, listen_every=1)


@pytest.fixture
def tapped(new_node: NodeMaker, tap: Tap, timekeeper: Timekeeper) -> WasiBoard:
    return new_node(tap.port, listen_every=1)


def run(node: WasiBoard) -> Outcome:
    return node.run("import main")


def test_the_state_declares_commands_and_the_settings_in_force(
    node: WasiBoard, listener: Listener
) -> None:
    woken(node)
    listener.wait_for(lambda: bool(listener.states()))
    state = listener.state()
    assert set(state["commands"]) == COMMANDS
    expected = {name: default for name, (_, _, default) in RULES.items()}
    expected |= {"interval_s": 60, "retry_ms": 300, "listen_every": 1}
    assert state | expected == state


def test_a_node_without_a_key_declares_no_updates(node: WasiBoard, listener: Listener) -> None:
    node.put("secrets.json", "{}")
    woken(node)
    listener.wait_for(lambda: bool(listener.states()))
    assert set(listener.state()["commands"]) == COMMANDS - {"update"}


def test_several_retained_settings_that_come_at_once_are_all_taken(
    node: WasiBoard, listener: Listener
) -> None:
    wanted = {"interval_s": 31, "report_s": 120, "listen_every": 2, "budget_s": 15}
    wanted |= {"retry_ms": 400, "log_level": 7}
    listener.publish("set/settings", json.dumps({"interval_s": 30, "report_s": 5}).encode())
    for name, value in wanted.items():
        listener.publish(f"set/{name}", str(value).encode())
    assert 20_000 < run(node).sleep_ms <= 31_000
    listener.wait_for(lambda: listener.state().get("settings") == "taken")
    assert listener.state() | wanted == listener.state()
    node.ended(Outcome("power_cut"))
    assert 20_000 < run(node).sleep_ms <= 31_000
    listener.wait_for(lambda: len(listener.states()) >= 2)
    assert listener.state() | wanted == listener.state()


def test_a_setting_that_changes_is_told_and_a_wrong_one_is_named(
    node: WasiBoard, listener: Listener
) -> None:
    woken(node)
    listener.publish("set/report_s", b"120")
    woken(node)
    listener.wait_for(lambda: listener.state().get("report_s") == 120)
    listener.publish("set/report_s", b"120.5")
    listener.publish("set/colour", b"red")
    woken(node)
    refused = "refused: report_s: 0 to 86400, unknown: colour"
    listener.wait_for(lambda: listener.state()["settings"] == refused)
    assert listener.state()["report_s"] == 120
    listener.publish("set/report_s", b"")
    woken(node)
    listener.wait_for(lambda: listener.state()["report_s"] == 3_600)


def test_a_log_level_holds_at_once(node: WasiBoard, listener: Listener) -> None:
    assert "D stored" not in woken(node)
    listener.publish("set/log_level", b"7")
    woken(node)
    assert "D stored" in woken(node)


def test_a_node_restarts_once_for_a_command(
    tapped: WasiBoard, tap: Tap, listener: Listener
) -> None:
    woken(tapped)
    listener.publish("set/restart", b"PRESS", retain=False)
    tap.clear()
    assert run(tapped).how == "reset"
    assert PUBACK in map(kind_of, tap.up), "it is acknowledged before"
    for _ in range(3):
        woken(tapped)
    listener.publish("set/restart", b"PRESS", retain=False)
    assert run(tapped).how == "reset", "another command is another restart"
    woken(tapped)
    assert listener.state()["mode"] == "normal"


def test_a_command_whose_acknowledgement_is_lost_comes_again_and_restarts_nothing(
    tapped: WasiBoard, tap: Tap, listener: Listener
) -> None:
    woken(tapped)
    tap.loses = PUBACK
    listener.publish("set/restart", b"PRESS", retain=False)
    assert run(tapped).how == "reset"
    tap.clear()
    for _ in range(2):
        assert run(tapped).how == "deepsleep"
    repeats = [frame for frame in tap.down if kind_of(frame) == PUBLISH]
    assert repeats, "the gateway repeats what is not acknowledged"
    assert all(frame[2] & DUP for frame in repeats)
    tap.loses = -1
    for _ in range(3):
        assert run(tapped).how == "deepsleep"
    listener.publish("set/restart", b"PRESS", retain=False)
    assert run(tapped).how == "reset", "another command is another restart"
    assert run(tapped).how == "deepsleep"


def test_a_retained_restart_is_ignored_and_named(node: WasiBoard, listener: Listener) -> None:
    listener.publish("set/restart", b"PRESS")
    for _ in range(2):
        assert run(node).how == "deepsleep"
    named = "refused: restart: retained"
    listener.wait_for(lambda: named in [state["settings"] for state in listener.states()])


def test_a_retained_restart_that_comes_to_a_subscriber_restarts_it_once(
    node: WasiBoard, listener: Listener
) -> None:
    """Which a gateway cannot tell from another one; after the restart it is a retained one."""
    woken(node)
    listener.publish("set/restart", b"PRESS")
    assert run(node).how == "reset"
    for _ in range(3):
        assert run(node).how == "deepsleep"


def test_a_flash_that_keeps_no_note_of_a_restart_makes_none(
    node: WasiBoard, listener: Listener
) -> None:
    woken(node)
    (node.flash / "changed.new").mkdir()
    listener.publish("set/restart", b"PRESS", retain=False)
    for _ in range(2):
        assert run(node).how == "deepsleep"
    listener.wait_for(lambda: len(listener.readings()) == 3)

"""The scenarios that come with it, and the boards that need no hardware."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from hil.boards import inventory
from hil.boards import kinds as package
from hil.boards.board import Can
from hil.boards.registry import kinds
from hil.faults.lossy_proxy import Impairment
from hil.faults.serial_proxy import LineImpairment
from hil.rig.campaign import Campaign, perform
from hil.rig.run import Outcome
from hil.rig.steps import STEPS
from hil.scenarios import scenario
from hil.scenarios.actions import ACTIONS
from tests.support.boards import require_board

SCENARIOS = scenario.scenarios_in(scenario.FOLDER)
BOARDS = inventory.read(inventory.DEFAULT)


def test_each_board_without_hardware_has_at_least_fifteen_scenarios() -> None:
    for board in BOARDS:
        assert sum(not board.lacks(one.needs) for one in SCENARIOS) >= 15, board.spec.id


def test_each_action_is_part_of_a_scenario() -> None:
    assert {event.do for one in SCENARIOS for event in one.events} == set(ACTIONS)


def test_each_action_is_performed_and_ends_if_it_lasts() -> None:
    assert list(STEPS) == list(ACTIONS)
    lasting = {name for name, steps in STEPS.items() if steps.end is not None}
    has_duration = {name for name, action in ACTIONS.items() if "for_s" in action.parameters}
    assert lasting == has_duration


def test_each_action_leaves_a_mark_by_which_one_that_does_nothing_is_noticed() -> None:
    without = {name for name, action in ACTIONS.items() if not action.marks}
    assert without == {"air.weather"}  # what it leaves is the weather's own
    assert Impairment(0.1, 0.1, 0.1, damaged=0.1, mtu=9).marks == (
        "lost",
        "copied",
        "delayed",
        "damaged",
        "too long",
    )
    assert LineImpairment(0.1, 0.1).marks == ("flipped", "dropped")
    assert LineImpairment().marks == ()


def test_a_share_of_a_wake_needs_a_board_that_can_count() -> None:
    (exact,) = [one for one in SCENARIOS if one.name == "power_cut_exact"]
    assert Can.EXACT_POWER in exact.needs
    assert [board.spec.id for board in BOARDS if not board.lacks(exact.needs)] == [
        "wasi-udp",
        "wasi-serial",
    ]


def test_scenarios_without_events_at_broker_and_gateway_suit_a_gateway_of_somebody_elses() -> None:
    theirs = {one.name for one in SCENARIOS if not one.is_for_own_rig}
    assert {"calm", "loss", "retained", "power_cut"} <= theirs
    assert theirs.isdisjoint({"broker_kill", "gateway_stop", "disk_full", "clock_jump"})


NEW_KIND = """
from hil.boards.board import Can, Kind
from hil.boards.kinds.wasi import WasiNode

KIND = Kind(
    name="toaster",
    title="a toaster",
    transports=("udp",),
    firmwares=("node",),
    capabilities=frozenset({Can.UDP}),
    why_not=lambda spec: None if spec.heap == "64k" else "it is too small",
    make=WasiNode,
)
"""


def test_a_kind_of_board_is_there_and_runs_by_its_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toaster_of_a_test.py").write_text(NEW_KIND)
    (tmp_path / "bench.toml").write_text('[[board]]\nid = "kitchen"\nkind = "toaster"\n')
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    assert set(kinds()) == {
        "esp32",
        "microbit",
        "python",
        "qemu-microbit",
        "rp2",
        "unix",
        "wasi",
        "toaster",
    }
    (listed,) = inventory.read(tmp_path / "bench.toml")
    require_board()
    short = dataclasses.replace(next(one for one in SCENARIOS if one.name == "calm"), readings=3)
    given = Campaign([listed], [short], seed=1, folder=tmp_path / "runs")
    (result,) = asyncio.run(perform(given))
    assert (result.outcome, result.board, result.failures) == (Outcome.PASSED, "kitchen", [])

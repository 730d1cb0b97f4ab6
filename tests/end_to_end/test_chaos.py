"""Real processes on bad days: nothing acknowledged is lost, nothing comes twice, order holds."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.end_to_end.chaos import PERSISTENCE, Outcome, Plan, run, seed_of_this_run

READINGS, READINGS_OF_A_SOAK = 500, 20_000
FORGETFUL = ("persistence false", "max_queued_messages 0")


def outcome(plan: Plan, folder: Path) -> Outcome:
    found = asyncio.run(run(plan, folder))
    sys.stderr.write(f"{found}\n")
    return found


def assert_kept(found: Outcome) -> None:
    assert not found.verdict.faults, f"{found.verdict.faults} ({found})"
    # A run in which nothing went wrong would show nothing.
    assert found.ends["gateway killed"] >= 3, str(found)
    assert found.ends["broker stopped"] >= 1, str(found)
    assert found.fault_counts["lost"] > found.verdict.acknowledged / 10, str(found)


@pytest.mark.parametrize(
    ("acknowledge", "broker_config"),
    [("auto", PERSISTENCE), ("journal", FORGETFUL)],
    ids=["auto and a broker that keeps its state", "journal and a broker that forgets"],
)
def test_whatever_is_killed_nothing_acknowledged_is_lost_or_comes_twice(
    tmp_path: Path, acknowledge: str, broker_config: tuple[str, ...]
) -> None:
    plan = Plan(seed_of_this_run(), READINGS, acknowledge, broker_config)
    assert_kept(outcome(plan, tmp_path))


@pytest.mark.soak
@pytest.mark.parametrize("broker_config", [PERSISTENCE, FORGETFUL], ids=["persistent", "forgetful"])
@pytest.mark.parametrize("acknowledge", ["auto", "journal", "upstream"])
def test_for_minutes_whatever_is_killed_nothing_acknowledged_is_lost_or_comes_twice(
    tmp_path: Path, acknowledge: str, broker_config: tuple[str, ...]
) -> None:
    plan = Plan(seed_of_this_run(), READINGS_OF_A_SOAK, acknowledge, broker_config)
    assert_kept(outcome(plan, tmp_path))

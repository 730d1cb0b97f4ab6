"""A gateway that breaks a promise is caught, by the oracle of that promise."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from hil.boards import inventory
from hil.rig import run as running
from hil.rig.campaign import Campaign, perform
from hil.rig.run import Outcome, Result
from hil.scenarios import scenario
from tests.support.boards import require_board

# Of what has to arrive; a quarter of a minute would tell no more here.
SETTLE_S = 3.0
SCENARIOS = {
    "early": "gateway_killed_alone",
    "reorder": "calm",
    "repeat": "calm",
    "drop_retained": "retained",
    "corrupt": "calm",
}


def campaign(folder: Path, mistake: str) -> Campaign:
    played = scenario.read(scenario.FOLDER / f"{SCENARIOS[mistake]}.toml")
    return Campaign(
        boards=[one for one in inventory.read(inventory.DEFAULT) if one.spec.id == "wasi-udp"],
        scenarios=[played],
        seed=3,
        folder=folder / mistake,
        gateway_command=(sys.executable, "-m", "tests.hil.patched_gateway", mistake),
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Side by side, as most of the time they wait."""
    require_board()
    folder = tmp_path_factory.mktemp("mistakes")

    async def all_of_them() -> list[list[Result]]:
        return await asyncio.gather(*(perform(campaign(folder, mistake)) for mistake in SCENARIOS))

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(running, "OUTSTANDING_S_MAX", SETTLE_S)
        found = asyncio.run(all_of_them())
    return {mistake: result for mistake, (result,) in zip(SCENARIOS, found, strict=True)}


@pytest.mark.parametrize(
    ("mistake", "oracle"),
    [
        ("early", " lost: "),
        ("reorder", " out of order: "),
        ("repeat", " repeated: "),
        ("drop_retained", " commands: "),
        ("corrupt", " corrupt: "),
    ],
)
def test_a_gateway_with_a_mistake_is_caught(
    results: dict[str, Result], mistake: str, oracle: str
) -> None:
    result = results[mistake]
    assert result.outcome is Outcome.FAILED
    assert any(oracle in why for why in result.failures), result.failures

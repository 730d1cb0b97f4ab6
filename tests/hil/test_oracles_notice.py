"""A gateway that breaks a promise is caught, by the oracle of that promise."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from hil import inventory, scenario
from hil import run as running
from hil.campaign import Campaign, perform
from hil.run import Outcome
from tests.support.boards import require_board

# Of what has to arrive; a quarter of a minute would tell no more here.
SETTLE_S = 4.0


@pytest.mark.parametrize(
    ("mistake", "name", "oracle"),
    [
        ("early", "gateway_killed_alone", " lost: "),
        ("reorder", "calm", " out of order: "),
        ("repeat", "calm", " repeated: "),
        ("drop_retained", "retained", " commands: "),
        ("corrupt", "calm", " corrupt: "),
    ],
)
def test_a_gateway_with_a_mistake_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str, name: str, oracle: str
) -> None:
    require_board()
    monkeypatch.setattr(running, "SETTLE_S", SETTLE_S)
    campaign = Campaign(
        boards=[one for one in inventory.read(inventory.DEFAULT) if one.spec.id == "wasi-udp"],
        scenarios=[scenario.read(scenario.FOLDER / f"{name}.toml")],
        seed=3,
        folder=tmp_path / "runs",
        gateway_command=(sys.executable, "-m", "tests.hil.patched_gateway", mistake),
    )
    (result,) = asyncio.run(perform(campaign))
    assert result.outcome is Outcome.FAILED
    assert any(oracle in why for why in result.failures), result.failures

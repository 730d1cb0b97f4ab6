"""docs/hil.md says what there is, and its examples are right."""

from __future__ import annotations

import re
from pathlib import Path

from hil.boards import inventory
from hil.oracle.ledger import FAULTS
from hil.scenarios import scenario
from hil.scenarios.actions import ACTIONS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "hil.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")


def examples() -> list[str]:
    """TOML blocks, without the indentation of the list that they stand in."""
    found = re.findall(r"^( *)```toml\n(.*?)^ *```$", TEXT, re.MULTILINE | re.DOTALL)
    return [re.sub(f"(?m)^{indent}", "", block) for indent, block in found]


def test_the_bench_of_the_walk_through_is_read_without_mistakes(tmp_path: Path) -> None:
    (text,) = [each for each in examples() if "[[board]]" in each]
    (tmp_path / "bench.toml").write_text(text)
    attic, cellar = inventory.read(tmp_path / "bench.toml")
    assert (attic.spec.transport, attic.spec.uart) == ("serial", 2)
    assert attic.spec.power_off == ("usbrelay", "BITFT_1=1")
    assert cellar.spec.secrets["ssid"] == "workshop"
    assert cellar.spec.power_on[-1] == "on"


def test_the_example_of_a_scenario_is_read_without_mistakes(tmp_path: Path) -> None:
    (text,) = [each for each in examples() if "[[event]]" in each]
    (tmp_path / "mine.toml").write_text(text)
    assert len(scenario.read(tmp_path / "mine.toml").events) == 2


def test_each_action_and_each_fault_is_explained() -> None:
    for name in (*ACTIONS, *FAULTS):
        assert f"`{name}`" in TEXT, name


def test_the_number_of_scenarios_is_right() -> None:
    assert f"All {len(scenario.scenarios_in(scenario.FOLDER))} scenarios" in TEXT

"""Types of what boards load, by pyright against the stubs of the ports that load it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.firmware import board_types


@pytest.fixture(scope="module", autouse=True)
def pyright() -> None:
    reason = board_types.why_not()
    if reason is not None:
        pytest.skip(f"not run, types of what boards load: {reason}")


@pytest.mark.parametrize("port", board_types.PORTS)
def test_the_stubs_of_each_port_agree_with_what_boards_load(port: str, tmp_path: Path) -> None:
    board_types.write_sources(tmp_path, port)
    assert board_types.findings(port, tmp_path) == []


def test_what_a_port_does_not_have_is_found(tmp_path: Path) -> None:
    (tmp_path / "slot").mkdir()
    (tmp_path / "slot" / "wrong.py").write_text(
        "import machine\nimport esp32\nmachine.Pin(1).toggle_for_ever()\n"
    )
    no_module, no_method = board_types.findings("rp2", tmp_path)
    assert "esp32" in no_module
    assert "toggle_for_ever" in no_method

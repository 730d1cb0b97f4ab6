"""Power switches are called as their documentation says. The programs here are fakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.boards import inventory
from hil.boards.board import BoardSpec, Can
from hil.boards.errors import BoardError
from hil.boards.power import Switch
from tests.hil.fake_programs import FakePrograms

BOARD = '[[board]]\nid = "real"\nkind = "{kind}"\nport = "/dev/null"\npower_settles_s = 0\n'


def spec(folder: Path, power: str, kind: str = "esp32") -> BoardSpec:
    path = folder / "bench.toml"
    path.write_text(BOARD.format(kind=kind) + power)
    (listed,) = inventory.read(path)
    return listed.spec


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePrograms:
    made = FakePrograms(tmp_path / "fakes")
    monkeypatch.setenv("PATH", str(made.folder), prepend=":")
    return made


def test_uhubctl_switches_one_port_of_one_hub(tmp_path: Path, fakes: FakePrograms) -> None:
    fakes.add("uhubctl")
    switch = Switch(spec(tmp_path, 'power = "uhubctl"\nhub = "1-1.4"\nhub_port = 2\n'))
    switch.off()
    switch.on()
    assert fakes.calls == ["uhubctl -l 1-1.4 -p 2 -a off", "uhubctl -l 1-1.4 -p 2 -a on"]


def test_a_relay_is_switched_by_commands_of_ones_own(tmp_path: Path, fakes: FakePrograms) -> None:
    fakes.add("relay")
    text = 'power = "command"\npower_off = "relay 3 \'fully off\'"\npower_on = "relay 3 on"\n'
    switch = Switch(spec(tmp_path, text))
    switch.off()
    switch.on()
    assert fakes.calls == ["relay 3 fully off", "relay 3 on"]


def test_a_switch_that_fails_says_what_it_said(tmp_path: Path, fakes: FakePrograms) -> None:
    fakes.add("relay", "echo no such relay >&2; exit 3")
    text = 'power = "command"\npower_off = "relay off"\npower_on = "relay on"\n'
    with pytest.raises(BoardError, match="relay off ended with 3: no such relay"):
        Switch(spec(tmp_path, text)).off()


def test_a_switch_that_is_not_installed_is_told_so(tmp_path: Path) -> None:
    text = 'power = "command"\npower_off = "absent-relay off"\npower_on = "absent-relay on"\n'
    with pytest.raises(BoardError, match="absent-relay is not installed"):
        Switch(spec(tmp_path, text)).off()


def test_without_a_switch_a_board_is_asked_for_nothing_that_takes_one(tmp_path: Path) -> None:
    esp32, pico = spec(tmp_path, ""), spec(tmp_path, "", kind="rp2")
    assert Can.POWER not in esp32.capabilities
    assert Can.RESET in esp32.capabilities  # esptool presses its button
    assert Can.RESET not in pico.capabilities
    with pytest.raises(BoardError, match=r"real has no power switch \(power = 'none'\)"):
        Switch(esp32).off()

"""Descriptions of boards: those that come along are right, and mistakes in one's own are told."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gateway.flashing.errors import FlashError
from gateway.flashing.kinds import kind_named, read_kinds
from gateway.flashing.sources import firmware_folder

BOARDS = firmware_folder() / "boards"
KINDS = read_kinds(BOARDS)
GOOD = (BOARDS / "pico.toml").read_text()


def described(folder: Path, text: str) -> Path:
    (folder / "mine.toml").write_text(text)
    return folder


def test_each_that_comes_along_says_whether_it_has_wifi() -> None:
    for path in sorted(BOARDS.glob("*.toml")):
        assert "wifi" in tomllib.loads(path.read_text(encoding="utf-8")), path.name


def test_those_that_come_along_are_whole() -> None:
    assert {"esp32", "esp32-s3", "esp32-c3", "pico", "pico-w", "pico2-w", "microbit"} <= set(KINDS)
    for kind in KINDS.values():
        assert kind.sure | kind.maybe, kind.name
        assert kind.files, kind.name
        if kind.install.method == "esptool":
            assert kind.install.offset in (0, 0x1000)
        else:
            assert kind.install.drive, kind.name


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        ("Generic ESP32 module with ESP32", "esp32"),
        ("Generic ESP32S3 module with ESP32S3", "esp32-s3"),
        ("Generic ESP32C3 module with ESP32C3", "esp32-c3"),
        ("Raspberry Pi Pico with RP2040", "pico"),
        ("Raspberry Pi Pico W with RP2040", "pico-w"),
        ("Raspberry Pi Pico2 with RP2350", "pico2"),
        ("Raspberry Pi Pico 2 W with RP2350", "pico2-w"),
        ("micro:bit with nRF51822", "microbit"),
    ],
)
def test_what_micropython_says_of_its_machine_fits_one_of_them(machine: str, name: str) -> None:
    assert [kind.name for kind in KINDS.values() if kind.machine.search(machine)] == [name]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "', 'titel = "', "titel: unknown key, did you mean title?"),
        ('program = "node"', 'program = "big"', "program: expected one of node, tiny, got 'big'"),
        ('method = "uf2"', 'method = "uf"', "install.method: expected one of esptool, uf2, hex"),
        ("drive =", "drives =", "install.drives: unknown key, did you mean install.drive?"),
        ("family = 0x", 'family = "0x', 'mine.toml: '),
        ("family = 0xe48bff56", "family = 1.5", "family: expected a whole number, got 1.5"),
        ('"1.23"', '"new"', "micropython_min: expected \"1.23\", got 'new'"),
        ('["2e8a:0005"]', '["2E8A"]', "usb.maybe: expected \"10c4:ea60\", got '2E8A'"),
        ('machine = "', 'machine = "(', "machine: no regular expression"),
        ('["RPI_PICO-2*.uf2"]', '"RPI"', "files: expected a list of texts"),
        ('chip = "rp2040"', "", "chip: expected a text, got None"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_what_would_be_right(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(FlashError) as raised:
        read_kinds(described(tmp_path, GOOD.replace(old, new)))
    assert message in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "mine.toml"))


def test_a_name_that_is_nearly_one_is_guessed() -> None:
    with pytest.raises(FlashError, match=r"no board 'pico-v'; did you mean pico-w\?"):
        kind_named(KINDS, "pico-v")
    with pytest.raises(FlashError, match="no board 'toaster'; there are esp32-c3, "):
        kind_named(KINDS, "toaster")


def test_a_folder_without_any_is_said(tmp_path: Path) -> None:
    with pytest.raises(FlashError, match=r"has no descriptions of boards \(\*\.toml\)"):
        read_kinds(tmp_path)

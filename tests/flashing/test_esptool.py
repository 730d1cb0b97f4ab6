"""The real esptool against a fake loader: the right flash, and every way in which it goes wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.esptool import Esptool, family_of
from gateway.flashing.kinds import Kind, read_kinds
from gateway.flashing.programs import find_program
from gateway.flashing.sources import firmware_folder
from tests.cli.tidegate import tidegate_here
from tests.flashing.fake_esp_loader import FLASH_OCTETS, FakeEspLoader
from tests.flashing.images import esp
from tests.flashing.reports import KeptReport


@pytest.fixture
def esp32() -> Kind:
    if find_program("esptool") is None:
        pytest.skip("not run, esptool is not installed (pipx install esptool)")
    return read_kinds(firmware_folder() / "boards")["esp32"]


def test_the_whole_flash_is_what_was_to_be_written(esp32: Kind) -> None:
    image = esp(os.urandom(100_000) + bytes(60_000))
    report = KeptReport()
    with FakeEspLoader() as loader:
        Esptool(loader.device).write(esp32, image, report)
    at = esp32.install.offset
    assert loader.flash[at : at + len(image)] == image
    assert set(loader.flash[:at]) == {0xFF}  # erased before
    assert set(loader.flash[at + len(image) + 4 :]) == {0xFF}
    shares = [done for what, done, _ in report.progress if what == "writing"]
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert len(loader.flash) == FLASH_OCTETS


@pytest.mark.parametrize("chip", ["esp32", "esp32s3"])
def test_the_loader_is_asked_which_chip_it_is(esp32: Kind, chip: str) -> None:
    with FakeEspLoader(chip=chip) as loader:
        assert Esptool(loader.device).chip()[0] == chip


def test_another_chip_is_named_and_not_written(esp32: Kind) -> None:
    with FakeEspLoader(chip="esp32s3") as loader:
        with pytest.raises(FlashError, match=r"the board is an ESP32-S3, and --board says ESP32"):
            Esptool(loader.device).write(esp32, esp(b"x"), KeptReport())
        assert loader.erased == 0


def test_a_port_that_goes_away_while_writing_is_said_so(esp32: Kind) -> None:
    with FakeEspLoader(cut_at=40_000) as loader, pytest.raises(FlashError) as raised:
        Esptool(loader.device).write(esp32, esp(os.urandom(100_000)), KeptReport())
    assert raised.value.failure is Failure.CUT


def test_a_board_without_a_loader_is_told_how_to_get_there(esp32: Kind) -> None:
    with FakeEspLoader(silent=True) as loader, pytest.raises(FlashError) as raised:
        Esptool(loader.device).chip()
    assert raised.value.failure is Failure.ABSENT
    assert "hold BOOT, press RESET" in str(raised.value)


def test_a_flash_that_does_not_keep_what_it_is_given_is_noticed(esp32: Kind) -> None:
    with FakeEspLoader(forgets=True) as loader, pytest.raises(FlashError) as raised:
        Esptool(loader.device).write(esp32, esp(os.urandom(50_000)), KeptReport())
    assert raised.value.failure is Failure.CUT


def test_the_command_finds_out_which_board_it_is_by_its_loader(esp32: Kind, tmp_path: Path) -> None:
    (tmp_path / "mp.bin").write_bytes(esp(b"x" * 1000))
    with FakeEspLoader() as loader:
        done = tidegate_here(
            "flash",
            "install",
            "--port",
            loader.device,
            "--firmware",
            "mp.bin",
            "--dry-run",
            folder=tmp_path,
        )
        assert loader.erased == 0
    assert done.returncode == 0, done.stderr
    assert f"{loader.device} says nothing; asking its loader" in done.stdout
    assert f"would write mp.bin to {loader.device}" in done.stdout


def test_a_file_for_another_chip_is_refused_before_the_board_is_touched(
    esp32: Kind, tmp_path: Path
) -> None:
    (tmp_path / "mp.bin").write_bytes(esp(b"x" * 1000, "esp32s3"))
    with FakeEspLoader() as loader:
        done = tidegate_here(
            "flash",
            "install",
            "--port",
            loader.device,
            "--firmware",
            "mp.bin",
            "--board",
            "esp32",
            folder=tmp_path,
        )
        assert loader.erased == 0
    assert done.returncode == 1
    assert "mp.bin is for esp32s3, and the board is esp32" in done.stderr


def test_without_esptool_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(FlashError, match=r"esptool is not installed:  .*pip install.* esptool$"):
        Esptool("/dev/null")


@pytest.mark.parametrize(
    ("said", "family"),
    [
        ("ESP32-D0WD-V3", "esp32"),
        ("ESP32", "esp32"),
        ("ESP32-PICO-D4", "esp32"),
        ("ESP32-S2FNR2", "esp32s2"),
        ("ESP32-S3", "esp32s3"),
        ("ESP32-C3", "esp32c3"),
        ("ESP32-C6FH4", "esp32c6"),
    ],
)
def test_chips_belong_to_families(said: str, family: str) -> None:
    assert family_of(said) == family

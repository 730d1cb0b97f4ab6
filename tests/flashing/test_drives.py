"""Boards that are drives: a folder plays each, and takes its file away or does not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.flashing import drives as under_test
from gateway.flashing.drives import Drive, copy_to, drive_at, drives, is_second_micro_bit, unmounted
from gateway.flashing.errors import Failure, FlashError
from tests.cli.tidegate import tidegate_here
from tests.flashing.images import uf2
from tests.flashing.reports import KeptReport
from tests.support.microbit import DrivePlayer

ABOUT = "UF2 Bootloader v3.0\r\nModel: Raspberry Pi RP2\r\nBoard-ID: RPI-RP2\r\n"
IMAGE = uf2(os.urandom(200_000))


def pico_drive(folder: Path) -> Path:
    drive = folder / "RPI-RP2"
    drive.mkdir()
    (drive / "INFO_UF2.TXT").write_text(ABOUT)
    return drive


@pytest.fixture
def pico(tmp_path: Path) -> Path:
    return pico_drive(tmp_path)


@contextmanager
def played(folder: Path, size: int = len(IMAGE)) -> Iterator[list[bytes]]:
    """A Pico's: when it has all of the file, the drive is gone."""
    taken: list[bytes] = []
    ends = threading.Event()

    def play() -> None:
        while not ends.wait(0.01):
            for path in folder.glob("*.uf2"):
                if path.stat().st_size == size:
                    taken.append(path.read_bytes())
                    (folder / "INFO_UF2.TXT").unlink()
                    path.unlink()
                    return

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield taken
    finally:
        ends.set()
        thread.join()


def drive_of(folder: Path) -> Drive:
    drive = drive_at(folder)
    assert drive is not None
    return drive


def test_a_pico_gets_the_whole_file(pico: Path) -> None:
    report = KeptReport()
    with played(pico) as taken:
        copy_to(drive_of(pico), "micropython.uf2", IMAGE, report)
    assert taken == [IMAGE]
    shares = [(done, total) for _, done, total in report.progress]
    assert shares[-1] == (len(IMAGE), len(IMAGE))
    assert len(shares) > 10


def test_a_file_that_the_board_does_not_take_is_said(
    pico: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "TAKEN_S_MAX", 0.2)
    with pytest.raises(FlashError, match="but the board did not take it: unplug it, then again"):
        copy_to(drive_of(pico), "micropython.uf2", IMAGE, KeptReport())


def test_a_drive_that_goes_away_under_the_copy_is_said(pico: Path) -> None:
    drive = drive_of(pico)
    (pico / "INFO_UF2.TXT").unlink()
    pico.rmdir()
    with pytest.raises(FlashError, match="went away while it was written to") as raised:
        copy_to(drive, "micropython.uf2", IMAGE, KeptReport())
    assert raised.value.failure is Failure.CUT


def test_what_a_micro_bit_says_of_its_failure_is_passed_on(tmp_path: Path) -> None:
    refusal = "error: The hex file cannot be decoded.\r\ntype: user"
    with (
        DrivePlayer(tmp_path / "drive", refusal=refusal) as played,
        pytest.raises(FlashError, match=r"refused x\.hex: error: The hex file cannot be decoded\."),
    ):
        copy_to(drive_of(played.folder), "x.hex", b":00000001FF\n", KeptReport())


@pytest.mark.parametrize(("unique_id", "is_second"), [("9900", False), ("9904", True)])
def test_editions_of_the_micro_bit_are_told_apart(
    tmp_path: Path, unique_id: str, is_second: bool
) -> None:
    with DrivePlayer(tmp_path / "drive", unique_id=unique_id) as played:
        assert is_second_micro_bit(drive_of(played.folder)) is is_second


def test_drives_are_found_among_what_is_mounted(tmp_path: Path) -> None:
    spaced = tmp_path / "MY PICO"
    spaced.mkdir()
    (spaced / "INFO_UF2.TXT").write_text(ABOUT)
    (tmp_path / "stick").mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/sda1 / ext4 rw 0 0\n"
        f"/dev/sdb1 {str(spaced).replace(' ', chr(92) + '040')} vfat rw 0 0\n"
        f"/dev/sdc1 {tmp_path / 'stick'} vfat rw 0 0\n"
        "broken\n"
    )
    assert [(drive.folder, drive.name) for drive in drives(mounts)] == [(spaced, "RPI-RP2")]


def test_a_drive_that_nobody_has_mounted_is_found_by_its_label(tmp_path: Path) -> None:
    labels, mounts = tmp_path / "by-label", tmp_path / "mounts"
    labels.mkdir()
    for name in ("sdb1", "sdc1"):
        (tmp_path / name).touch()
    (labels / "RPI-RP2").symlink_to(tmp_path / "sdb1")
    (labels / "MICROBIT").symlink_to(tmp_path / "sdc1")
    (labels / "BACKUP").symlink_to(tmp_path / "sdb1")
    mounts.write_text(f"{tmp_path / 'sdc1'} /media/MICROBIT vfat rw 0 0\n")
    assert unmounted(labels, mounts) == [labels / "RPI-RP2"]


def test_the_command_says_which_boards_a_drive_may_be(pico: Path, tmp_path: Path) -> None:
    done = tidegate_here("flash", "install", "--drive", pico, folder=tmp_path)
    assert done.returncode == 1
    assert f"{pico} may be pico-w or pico: say which with --board" in done.stderr


def test_the_command_refuses_a_folder_that_is_no_drive(tmp_path: Path) -> None:
    done = tidegate_here(
        "flash", "install", "--drive", tmp_path, "--board", "pico", folder=tmp_path
    )
    assert done.returncode == 69
    assert "is no board's drive: it has no INFO_UF2.TXT or DETAILS.TXT" in done.stderr


def test_a_dry_run_copies_nothing(pico: Path, tmp_path: Path) -> None:
    (tmp_path / "mp.uf2").write_bytes(IMAGE)
    done = tidegate_here(
        "flash",
        "install",
        "--drive",
        pico,
        "--board",
        "pico",
        "--firmware",
        "mp.uf2",
        "--dry-run",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert f"would write mp.uf2 to {pico}" in done.stdout
    assert [path.name for path in pico.iterdir()] == ["INFO_UF2.TXT"]


def test_a_micro_bit_of_the_second_edition_is_refused(tmp_path: Path) -> None:
    with DrivePlayer(tmp_path / "drive", unique_id="9904") as played:
        done = tidegate_here("flash", "install", "--drive", played.folder, folder=tmp_path)
    assert done.returncode == 1
    assert "is a micro:bit of the second edition" in done.stderr
    assert played.taken == []

"""The wheel has all that a board needs: built, unpacked elsewhere, and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NODES = "gateway/flashing/nodes/firmware"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = folder.glob("tidegate-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder / "site")
    return folder / "site"


def tidegate(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """From the wheel alone; the repository is on no path."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import sys; from gateway.__main__ import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_has_every_source_and_nothing_else_of_the_firmware(installed: Path) -> None:
    sources = {
        path.relative_to(REPOSITORY / "firmware").as_posix()
        for path in (REPOSITORY / "firmware").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {
        path.relative_to(installed / NODES).as_posix()
        for path in (installed / NODES).rglob("*")
        if path.is_file()
    }
    assert packed == sources
    assert {"boards/esp32.toml", "tiny/tiny.py", "mqttsn/engine.py", "app/start.py"} <= packed


def test_the_simulated_sensors_run_the_library_from_it(installed: Path, tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "from gateway.cli.sensors.library import Engine; print(Engine.__module__)"
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],
        cwd=tmp_path,
        env={**inherited, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == f"{NODES.replace('/', '.')}.mqttsn.engine", done.stderr


@pytest.mark.parametrize(
    ("board", "more", "files"),
    [
        ("microbit", (), {"main.py", "tiny"}),
        (
            "esp32",
            ("--gateway", "10.0.0.5", "--no-wifi"),
            {"main.py", "settings.json", "loader/start.mpy"},
        ),
    ],
)
def test_boards_get_their_programs_from_it(
    installed: Path, tmp_path: Path, board: str, more: tuple[str, ...], files: set[str]
) -> None:
    done = tidegate(
        installed,
        tmp_path,
        "flash",
        "provision",
        "--board",
        board,
        "--into",
        "board",
        "--name",
        "x-1",
        *more,
    )
    assert done.returncode == 0, done.stderr
    made = tmp_path / "board"
    there = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert files <= there

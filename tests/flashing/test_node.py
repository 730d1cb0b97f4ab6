"""`tidegate flash` and mpremote against real MicroPython 1.27 with its console on a serial port."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.placing import MpremotePlacing, place
from gateway.flashing.program import BoardFile
from gateway.flashing.programs import find_program
from hil.boards.wasi.board import WasiBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.cli.tidegate import environment_with, tidegate
from tests.flashing.reports import KeptReport
from tests.flashing.test_drives import IMAGE, pico_drive, played
from tests.support.boards import built, require_board
from tests.support.console_board import ConsoleBoard

DESCRIPTION = Path(__file__).with_name("simulated.toml")
MAIN = """
from mqttsn import Client, Udp
client = Client(Udp(("127.0.0.1", {port})), b"garden-1")
client.engine.retry_ms = 200
while True:
    client.publish(b"garden/1", b"21.5", 1)
    client.wait(500)
"""
FILES = [
    BoardFile(path="lib/deep/er/one.py", octets=b"VALUE = 1\n"),
    BoardFile(path="lib/big", octets=bytes(range(256)) * 40),
    BoardFile(path="secrets.json", octets=b'{"password": "hunter2"}', is_secret=True),
    BoardFile(path="main.py", octets=b"print('main runs')\n"),
]


@pytest.fixture
def board(tmp_path: Path) -> Iterator[ConsoleBoard]:
    require_board()
    if find_program("mpremote") is None:
        pytest.skip("not run, mpremote is not installed (pip install mpremote)")
    with ConsoleBoard(tmp_path / "flash") as made:
        yield made


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    folder = tmp_path / "boards"
    folder.mkdir()
    shutil.copy(DESCRIPTION, folder)
    return folder


def test_files_and_folders_arrive_and_those_that_are_there_are_not_sent_again(
    board: ConsoleBoard,
) -> None:
    placing = MpremotePlacing(board.device)
    report = KeptReport()
    assert place(placing, FILES, report) == 4
    for file in FILES:
        assert (board.flash / file.path).read_bytes() == file.octets
    assert [done for what, done, _ in report.progress if what == "uploading"] == [1, 2, 3, 4]
    assert place(placing, FILES, report) == 0
    changed = [BoardFile(path="lib/big", octets=b"small"), *FILES[2:]]
    assert place(placing, changed, report) == 2  # and what starts it, which comes last


def test_an_upload_that_was_cut_leaves_nothing_to_start_and_can_be_done_again(
    board: ConsoleBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.flashing.placing.MPREMOTE_SILENT_S", 2.0)

    def cut(done: int, total: int) -> None:
        if done == 2:  # the long one, which takes seconds, has begun
            began.wait()
            board.cut_power()

    def look() -> None:
        while not long.exists() or long.stat().st_size > 9_000:
            time.sleep(0.01)
        began.set()

    long = board.flash / "lib/big"
    began = threading.Event()
    placing = MpremotePlacing(board.device)
    place(placing, FILES, KeptReport())
    others = [BoardFile(path=file.path, octets=file.octets + b"#") for file in FILES]
    threading.Thread(target=look, daemon=True).start()
    with pytest.raises(FlashError) as raised:
        place(placing, others, KeptReport(cut))
    assert raised.value.failure in (Failure.CUT, Failure.ABSENT)
    assert not (board.flash / "main.py").exists()
    place(placing, others, KeptReport())
    assert (board.flash / "main.py").read_bytes() == others[-1].octets


def test_a_secret_is_in_no_output_and_in_no_argument(
    board: ConsoleBoard, boards: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "main.py").write_text("pass\n")
    (program / "secrets.json").write_text('{"password": "hunter2"}')
    command = [sys.executable, "-m", "gateway", "flash", "provision", "--port", board.device]
    command += ["--boards", str(boards), "--name", "x", "--program", str(program), "--wait", "0"]
    seen: set[str] = set()
    with subprocess.Popen(
        command,
        env=environment_with({}),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        while process.poll() is None:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes().decode(errors="replace"))
                except OSError:
                    continue
        assert process.stdout is not None
        said = process.stdout.read()
    assert process.returncode == 0, said
    assert any("mpremote" in each for each in seen)
    assert not [each for each in (said, *seen) if "hunter2" in each]
    assert b"hunter2" in (board.flash / "secrets.json").read_bytes()


def test_a_program_of_ones_own_joins_over_udp(
    board: ConsoleBoard, boards: Path, broker: Mosquitto, tmp_path: Path
) -> None:
    admin = free_tcp_port()
    (tmp_path / "gateway").mkdir()
    config = f'[admin]\nlisten = "127.0.0.1:{admin}"\n'
    with GatewayProcess(tmp_path / "gateway", broker.url, config) as gateway:
        library = built(tmp_path / "library")
        shutil.copytree(library / "mqttsn", tmp_path / "program" / "lib" / "mqttsn")
        (tmp_path / "program" / "main.py").write_text(MAIN.format(port=gateway.port))
        done = tidegate(
            "flash",
            "--boards",
            boards,
            "--port",
            board.device,
            "--name",
            "garden-1",
            "--program",
            "program",
            "--set",
            f"admin.listen=127.0.0.1:{admin}",
            folder=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert re.match(r".*: simulated board, with MicroPython 1\.27\.0 on linux", told[0])
    count = sum(each.is_file() for each in (tmp_path / "program").rglob("*"))
    assert re.fullmatch(rf"the board has {count} files, \d+ bytes, verified", told[1])
    assert json.loads(told[2].removeprefix("enrolment: "))["id"] == "garden-1"
    assert re.match(r"garden-1 joined over UDP \(127\.0\.0\.1:\d+\), ", told[3])


def test_micropython_comes_by_the_drive_and_the_program_by_the_port(
    board: ConsoleBoard, boards: Path, tmp_path: Path
) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.py").write_text("print('here')\n")
    (tmp_path / "mp.uf2").write_bytes(IMAGE)
    folder = pico_drive(tmp_path)
    with played(folder) as taken:
        done = tidegate(
            "flash",
            "--boards",
            boards,
            "--port",
            board.device,
            "--drive",
            folder,
            "--firmware",
            "mp.uf2",
            "--name",
            "x-1",
            "--program",
            "program",
            "--wait",
            "0",
            folder=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert taken == [IMAGE]
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        board.device,
        f"writing mp.uf2 to {folder}",
        "mp.uf2 is on the board",
        "simulated board has MicroPython 1.27.0 on linux [Clang 19.1.5] version",
        "the board has 1 file, 14 bytes, verified",
        "enrolment",
    ]


def test_a_node_that_nobody_hears_is_said_with_what_to_look_at(
    board: ConsoleBoard, boards: Path, tmp_path: Path
) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.py").write_text("print('no WLAN')\n")
    done = tidegate(
        "flash",
        "provision",
        "--boards",
        boards,
        "--port",
        board.device,
        "--name",
        "lost-1",
        "--program",
        "program",
        "--wait",
        "1",
        "--set",
        "admin.listen=127.0.0.1:1",
        folder=tmp_path,
    )
    assert done.returncode == 69
    assert (
        "lost-1 was not heard within 1 s (no gateway answers at http://127.0.0.1:1" in done.stderr
    )
    assert "it said: no WLAN\n" in done.stdout
    assert "tidegate flash monitor  shows what the board says" in done.stderr


def test_micropython_that_is_too_old_is_refused_and_the_board_goes_on(
    board: ConsoleBoard, boards: Path, tmp_path: Path
) -> None:
    description = boards / "simulated.toml"
    description.write_text(description.read_text().replace("1.23", "9.9"))
    board.flash.joinpath("main.py").write_text("open('/went_on', 'w').close()")
    done = tidegate(
        "flash",
        "provision",
        "--boards",
        boards,
        "--port",
        board.device,
        "--name",
        "x",
        "--program",
        boards,
        folder=tmp_path,
    )
    assert done.returncode == 1
    assert "is too old, 9.9 is needed:  tidegate flash install --reinstall" in done.stderr
    assert (board.flash / "main.py").exists()


NODE = ("--name", "garden-7", "--sensor", "simulated:step=1", "--interval", "5")


def test_a_whole_node_in_a_folder_is_read_by_a_board_and_publishes(
    tmp_path: Path, broker: Mosquitto
) -> None:
    require_board()
    (tmp_path / "gateway").mkdir()
    config = '[log]\nlevel = "debug"\n'
    with GatewayProcess(tmp_path / "gateway", broker.url, config) as gateway:
        done = tidegate(
            "flash",
            "provision",
            "--into",
            "board",
            "--board",
            "esp32",
            *NODE,
            "--no-wifi",
            "--gateway",
            f"127.0.0.1:{gateway.port}",
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        settings = json.loads((tmp_path / "board" / "settings.json").read_text())
        assert settings["sensors"] == [{"kind": "simulated", "step": 1}]
        board = WasiBoard(tmp_path / "board", heap="64k")
        outcome = board.run("import main")
        assert outcome.how == "deepsleep", board.output
        gateway.wait_for_log("= asleep client=garden-7")


def test_a_whole_node_joins_over_udp_from_its_first_start(
    board: ConsoleBoard, boards: Path, broker: Mosquitto, tmp_path: Path
) -> None:
    admin = free_tcp_port()
    (tmp_path / "gateway").mkdir()
    config = f'[admin]\nlisten = "127.0.0.1:{admin}"\n'
    with GatewayProcess(tmp_path / "gateway", broker.url, config) as gateway:
        done = tidegate(
            "flash",
            "--boards",
            boards,
            "--port",
            board.device,
            *NODE,
            "--no-wifi",
            "--gateway",
            f"127.0.0.1:{gateway.port}",
            "--wait",
            "30",
            "--set",
            f"admin.listen=127.0.0.1:{admin}",
            folder=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^garden-7 joined over UDP \(127\.0\.0\.1:\d+\), ", done.stdout, re.M)


def test_secrets_are_in_a_file_of_their_own_that_nobody_else_reads(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    (tmp_path / "more").write_text('{"update_key": "000102030405060708090a0b0c0d0eff"}')
    for name in ("password", "more"):
        (tmp_path / name).chmod(0o600)
    done = tidegate(
        "flash",
        "provision",
        "--into",
        "board",
        "--board",
        "esp32",
        *NODE,
        "--gateway",
        "10.0.0.5",
        "--wifi",
        "Garden",
        "--wifi-password-file",
        "password",
        "--secrets",
        "more",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    path = tmp_path / "board" / "secrets.json"
    assert json.loads(path.read_text()) == {
        "ssid": "Garden",
        "password": "hunter2",
        "update_key": "000102030405060708090a0b0c0d0eff",
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in done.stdout + done.stderr
    others = [each for each in (tmp_path / "board").rglob("*") if each.is_file() and each != path]
    assert len(others) > 10
    assert not [each for each in others if b"hunter2" in each.read_bytes()]

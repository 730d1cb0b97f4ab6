"""`tidegate flash` against real MicroPython 1.9 on an emulated micro:bit, over its serial line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.flashing.console import Console
from gateway.flashing.errors import Failure, FlashError
from gateway.flashing.placing import ReplPlacing, place
from gateway.flashing.program import tiny_program
from gateway.flashing.settings import NodeSettings
from hil.boards.microbit.board import FIRMWARE, MicrobitBoard
from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.cli.tidegate import environment_with, tidegate
from tests.flashing.reports import KeptReport
from tests.support.microbit import DrivePlayer

NODE = ("--name", "shed-1", "--sensor", "simulated", "--interval", "2")
LINE = """
[[serial]]
port = "{device}"
burst_bytes_max = 32
frame_gap_ms = 5
[admin]
listen = "127.0.0.1:{admin}"
"""
SETTINGS = NodeSettings(
    name="shed-1", topic="shed/1", interval_s=2, sensors=({"kind": "simulated"},)
)


def test_a_board_gets_its_program_and_is_heard_on_its_line(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    done = tidegate("flash", "provision", "--port", microbit.device, *NODE, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *middle, last = done.stdout.splitlines()
    assert first == (
        f"{microbit.device}: BBC micro:bit V1, with MicroPython 1.9.2 on micro:bit with nRF51822"
    )
    assert re.fullmatch(r"the board has 2 files, \d+ bytes, verified", middle[0])
    assert re.fullmatch(
        rf"shed-1 joined over serial \({microbit.device}\), round trip \d+ ms", last
    )
    assert f'    port = "{microbit.device}"' in middle


def test_the_enrolment_line_says_which_board_it_was(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    command = ("flash", "provision", "--port", microbit.device, *NODE, "--wait", "0")
    for _ in range(2):
        done = tidegate(*command, "--enrol-to", "nodes.jsonl", folder=tmp_path)
        assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"^enrolment: (.*)$", done.stdout, re.MULTILINE)
    told = json.loads(line)
    assert (told["id"], told["board"], told["micropython"]) == ("shed-1", "microbit", "1.9.2")
    assert re.fullmatch("[0-9a-f]{16}", told["unique_id"])
    kept = (tmp_path / "nodes.jsonl").read_text().splitlines()
    assert [json.loads(each)["id"] for each in kept] == ["shed-1", "shed-1"]
    assert (tmp_path / "nodes.jsonl").stat().st_mode & 0o777 == 0o600
    assert "2 were there already" in done.stdout


def test_the_first_contact_is_heard_by_the_running_gateway(
    microbit: MicrobitBoard, broker: Mosquitto, tmp_path: Path
) -> None:
    (tmp_path / "gateway").mkdir()
    admin = free_tcp_port()
    config = LINE.format(device=microbit.device, admin=admin)
    command = [sys.executable, "-m", "gateway", "flash", "provision", "--port", microbit.device]
    command += [*NODE, "--hear", "gateway", "--set", f"admin.listen=127.0.0.1:{admin}"]
    process = subprocess.Popen(
        command, env=environment_with({}), stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    with process:
        while not (line := process.stdout.readline()).startswith("enrolment"):
            assert line, "it ended before"
        # The gateway has the line for itself from now on.
        with GatewayProcess(tmp_path / "gateway", broker.url, config):
            told = process.stdout.read()
    assert process.returncode == 0
    assert re.fullmatch(r"shed-1 joined over serial \(.*\), [\d.]+ s after its start\n", told)


def test_a_port_that_a_gateway_has_is_named_with_the_gateway(
    microbit: MicrobitBoard, broker: Mosquitto, tmp_path: Path
) -> None:
    (tmp_path / "gateway").mkdir()
    config = LINE.format(device=microbit.device, admin=free_tcp_port())
    with GatewayProcess(tmp_path / "gateway", broker.url, config) as gateway:
        gateway.wait_for_log("listening for sensors on serial")
        pid = gateway.pid
        done = tidegate("flash", "provision", "--port", microbit.device, *NODE, folder=tmp_path)
    assert done.returncode == 69
    assert f"(process {pid})" in done.stderr
    assert f"has {microbit.device}: stop it" in done.stderr
    assert f"tidegate serial release {microbit.device} --for 10m" in done.stderr


def test_micropython_and_the_program_in_one_go_by_the_drive(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    with DrivePlayer(tmp_path / "drive", microbit) as drive:
        done = tidegate(
            "flash",
            "--drive",
            drive.folder,
            "--port",
            microbit.device,
            *NODE,
            "--firmware",
            FIRMWARE,
            folder=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert "BBC micro:bit V1, as a drive" in done.stdout
    assert re.search(r"^the board has its program, \d+ bytes, verified$", done.stdout, re.M)
    assert "shed-1 joined over serial" in done.stdout
    microbit.reset()
    microbit.wait_for(r"(?s)~.*shed-1.*~")  # it starts by itself


def test_an_upload_that_was_cut_starts_nothing_and_goes_on_the_next_time(
    microbit: MicrobitBoard,
) -> None:
    program = tiny_program(SETTINGS)

    def cut(done: int, total: int) -> None:
        if done > total // 2 and not cuts:
            cuts.append(done)
            microbit.cut_power()

    cuts: list[int] = []
    with Console(microbit.device) as console:
        console.stop()
        assert place(ReplPlacing(console), program.files, KeptReport()) == 2
    other = tiny_program(NodeSettings(name="shed-2", topic="shed/2", interval_s=2))
    with Console(microbit.device) as console:
        console.stop()
        with pytest.raises(FlashError) as raised:
            place(ReplPlacing(console), other.files, KeptReport(cut))
    assert raised.value.failure is Failure.CUT
    microbit.start()
    with Console(microbit.device) as console:
        console.stop()
        assert "main.py" not in console.run("import os\nprint(os.listdir())")
        assert place(ReplPlacing(console), other.files, KeptReport()) == 2
        assert place(ReplPlacing(console), other.files, KeptReport()) == 0


def test_what_did_not_arrive_whole_is_sent_again(microbit: MicrobitBoard) -> None:
    def damage(done: int, total: int) -> None:
        if not damaged:
            damaged.append(done)
            console.run("f.write(b'x')")

    damaged: list[int] = []
    report = KeptReport(damage)
    with Console(microbit.device) as console:
        console.stop()
        place(ReplPlacing(console), tiny_program(SETTINGS).files, report)
    assert report.said == ["tiny did not arrive whole; again"]


def test_a_dry_run_changes_nothing_and_the_sensor_goes_on(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    provision = ("flash", "provision", "--port", microbit.device, "--sensor", "simulated")
    tidegate(*provision, "--name", "shed-1", "--wait", "0", folder=tmp_path)
    told = len(microbit.output)
    done = tidegate(*provision, "--name", "shed-9", "--dry-run", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"would place 2 files, \d+ bytes:\n +\d+ /tiny\n", done.stdout)
    microbit.wait_for(rf"(?s)^.{{{told}}}.*raw REPL.*soft reboot.*shed-1")
    assert "shed-9" not in microbit.output


def test_a_board_that_is_asked_for_the_wrong_one_goes_on(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    done = tidegate(
        "flash",
        "provision",
        "--port",
        microbit.device,
        *NODE,
        "--board",
        "pico",
        folder=tmp_path,
    )
    assert done.returncode == 1
    assert "is 'micro:bit with nRF51822', and --board says pico" in done.stderr
    microbit.wait_for("(?s)soft reboot.*>>> $")


def test_a_board_is_tested_line_by_line(microbit: MicrobitBoard, tmp_path: Path) -> None:
    before = tidegate("flash", "test", "--port", microbit.device, folder=tmp_path)
    assert before.returncode == 1
    assert "MISSING /tiny\nMISSING /main.py\n" in before.stdout
    tidegate("flash", "provision", "--port", microbit.device, *NODE, "--wait", "0", folder=tmp_path)
    after = tidegate(
        "flash", "test", "--port", microbit.device, "--name", "shed-1", folder=tmp_path
    )
    assert after.returncode == 0, after.stdout
    assert "MISSING" not in after.stdout
    assert "shed-1 joined over serial" in after.stdout


def test_the_monitor_shows_text_and_frames(microbit: MicrobitBoard, tmp_path: Path) -> None:
    tidegate("flash", "provision", "--port", microbit.device, *NODE, "--wait", "0", folder=tmp_path)
    command = [sys.executable, "-m", "gateway", "flash", "monitor", "--port", microbit.device]
    process = subprocess.Popen(
        command,
        env=environment_with({}),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    with process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
    assert re.search(r"< Connect\(client_id=b'shed-1'", line)
    assert process.returncode == 130


def test_mpremote_runs_snippets_on_it_too(microbit: MicrobitBoard, tmp_path: Path) -> None:
    from gateway.flashing.programs import find_program

    mpremote = find_program("mpremote")
    if mpremote is None:
        pytest.skip("not run, mpremote is not installed (pip install mpremote)")
    done = subprocess.run(
        [mpremote, "connect", microbit.device, "exec", "print(6 * 7)"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.stdout.strip() == "42", done.stderr


def test_a_program_of_ones_own_goes_there_as_it_is(microbit: MicrobitBoard, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "main.py").write_text("print('mine', 6 * 7)\n")
    done = tidegate(
        "flash",
        "provision",
        "--port",
        microbit.device,
        "--name",
        "x",
        "--wait",
        "0",
        "--program",
        "mine",
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "the board has 1 file, 21 bytes, verified" in done.stdout
    microbit.wait_for("mine 42")


def test_what_cannot_be_is_said_before_the_board_is_touched(
    microbit: MicrobitBoard, tmp_path: Path
) -> None:
    with DrivePlayer(tmp_path / "drive", microbit) as drive:
        done = tidegate(
            "flash",
            "--drive",
            drive.folder,
            "--port",
            microbit.device,
            *NODE,
            "--firmware",
            FIRMWARE,
            "--gateway",
            "10.0.0.5",
            folder=tmp_path,
        )
    assert done.returncode == 1
    assert "this board has no network: leave --wifi and --gateway out" in done.stderr
    assert drive.taken == []

"""`tidegate doctor --disk`: measures the disk that is there, and leaves nothing on it."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.doctor.syncs import measure, summary
from tests.cli.test_init import nobody_in_particular
from tests.cli.tidegate import REPOSITORY, TIMEOUT_S, environment_with, tidegate

IN_MEMORY = Path("/dev/shm")


def doctor(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "c.toml").write_text('[journal]\nsize_max = "512KiB"\n[gateway]\nstate_dir = "s"\n')
    return tidegate("doctor", "--config", "c.toml", *arguments, folder=folder)


def test_it_measures_the_disk_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    done = doctor(tmp_path, "--disk", "--syncs", "10", "--json")
    answer = json.loads(done.stdout)
    disk = answer["disk"]
    assert answer["schema"] == "tidegate.doctor/1"
    assert disk["folder"] == disk["examined"] == str(tmp_path / "s")
    times = disk["fdatasync"]
    assert times["count"] == 10
    assert 0 < times["p50_s"] <= times["p99_s"] <= times["worst_s"] < TIMEOUT_S
    assert disk["free_bytes"] > 0
    assert disk["size_max_bytes"] == 512 * 1024
    assert disk["mount"]["file_system"]
    assert list((tmp_path / "s").iterdir()) == []
    failures = [one for one in disk["findings"] if one["level"] == "failure"]
    assert (done.returncode, answer["ok"]) == ((1, False) if failures else (0, True))


def test_without_an_option_it_examines_all_there_is(tmp_path: Path) -> None:
    lines = doctor(tmp_path).stdout.splitlines()
    assert [line.split(" ")[0] for line in lines if line.startswith(("config", "clock"))] == [
        "config",
        "clock",
    ]
    assert f"folder      {tmp_path}/s, not there yet: {tmp_path}" in lines
    assert any(line.startswith("fdatasync   p50 ") and line.endswith("of 100") for line in lines)
    assert list(tmp_path.iterdir()) == [tmp_path / "c.toml"]


def test_a_folder_in_memory_is_a_failure_with_what_to_do() -> None:
    done = tidegate(
        "doctor",
        "--disk",
        "--syncs",
        "10",
        "--set",
        f"gateway.state_dir={IN_MEMORY}/tidegate",
        folder=IN_MEMORY,
    )
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout.endswith(
        "failure: /dev/shm is in memory (tmpfs): nothing there survives a power cut\n"
        "  set gateway.state_dir to a folder on a disk or card\n"
        "  $ sudo nano /etc/tidegate/config.toml\n"
    )


def test_a_file_in_place_of_the_folder_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    done = doctor(tmp_path, "--syncs", "10")
    assert done.returncode == 1
    assert (
        f"failure: {tmp_path}/s is there, but is no folder that this user may enter" in done.stdout
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be another user")
def test_a_folder_that_may_not_be_written_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    import_module("gateway.cli.doctor")  # nobody may not read a clone below root's home
    with nobody_in_particular():
        code = main(["doctor", "--disk", "--set", f"gateway.state_dir={locked}"])
    shown = capsys.readouterr().out
    # The folder, or the nearest above it that nobody may look into.
    (line,) = [line for line in shown.splitlines() if line.startswith("failure: ")]
    assert str(locked).startswith(line.removeprefix("failure: ").split(" ")[0])
    assert line.endswith(" may not be written by this user")
    # It has an owner, from whom it is not taken.
    assert "chown" not in shown
    assert "install -d" not in shown
    assert "run this as that one\n  $ sudo -u root tidegate doctor\n" in shown
    assert code == 1


def test_a_disk_that_takes_nothing_is_a_failure_and_keeps_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stops the writing as a full disk would."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "doctor", "--set", f"gateway.state_dir={tmp_path}"],
        cwd=tmp_path,
        env=environment_with({"PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    said = f"failure: {tmp_path} could not be written and synced: no file may become larger than"
    assert said in done.stdout
    assert (done.returncode, done.stderr) == (1, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_it_is_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    command = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gateway",
            "doctor",
            "--syncs",
            "100000",
            "--set",
            f"gateway.state_dir={tmp_path}",
        ],
        cwd=tmp_path,
        env=environment_with({}),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Whoever runs the tests in the background has it ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + TIMEOUT_S
    while not list(tmp_path.iterdir()):
        assert time.monotonic() < deadline
        assert command.poll() is None
        time.sleep(0.001)
    command.send_signal(number)
    _, complaints = command.communicate(timeout=TIMEOUT_S)
    assert command.returncode == 130, complaints
    assert b"Traceback" not in complaints
    assert list(tmp_path.iterdir()) == []


IN_THE_FORK = """
import os, signal, sys, time
from gateway.cli.doctor.apart import apart
hook = {hook!r}
os.register_at_fork(**{{hook: lambda: os.kill(os.getpid(), int(sys.argv[1]))}})
try:
    apart(lambda: time.sleep(600), 600)
except KeyboardInterrupt:
    print("interrupted")
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("before", "interrupted"),
        ("after_in_parent", "interrupted"),
        ("after_in_child", "PartFailedError"),
    ],
)
def test_an_interrupt_while_it_forks_is_not_lost(
    number: signal.Signals, hook: str, said: str
) -> None:
    """Python ignores what is raised by hooks of `fork`, and by handlers that run in them."""
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_FORK.format(hook=hook), str(int(number))],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.stdout, done.stderr) == (f"{said}\n", "")


def test_what_a_killed_one_left_is_removed_and_what_runs_is_let_alone(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f"doctor-{dead.pid}.measuring").touch()
    (tmp_path / f"doctor-{os.getppid()}.measuring").touch()
    heard: list[int] = []
    assert measure(tmp_path, 12, heard.append).count == 12
    assert heard == list(range(1, 13))
    assert [path.name for path in tmp_path.iterdir()] == [f"doctor-{os.getppid()}.measuring"]


def test_a_percentile_is_a_time_that_was_measured() -> None:
    times = summary([float(number) for number in range(100, 0, -1)])
    assert (times.p50_s, times.p99_s, times.worst_s) == (50.0, 99.0, 100.0)
    assert summary([7.0]) == summary([7.0])


@pytest.mark.parametrize("count", ["0", "9", "100001", "ten", "-5", "9" * 50])
def test_a_number_of_syncs_out_of_range_is_wrong_usage(tmp_path: Path, count: str) -> None:
    done = tidegate("doctor", "--syncs", count, folder=tmp_path)
    assert done.returncode == 2
    assert "tidegate doctor: error: argument --syncs: expected" in done.stderr


def test_a_wrong_configuration_is_refused(tmp_path: Path) -> None:
    done = tidegate("doctor", "--set", "gateway.id=300", folder=tmp_path)
    assert done.returncode == 78
    assert "failure: command line: gateway.id: expected" in done.stdout

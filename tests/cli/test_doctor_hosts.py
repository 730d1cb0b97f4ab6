"""Odd hosts, each named by `tidegate doctor`: the running gateway, its limits, files, names."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.cli.doctor import parts
from gateway.cli.doctor.apart import NoAnswerInTimeError, PartFailedError, apart
from gateway.cli.doctor.gateway_process import GatewayProcess as Examined
from gateway.cli.doctor.gateway_process import examined
from hil.rig.gateway import GatewayProcess
from tests.cli.doctor import QUIET, Doctor, taken_udp_port
from tests.cli.tidegate import environment_with, tidegate

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that to a file")


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path)


# The gateway that runs


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    page = '[admin]\nlisten = "127.0.0.1:0"\n'
    with GatewayProcess(tmp_path, "mqtt://127.0.0.1:1", page) as running:
        page = running.wait_for_log(r"status page on http://(\S+)").group(1)
        config = running.config_path.read_text(encoding="utf-8")
        asked = (
            config.replace("127.0.0.1:0", page) + f'[[udp]]\nlisten = "127.0.0.1:{running.port}"\n'
        )
        running.config_path.write_text(asked, encoding="utf-8")
        running.wait_for_log(" unreachable: ")
        yield running


def said_of(gateway: GatewayProcess, part: str = "gateway") -> str:
    done = tidegate(
        "doctor", "--only", part, "--config", gateway.config_path, folder=gateway.folder
    )
    return done.stdout


def test_what_a_gateway_reports_is_shown(gateway: GatewayProcess) -> None:
    said = said_of(gateway)
    assert f"gateway     runs, process {gateway.pid}\n" in said
    assert "warning: the gateway reports: the broker is away" in said
    assert "failure" not in said
    assert f"for the gateway (process {gateway.pid})" in said_of(gateway, "limits")


def test_a_gateway_that_is_stopped_is_reported_with_how_to_go_on(gateway: GatewayProcess) -> None:
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        said = said_of(gateway)
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    assert f"failure: the gateway (process {gateway.pid}) is stopped" in said
    assert f"  $ sudo kill -CONT {gateway.pid}\n" in said
    assert "does not answer on 127.0.0.1:" in said


def test_another_program_is_no_gateway_by_its_command_line(doctor: Doctor) -> None:
    """A folder called tidegate, an editor with a file of that name."""
    with taken_udp_port("/srv/tidegate/gateway", "gateway") as (port, pid):
        text = (
            f'[gateway]\nstate_dir = "s"\n[admin]\nlisten = ""\n'
            f'[[udp]]\nlisten = "127.0.0.1:{port}"\n'
        )
        (finding,) = doctor.run("listeners", text, code=1)
        assert f"(process {pid})" in finding["what"]
        assert "gateway, with" not in finding["what"]
        assert doctor.run("gateway", text, code=0) == []


def test_another_gateway_at_the_port_is_named_with_its_state(
    gateway: GatewayProcess, doctor: Doctor
) -> None:
    text = (
        f'[gateway]\nstate_dir = "elsewhere"\n[admin]\nlisten = ""\n'
        f'[[udp]]\nlisten = "127.0.0.1:{gateway.port}"\n'
    )
    (finding,) = doctor.run("listeners", text, code=1)
    state = gateway.folder / "state"
    assert finding["what"].endswith(
        f"(process {gateway.pid}), another gateway, with its state in {state}"
    )
    assert said_of(gateway, "listeners").endswith("\nok\n")


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_files_that_are_not_there_any_more_are_named(gateway: GatewayProcess, how: str) -> None:
    state = gateway.folder / "state"
    if how == "removed":
        shutil.rmtree(state)
    else:
        state.rename(gateway.folder / "state.old")
    if how == "replaced":
        old, no_socket = gateway.folder / "state.old", shutil.ignore_patterns("*.sock")
        shutil.copytree(old, state, ignore=no_socket)
    said = said_of(gateway)
    assert "failure: files that the gateway has open are not those in" in said
    assert "state.db" in said


def proc_of(folder: Path, status: str, *, wchan: str = "ep_poll", limits: str = "") -> Examined:
    own = folder / "77"
    (own / "fd").mkdir(parents=True)
    (own / "status").write_text(status)
    (own / "wchan").write_text(wchan)
    (own / "limits").write_text(f"Limit   Soft Limit   Hard Limit   Units\n{limits}")
    return Examined(77, folder / "state", folder)


def findings_of(process: Examined) -> list[str]:
    process.folder.mkdir()
    return [finding.what for finding in examined(process)]


def test_a_log_that_is_not_read_is_named(tmp_path: Path) -> None:
    (said,) = findings_of(proc_of(tmp_path, "State:\tS (sleeping)\n", wchan="pipe_write"))
    assert "waits until somebody reads its log: pipe_write" in said


def test_a_disk_that_it_waits_for_is_named(tmp_path: Path) -> None:
    (said,) = findings_of(proc_of(tmp_path, "State:\tD (disk sleep)\n", wchan="jbd2_log_wait"))
    assert "waits in the kernel, jbd2_log_wait" in said


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ("SigBlk:\t0000000000004001", "blocks SIGTERM and SIGHUP"),
        ("SigBlk:\t0000000000000001", "blocks SIGHUP"),
        ("SigIgn:\t0000000000004000", "ignores SIGTERM"),
    ],
)
def test_signals_that_do_not_arrive_are_named(tmp_path: Path, mask: str, said: str) -> None:
    (found,) = findings_of(proc_of(tmp_path, f"State:\tS (sleeping)\n{mask}\n"))
    assert said in found


def test_an_ignored_hangup_is_how_nohup_starts_it(tmp_path: Path) -> None:
    assert findings_of(proc_of(tmp_path, "State:\tS (sleeping)\nSigIgn:\t0000000000000001\n")) == []


def test_descriptors_that_run_out_are_counted(tmp_path: Path) -> None:
    limits = "Max open files            10                   10                   files\n"
    process = proc_of(tmp_path, "State:\tS (sleeping)\n", limits=limits)
    for number in range(9):
        (process.own / "fd" / str(number)).symlink_to("/dev/null")
    (said,) = findings_of(process)
    assert "has 9 of at most 10 files open (RLIMIT_NOFILE)" in said


# Limits and locale


@pytest.mark.parametrize(
    ("number", "value", "said"),
    [
        (resource.RLIMIT_NOFILE, 20, "RLIMIT_NOFILE of a process that is started here is 20"),
        (resource.RLIMIT_FSIZE, 1 << 20, "RLIMIT_FSIZE of a process that is started here is 1 MiB"),
        (resource.RLIMIT_CPU, 900, "the kernel ends it after that time"),
    ],
)
def test_a_limit_that_is_too_small_is_named(
    tmp_path: Path, number: int, value: int, said: str
) -> None:
    (tmp_path / "c.toml").write_text(QUIET)  # not where another gateway may run
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "doctor", "--only", "limits", "--config", "c.toml"],
        cwd=tmp_path,
        env=environment_with({}),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(number, (value, value)),
    )
    assert f"failure: {'' if said[0] == 't' else said}" in done.stdout, done
    assert said in done.stdout
    assert (done.returncode, done.stderr) == (1, "")


def test_a_locale_that_is_not_utf8_is_noted(tmp_path: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = tidegate("doctor", "--only", "limits", folder=tmp_path, environment=ascii_only)
    assert "note: the locale of this shell is not UTF-8" in done.stdout


# Files and names


def test_a_state_folder_that_others_may_read_is_closed(doctor: Doctor) -> None:
    state = doctor.folder / "state"
    (state / "journal").mkdir(parents=True, mode=0o700)
    state.chmod(0o755)
    (state / "announced.jsonl").touch(0o644)
    (found,) = doctor.run("files", QUIET, code=0)
    assert "2 files in" in found["what"]
    assert "announced.jsonl" in found["what"]
    subprocess.run(found["command"].removeprefix("sudo ").split(), check=True)
    assert doctor.run("files", QUIET, code=0) == []


@needs_root
def test_files_of_another_user_are_given_back(doctor: Doctor) -> None:
    state = doctor.folder / "state"
    state.mkdir(mode=0o700)
    (state / "state.db").touch(0o600)
    os.chown(state / "state.db", 54_321, 54_321)
    (command,) = doctor.commands("files", QUIET)
    assert command == f"sudo chown -R {os.geteuid()} {state}"


def test_files_of_tomorrow_show_a_clock_that_was_set_back(doctor: Doctor) -> None:
    state = doctor.folder / "state"
    state.mkdir(mode=0o700)
    tomorrow = time.time() + 86_400
    os.utime(state, (tomorrow, tomorrow))
    (found,) = doctor.run("files", QUIET, code=0)
    assert "the clock was set back, or is not set since the machine started" in found["what"]


def test_a_path_that_is_too_long_and_a_link_to_nowhere_are_named(doctor: Doctor) -> None:
    long = QUIET.replace('"state"', f'"{"x" * 256}"')
    assert doctor.commands("files", long)[0].startswith("sudo nano +2,13 ")
    (doctor.folder / "state").symlink_to("away")
    (found,) = doctor.run("files", QUIET, code=1)
    assert "is a symbolic link to away, which is not there" in found["what"]


@needs_root
def test_a_disk_without_inodes_is_named(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o nr_inodes=1 none {tmp_path}; exec "$@"'
    doctor = ["doctor", "--disk", "--set", f"gateway.state_dir={tmp_path}"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "-", sys.executable, "-m", "gateway", *doctor],
        env=environment_with({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "has no inodes left" in done.stdout, done
    assert f"  $ df -i {tmp_path}" in done.stdout
    assert "disk is full" not in done.stdout


# What does not answer


def test_a_configuration_that_is_a_pipe_does_not_hang_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "CONFIGURATION_S_MAX", 0.3)
    os.mkfifo(tmp_path / "c.toml")
    assert main(["doctor", "--config", str(tmp_path / "c.toml")]) == 78
    assert "c.toml" in capsys.readouterr().out


def test_a_part_that_hangs_is_left_behind() -> None:
    began = time.monotonic()
    with pytest.raises(NoAnswerInTimeError):
        apart(lambda: os.kill(os.getpid(), signal.SIGSTOP), 0.2)
    assert time.monotonic() - began < 5


def test_a_part_that_is_left_behind_holds_no_pipe(tmp_path: Path) -> None:
    program = (
        "import os, signal\nfrom gateway.cli.doctor import apart\n"
        "os.kill = lambda *_: None\n"  # as if it could not be ended
        "try: apart.apart(lambda: __import__('time').sleep(5), 0.1)\n"
        "except apart.NoAnswerInTimeError: print('left', flush=True); os._exit(0)\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment_with({}), capture_output=True, check=False
    )
    assert done.stdout == b"left\n"
    assert time.monotonic() - began < 4


def test_a_part_that_fails_is_its_own_matter() -> None:
    def fail() -> None:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(PartFailedError, match="ZeroDivisionError: by nothing"):
        apart(fail, 20)
    with pytest.raises(PartFailedError, match="ended without an answer"):
        apart(lambda: os.kill(os.getpid(), signal.SIGKILL), 20)
    with pytest.raises(PartFailedError, match=r"pickle|local object"):
        apart(lambda: lambda: None, 20)
    assert apart(lambda: b"x" * 300_000, 20) == b"x" * 300_000

"""What the caller left of streams, signals and locale does no harm, whatever the verb."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gateway.cli.verbs import VERBS
from tests.cli.tidegate import environment_with

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
FOLDER = "grün-日本"
FAILED = 1
# Each ends soon by itself; what they find is their own matter.
CALLS: Mapping[str, tuple[str, ...]] = {
    "run": ("--no-wait", "--set", "udp.0.listen=192.0.2.1:1", "--set", "gateway.state_dir=state"),
    "check": ("CONFIG", "--show"),
    "init": (),
    "doctor": ("--config", "CONFIG", "--only", "configuration"),
    "backup": ("--config", "CONFIG", "there.backup"),
    "restore": ("--list", "absent.backup"),
    "flash": ("--list",),
    "simulate": ("--gateway", "127.0.0.1:1", "--sensors", "0"),
    "demo": ("--seconds", "0"),
    "watch": ("--config", "CONFIG", "--for", "1"),
    "unit": (),
    "completion": ("bash",),
    "man": (),
}
ANSWERING = ("check", "init", "doctor", "unit", "completion", "man")


def called(
    folder: Path,
    *arguments: str,
    redirected: str = "",
    environment: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """By a shell, which closes and redirects as people do."""
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {redirected}', "-", sys.executable, "-m", "gateway", *arguments],
        cwd=folder,
        env=environment_with(environment or {}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=200,
        check=False,
        preexec_fn=before,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / FOLDER
    place.mkdir()
    (place / "c.toml").write_text(
        f'[gateway]\nstate_dir = "{place}/state"\n[admin]\nlisten = "127.0.0.1:1"\n'
        '[predefined_topics]\n"gewächs/日本" = 7\n',
        encoding="utf-8",
    )
    return place


def arguments_of(verb: str, folder: Path) -> list[str]:
    given = CALLS.get(verb, ("--config", "CONFIG"))
    config = str(folder / "c.toml")
    return [verb, *(config if each == "CONFIG" else each for each in given)]


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_closed_streams_and_names_outside_the_locale_are_no_traceback(
    verb: str, folder: Path
) -> None:
    arguments = arguments_of(verb, folder)
    done = called(folder, *arguments, redirected="<&- >&-", environment=ASCII)
    for word in ("Traceback", "Exception ignored", "codec"):
        assert word not in done.stderr
    assert done.returncode in (0, 1, 2, 69, 73, 77, 78)
    assert done.returncode == FAILED or verb not in ANSWERING, done


@pytest.mark.parametrize("verb", ["man", "status", "fly"])
@pytest.mark.parametrize("redirected", [">/dev/full 2>/dev/full", ">&- 2>&-", "2>/dev/full"])
def test_streams_that_take_nothing_end_with_an_exit_code(
    verb: str, redirected: str, folder: Path
) -> None:
    done = called(folder, verb, "--config", f"{folder}/c.toml", redirected=redirected)
    assert (done.returncode, done.stdout + done.stderr) != (120, "")
    assert "Traceback" not in done.stdout


def test_a_folder_outside_the_locale_is_used(folder: Path) -> None:
    done = called(folder, "init", f"{folder}/new.toml", environment=ASCII)
    assert done.returncode == 0, done
    assert (folder / "new.toml").exists()
    shown = called(folder, "check", f"{folder}/c.toml", "--show", environment=ASCII)
    assert shown.returncode == 0
    assert "gew\\xe4chs" in shown.stdout, "as the terminal can show it"


def test_an_answer_whose_output_is_closed_is_a_sentence_and_1(folder: Path) -> None:
    done = called(folder, "--help", redirected=">&-")
    assert done.returncode == FAILED
    assert done.stderr == "tidegate: the answer cannot be written: standard output is closed\n"


def test_closed_streams_are_not_taken_by_files_or_sockets(folder: Path) -> None:
    with running(folder, "<&- >&- 2>&-") as gateway:
        wait_until_it_listens(folder, gateway)
        for number in range(3):
            assert str(Path(f"/proc/{gateway.pid}/fd/{number}").readlink()) == os.devnull
        gateway.terminate()
        assert gateway.wait(20) == 0


@pytest.mark.parametrize("disposition", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_blocked_or_ignored_sigterm_ends_it(folder: Path, disposition: signal.Handlers) -> None:
    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.signal(signal.SIGTERM, disposition)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    with running(folder, "", block) as gateway:
        wait_until_it_listens(folder, gateway)
        gateway.terminate()
        assert gateway.wait(20) == 0


def test_an_ignored_sigint_stays_ignored(folder: Path) -> None:
    with running(folder, "", lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as gateway:
        wait_until_it_listens(folder, gateway)
        gateway.send_signal(signal.SIGINT)
        gateway.terminate()
        assert gateway.wait(20) == 0


def test_the_exit_code_of_a_child_is_seen_with_sigchld_ignored(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; from gateway.host import inherited; inherited.make_fit();"
        "sys.exit(subprocess.run([sys.executable, '-c', 'raise SystemExit(7)']).returncode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment_with({}),
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert done.returncode == 7


def running(
    folder: Path, redirected: str, before: Callable[[], object] | None = None
) -> subprocess.Popen[bytes]:
    gateway = [sys.executable, "-m", "gateway", "run", "--config", f"{folder}/c.toml"]
    here = ["--set", "udp.0.listen=127.0.0.1:0", "--set", "admin.listen="]
    return subprocess.Popen(
        ["bash", "-c", f'exec "$@" {redirected}', "-", *gateway, *here],
        env=environment_with({}),
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: before() and None if before is not None else None,
    )


def wait_until_it_listens(folder: Path, gateway: subprocess.Popen[bytes]) -> None:
    """The journal is there, and the signals are listened to soon after."""
    deadline = time.monotonic() + 20
    while not list((folder / "state/journal").glob("*")) or not _has_handlers(gateway.pid):
        assert gateway.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _has_handlers(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught & 1 << (signal.SIGTERM - 1))

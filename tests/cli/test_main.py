"""The frame of the command line: help, exit codes, imports, and ends that are nobody's mistake."""

import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.app.exit_codes import MEANING, ExitCode
from gateway.cli.verbs import VERBS, Verb
from tests.cli.tidegate import environment_with, tidegate

# The demo brings tests of its own.
OURS = [verb for verb in VERBS if verb.name != "demo"]
EXPENSIVE = ("asyncio", "gateway.app.daemon", "mqtt5", "uvloop", "microdot", "prometheus_client")


def test_help_lists_every_verb_and_every_exit_code(tmp_path: Path) -> None:
    done = tidegate("--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for verb in VERBS:
        assert f"\n    {verb.name} " in done.stdout
    for code, meaning in MEANING.items():
        assert f"\n  {code:<4}{meaning}\n" in done.stdout


def test_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "FAILURE": 1,
        "USAGE": 2,
        "UNAVAILABLE": 69,
        "CANNOT_CREATE": 73,
        "RESTART": 75,
        "PERMISSION": 77,
        "CONFIGURATION": 78,
        "INTERRUPTED": 130,
    }
    assert set(MEANING) == set(ExitCode)


@pytest.mark.parametrize("verb", OURS, ids=lambda verb: verb.name)
def test_help_of_a_verb_has_a_sentence_and_an_example(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"example:\n  {verb.example}\n" in shown
    assert verb.example.startswith(f"tidegate {verb.name} ")
    assert shown.split("\n\n")[1].endswith(".")


def test_help_imports_nothing_expensive(tmp_path: Path) -> None:
    """Of no verb, one after another: what one of them imports stays, and is found after it."""
    code = (
        "import sys; from gateway.__main__ import main\n"
        "for verb in [[], *([each] for each in sys.argv[2:])]:\n"
        "    main([*verb, '--help'])\n"
        "    loaded = set(sys.argv[1].split()) & set(sys.modules)\n"
        "    if loaded: sys.exit(f'{verb}: imported: {loaded}')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, " ".join(EXPENSIVE), *(verb.name for verb in OURS)],
        cwd=tmp_path,
        env=environment_with({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("usage: ") == 1 + len(OURS)


def test_top_level_help_imports_no_verb(tmp_path: Path) -> None:
    code = (
        "import sys; from gateway.__main__ import main; main(['--help']);"
        "sys.exit(bool({'tomllib', 'gateway.config', 'gateway.cli.run'} & set(sys.modules)))"
    )
    environment = environment_with({})
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize("verb", OURS, ids=lambda verb: verb.name)
def test_a_verb_stands_in_the_module_of_its_name(verb: Verb) -> None:
    assert find_spec(verb.module) is not None


@pytest.mark.parametrize(
    "arguments",
    [(), ("fly",), ("restore",), ("--fly",), ("check", "a", "b"), ("run", "--log-level", "loud")],
)
def test_wrong_usage_is_2_and_says_how_it_is_used(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = tidegate(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: tidegate")


def test_version_says_which(tmp_path: Path) -> None:
    done = tidegate("--version", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("tidegate ")


@pytest.mark.parametrize("arguments", [("init",), ("--help",), ("check", "c.toml", "--show")])
def test_a_closed_pipe_is_quiet(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    command = subprocess.Popen(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=tmp_path,
        env=environment_with({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()  # long before Python is up and writes
    assert command.stderr.read() == b""
    command.stderr.close()
    command.wait()


@pytest.mark.parametrize("arguments", [("init",), ("--help",), ("check", "c.toml", "--show")])
def test_a_full_disk_behind_the_answer_is_said(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gateway", *arguments],
            cwd=tmp_path,
            env=environment_with({}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "tidegate: the answer cannot be written: No space left on device\n"


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    """`status` waits for a gateway that does not answer, until the signal comes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"admin.listen=127.0.0.1:{silent.getsockname()[1]}"
        command = subprocess.Popen(
            [sys.executable, "-m", "gateway", "status", "--set", place],
            cwd=tmp_path,
            env=environment_with({}),
            stderr=subprocess.PIPE,
            # Whoever runs the tests in the background has it ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        silent.settimeout(60)
        connection, _ = silent.accept()  # so the command is where we want it
        with connection:
            command.send_signal(signal.SIGINT)
            _, complaints = command.communicate(timeout=200)
    assert (command.returncode, complaints) == (130, b"")

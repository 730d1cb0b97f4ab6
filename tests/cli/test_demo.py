"""`tidegate demo` as its user has it: the real command, a real broker, the real gateway."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import aiomqtt
import pytest

from tests.cli.test_demo_children import await_end
from tests.cli.tidegate import PROGRAMS
from tests.support.waited import waited_s

PATIENCE_S = 200.0
DEMO = [sys.executable, "-m", "gateway", "demo"]


@pytest.fixture(autouse=True)
def _own_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@contextmanager
def demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running demo; at the end it is killed if it still runs."""
    with subprocess.Popen(
        [*DEMO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def line_with(output: IO[str] | None, pattern: str) -> str:
    """The next line that matches; fails with what came instead."""
    assert output is not None
    seen = []
    for line in output:
        seen.append(line)
        if re.search(pattern, line):
            return line
    raise AssertionError(f"no {pattern!r} in:\n{''.join(seen)}")


def broker_port(output: IO[str] | None) -> int:
    return int(line_with(output, "broker 127.0.0.1:").rpartition(":")[2])


# Both ways


def test_readings_flow_up_at_every_qos_and_commands_flow_down(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--seconds", "6", "--json"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["ok"] is True
    assert {sensor["qos"] for sensor in summary["sensors"]} == {0, 1, 2}
    for sensor in summary["sensors"]:
        enough = 1 if sensor["sleeps"] else 3
        assert sensor["readings"] >= enough
        assert sensor["repeats"] == 0
        assert sensor["acknowledged_missing"] == 0
        if sensor["qos"]:
            assert sensor["acknowledged"] >= enough
    assert sum(sensor["commands_confirmed"] for sensor in summary["sensors"]) >= 2
    assert list(tmp_path.iterdir()) == []


def test_the_first_reading_shows_within_five_seconds() -> None:
    began = time.monotonic()
    with demo() as running:
        line_with(running.stdout, r"  up    demo/sensor-\d  temperature .* °C .* ms$")
        took_s = time.monotonic() - began
        assert took_s - waited_s(running.pid) < 5.0


def test_a_command_of_the_user_is_obeyed() -> None:
    async def set_interval(port: int) -> None:
        async with aiomqtt.Client("127.0.0.1", port) as client:
            await client.publish("demo/sensor-5/set", "3", qos=1)

    with demo() as running:
        port = broker_port(running.stdout)
        line_with(running.stdout, "up    demo/sensor-5 ")
        asyncio.run(set_interval(port))
        line_with(running.stdout, r"down  demo/sensor-5/set  3  \(yours\)")
        line = line_with(running.stdout, "done  demo/sensor-5  now every 3 s")
        assert float(line.split()[-2]) < 1000  # by the report at once, not by the next one


def test_a_sleeper_is_shown_asleep_then_overdue_and_obeys_when_it_wakes() -> None:
    with demo() as running:
        asleep = r"gate  sensor-3  asleep until \d\d:\d\d:\d\d$"
        line_with(running.stdout, asleep)
        line_with(running.stdout, r"gate  sensor-3  overdue by 0\.\d s$")
        line_with(running.stdout, asleep)
        line_with(running.stdout, r"down  demo/sensor-\d/set  \d  \(waits: asleep until ")
        line_with(running.stdout, r"done  demo/sensor-[23]  now every [456] s")


# Ending


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_demo_and_all_that_it_started(number: int, tmp_path: Path) -> None:
    with demo() as running:
        line_with(running.stdout, "  up  ")
        children = children_of(running.pid)
        assert len(children) == 2
        running.send_signal(number)
        output, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, errors
    assert "readings from" in output
    assert "Traceback" not in errors
    for child in children:
        await_end(child)
    assert list(tmp_path.iterdir()) == []


def test_nothing_survives_a_demo_that_was_killed() -> None:
    with demo() as running:
        line_with(running.stdout, "  up  ")
        children = children_of(running.pid)
        assert len(children) == 2
        running.kill()
    for child in children:
        await_end(child)


def test_a_signal_while_it_starts_ends_it_too(tmp_path: Path) -> None:
    with demo("--seconds", "20") as running:
        while not (children := children_of(running.pid)):
            assert running.poll() is None
        running.terminate()
        _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    assert "way up is missing" in errors
    for child in children:
        await_end(child)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("victim", ["broker", "gateway"])
def test_when_a_part_dies_the_demo_says_which_and_ends_the_rest(victim: str) -> None:
    with demo() as running:
        line_with(running.stdout, "  up  ")
        children = children_of(running.pid)
        os.kill(children[("broker", "gateway").index(victim)], signal.SIGKILL)
        _, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 1
    assert f"The {victim} was ended by signal 9." in errors
    assert "Traceback" not in errors
    for child in children:
        await_end(child)


def test_the_folder_is_kept_if_asked_and_shows_an_orderly_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--seconds", "0.5", "--keep"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    (folder,) = tmp_path.iterdir()
    assert f"Logs and state are kept in {folder}" in done.stderr
    names = {path.name for path in folder.iterdir()}
    assert names >= {"broker.log", "gateway.log", "demo.toml", "mosquitto.conf"}
    broker_log = (folder / "broker.log").read_text()
    goodbye = broker_log.index("Client tidegate-demo disconnected.")  # no mere end of connection
    assert goodbye < broker_log.index("terminating")


def test_a_run_too_short_for_a_command_fails_with_the_half_that_is_missing() -> None:
    done = subprocess.run(
        [*DEMO, "--seconds", "0.2"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert "The way down is missing: no command was confirmed by a sensor." in done.stderr


def test_a_reader_that_goes_away_ends_it_without_a_traceback() -> None:
    with demo() as running:
        line_with(running.stdout, "  up  ")
        children = children_of(running.pid)
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(PATIENCE_S) == 1
        assert running.stderr is not None
        assert running.stderr.read() == ""
    for child in children:
        await_end(child)


# In a terminal


def in_a_terminal(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and all that was drawn on a terminal of 80 columns and 24 lines."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    settings = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
    with subprocess.Popen(
        [*DEMO, *arguments], stdin=terminal, stdout=terminal, stderr=terminal, env=settings
    ) as running:
        os.close(terminal)
        drawn = bytearray()
        try:
            while octets := os.read(controller, 4096):
                drawn += octets
        except OSError:  # EIO: the last one who had the terminal open has closed it
            pass
        code = running.wait(PATIENCE_S)
    os.close(controller)
    return code, drawn.decode("utf-8", "replace")


def test_a_terminal_gets_a_live_table_and_its_cursor_back() -> None:
    code, drawn = in_a_terminal("--seconds", "4")
    assert code == 0, drawn
    assert "Tidegate demo" in drawn
    assert "command, done in" in drawn
    assert "\x1b[36m" in drawn  # the names of the sensors are coloured
    assert drawn.rfind("\x1b[?25h") > drawn.rfind("\x1b[?25l") >= 0


def test_no_color_draws_without_colours() -> None:
    _, drawn = in_a_terminal("--seconds", "1", environment={"NO_COLOR": "1"})
    assert "Tidegate demo" in drawn
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", drawn)


def test_plain_in_a_terminal_gives_lines() -> None:
    _, drawn = in_a_terminal("--plain", "--seconds", "1")
    assert re.search(r"up    demo/sensor-\d", drawn)
    assert "\x1b[" not in drawn


# What can be wrong before it starts


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sensors", "0"], "from 1 to 200"),
        (["--sensors", "201"], "from 1 to 200"),
        (["--sensors", "five"], "'five' is not a whole number"),
        (["--seconds", "0"], "'0' is not a number of seconds"),
        (["--seconds", "nan"], "'nan' is not a number of seconds"),
        (["--seconds", "soon"], "'soon' is not a number of seconds"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(arguments: list[str], complaint: str) -> None:
    done = subprocess.run([*DEMO, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_without_aiomqtt_it_says_how_to_install_it() -> None:
    program = "import sys; sys.modules['aiomqtt'] = None; import runpy;"
    program += "runpy.run_module('gateway', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 69, done.stderr
    assert f"{sys.executable} -m pip install 'aiomqtt" in done.stderr


def test_without_mosquitto_it_says_how_to_install_it(tmp_path: Path) -> None:
    program = "import gateway.cli.demo.broker_process as places; places.SYSTEM_PLACES = ();"
    program += "import runpy; runpy.run_module('gateway', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{PROGRAMS}"},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 69, done.stderr
    assert "sudo apt-get install -y mosquitto\n" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_for_temporary_files_it_says_so(tmp_path: Path) -> None:
    nowhere = {**os.environ, "TMPDIR": "/proc/nowhere", "TEMP": "", "TMP": ""}
    full = "import tempfile; tempfile.tempdir = '/proc/nowhere'; import sys, runpy;"
    done = subprocess.run(
        [sys.executable, "-c", full + "runpy.run_module('gateway', run_name='__main__')", "demo"],
        capture_output=True,
        text=True,
        env=nowhere,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 73, done.stderr
    assert "Set TMPDIR" in done.stderr

"""A log that nobody reads holds up nothing: sensors, health and SIGTERM are served meanwhile.

The gateway's stderr is a full pipe, a terminal stopped by Ctrl-S, or a full stream socket that says
it is the journal. The queue is of a few lines here, so that the lines of one sensor overflow it.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import tty
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import free_tcp_port
from tests.support.full_pipe import fill
from tests.support.waiting import until

LINES_MAX = 6
PROGRAM = f"""
import sys
from gateway.admin.log import writer
writer.LINES_MAX, writer.BLOCKED_AFTER_S = {LINES_MAX}, 0.1
from gateway.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
STOP_S_MAX = 5.0
LOST = r"(\d+) lines of the log were lost in (\d+\.\d) s: nobody reads it"


class Outlet(ABC):
    """What the gateway has as its stderr; nobody reads it before `read`."""

    def environment(self) -> dict[str, str]:
        return {}

    @abstractmethod
    def fileno(self) -> int:
        """The gateway's end."""

    @abstractmethod
    def resume(self) -> int:
        """Now it moves again; the end to read from."""

    @abstractmethod
    def close(self) -> None: ...


class FullPipe(Outlet):
    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        fill(self._writing)

    def fileno(self) -> int:
        return self._writing

    def resume(self) -> int:
        return self._reading

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


class StoppedTerminal(Outlet):
    """By the key, as a person does it."""

    def __init__(self) -> None:
        self._person, self._terminal = pty.openpty()
        tty.setraw(self._terminal)
        mode = termios.tcgetattr(self._terminal)
        mode[0] |= termios.IXON
        termios.tcsetattr(self._terminal, termios.TCSANOW, mode)
        os.write(self._person, b"\x13")  # Ctrl-S

    def fileno(self) -> int:
        return self._terminal

    def resume(self) -> int:
        os.write(self._person, b"\x11")  # Ctrl-Q
        return self._person

    def close(self) -> None:
        os.close(self._person)
        os.close(self._terminal)


class UnreadJournal(Outlet):
    def __init__(self) -> None:
        self._journal, self._ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(BlockingIOError):
            while True:
                self._ours.send(b"x" * 4096, socket.MSG_DONTWAIT)

    def environment(self) -> dict[str, str]:
        status = os.fstat(self._ours.fileno())
        return {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}

    def fileno(self) -> int:
        return self._ours.fileno()

    def resume(self) -> int:
        return self._journal.fileno()

    def close(self) -> None:
        self._journal.close()
        self._ours.close()


class Gateway(GatewayProcess):
    """One whose log goes into an outlet. The broker is away: the journal acknowledges."""

    def __init__(self, folder: Path, outlet: Outlet) -> None:
        self.page_port = free_tcp_port()
        config = (
            f'[admin]\nlisten = "127.0.0.1:{self.page_port}"\n'
            '[predefined_topics]\n"sensors/boot" = 7\n'
        )
        program = (sys.executable, "-c", PROGRAM)
        super().__init__(folder, "mqtt://127.0.0.1:1", config, command=program)
        self._outlet = outlet
        self.log_path.touch()

    def launch(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stderr=self._outlet.fileno(),
            env={**os.environ, **self._outlet.environment()},
            start_new_session=True,
        )

    def ask(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.page_port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def doubt(self) -> str:
        """What /healthz, which is 200, says of the log."""
        checks: dict[str, Any] = json.loads(self.ask("/healthz"))["checks"]
        return str(checks["log"].get("reason", ""))

    def answers(self, path: str) -> bool:
        try:
            return bool(self.ask(path))
        except OSError:
            return False

    def lost_lines(self) -> int:
        found = re.search(r"^tidegate_log_lines_lost_total (\d+)", self.ask("/metrics"), re.M)
        assert found is not None
        return int(found[1])

    def talk(self, client_id: bytes) -> None:
        """One sensor: CONNECT, PUBLISH with QoS 1, DISCONNECT, each of them answered."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
            sensor.connect(("127.0.0.1", self._port))
            sensor.settimeout(10)
            for said, answer in (
                (b"\x04\x04\x01\x00\x3c" + client_id, "03 05 00"),
                (b"\x0c\x21\x00\x07\x00\x01" + b"21.5", "07 0d 00 07 00 01 00"),
                (b"\x18", "02 18"),
            ):
                sensor.send(bytes((len(said) + 1,)) + said)
                assert sensor.recv(100).hex(" ") == answer


@contextmanager
def running(folder: Path, outlet: Outlet) -> Iterator[Gateway]:
    gateway = Gateway(folder, outlet)
    try:
        with gateway:
            until(lambda: gateway.answers("/healthz"))
            yield gateway
    finally:
        outlet.close()


def read_until(descriptor: int, pattern: str, within_s: float = 10.0) -> str:
    """What can be read, until the pattern is in it."""
    text, deadline = "", time.monotonic() + within_s
    while not re.search(pattern, text):
        assert select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0], text
        text += os.read(descriptor, 1 << 16).decode()
    return text


OUTLETS = pytest.mark.parametrize("outlet", [FullPipe, StoppedTerminal, UnreadJournal])


@OUTLETS
def test_a_log_that_is_not_read_holds_up_nobody(
    tmp_path: Path, outlet: Callable[[], Outlet]
) -> None:
    with running(tmp_path, outlet()) as gateway:
        for number in range(LINES_MAX):
            gateway.talk(b"c%d" % number)
        until(lambda: "the log is not read" in gateway.doubt())
        alarms = json.loads(gateway.ask("/api/status"))["alarms"]
        assert [each for each in alarms if "the log is not read" in each]
        assert gateway.lost_lines() > 0
        assert "= active client=c0" in gateway.ask("/api/log")  # the page has them
        began = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began < STOP_S_MAX


@OUTLETS
def test_read_again_it_states_how_many_lines_were_lost(
    tmp_path: Path, outlet: Callable[[], Outlet]
) -> None:
    with running(tmp_path, opened := outlet()) as gateway:
        for number in range(LINES_MAX):
            gateway.talk(b"c%d" % number)
        lost = gateway.lost_lines()
        assert lost > 0
        text = read_until(opened.resume(), LOST)
        found = re.search(LOST, text)
        assert found is not None
        assert int(found[1]) == lost
        # Those before the lost ones are all there, in order, and it is one line.
        assert text.index("Tidegate ") < text.index("= active client=c0") < found.start()
        assert len(re.findall(LOST, text)) == 1
        if isinstance(opened, UnreadJournal):
            assert "<4>WARN  tidegate.log " in text
        until(lambda: not gateway.doubt())
        gateway.talk(b"later")
        assert read_until(opened.resume(), "client=later")
        assert gateway.lost_lines() == lost
        assert gateway.stop() == 0


def test_a_reader_that_is_gone_is_no_reason_to_end(tmp_path: Path) -> None:
    reading, writing = os.pipe()

    class Gone(FullPipe):
        def __init__(self) -> None:
            self._reading, self._writing = os.open(os.devnull, os.O_RDONLY), writing

    os.close(reading)
    with running(tmp_path, Gone()) as gateway:
        gateway.talk(b"c")
        assert "the log cannot be written (Broken pipe)" in gateway.doubt()
        assert gateway.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_wrong_configuration_is_shown_though_nobody_reads_the_log(
    tmp_path: Path, number: signal.Signals
) -> None:
    outlet = FullPipe()
    gateway = Gateway(tmp_path, outlet)
    gateway.config_path.write_text(gateway.config_path.read_text() + "idd = 1\n")
    try:
        with gateway:
            until(lambda: gateway.answers("/api/faults"))
            os.kill(gateway.pid, number)
            assert gateway.wait_for_exit() == 78
    finally:
        outlet.close()

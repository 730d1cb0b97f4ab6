"""The gateway as its user runs it: a process of its own, with a configuration file and a log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.01


class GatewayError(Exception):
    """The gateway did not do what was asked of it; the text holds its log."""


class GatewayProcess:
    """`tidegate run` in a folder of its own; UDP on a free port of 127.0.0.1, found in its log.

    Started again it takes the port it had before, if somebody asked for that, so that its sensors
    find it. The log of each life begins behind that of the one before.
    """

    def __init__(
        self, folder: Path, broker_url: str, extra_config: str = "", *, prefix: Sequence[str] = ()
    ) -> None:
        """`prefix` comes before the command, as `nsenter` does."""
        self.folder = folder
        self._prefix = prefix
        self.log_path = folder / "gateway.log"
        self.config_path = folder / "gateway.toml"
        self._process: subprocess.Popen[bytes] | None = None
        self._port: int | None = None
        self._log_begin = 0
        # The first start is epoch 1, so that topic ids begin at 1 as well.
        state = folder / "state"
        if not state.exists():
            state.mkdir()
            (state / "epoch").write_text("0\n", encoding="ascii")
        self.config_path.write_text(
            "[gateway]\n"
            'name = "under-test"\n'
            f'state_dir = "{folder / "state"}"\n'
            f"[upstream]\n"
            f'url = "{broker_url}"\n'
            "reconnect_delay_s_max = 0.5\n" + extra_config,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self, *, environment: dict[str, str] | None = None) -> None:
        command = [
            *self._prefix,
            sys.executable,
            "-m",
            "gateway",
            "run",
            "--config",
            str(self.config_path),
        ]
        if "[[udp]]" not in self.config_path.read_text(encoding="utf-8"):
            command += ["--set", f"udp.0.listen=127.0.0.1:{self._port or 0}"]
        if "[admin]" not in self.config_path.read_text(encoding="utf-8"):
            command += ["--set", "admin.listen="]
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            self._process = subprocess.Popen(
                command, stderr=log, stdout=log, env={**os.environ, **(environment or {})}
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Of this life."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_begin)
            return log.read().decode("utf-8")

    @property
    def log_of_all_lives(self) -> str:
        return self.log_path.read_text(encoding="utf-8")

    def wait_for_log(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> re.Match[str]:
        """The first match in the log; raises GatewayError when there is none in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = re.search(pattern, self.log)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise GatewayError(f"no {pattern!r} within {timeout_s} s in:\n{self.log}")
            assert self._process is not None
            if self._process.poll() is not None and not re.search(pattern, self.log):
                raise GatewayError(f"ended with {self._process.returncode}:\n{self.log}")
            time.sleep(POLL_INTERVAL_S)

    @property
    def port(self) -> int:
        """Where it listens for sensors, which it does once this is known."""
        self._port = int(self.wait_for_log(r"listening for sensors on udp \S+ port (\d+)").group(1))
        return self._port

    def wait_until_connected(self) -> None:
        self.wait_for_log(r"broker \S+ is (there|back)")

    def wait_for_exit(self) -> int:
        assert self._process is not None
        return self._process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """SIGTERM, as systemd does; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait_for_exit()

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

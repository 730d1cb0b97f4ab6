"""A real mosquitto for tests and measurements: own folder, free port, stopped by its pid.

The configuration is mosquitto's default but for one listener on 127.0.0.1, anonymous access and no
persistence (which, turned on, goes to its folder); what else a test needs are its extra lines. The
port stays the same over `stop()`, `kill()` and `start()`, so that a client under test finds the
broker again where it was.

The port is held as long as the broker is not closed, unless it is the caller's own.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from hil.rig.ports import HeldPort, free_port

START_TIMEOUT_S = 200.0
STOP_TIMEOUT_S = 200.0
# Each attempt to connect is a system call on loopback; this is the pause between two of them.
POLL_INTERVAL_S = 0.01
LOG_TAIL_LINES = 15
# Debian puts it where the search path of an ordinary user does not look.
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


class BrokerError(Exception):
    """mosquitto is absent or did not do what was asked of it; the text holds the end of its log."""


def find_mosquitto() -> str:
    executable = shutil.which("mosquitto", path=SEARCH_PATH)
    if executable is None:
        raise BrokerError("mosquitto is not installed; try: sudo apt-get install -y mosquitto")
    return executable


def mosquitto_version() -> str:
    # `-h` prints the version in its first line and exits with 3.
    answer = subprocess.run([find_mosquitto(), "-h"], capture_output=True, text=True, check=False)
    return answer.stdout.partition("\n")[0].removeprefix("mosquitto version ").strip()


def free_tcp_port() -> int:
    return free_port(socket.SOCK_STREAM)


class Mosquitto:
    """One broker. As a context manager it is started on entry and gone, folder included, on exit.

    `extra_config` comes after the listener, so that options of the listener work there as well.
    A `folder` given by the caller is kept.
    """

    def __init__(
        self,
        extra_config: Sequence[str] = (),
        *,
        folder: Path | None = None,
        port: int | None = None,
        allow_anonymous: bool = True,
    ) -> None:
        self._executable = find_mosquitto()
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mosquitto-")
            folder = Path(self._temporary.name)
        self.folder = folder
        self.log_path = folder / "mosquitto.log"
        self.config_path = folder / "mosquitto.conf"
        self.extra_config = list(extra_config)
        self.allow_anonymous = allow_anonymous
        self._port = port
        self._held: HeldPort | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        if self._port is None:
            raise BrokerError("the broker has no port before its first start()")
        return self._port

    @property
    def pid(self) -> int:
        if self._process is None:
            raise BrokerError("the broker is not running")
        return self._process.pid

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Return when the port takes connections."""
        if self.running:
            raise BrokerError(f"the broker already runs with pid {self.pid}")
        if self._port is None:
            self._held = HeldPort()
            self._port = self._held.number
        self._start_on(self._port)

    def stop(self) -> None:
        """Shut down in order; a broker that does not is killed. Does nothing to a stopped one."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a loss of power would end the process: no DISCONNECT, nothing saved."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop, and remove the folder unless it is the caller's."""
        self.stop()
        if self._held is not None:
            self._held.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-LOG_TAIL_LINES:])

    def _start_on(self, port: int) -> None:
        # Else the connection that proves our broker listens could be to somebody else's.
        if _takes_connections(port):
            raise BrokerError(f"port {port} is in use by another program")
        self.config_path.write_text(self._config(port))
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [self._executable, "-c", str(self.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal is for the test, which then stops the broker in order.
                start_new_session=True,
            )
        try:
            self._wait_until_listening(self._process, port)
        except BaseException:
            self.kill()
            raise

    def _config(self, port: int) -> str:
        lines = [
            f"listener {port} 127.0.0.1",
            f"allow_anonymous {'true' if self.allow_anonymous else 'false'}",
            "persistence false",
            f"persistence_location {self.folder}/",
        ]
        if os.geteuid() == 0:
            # Started by root, mosquitto becomes the user `mosquitto`, who may not write here.
            lines.append(f"user {pwd.getpwuid(0).pw_name}")
        # The last line wins, so that a test can turn persistence on.
        return "\n".join([*lines, *self.extra_config, ""])

    def _wait_until_listening(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise BrokerError(
                    f"mosquitto ended with exit code {process.returncode}:\n{self.log_tail()}"
                )
            if _takes_connections(port):
                return
            time.sleep(POLL_INTERVAL_S)
        raise BrokerError(
            f"mosquitto took no connection on port {port} in {START_TIMEOUT_S:.0f} s:\n"
            f"{self.log_tail()}"
        )

    def _end(self, kind: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(kind)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True

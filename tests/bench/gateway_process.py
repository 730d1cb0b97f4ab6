"""The gateway under measurement: a fresh process with a fresh state, gone when the run is over."""

import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import urlopen

from tests.bench.measurement import MeasurementError

PROJECT_DIR = Path(__file__).parents[2]
DEFAULT_COMMAND = (sys.executable, "-m", "gateway", "run", "--config", "{config}")
READY_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
PROBE_TIMEOUT_S = 0.1
# A closed port answers at once; this is the pause before the next attempt.
PROBE_INTERVAL_S = 0.02
LOG_TAIL_LINES = 10
CLIENTS_MAX = 20_000

CONNACK = 0x05
PROBE_CLIENT_ID = b"bench-probe"
# Length, CONNECT, clean session, protocol 1, keep-alive 60 s (5.4.4).
PROBE_CONNECT = (
    bytes([6 + len(PROBE_CLIENT_ID), 0x04, 0x04, 0x01]) + (60).to_bytes(2) + PROBE_CLIENT_ID
)
PROBE_DISCONNECT = bytes([2, 0x18])


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def config_text(port: int, broker_port: int, state_dir: Path, admin: str, extra: str) -> str:
    return f"""\
[gateway]
name = "bench"
state_dir = "{state_dir}"

[[udp]]
listen = "127.0.0.1:{port}"

[upstream]
url = "mqtt://127.0.0.1:{broker_port}"
reconnect_delay_s_max = 1

[admin]
listen = "{admin}"

[limits]
clients_max = {CLIENTS_MAX}
{extra}"""


def command_from(text: str | None) -> tuple[str, ...]:
    """`{config}`, `{port}` and `{broker_port}` stand for what they say in every word."""
    return DEFAULT_COMMAND if text is None else tuple(shlex.split(text))


def filled_in(command: Sequence[str], config: Path, port: int, broker_port: int) -> list[str]:
    values = {"{config}": str(config), "{port}": str(port), "{broker_port}": str(broker_port)}
    words = list(command)
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    return words


class GatewayProcess:
    """Started and answering inside the `with`, stopped after it. `folder` is the caller's."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        broker_port: int,
        extra_config: str = "",
        *,
        has_metrics: bool = False,
    ) -> None:
        self.port = free_udp_port()
        self.log_path = folder / "gateway.log"
        state_dir = folder / "state"
        state_dir.mkdir()
        admin = "127.0.0.1:0" if has_metrics else ""
        config = folder / "gateway.toml"
        config.write_text(config_text(self.port, broker_port, state_dir, admin, extra_config))
        self._command = filled_in(command, config, self.port, broker_port)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Return when it answers."""
        with self.log_path.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=PROJECT_DIR,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Ctrl-C is for the benchmark, which then stops the gateway in order.
                    start_new_session=True,
                )
            except OSError as error:
                raise MeasurementError(f"cannot start the gateway: {error}") from error
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._end(signal.SIGTERM)
            raise

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise MeasurementError("the gateway is not running")
        return self._process.pid

    def log_tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL_LINES:])

    def metric(self, name: str) -> float:
        address = re.search(r"health and metrics on (http://\S+)", self.log_path.read_text())
        if address is None:
            raise MeasurementError(f"the gateway does not say where its metrics are: {name}")
        with urlopen(f"{address[1]}/metrics") as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        if found is None:
            raise MeasurementError(f"the gateway has no metric {name}")
        return float(found[1])

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(PROBE_TIMEOUT_S)
            probe.connect(("127.0.0.1", self.port))
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    raise MeasurementError(
                        f"the gateway ended with exit code {process.returncode}:\n{self.log_tail()}"
                    )
                if _answers(probe):
                    probe.send(PROBE_DISCONNECT)
                    return
        raise MeasurementError(
            f"the gateway answered no CONNECT in {READY_TIMEOUT_S:.0f} s:\n{self.log_tail()}"
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


def _answers(probe: socket.socket) -> bool:
    """Whether a CONNECT is accepted: then the listener is open and the sessions are loaded."""
    try:
        probe.send(PROBE_CONNECT)
        answer = probe.recv(256)
    except TimeoutError:
        return False
    except OSError:
        time.sleep(PROBE_INTERVAL_S)
        return False
    return answer[1:3] == bytes([CONNACK, 0])

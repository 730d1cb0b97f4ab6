"""The gateway under measurement: a fresh process with a fresh state, gone when the run is over."""

import re
import shlex
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from hil.rig.logged_process import LoggedProcess, ProcessError
from hil.rig.ports import free_udp_port
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


def config_text(
    port: int, broker_port: int, state_dir: Path, admin: str, extra: str, clients_max: int
) -> str:
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
clients_max = {clients_max}
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


class GatewayProcess(LoggedProcess):
    """Started and answering inside the `with`, gone after it. `folder` is the caller's."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        broker_port: int,
        extra_config: str = "",
        *,
        has_metrics: bool = False,
        clients_max: int = CLIENTS_MAX,
    ) -> None:
        super().__init__(folder / "gateway.log")
        self.port = free_udp_port()
        state_dir = folder / "state"
        state_dir.mkdir()
        admin = "127.0.0.1:0" if has_metrics else ""
        config = folder / "gateway.toml"
        config.write_text(
            config_text(self.port, broker_port, state_dir, admin, extra_config, clients_max)
        )
        self._command = filled_in(command, config, self.port, broker_port)

    def start(self) -> None:
        """Return when it answers."""
        try:
            self.launch(self._command, folder=PROJECT_DIR)
            self._wait_until_ready()
        except ProcessError as error:
            raise MeasurementError(str(error)) from error
        except BaseException:
            self.kill()
            raise

    def metric(self, name: str) -> float:
        address = self.wait_for_log(r"status page on (http://\S+)")
        with urlopen(f"{address[1]}/metrics") as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        if found is None:
            raise MeasurementError(f"the gateway has no metric {name}")
        return float(found[1])

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(PROBE_TIMEOUT_S)
            probe.connect(("127.0.0.1", self.port))
            while time.monotonic() < deadline:
                if self.returncode is not None:
                    raise MeasurementError(
                        f"the gateway ended with exit code {self.returncode}:\n{self.log_tail()}"
                    )
                if _answers(probe):
                    probe.send(PROBE_DISCONNECT)
                    return
        raise MeasurementError(
            f"the gateway answered no CONNECT in {READY_TIMEOUT_S:.0f} s:\n{self.log_tail()}"
        )


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

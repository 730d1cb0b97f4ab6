"""Sensors of `tidegate simulate` beside those of the generator, which may have no more sockets."""

import subprocess
import sys
from pathlib import Path

from hil.rig.logged_process import LoggedProcess, ProcessError
from tests.bench.gateway_process import PROJECT_DIR
from tests.bench.measurement import MeasurementError

LONGER_THAN_ANY_RUN_S = 3600
CONNECT_TIMEOUT_S = 60.0


class Fleet(LoggedProcess):
    """All connected inside the `with`; `finish` says whether they were served all the time."""

    def __init__(self, folder: Path, gateway_port: int, sensors: int, interval_s: float) -> None:
        super().__init__(folder / "fleet.log")
        self._sensors = sensors
        self._command = [
            sys.executable,
            "-m",
            "gateway",
            "simulate",
            "--qos",
            "1",
            "--payload",
            "64",
            "--gateway",
            f"127.0.0.1:{gateway_port}",
            "--name",
            "beside",
            "--sensors",
            str(sensors),
            "--interval",
            f"{interval_s:g}",
            "--seconds",
            str(LONGER_THAN_ANY_RUN_S),
        ]

    def start(self) -> None:
        try:
            self.launch(self._command, folder=PROJECT_DIR)
            self.wait_for_log(rf"\({self._sensors} up,", CONNECT_TIMEOUT_S)
        except ProcessError as error:
            raise MeasurementError(f"{self._sensors} more sensors: {error}") from error

    def finish(self) -> None:
        """Raises MeasurementError unless each was there and had all its readings acknowledged."""
        try:
            code = self.stop()
        except subprocess.TimeoutExpired:
            code = None  # it still waits for what nobody acknowledges
        if code != 0:
            raise MeasurementError(f"{self._sensors} more sensors were not served:\n{self.log}")

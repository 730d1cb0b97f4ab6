"""Where and with what the figures were measured: without this they mean nothing."""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from gateway.host import compiled
from hil.rig.mosquitto import mosquitto_version
from tests.bench.gateway_process import PROJECT_DIR

KIB_PER_GIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Machine:
    measured_on: str
    processor: str
    cores: int
    memory_gib: float
    system: str
    kernel: str
    python: str
    form: str  # in which the gateway's modules are run
    mosquitto: str
    compiler: str
    revision: str
    load_average: float
    kept_awake: bool = False  # its processors, while it was measured

    def told(self, command: str) -> str:
        """For what was measured with this command."""
        return " ".join(
            [
                f"Measured on {self.measured_on} with `{command}`, revision `{self.revision}`.",
                f"{self.processor}, {self.cores} cores{' kept awake' if self.kept_awake else ''}, "
                f"{self.memory_gib:.0f} GiB; "
                f"{self.system}, kernel {self.kernel}; load average {self.load_average:.1f} "
                "at the start.",
                f"Python {self.python}, modules of the gateway {self.form}; mosquitto "
                f"{self.mosquitto} with its default configuration, generator built "
                f"by gcc {self.compiler} -O2.",
            ]
        )

    def told_in_short(self, command: str) -> str:
        """For a part that is measured beside the matrix."""
        return (
            f"Measured on {self.measured_on} with `{command}`, revision `{self.revision}`; "
            f"{self.processor}, {self.cores} cores."
        )


def this_machine(*, kept_awake: bool = False) -> Machine:
    return Machine(
        measured_on=datetime.now(UTC).date().isoformat(),
        processor=processor(_text("/proc/device-tree/model"), _text("/proc/cpuinfo")),
        cores=os.cpu_count() or 1,
        memory_gib=memory_gib(_text("/proc/meminfo")),
        system=_system(),
        kernel=platform.release(),
        python=platform.python_version(),
        form=compiled.found(os.environ)[0].value,
        mosquitto=mosquitto_version(),
        compiler=_first_line("gcc", "-dumpfullversion"),
        revision=_revision(),
        load_average=os.getloadavg()[0],
        kept_awake=kept_awake,
    )


def processor(board: str, cpuinfo: str) -> str:
    """The board where there is one (its kernel names no processor), else the processor."""
    if board:
        return board.strip("\0\n ")
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def memory_gib(meminfo: str) -> float:
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) / KIB_PER_GIB
    return 0.0


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


@cache
def _revision() -> str:
    """Before the first section of the document was written, which makes it another one."""
    return _first_line("git", "describe", "--always", "--dirty")


def _first_line(*command: str) -> str:
    try:
        answer = subprocess.run(
            command, cwd=PROJECT_DIR, capture_output=True, text=True, timeout=10, check=False
        )
    except OSError:
        return "unknown"
    return answer.stdout.partition("\n")[0].strip() or "unknown"

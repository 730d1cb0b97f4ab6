"""A start of the gateway, measured: until it tells systemd that it is ready, and its memory."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from hil.rig.gateway import GatewayProcess
from tests.app.service.systemd_socket import SystemdSocket

REPOSITORY = Path(__file__).resolve().parent.parent.parent
OURS = "gateway.cli.run, gateway.app.daemon, gateway.app.build_admin"
TIMED = "import time; began = time.process_time(); import {}; print(time.process_time() - began)"
PAGE = '[admin]\nlisten = "127.0.0.1:0"\n'
SCRAPES = 3


@dataclass(frozen=True, slots=True)
class Start:
    """`rss_kib`: when it is ready; `rss_scraped_kib`: after its metrics were asked for."""

    ready_s: float
    rss_kib: int
    rss_scraped_kib: int


def seconds_of_imports(modules: str, tries: int) -> float:
    """Of the processor, the best of so many: machines are shared."""
    program = [sys.executable, "-c", TIMED.format(modules)]
    done = (
        subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        for _ in range(tries)
    )
    return min(float(each.stdout) for each in done)


def starts(folder: Path, times: int) -> Iterator[Start]:
    """One after the other in one folder, with page and metrics on and without a broker."""
    gateway = GatewayProcess(folder, "mqtt://127.0.0.1:1", PAGE)
    with SystemdSocket(folder) as systemd:
        for _ in range(times):
            gateway.log_path.unlink(missing_ok=True)  # what it says in this life, no other one
            began = time.monotonic()
            gateway.start(environment=systemd.environment())
            try:
                systemd.wait_for("READY=1")
                ready_s = time.monotonic() - began
                page = gateway.wait_for_log(r"status page on (http://\S+:\d+)").group(1)
                gateway.wait_for_log(" unreachable: ")
                at_first = rss_kib(gateway.pid)
                for _ in range(SCRAPES):
                    assert "tidegate_build_info" in scraped(page)
                yield Start(ready_s, at_first, rss_kib(gateway.pid))
            finally:
                gateway.stop()


def rss_kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


def scraped(page: str) -> str:
    with urlopen(f"{page}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text

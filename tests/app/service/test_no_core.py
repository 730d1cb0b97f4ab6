"""A dump of the gateway's memory would have keys: there is none."""

from __future__ import annotations

import re
import resource
from pathlib import Path

from hil.rig.gateway import GatewayProcess
from tests.app.service.test_reload import NOWHERE


def test_a_gateway_writes_no_core_file_whatever_it_was_started_with(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        gateway = GatewayProcess(tmp_path, NOWHERE)
        gateway.start()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    try:
        gateway.wait_for_log("listening for sensors")
        limits = Path(f"/proc/{gateway.pid}/limits").read_text()
    finally:
        gateway.stop()
    found = re.search(r"^Max core file size +(\S+)", limits, re.MULTILINE)
    assert found is not None
    assert found[1] == "0"

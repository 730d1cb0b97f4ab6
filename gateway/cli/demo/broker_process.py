"""The demo's own mosquitto: on a free loopback port, without persistence, in the demo's folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

from gateway.app.exit_codes import ExitCode
from gateway.cli.demo.children import Child
from gateway.cli.demo.failure import DemoError

SYSTEM_PLACES = ("/usr/sbin", "/usr/local/sbin")  # not on a user's PATH
START_S = 10.0
POLL_S = 0.02

CONFIGURATION = """\
# Written by `tidegate demo`.
listener {port} 127.0.0.1
allow_anonymous true
persistence false
# Else a small message waits up to 40 ms for the acknowledgement of the one before.
set_tcp_nodelay true
log_dest stderr
"""


def find_mosquitto() -> str:
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PLACES])
    found = shutil.which("mosquitto", path=places)
    if found is None:
        raise DemoError(
            "The demo needs the broker mosquitto, which is not installed. Install it with:\n"
            "  sudo apt-get install -y mosquitto",
            code=ExitCode.UNAVAILABLE,
        )
    return found


async def start_broker(folder: Path, port: int) -> Child:
    """A child that accepts connections on the port."""
    configuration = folder / "mosquitto.conf"
    _write(configuration, port)
    # Started by root, mosquitto would change its user itself, and the kernel forgets
    # PR_SET_PDEATHSIG when a process does so: it would outlive a killed demo. And as that user it
    # could not reach a folder of root's, so that it reads what we have opened.
    user = "nobody" if os.geteuid() == 0 else None
    command = [find_mosquitto(), "-c", "/dev/stdin"]
    broker = await Child.start("broker", command, folder, read=configuration, user=user)
    try:
        await _accepts(broker, port)
    except BaseException:
        await broker.end()
        raise
    return broker


def _write(configuration: Path, port: int) -> None:
    configuration.write_text(CONFIGURATION.format(port=port))
    configuration.chmod(0o644)  # it has no secrets, and `nobody` opens it again


async def _accepts(broker: Child, port: int) -> None:
    try:
        async with asyncio.timeout(START_S):
            while broker.running.returncode is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise broker.failed(f"The broker did not open port {port} within {START_S:g} s.") from None
    raise await broker.ended()

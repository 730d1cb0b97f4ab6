"""The gateway as a child process: its configuration, its start, and the proof that it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.cli.demo.children import Child
from gateway.frames import Connack, Connect, Disconnect, MalformedFrame, decode, encode

START_S = 60.0  # a small or a busy board needs long for the imports alone
RETRY_S = 0.05
PROBE_ID = b"demo-probe"
PACKAGE_PLACE = Path(__file__).parents[3]  # the folder that holds the package `gateway`

CONFIGURATION = """\
# Written by `tidegate demo`.
[gateway]
name = "demo"
state_dir = {state}

[[udp]]
listen = "127.0.0.1:{udp}"

[upstream]
url = "mqtt://127.0.0.1:{broker}"

[admin]
listen = "127.0.0.1:{admin}"
password_file = "admin.password"
"""
PASSWORD = "demo"  # to try the actions of the page, on this machine alone


@dataclass(frozen=True, slots=True)
class Ports:
    """All on 127.0.0.1."""

    broker: int
    udp: int
    admin: int


def command_for(configuration: Path) -> list[str]:
    # -P: a folder called `gateway` where the user happens to stand is not ours.
    return [sys.executable, "-P", "-m", "gateway", "run", "--config", str(configuration)]


def environment() -> dict[str, str]:
    """Ours, without settings that would overrule the demo's file, and with this very package."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    places = [str(PACKAGE_PLACE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(places), "PYTHONUNBUFFERED": "1"}


async def start_gateway(folder: Path, ports: Ports, command: Sequence[str] | None = None) -> Child:
    """A child that answers CONNECT; `command` overrules what is started, for tests."""
    configuration = folder / "demo.toml"
    password = folder / "admin.password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    state = json.dumps(str(folder / "state"))  # a JSON string is a TOML basic string
    configuration.write_text(
        CONFIGURATION.format(state=state, udp=ports.udp, broker=ports.broker, admin=ports.admin)
    )
    started = await Child.start(
        "gateway", command or command_for(configuration), folder, environment=environment()
    )
    try:
        await _answers(started, ports.udp)
    except BaseException:
        await started.end()
        raise
    return started


class Probe(asyncio.DatagramProtocol):
    """A client that only wants to know whether somebody answers CONNECT."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            frame = decode(data)
        except MalformedFrame:
            return
        if isinstance(frame, Connack) and frame.return_code == 0:
            self.answered.set()

    def error_received(self, exc: Exception) -> None:
        """The port is not open yet (ICMP); we ask again anyway."""


async def _answers(started: Child, port: int) -> None:
    loop = asyncio.get_running_loop()
    transport, probe = await loop.create_datagram_endpoint(Probe, remote_addr=("127.0.0.1", port))
    try:
        async with asyncio.timeout(START_S):
            while not probe.answered.is_set():
                if started.running.returncode is not None:
                    raise await started.ended()
                transport.sendto(encode(Connect(PROBE_ID, 10, clean_session=True)))
                await _wait_for(probe.answered, RETRY_S)
            transport.sendto(encode(Disconnect()))
    except TimeoutError:
        message = f"The gateway did not answer on UDP port {port} within {START_S:g} s."
        raise started.failed(message) from None
    finally:
        transport.close()


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()

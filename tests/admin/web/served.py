"""A gateway with its page, a broker and sensors that are real, for a browser to look at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.rig.gateway import GatewayProcess
from hil.rig.mosquitto import Mosquitto, free_tcp_port
from tests.cli.tidegate import tidegate

PASSWORD = "tide and time"


@dataclass(frozen=True)
class Served:
    gateway: GatewayProcess
    broker: Mosquitto
    url: str

    async def buffer(self) -> Any:
        """What `tidegate buffer --json` prints."""
        config = ("--config", self.gateway.config_path)
        done = await asyncio.to_thread(
            tidegate, "buffer", *config, "--json", folder=self.gateway.folder
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@contextmanager
def served(
    folder: Path,
    config: str = "",
    *,
    password: bool = False,
    broker_config: tuple[str, ...] = (),
) -> Iterator[Served]:
    port = free_tcp_port()
    config += f'[admin]\nlisten = "127.0.0.1:{port}"\n'
    if password:
        (folder / "admin.password").write_text(f"{PASSWORD}\n")
        config += 'password_file = "admin.password"\n'
    with Mosquitto(broker_config) as broker, GatewayProcess(folder, broker.url, config) as gateway:
        gateway.wait_until_connected()
        yield Served(gateway, broker, f"http://127.0.0.1:{port}/")

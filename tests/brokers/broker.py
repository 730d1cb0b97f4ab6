"""An MQTT broker in a process of its own: what every adapter has in common.

An adapter (`adapters.py`) says how its broker is installed, configured and started. Each process
has a folder and a port of 127.0.0.1 of its own, keeps both over `stop()`, `kill()` and `start()`,
and is ended by its pid.
"""

from __future__ import annotations

import os
import socket
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from hil.rig.logged_process import LoggedProcess, ProcessError
from hil.rig.ports import HeldPort
from tests.brokers.limits import Limits

SITE = "site"  # all topics of the suite are below it, but for those that are denied
POLL_INTERVAL_S = 0.02
START_S_MAX = 60.0  # a broker in Java, on a machine that others use too


def cache_folder() -> Path:
    """Where brokers are installed; TIDEGATE_BROKERS names another folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("TIDEGATE_BROKERS") or Path(cache) / "tidegate" / "brokers")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the suite asks of each broker; an adapter says what its broker cannot (`lacks`)."""

    receive_maximum: int = 8
    packet_bytes_max: int = 1500
    denied: str = "denied"  # a topic; all that is below it may be neither published nor subscribed
    is_persistent: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """How it is installed into its folder in the cache. `kind` is one of tests/brokers/install.py,
    "present" for what is on the machine already. `needs`: programs that its build calls.
    """

    kind: str
    packages: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {', '.join(self.packages)}" if self.packages else self.kind


class Broker(LoggedProcess):
    """`lacks`: features that it does not have or that cannot be set, each with the reason.
    `deviations`: features of which it is known that they fail, each with the reason: the suite runs
    them all the same, and fails when they work.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str]
    recipe: ClassVar[Recipe]
    speaks_mqtt_5: ClassVar[bool] = True
    credentials: ClassVar[tuple[str, str] | None] = None  # where it refuses every CONNECT without
    # In the gateway's configuration, for this broker, and why.
    keys: ClassVar[Mapping[str, str]] = {}
    lacks: ClassVar[Mapping[str, str]] = {}
    deviations: ClassVar[Mapping[str, str]] = {}
    limits: ClassVar[Limits | None] = None  # of a model, which is a proxy before this broker

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder = folder / "broker"
        self.folder.mkdir(parents=True)
        super().__init__(self.folder / "broker.log")
        self.settings = settings or Settings()
        self._held = HeldPort()

    @classmethod
    def home(cls) -> Path:
        return cache_folder() / f"{cls.name}-{cls.version}"

    @classmethod
    def why_not_here(cls) -> str | None:
        """None where it can be run."""
        if cls.recipe.kind == "present" or (cls.home() / "installed").exists():
            return None
        failed = cls.home() / "failed"
        if failed.exists():
            return failed.read_text(encoding="utf-8").strip()
        return "make brokers-test installs it"

    @property
    def port(self) -> int:
        return self._held.number

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    @abstractmethod
    def command(self) -> list[str]:
        """Writes the configuration, and returns what to run."""

    def start(self) -> None:
        """Returns when its port takes connections."""
        self.launch(self.command(), folder=self.folder)
        deadline = time.monotonic() + START_S_MAX
        while not self._takes_connections():
            if self.returncode is not None:
                raise ProcessError(f"{self.title} ended with {self.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.title} takes no connection:\n{self.log_tail()}")
            time.sleep(POLL_INTERVAL_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._held.close()

    def _takes_connections(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True
